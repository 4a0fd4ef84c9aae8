//! Turns and session rows, as the store takes and gives them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use serde_json::json;

use crate::{
    agent::Usage,
    hygiene,
    ids::{Epoch, SessionKey, TurnId},
    message::Receipt,
    transcript::{Content, NewEntry, TriggerSource, Visibility},
};

use super::{Diagnostic, NewMessage};

/// A row for a session; the store adds its place and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryDraft {
    /// The session.
    pub session_key: SessionKey,
    /// Who says what.
    pub entry: NewEntry,
    /// `interior` or `internal`; replies and results become rows through the outbox.
    pub visibility: Visibility,
    /// Who triggered the turn.
    pub trigger_source: TriggerSource,
}

/// A user's message on its way in.
#[derive(Debug, Clone, PartialEq)]
pub struct InboundMessage {
    /// The chat's session.
    pub session_key: SessionKey,
    /// What came: words, or blocks; framing of a connector is taken off when it is stored.
    pub content: Content,
    /// `say`, `api` or `channel`.
    pub source: &'static str,
    /// Who triggers the turn; read from the session's key if `None`. Only a person's row is recalled.
    pub trigger_source: Option<TriggerSource>,
    /// The connector's own form, JSON text; `message` in it is the message with its framing.
    pub raw_entry: Option<String>,
    /// The exact bytes that came.
    pub raw_line: Option<Vec<u8>>,
    /// The sender's name.
    pub sender_display: Option<String>,
    /// The channel's id of the sender.
    pub sender_id_raw: Option<String>,
    /// The channel's id of the message.
    pub channel_message_id: Option<String>,
}

impl InboundMessage {
    /// The message as history keeps it: words without framing, and the original beside them.
    ///
    /// Where the connector gave no form of its own, one is made of what framing was in; a form that
    /// is no JSON is kept as bytes. A sender that the connector named goes before one in the framing.
    #[must_use]
    pub fn cleaned(mut self) -> Self {
        let cleaned = hygiene::clean(&self.content);
        if let Some(raw) = &self.raw_entry
            && serde_json::from_str::<serde::de::IgnoredAny>(raw).is_err()
        {
            let raw = self.raw_entry.take().map(String::into_bytes);
            self.raw_line = self.raw_line.or(raw);
        }
        let has_original = self.raw_entry.is_some() || self.raw_line.is_some();
        if cleaned.content != self.content && !has_original {
            let message = match &self.content {
                Content::Text(text) => json!(text),
                Content::Blocks(blocks) => json!(blocks),
            };
            self.raw_entry = Some(json!({ "message": message }).to_string());
        }
        self.content = cleaned.content;
        self.sender_display = self.sender_display.or(cleaned.sender.display);
        self.sender_id_raw = self.sender_id_raw.or(cleaned.sender.id);
        self
    }

    /// Whether the framing has a block that does not end; its text is kept.
    pub fn has_unclosed_framing(&self) -> bool {
        hygiene::clean(&self.content).unclosed
    }
}

/// A user turn that may begin: the lane is held under this epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedTurn {
    /// The turn.
    pub turn_id: TurnId,
    /// The fence of everything it writes.
    pub epoch: Epoch,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// The chat's session.
    pub session_key: SessionKey,
    /// The user's words.
    pub text: String,
    /// Who triggered it.
    pub trigger: TriggerSource,
    /// The token under which a program waits for the lane, to run the turn itself.
    pub runner: Option<String>,
}

/// The end of a user turn, fenced by its epoch.
#[derive(Debug, Clone)]
pub struct TurnEnd {
    /// The turn.
    pub turn_id: TurnId,
    /// Under which lease it ran.
    pub epoch: Epoch,
    /// How it ended.
    pub result: TurnResult,
    /// What the provider counted.
    pub usage: Option<Usage>,
    /// Rows for the chat's session, other than the reply.
    pub entries: Vec<EntryDraft>,
    /// The reply.
    pub message: Option<NewMessage>,
    /// Where a program has shown the reply itself: the channel's receipt of each part, in order.
    pub shown: Vec<Receipt>,
    /// What a person should know.
    pub diagnostics: Vec<Diagnostic>,
}

/// How a user turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnResult {
    /// It was answered, or needs no answer.
    Done,
    /// It was not.
    Failed {
        /// In words, without prompt, reply or secret.
        error: String,
    },
    /// The worker stops before it was answered; it waits again and this attempt does not count.
    Requeued,
}

/// A user turn, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnRow {
    /// The turn.
    pub turn_id: TurnId,
    /// The chat's session.
    pub session_key: SessionKey,
    /// `waiting`, `running`, `done`, `failed` or `cancelled`.
    pub state: String,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Why it failed.
    pub error: Option<String>,
    /// The token of the program that runs it, where no worker's agent does.
    pub runner: Option<String>,
}

/// The turns of a session that were triggered alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnCount {
    /// The session.
    pub session_key: SessionKey,
    /// Who triggered them; a person where nobody said, as in rows older than the column.
    pub trigger: TriggerSource,
    /// How many there were, over all generations.
    pub turns: u64,
    /// When the last one was written down.
    pub last_at: Timestamp,
}

/// Which rows of a session are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowOf {
    /// What the chat showed.
    Shown,
    /// Everything.
    All,
}
