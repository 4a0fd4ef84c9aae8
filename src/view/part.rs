//! Parts of messages, and where they go.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    ids::ChatKind,
    job::OnUnknown,
    message::{self, Origin, PartState},
    store::OutboxRow,
};

use super::At;

/// Where a message goes, with its exact address.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Destination {
    /// A chat.
    Chat {
        chat: String,
        channel: String,
        account: Option<String>,
        chat_kind: ChatKind,
        address: String,
        thread: Option<String>,
        session_key: String,
    },
    /// A webhook.
    Webhook { url: String },
}

impl From<&message::Destination> for Destination {
    fn from(destination: &message::Destination) -> Self {
        match destination {
            message::Destination::Chat(chat) => Self::Chat {
                chat: chat.chat.to_string(),
                channel: chat.channel.to_string(),
                account: chat.account.clone(),
                chat_kind: chat.kind,
                address: chat.address.clone(),
                thread: chat.thread.clone(),
                session_key: chat.session_key().as_str().to_owned(),
            },
            message::Destination::Webhook(webhook) => Self::Webhook {
                url: webhook.url.clone(),
            },
        }
    }
}

/// A part of a message: what its chat shows as one.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Part {
    part_id: i64,
    message_id: i64,
    /// Which part, from 1.
    part: u32,
    /// How many the message has.
    parts: u32,
    state: PartState,
    /// Whether an attempt to send it is under way; one that is `sending` otherwise is in doubt.
    under_way: bool,
    /// Why it ended so.
    reason: Option<String>,
    /// The channel's last answer in words.
    why: Option<String>,
    origin: Origin,
    destination: Destination,
    session_key: String,
    /// The key under which it is sent.
    key: String,
    text: Option<String>,
    /// Whether it has the channel's own form.
    native: bool,
    posted_by_job: Option<String>,
    run_id: Option<i64>,
    turn_id: Option<i64>,
    on_unknown: OnUnknown,
    /// How often it was tried.
    attempts: u32,
    enqueued_at: At,
    first_attempt_at: Option<At>,
    next_attempt_at: Option<At>,
    settled_at: Option<At>,
    /// The channel's id of it.
    channel_message_id: Option<String>,
    /// Whether it was settled after the chat had gone on.
    settled_late: bool,
    /// Whether it was shown for an agent that the chat is not bound to, so that it has no row.
    written_elsewhere: bool,
}

impl From<&OutboxRow> for Part {
    fn from(row: &OutboxRow) -> Self {
        Self {
            part_id: row.part_id.0,
            message_id: row.message_id.0,
            part: row.part,
            parts: row.parts,
            state: row.state,
            under_way: row.under_way,
            reason: row.reason.clone(),
            why: row.why.clone(),
            origin: row.origin,
            destination: Destination::from(&row.destination),
            session_key: row.session_key.as_str().to_owned(),
            key: row.key.as_str().to_owned(),
            text: row.text.clone(),
            native: row.native,
            posted_by_job: row.posted_by.as_ref().map(|job| job.job_id.to_string()),
            run_id: row.run_id.map(|id| id.0),
            turn_id: row.turn_id.map(|id| id.0),
            on_unknown: row.on_unknown,
            attempts: row.attempts,
            enqueued_at: At(row.enqueued_at),
            first_attempt_at: row.first_attempt_at.map(At),
            next_attempt_at: (!row.state.is_settled()).then_some(At(row.next_attempt_at)),
            settled_at: row.settled_at.map(At),
            channel_message_id: row.channel_message_id.clone(),
            settled_late: row.settled_late,
            written_elsewhere: row.written_elsewhere,
        }
    }
}
