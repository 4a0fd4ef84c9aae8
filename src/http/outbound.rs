//! A gateway's own messages, through the one writer.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    embed::{OutboundMessage, OwnOrigin, SendError, Way},
    job::OnUnknown,
    store::OutboxScope,
    transcript::TriggerSource,
    view::Part,
};

use super::{
    Api, chats,
    extract::{Instant, Json},
    problem::{Kind, Problem},
};

/// The header that has the caller's own key.
const KEY: &str = "idempotency-key";

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(send))
}

/// A message of the gateway's own.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewMessage {
    /// The chat that shall show it, by name.
    chat: String,
    /// The words, split as the chat's channel takes them.
    text: String,
    /// When the caller was asked for it or decided on it; the same whenever it is sent again.
    #[schema(value_type = String, format = DateTime)]
    created_at: Instant,
    /// What it is: `gateway` where nothing is said.
    origin: Option<MessageOrigin>,
    /// Whose words they are, where they are not the chat's own agent's.
    agent: Option<String>,
    /// Who triggered it.
    trigger_source: Option<TriggerSource>,
    /// What to do where nobody knows whether the chat showed it: `hold` where nothing is said.
    #[schema(value_type = Option<OnUnknown>)]
    on_unknown: Option<OnUnknown>,
}

/// What a message of the gateway's own is.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum MessageOrigin {
    Gateway,
    MessageTool,
    SubagentAnnouncement,
}

impl From<MessageOrigin> for OwnOrigin {
    fn from(origin: MessageOrigin) -> Self {
        match origin {
            MessageOrigin::Gateway => Self::Gateway,
            MessageOrigin::MessageTool => Self::MessageTool,
            MessageOrigin::SubagentAnnouncement => Self::SubagentAnnouncement,
        }
    }
}

impl NewMessage {
    fn composed(self, key: String) -> OutboundMessage {
        let mut message = OutboundMessage::to_chat(key, self.chat, self.text, self.created_at.0);
        if let Some(origin) = self.origin {
            message = message.as_origin(origin.into());
        }
        if let Some(agent) = self.agent {
            message = message.by_agent(agent);
        }
        if let Some(trigger) = self.trigger_source {
            message = message.triggered_by(trigger);
        }
        if self.on_unknown == Some(OnUnknown::Resend) {
            message = message.resend_on_unknown();
        }
        message
    }
}

/// A message that is in the outbox.
#[derive(Serialize, ToSchema)]
struct Accepted {
    message_id: i64,
    /// Whether it was there before, by the same key.
    was_there: bool,
    parts: Vec<Part>,
}

/// Send a message of the gateway's own: a message tool's, an announcement, or anything else. It is
/// kept durably, shown when its chat is free, and becomes history when it was shown.
#[utoipa::path(post, path = "/v1/outbound", tag = "outbox", request_body = NewMessage,
    params(("Idempotency-Key" = String, Header,
        description = "The caller's own key: the same key is the same message",
        min_length = 1, max_length = 512)),
    responses(
        (status = 202, description = "It is in the outbox, or was already", body = Accepted),
        (status = 404, description = "There is no such chat"),
        (status = 422, description = "It says nothing, it is older than what is remembered, or its \
            key stands for another message"),
    ))]
async fn send(
    State(api): State<Api>,
    headers: HeaderMap,
    Json(new): Json<NewMessage>,
) -> Result<(StatusCode, axum::Json<Accepted>), Problem> {
    let key = headers.get(KEY).ok_or_else(|| {
        Kind::Unprocessable
            .because("there is no `Idempotency-Key`")
            .help(
                "send a key of your own: the same key is the same message, however often it comes",
            )
    })?;
    let key = key.to_str().map_err(|_| {
        Kind::Unprocessable
            .because("`Idempotency-Key` is not plain text")
            .help("a key has 1 to 512 visible characters of ASCII")
    })?;
    chats::chat(&api, &new.chat)?;
    let message = new.composed(key.to_owned());
    let services = api.services();
    let way = Way {
        store: api.store.as_ref(),
        store_id: &api.store_id,
        services: &services,
    };
    let accepted = way.send(message, api.now()).await?;
    api.worker.look();
    let scope = OutboxScope::Message(accepted.message_id);
    let parts = api.store.outbox(scope).await?;
    Ok((
        StatusCode::ACCEPTED,
        axum::Json(Accepted {
            message_id: accepted.message_id.0,
            was_there: accepted.was_there,
            parts: parts.iter().map(Part::from).collect(),
        }),
    ))
}

impl From<SendError> for Problem {
    fn from(error: SendError) -> Self {
        let words = error.to_string();
        match error {
            SendError::Store(error) => error.into(),
            SendError::UnknownChat(_) => Kind::UnknownChat.because(words),
            SendError::OtherMessage { .. } => Kind::KeyReused
                .because(words)
                .help("a new message needs a key of its own"),
            SendError::TooOld { pruned_before, .. } => Kind::TooOld.because(words).help(format!(
                "messages that were created since {pruned_before} are accepted"
            )),
            SendError::Key { .. }
            | SendError::Agent(_)
            | SendError::Url { .. }
            | SendError::NoWebhookChannel
            | SendError::Nothing => Kind::Unprocessable.because(words),
        }
    }
}
