//! Outbox entries and their parts, as the store takes and gives them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{AgentName, Epoch, IdempotencyKey, JobId, MessageId, PartId, RunId, SessionKey, TurnId},
    job::OnUnknown,
    message::{Destination, Origin, PartState},
    policy::outbox::{LateRule, PartView, Transition},
    transcript::TriggerSource,
};

/// A message to be enqueued, split already.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    /// Who produced it: `occurrence:<id>`, `turn:<id>`, or a caller's own key.
    pub producer: String,
    /// What it is. A `TurnReply` gets a pending row a part in the session of its turn.
    pub origin: Origin,
    /// The n-th send of that origin in the attempt, from 0.
    pub ordinal: u32,
    /// Where it goes.
    pub destination: Destination,
    /// Whose words they are.
    pub agent: AgentName,
    /// The name that a channel shows: the job's or the agent's.
    pub speaker: String,
    /// Who triggered it.
    pub trigger_source: Option<TriggerSource>,
    /// The job that posts it.
    pub posted_by: Option<PostedBy>,
    /// The run it comes from, and the attempt.
    pub run: Option<(RunId, u32)>,
    /// The user turn it comes from.
    pub turn_id: Option<TurnId>,
    /// What to do in doubt.
    pub on_unknown: OnUnknown,
    /// What to do if it is first sent long after its slot.
    pub late: Option<LateNotice>,
    /// A send of the same words to the same place by a tool: this one is cancelled once that one is
    /// shown, or nobody can say whether it was.
    pub behind: Option<MessageId>,
    /// What the chat will show, one entry a message; at least one.
    pub parts: Vec<NewPart>,
}

/// A message that a turn or an attempt sends while it is under way.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSend {
    /// Who sends it, under its lease.
    pub by: SentBy,
    /// What is sent.
    pub message: NewMessage,
}

/// A message that a program sends by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnSend {
    /// What is sent; its producer is the program's key.
    pub message: NewMessage,
    /// When the program was asked for it, or decided on it.
    pub created_at: Timestamp,
}

/// Whose lease a send is fenced by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SentBy {
    /// An attempt of a run.
    Run(RunId, Epoch),
    /// A person's turn.
    Turn(TurnId, Epoch),
}

/// What became of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It is in the outbox.
    New(MessageId),
    /// An earlier attempt has put the same words there, and they are not sent again.
    Again(MessageId),
    /// Other words were sent under its key before, and these are not sent.
    Otherwise,
}

/// What is done with a result that is first sent long after its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateNotice {
    /// When it is late, and what is done then.
    pub rule: LateRule,
    /// The line that goes before its first part; `None` where that part has no room for it.
    pub label: Option<String>,
}

/// The job that posts a message, named for the posting note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostedBy {
    /// The job.
    pub job_id: JobId,
    /// What a person calls it.
    pub name: String,
    /// The zone in which the note tells the time.
    pub zone: String,
}

/// One part of a new message.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPart {
    /// Its key.
    pub key: IdempotencyKey,
    /// Exactly what is sent, or the honest text of a native payload.
    pub text: Option<String>,
    /// The channel's own form.
    pub native: Option<serde_json::Value>,
}

/// A part that is marked `sending`: the lane is held under this epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedPart {
    /// The part.
    pub part_id: PartId,
    /// Its message.
    pub message_id: MessageId,
    /// The lease of the lane.
    pub epoch: Epoch,
    /// The lane.
    pub session_key: SessionKey,
    /// Which part, from 1.
    pub part: u32,
    /// How many the message has.
    pub parts: u32,
    /// Its key.
    pub key: IdempotencyKey,
    /// Exactly what is sent, or the honest text of a native payload.
    pub text: Option<String>,
    /// The channel's own form.
    pub native: Option<serde_json::Value>,
    /// Where it goes.
    pub destination: Destination,
    /// The chat's new address, if a channel said so since.
    pub moved_to: Option<String>,
    /// Why nothing may go to the address, if a channel said so.
    pub stopped: Option<String>,
    /// The name that a channel shows.
    pub speaker: String,
    /// The job that posts it.
    pub posted_by: Option<PostedBy>,
    /// What it is.
    pub origin: Origin,
    /// The run it comes from.
    pub run_id: Option<RunId>,
    /// When its message was enqueued.
    pub enqueued_at: Timestamp,
    /// What to do if it is first sent long after its slot; of a first part that was never sent.
    pub late: Option<LateNotice>,
    /// What a transition depends on.
    pub view: PartView,
}

impl ClaimedPart {
    /// Says in its first line that it is late, where there is room for that.
    pub(crate) fn label(&mut self) {
        let label = self.late.as_ref().and_then(|late| late.label.as_ref());
        if let (Some(label), Some(text)) = (label, &mut self.text) {
            *text = format!("{label}\n{text}");
        }
    }
}

/// What became of a part after an attempt to send it.
#[derive(Debug, Clone, PartialEq)]
pub struct PartSettlement {
    /// The part.
    pub part_id: PartId,
    /// The lease of the lane, which is freed if it is still held under it.
    pub epoch: Option<Epoch>,
    /// What follows.
    pub transition: Transition,
    /// The channel's answer in words, without secrets.
    pub why: Option<String>,
    /// What replay puts before the row, if the part is confirmed.
    pub posting_note: Option<String>,
}

/// A person's word about a part in doubt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resolution {
    /// The chat showed it.
    Shown {
        /// The channel's id of it, if known.
        message_id: Option<String>,
        /// What replay puts before the row.
        posting_note: Option<String>,
    },
    /// The chat did not show it.
    NotShown,
}

/// A part, as it is listed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutboxRow {
    /// The part.
    pub part_id: PartId,
    /// Its message.
    pub message_id: MessageId,
    /// Which part, from 1.
    pub part: u32,
    /// How many the message has.
    pub parts: u32,
    /// Its state.
    pub state: PartState,
    /// Whether an attempt to send it is under way; one that is `sending` otherwise is in doubt, and
    /// between two tries.
    pub under_way: bool,
    /// Why it ended so.
    pub reason: Option<String>,
    /// The channel's last answer in words.
    pub why: Option<String>,
    /// What it is.
    pub origin: Origin,
    /// Where it goes.
    pub destination: Destination,
    /// The lane.
    pub session_key: SessionKey,
    /// Its key.
    pub key: IdempotencyKey,
    /// What the chat shows.
    pub text: Option<String>,
    /// Whether it has a native payload.
    pub native: bool,
    /// The job that posts it.
    pub posted_by: Option<PostedBy>,
    /// The run it comes from.
    pub run_id: Option<RunId>,
    /// The turn it comes from.
    pub turn_id: Option<TurnId>,
    /// What to do in doubt.
    pub on_unknown: OnUnknown,
    /// How often it was tried.
    pub attempts: u32,
    /// When its message was enqueued.
    pub enqueued_at: Timestamp,
    /// When it was first tried.
    pub first_attempt_at: Option<Timestamp>,
    /// When it is tried next.
    pub next_attempt_at: Timestamp,
    /// When it was settled.
    pub settled_at: Option<Timestamp>,
    /// The channel's id of it.
    pub channel_message_id: Option<String>,
    /// Whether it was settled after the chat had gone on, so that its row stands late in history.
    pub settled_late: bool,
    /// Whether it was shown for an agent that the chat is not bound to, so that it has no row.
    pub written_elsewhere: bool,
}
