//! Messages posted to a URL, by the rules of Standard Webhooks.
//!
//! Serves the `deliver = { webhook = ... }` of jobs and `[channels.NAME] kind = "webhook"`. The body
//! is the same, byte for byte, on every attempt, and `webhook-id` is the part's key: a receiver
//! that remembers ids shows a message once, however often it is posted.
//!
//! A job's webhook has received what it answers with 2xx, and the id of the message is its
//! `webhook-id`. A chat has shown what its receiver gives an id of its own: without one nobody could
//! find the message there again, so such an answer leaves the message in doubt.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use reqwest::{Client, Response};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use url::Url;

use super::{Ability, Channel, OutgoingBody, OutgoingPart, TextLimit, TextUnit};
use crate::{
    directory::{ReceiptProof, SecretSource},
    http_client::{self, HttpSetupError, Reach},
    message::{Destination, Receipt, RefusalScope, SendAnswer, StopsAddress, is_message_id},
    secret,
};

mod signature;

use signature::SigningKey;

/// How long one request may take unless another time is set.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(25);
/// What [`Channel::send_timeout`] allows beyond that, so that the adapter's own answer comes first.
const SLACK: Duration = Duration::from_secs(5);

/// Where a webhook channel posts. Not `Debug`: the URL may be a secret too.
#[derive(Clone)]
pub struct WebhookSettings {
    /// An absolute `http` or `https` URL.
    pub url: String,
    /// The signing secret.
    pub secret: Option<SecretString>,
    /// Whether addresses of private networks and of this machine are allowed.
    pub allow_private: bool,
    /// What proves that a chat showed a message.
    pub receipt: ReceiptProof,
}

/// Posts messages to URLs.
pub struct Webhook {
    public_only: Client,
    direct: Client,
    /// Where the chats of a webhook channel are; `None` serves the webhooks of jobs.
    chats: Option<Target>,
    timeout: Duration,
}

/// One place to post to.
#[derive(Clone)]
struct Target {
    url: Url,
    key: Option<SigningKey>,
    reach: Reach,
    receipt: ReceiptProof,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").finish_non_exhaustive()
    }
}

impl Webhook {
    /// Serves the webhooks that jobs name; the secret of each is read when it is used.
    ///
    /// # Errors
    /// [`HttpSetupError`] if no HTTP client can be made.
    pub fn for_jobs() -> Result<Self, HttpSetupError> {
        Ok(Self {
            public_only: http_client::client(Reach::PublicOnly, REQUEST_TIMEOUT)?,
            direct: http_client::client(Reach::Direct, REQUEST_TIMEOUT)?,
            chats: None,
            timeout: REQUEST_TIMEOUT,
        })
    }

    /// Serves the chats of one webhook channel.
    ///
    /// # Errors
    /// [`HttpSetupError`] if the URL or the secret cannot be used.
    pub fn for_chats(settings: &WebhookSettings) -> Result<Self, HttpSetupError> {
        let url = http_client::service_url("the channel's `url`", &settings.url)?;
        let key = settings.secret.as_ref().map(SigningKey::new).transpose()?;
        let chats = Target {
            url,
            key,
            reach: reach(settings.allow_private),
            receipt: settings.receipt,
        };
        Ok(Self {
            chats: Some(chats),
            ..Self::for_jobs()?
        })
    }

    /// Sets how long one request may take.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn target(&self, destination: &Destination) -> Result<Target, SendAnswer> {
        let webhook = match (destination, &self.chats) {
            (Destination::Chat(_), Some(target)) => return Ok(target.clone()),
            (Destination::Webhook(webhook), None) => webhook,
            (Destination::Chat(_), None) => return Err(permanent("a chat is not a webhook")),
            (Destination::Webhook(_), Some(_)) => {
                return Err(permanent("a job's webhook is not a chat of this channel"));
            }
        };
        let url = http_client::service_url("the job's webhook", &webhook.url)
            .map_err(|error| permanent(error.to_string()))?;
        let key = match &webhook.secret_env {
            None => None,
            Some(name) => {
                // Worth another try: whoever runs the worker can still set it.
                let secret = secret::read(&SecretSource::Env(name.clone()))
                    .map_err(|error| refused(error.to_string()))?;
                Some(SigningKey::new(&secret).map_err(|error| permanent(error.to_string()))?)
            }
        };
        Ok(Target {
            url,
            key,
            reach: reach(webhook.allow_private),
            receipt: ReceiptProof::Status,
        })
    }

    async fn post(&self, target: &Target, part: &OutgoingPart, now: Timestamp) -> SendAnswer {
        if target.reach == Reach::PublicOnly
            && let Err(forbidden) = http_client::check_literal(&target.url)
        {
            return permanent(forbidden.to_string());
        }
        let client = match target.reach {
            Reach::PublicOnly => &self.public_only,
            Reach::Direct | Reach::Anywhere => &self.direct,
        };
        let id = part.key.as_str();
        let seconds = now.as_second();
        let body = event(part);
        let mut request = client
            .post(target.url.clone())
            .timeout(self.timeout)
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", seconds);
        if let Some(key) = &target.key {
            request = request.header("webhook-signature", key.sign(id, seconds, &body));
        }
        match request.body(body).send().await {
            Ok(response) => read(response, target.receipt, part, now).await,
            Err(error) => http_client::classify(error).into_answer(RefusalScope::Chat),
        }
    }
}

#[async_trait]
impl Channel for Webhook {
    fn ability(&self) -> Ability {
        Ability::Keyed { window: None }
    }

    fn limit(&self) -> TextLimit {
        TextLimit {
            max: None,
            unit: TextUnit::Bytes,
        }
    }

    fn send_timeout(&self) -> Duration {
        self.timeout + SLACK
    }

    async fn send(&self, part: &OutgoingPart, now: Timestamp) -> SendAnswer {
        match self.target(&part.destination) {
            Ok(target) => self.post(&target, part, now).await,
            Err(answer) => answer,
        }
    }
}

#[derive(Serialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    timestamp: String,
    data: EventData<'a>,
}

#[derive(Serialize)]
struct EventData<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    chat: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<&'a str>,
    speaker: &'a str,
    text: &'a str,
    part: u32,
    parts: u32,
}

/// The body: nothing in it differs between two attempts. Native JSON is a body of its own.
fn event(part: &OutgoingPart) -> String {
    let text = match &part.body {
        OutgoingBody::Text(text) => text,
        OutgoingBody::Native(body) => return body.to_string(),
    };
    let chat = match &part.destination {
        Destination::Chat(chat) => Some(chat),
        Destination::Webhook(_) => None,
    };
    let event = Event {
        kind: "chatcron.message",
        id: part.key.as_str(),
        timestamp: part.enqueued_at.to_string(),
        data: EventData {
            chat: chat.map(|chat| chat.chat.as_str()),
            address: chat.map(|chat| chat.address.as_str()),
            account: chat.and_then(|chat| chat.account.as_deref()),
            thread: chat.and_then(|chat| chat.thread.as_deref()),
            speaker: &part.speaker,
            text,
            part: part.part,
            parts: part.parts,
        },
    };
    serde_json::to_string(&event).unwrap_or_default()
}

async fn read(
    response: Response,
    proof: ReceiptProof,
    part: &OutgoingPart,
    now: Timestamp,
) -> SendAnswer {
    let status = response.status().as_u16();
    let why = format!("the receiver answered {status}");
    match status {
        200..=299 => match (message_id(response, part).await, proof) {
            (None, ReceiptProof::MessageId) => SendAnswer::Ambiguous {
                why: format!(
                    "{why} without a `message_id`; a receiver that has none needs `receipt = \"status\"`"
                ),
            },
            (own, ReceiptProof::MessageId | ReceiptProof::Status) => shown(own, part, now),
        },
        // It has this id already.
        409 => shown(message_id(response, part).await, part, now),
        429 => SendAnswer::Refused {
            retry_after: http_client::retry_after(response.headers(), now),
            scope: RefusalScope::Chat,
            why,
        },
        403 | 410 => SendAnswer::Permanent {
            why,
            stops_address: StopsAddress::Yes,
        },
        408 => SendAnswer::Ambiguous { why },
        // A redirect is not followed: it would take the signed message somewhere else.
        300..=499 => permanent(why),
        _ => SendAnswer::Ambiguous { why },
    }
}

fn shown(own_id: Option<String>, part: &OutgoingPart, now: Timestamp) -> SendAnswer {
    SendAnswer::Receipt(Receipt {
        message_id: own_id.unwrap_or_else(|| part.key.as_str().to_owned()),
        shown_at: Some(now),
    })
}

/// What a receiver answers.
#[derive(Deserialize)]
struct Accepted<'a> {
    #[serde(borrow)]
    message_id: Option<&'a RawValue>,
}

/// The id that the receiver of a chat gave the message, if it gave one.
async fn message_id(response: Response, part: &OutgoingPart) -> Option<String> {
    let body = match part.destination {
        Destination::Chat(_) => http_client::body_of(response).await.ok()?,
        Destination::Webhook(_) => return None,
    };
    let body: Accepted<'_> = serde_json::from_slice(&body).ok()?;
    let written = body.message_id?.get();
    let id = match written.as_bytes().first()? {
        b'"' => serde_json::from_str(written).ok()?,
        // A number is an id by its digits, however many it has.
        b'-' | b'0'..=b'9' => written.to_owned(),
        _ => return None,
    };
    is_message_id(&id).then_some(id)
}

#[expect(
    clippy::fn_params_excessive_bools,
    reason = "the setting is a boolean in the jobs file"
)]
fn reach(allow_private: bool) -> Reach {
    if allow_private {
        Reach::Direct
    } else {
        Reach::PublicOnly
    }
}

fn permanent(why: impl Into<String>) -> SendAnswer {
    SendAnswer::Permanent {
        why: why.into(),
        stops_address: StopsAddress::No,
    }
}

fn refused(why: String) -> SendAnswer {
    SendAnswer::Refused {
        retry_after: None,
        scope: RefusalScope::Chat,
        why,
    }
}
