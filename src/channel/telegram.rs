//! The Telegram Bot API: `sendMessage` over HTTPS, without parse mode.
//!
//! Telegram has no keys and bots cannot read a chat back, so a send in doubt stays in doubt. The
//! bot's token is part of the URL: no error text may quote one.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use reqwest::Client;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};
use url::Url;

use super::{Ability, Channel, OutgoingBody, OutgoingPart, TextLimit, TextUnit};
use crate::{
    http_client::{self, HttpSetupError},
    message::{ChatAddress, Destination, RefusalScope, SendAnswer, StopsAddress},
};

mod answer;

/// The most UTF-16 units of one message.
const TEXT_MAX: usize = 4096;
/// How long one request may take unless another time is set.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(25);
/// What [`Channel::send_timeout`] allows beyond that, so that the adapter's own answer comes first.
const SLACK: Duration = Duration::from_secs(5);

/// Sends as one bot.
pub struct Telegram {
    client: Client,
    api_root: Url,
    token: SecretString,
    timeout: Duration,
}

impl std::fmt::Debug for Telegram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telegram").finish_non_exhaustive()
    }
}

impl Telegram {
    /// A bot behind an API root, which is `https://api.telegram.org` or a server of one's own.
    ///
    /// # Errors
    /// [`HttpSetupError`] if the root is no URL, or the token cannot be part of one.
    pub fn new(token: SecretString, api_root: &str) -> Result<Self, HttpSetupError> {
        let api_root = http_client::service_url("the channel's `api_root`", api_root)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '-' | '_' | '.');
        if !token.expose_secret().chars().all(plain) {
            return Err(HttpSetupError::Credential {
                what: "the bot's token has a character that no token has; copy it as BotFather gave it",
            });
        }
        Ok(Self {
            client: http_client::client(http_client::reach_of(&api_root), REQUEST_TIMEOUT)?,
            api_root,
            token,
            timeout: REQUEST_TIMEOUT,
        })
    }

    /// Sets how long one request may take.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn url(&self, method: &str) -> String {
        let root = self.api_root.as_str().trim_end_matches('/');
        format!("{root}/bot{}/{method}", self.token.expose_secret())
    }

    async fn request(&self, method: &str, body: &Value, now: Timestamp) -> SendAnswer {
        let request = self.client.post(self.url(method)).json(body);
        let response = match request.timeout(self.timeout).send().await {
            Ok(response) => response,
            Err(error) => return http_client::classify(error).into_answer(RefusalScope::Channel),
        };
        let status = response.status().as_u16();
        let retry_after = http_client::retry_after(response.headers(), now);
        let body = http_client::body_of(response).await;
        answer::read(status, retry_after, body)
    }
}

#[async_trait]
impl Channel for Telegram {
    fn ability(&self) -> Ability {
        Ability::Blind
    }

    fn limit(&self) -> TextLimit {
        TextLimit {
            max: Some(TEXT_MAX),
            unit: TextUnit::Utf16,
        }
    }

    fn send_timeout(&self) -> Duration {
        self.timeout + SLACK
    }

    async fn send(&self, part: &OutgoingPart, now: Timestamp) -> SendAnswer {
        let request = match &part.destination {
            Destination::Chat(chat) => request_to(chat, &part.body),
            Destination::Webhook(_) => Err("a webhook is not a Telegram chat".to_owned()),
        };
        match request {
            Ok((method, body)) => self.without_token(self.request(&method, &body, now).await),
            Err(why) => SendAnswer::Permanent {
                why,
                stops_address: StopsAddress::No,
            },
        }
    }
}

impl Telegram {
    /// A server of one's own may quote the URL it was asked for.
    fn without_token(&self, answer: SendAnswer) -> SendAnswer {
        let token = self.token.expose_secret();
        let clean = |why: String| {
            if token.is_empty() {
                why
            } else {
                why.replace(token, "[token]")
            }
        };
        match answer {
            SendAnswer::Refused {
                retry_after,
                scope,
                why,
            } => SendAnswer::Refused {
                retry_after,
                scope,
                why: clean(why),
            },
            SendAnswer::Permanent { why, stops_address } => SendAnswer::Permanent {
                why: clean(why),
                stops_address,
            },
            SendAnswer::Ambiguous { why } => SendAnswer::Ambiguous { why: clean(why) },
            SendAnswer::Receipt(_) | SendAnswer::Moved { .. } => answer,
        }
    }
}

/// The method and the body of a send.
///
/// Native JSON is the body of `sendMessage`, or of the `send...` method named by its `method` field;
/// where it goes is never its to say.
fn request_to(chat: &ChatAddress, body: &OutgoingBody) -> Result<(String, Value), String> {
    let (method, mut fields) = match body {
        OutgoingBody::Text(text) => {
            let mut fields = Map::new();
            fields.insert("text".to_owned(), json!(text));
            ("sendMessage".to_owned(), fields)
        }
        OutgoingBody::Native(Value::Object(fields)) => {
            let mut fields = fields.clone();
            let method = match fields.remove("method") {
                None => "sendMessage".to_owned(),
                Some(Value::String(method)) if is_send_method(&method) => method,
                Some(_) => return Err("`method` of a native message is no `send...` method".into()),
            };
            (method, fields)
        }
        OutgoingBody::Native(_) => return Err("a native message must be a JSON object".to_owned()),
    };
    // Numbers are ids; anything else is a public name such as `@channel`.
    let chat_id = match chat.address.parse::<i64>() {
        Ok(id) => json!(id),
        Err(_) => json!(chat.address),
    };
    fields.insert("chat_id".to_owned(), chat_id);
    fields.remove("message_thread_id");
    if let Some(thread) = &chat.thread {
        let id: i64 = thread
            .parse()
            .map_err(|_| format!("the thread `{thread}` is not a number"))?;
        fields.insert("message_thread_id".to_owned(), json!(id));
    }
    Ok((method, Value::Object(fields)))
}

/// `sendChatAction` shows no message, so no answer to it could be a receipt.
fn is_send_method(method: &str) -> bool {
    method != "sendChatAction"
        && method.starts_with("send")
        && method.chars().all(|c| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ChannelName, ChatKind, ChatName};

    fn chat(address: &str, thread: Option<&str>) -> ChatAddress {
        ChatAddress {
            chat: ChatName::new("me").unwrap(),
            channel: ChannelName::new("telegram").unwrap(),
            account: None,
            kind: ChatKind::Direct,
            address: address.to_owned(),
            thread: thread.map(str::to_owned),
        }
    }

    #[test]
    fn the_destination_decides_where_a_message_goes() {
        let text = OutgoingBody::Text("hi".to_owned());
        let (method, body) = request_to(&chat("-1001", Some("7")), &text).unwrap();
        assert_eq!(method, "sendMessage");
        assert_eq!(
            body,
            json!({"chat_id": -1001, "message_thread_id": 7, "text": "hi"})
        );
        let native = OutgoingBody::Native(json!({
            "method": "sendPhoto", "photo": "p", "chat_id": 666, "message_thread_id": 5,
        }));
        let (method, body) = request_to(&chat("@News", None), &native).unwrap();
        assert_eq!(method, "sendPhoto");
        assert_eq!(body, json!({"chat_id": "@News", "photo": "p"}));
        for bad in [
            json!("x"),
            json!({"method": "deleteMessage"}),
            json!({"method": "send/../x"}),
        ] {
            assert!(request_to(&chat("1", None), &OutgoingBody::Native(bad)).is_err());
        }
        assert!(request_to(&chat("1", Some("x")), &text).is_err());
    }

    #[test]
    fn neither_debug_nor_errors_show_the_token() {
        let root = "https://api.telegram.org";
        let bot = Telegram::new(SecretString::from("123:AbC"), root).unwrap();
        assert_eq!(
            bot.url("getMe"),
            "https://api.telegram.org/bot123:AbC/getMe"
        );
        assert!(!format!("{bot:?}").contains("AbC"));
        let error = Telegram::new(SecretString::from("12/3:AbC"), root).unwrap_err();
        assert!(!error.to_string().contains("AbC"));
    }
}
