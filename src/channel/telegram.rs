//! The Telegram Bot API over HTTPS: `sendMessage`, without parse mode, and `getUpdates`.
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

use super::{
    Ability, Channel, OutgoingBody, OutgoingPart, TextLimit, TextUnit,
    inbound::{Arrived, Inbound, PollError, Position},
};
use crate::{
    http_client::{self, HttpSetupError},
    message::{ChatAddress, Destination, RefusalScope, SendAnswer, StopsAddress},
};

mod answer;
mod updates;

/// The most UTF-16 units of one message.
const TEXT_MAX: usize = 4096;
/// How long one request may take unless another time is set.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(25);
/// What [`Channel::send_timeout`] allows beyond that, so that the adapter's own answer comes first.
const SLACK: Duration = Duration::from_secs(5);
/// How long a request for updates may take: what the service waits, and some more.
const POLL_TIMEOUT: Duration = Duration::from_secs(updates::WAIT_SECONDS + 10);

/// Sends as one bot.
pub struct Telegram {
    client: Client,
    api_root: Url,
    token: SecretString,
    timeout: Duration,
    listens: bool,
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
            listens: false,
        })
    }

    /// Also reads what people write to the bot.
    #[must_use]
    pub fn listening(mut self) -> Self {
        self.listens = true;
        self
    }

    /// Sets how long one request may take.
    #[cfg(feature = "testing")]
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

    fn inbound(&self) -> Option<&dyn Inbound> {
        self.listens.then_some(self as &dyn Inbound)
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

#[async_trait]
impl Inbound for Telegram {
    /// The number in front of a token is the bot's own, and no secret.
    fn source(&self) -> String {
        let token = self.token.expose_secret();
        let bot = token.split_once(':').map_or("bot", |(bot, _)| bot);
        format!("{}/bot{bot}", self.api_root.as_str().trim_end_matches('/'))
    }

    async fn poll(
        &self,
        position: Option<&Position>,
        now: Timestamp,
    ) -> Result<Arrived, PollError> {
        let request = self.client.post(self.url("getUpdates"));
        let request = request.json(&updates::request(position, now));
        let response = match request.timeout(POLL_TIMEOUT).send().await {
            Ok(response) => response,
            Err(error) => {
                return Err(PollError::Later {
                    retry_after: None,
                    why: http_client::describe(error),
                });
            }
        };
        let status = response.status().as_u16();
        let retry_after = http_client::retry_after(response.headers(), now);
        let body = http_client::body_of(response).await;
        updates::read(status, retry_after, body).map_err(|error| match error {
            PollError::Later { retry_after, why } => PollError::Later {
                retry_after,
                why: self.clean(why),
            },
            PollError::Competing { why } => PollError::Competing {
                why: self.clean(why),
            },
            PollError::Refused { why } => PollError::Refused {
                why: self.clean(why),
            },
        })
    }
}

impl Telegram {
    /// A server of one's own may quote the URL it was asked for.
    fn clean(&self, why: String) -> String {
        let token = self.token.expose_secret();
        if token.is_empty() {
            why
        } else {
            why.replace(token, "[token]")
        }
    }

    fn without_token(&self, answer: SendAnswer) -> SendAnswer {
        let clean = |why| self.clean(why);
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
