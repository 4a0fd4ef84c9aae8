//! Entries of a transcript.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    ids::{ChatName, SessionKey},
    message::Origin,
    transcript::{self, Content, Role, TriggerSource, Visibility},
};

use super::At;

/// A session's history.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Transcript {
    /// The chat; null where the session is no chat's.
    chat: Option<String>,
    session_key: String,
    /// Oldest first.
    entries: Vec<Entry>,
}

impl Transcript {
    pub(crate) fn new(
        chat: Option<&ChatName>,
        session_key: &SessionKey,
        entries: &[transcript::Entry],
    ) -> Self {
        Self {
            chat: chat.map(ChatName::to_string),
            session_key: session_key.as_str().to_owned(),
            entries: entries.iter().map(Entry::from).collect(),
        }
    }
}

/// One record of a session.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Entry {
    /// Its place in the history of its generation.
    seq: i64,
    /// How often the session was reset before.
    generation: i64,
    role: Role,
    /// Its words, blocks other than text left out.
    text: String,
    /// `{"text": …}`, or `{"blocks": […]}` as a provider shaped them.
    #[schema(value_type = Object)]
    content: Content,
    /// What came, with its framing, where that is something else.
    #[schema(value_type = Option<Object>)]
    framed: Option<Content>,
    visibility: Visibility,
    created_at: At,
    shown_at: Option<At>,
    channel_message_id: Option<String>,
    trigger_source: Option<TriggerSource>,
    is_automated: Option<bool>,
    origin: Option<Origin>,
    posted_by_job: Option<String>,
    /// What replay puts before it.
    posting_note: Option<String>,
    sender_display: Option<String>,
    sender_id_raw: Option<String>,
    turn_id: Option<i64>,
    run_id: Option<i64>,
    attempt: Option<u32>,
    idempotency_key: Option<String>,
}

impl From<&transcript::Entry> for Entry {
    fn from(entry: &transcript::Entry) -> Self {
        let from = &entry.provenance;
        Self {
            seq: entry.seq,
            generation: entry.generation,
            role: entry.role,
            text: entry.content.text(),
            content: entry.content.clone(),
            framed: entry.framed.clone(),
            visibility: entry.visibility,
            created_at: At(entry.created_at),
            shown_at: entry.shown_at.map(At),
            channel_message_id: entry.channel_message_id.clone(),
            trigger_source: from.trigger_source,
            is_automated: from.trigger_source.map(TriggerSource::is_automated),
            origin: from.origin,
            posted_by_job: from.posted_by_job.as_ref().map(ToString::to_string),
            posting_note: from.posting_note.clone(),
            sender_display: from.sender_display.clone(),
            sender_id_raw: from.sender_id_raw.clone(),
            turn_id: from.turn_id.map(|id| id.0),
            run_id: from.run_id.map(|id| id.0),
            attempt: from.attempt,
            idempotency_key: from.idempotency_key.as_ref().map(ToString::to_string),
        }
    }
}
