//! What people say, and the replies to it.

use std::time::Duration;

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    ids::TurnId,
    message::{MESSAGE_ID_MAX, is_message_id},
    store::InboundMessage,
    transcript::{Content, TriggerSource},
    view::Turn,
    worker::TurnRows,
};

use super::{
    Api, chats,
    extract::{Json, Named},
    problem::{Kind, Problem},
};

/// How long a reply is waited for where nothing is said, and at most.
const WAIT_MS: u64 = 30_000;
const WAIT_MAX_MS: u64 = 120_000;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(show))
}

/// What waits for its reply.
pub(super) fn waiting() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(say))
}

/// A message of a person.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Message {
    /// The words, with a connector's framing or without; where they are left out, those in
    /// `raw_entry`.
    text: Option<String>,
    /// The connector's own form, in which `message` is the message as it came.
    #[schema(value_type = Option<Object>)]
    raw_entry: Option<Box<RawValue>>,
    /// The sender's name.
    sender_display: Option<String>,
    /// The channel's id of the sender.
    sender_id: Option<String>,
    /// The channel's id of the message: the same one in the same chat is the same turn.
    #[schema(min_length = 1, max_length = 256)]
    message_id: Option<String>,
    /// For how long the reply is waited for, 30000 where nothing is said.
    #[schema(minimum = 0, maximum = 120_000)]
    wait_ms: Option<u64>,
}

impl Message {
    /// The message as it is stored for a session; blank ones are none.
    fn inbound(self, session_key: crate::ids::SessionKey) -> Result<InboundMessage, Problem> {
        let raw_entry = self.raw_entry.map(|raw| raw.get().to_owned());
        let content = match self.text {
            Some(text) => Some(Content::Text(text)),
            None => raw_entry.as_deref().and_then(Content::of_raw_entry),
        };
        let content = content.filter(|content| match content {
            Content::Text(text) => !text.trim().is_empty(),
            Content::Blocks(blocks) => !blocks.is_empty(),
        });
        let content = content.ok_or_else(|| {
            Kind::Unprocessable
                .because("the message says nothing")
                .help("give its words as `text`, or as `message` in `raw_entry`")
        })?;
        if let Some(id) = self.message_id.as_ref().filter(|id| !is_message_id(id)) {
            return Err(Kind::Unprocessable
                .because(format!("`message_id` has {} bytes", id.len()))
                .help(format!(
                    "an id of a message has 1 to {MESSAGE_ID_MAX} bytes"
                )));
        }
        Ok(InboundMessage {
            session_key,
            content,
            source: "api",
            trigger_source: Some(TriggerSource::User),
            raw_entry,
            raw_line: None,
            sender_display: self.sender_display,
            sender_id_raw: self.sender_id,
            channel_message_id: self.message_id,
        })
    }
}

/// Say something in a chat as its person. The chat's agent replies, and the reply is shown in the
/// chat; where it takes longer than the wait, the turn goes on.
#[utoipa::path(post, path = "/v1/chats/{chat}/messages", tag = "chats", request_body = Message,
    params(("chat" = String, Path, description = "The chat's name")),
    responses(
        (status = 200, description = "The turn has ended; `reply` is what the agent said",
            body = Turn),
        (status = 202, description = "The turn goes on", body = Turn,
            headers(("location" = String, description = "The turn"))),
        (status = 404, description = "There is no such chat"),
    ))]
async fn say(
    State(api): State<Api>,
    Named(chat): Named,
    Json(message): Json<Message>,
) -> Result<Response, Problem> {
    let chat = chats::chat(&api, &chat)?;
    let wait_ms = message.wait_ms.unwrap_or(WAIT_MS);
    if wait_ms > WAIT_MAX_MS {
        return Err(Kind::Unprocessable
            .because(format!("`wait_ms` is {wait_ms}"))
            .help(format!(
                "`wait_ms` is at most {WAIT_MAX_MS}; `GET /v1/turns/ID` looks again"
            )));
    }
    let inbound = message.inbound(chat.session_key())?;
    let id = api.store.request_turn(inbound, api.now()).await?;
    api.worker.look();
    let waiting = ended(&api, id);
    let waited = tokio::select! {
        waited = tokio::time::timeout(Duration::from_millis(wait_ms), waiting) => waited.ok(),
        () = api.draining.cancelled() => None,
    };
    let rows = match waited {
        Some(rows) => rows?,
        None => look(&api, id).await?,
    };
    let turn = axum::Json(Turn::from(&rows));
    if rows.is_over() {
        return Ok(turn.into_response());
    }
    let location = format!("/v1/turns/{id}");
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, location)], turn).into_response())
}

async fn look(api: &Api, id: TurnId) -> Result<TurnRows, Problem> {
    found(TurnRows::of(api.store.as_ref(), id).await?, id)
}

/// The turn, once it is over.
async fn ended(api: &Api, id: TurnId) -> Result<TurnRows, Problem> {
    let over = TurnRows::when_over(api.store.as_ref(), &api.events, id).await?;
    found(over, id)
}

fn found(rows: Option<TurnRows>, id: TurnId) -> Result<TurnRows, Problem> {
    rows.ok_or_else(|| Kind::UnknownTurn.because(format!("there is no turn {id}")))
}

/// Show a turn, with the reply as far as it is known.
#[utoipa::path(get, path = "/v1/turns/{turn}", tag = "chats",
    params(("turn" = i64, Path, description = "The turn's id")),
    responses(
        (status = 200, description = "The turn", body = Turn),
        (status = 404, description = "There is no such turn"),
    ))]
async fn show(State(api): State<Api>, named: Named) -> Result<axum::Json<Turn>, Problem> {
    let id = TurnId(named.number(Kind::UnknownTurn, "turn")?);
    Ok(axum::Json(Turn::from(&look(&api, id).await?)))
}
