//! Transcript entries and their provenance, as data.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{IdempotencyKey, JobId, RunId, SessionKey, TurnId},
    message::Origin,
};

/// Who speaks in an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "http-api", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A person, or the prompt of a job.
    User,
    /// The agent.
    Assistant,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// The word stored in the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// The role that is stored as this word.
    pub fn from_stored(word: &str) -> Option<Self> {
        [Self::User, Self::Assistant, Self::Tool]
            .into_iter()
            .find(|role| role.as_str() == word)
    }
}

/// What an entry says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// Plain words.
    Text(String),
    /// Blocks as a provider shaped them: text, tool calls, tool results, thinking.
    Blocks(Vec<Block>),
}

impl Content {
    /// The message in a connector's own form: its words or blocks stand under `message`, or under
    /// `content` of an object there. `None` where they are elsewhere, or it is no JSON.
    pub fn of_raw_entry(raw: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Raw {
            message: Message,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Message {
            Text(String),
            Blocks(Vec<Block>),
            Object { content: Inner },
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Inner {
            Text(String),
            Blocks(Vec<Block>),
        }
        let raw: Raw = serde_json::from_str(raw).ok()?;
        Some(match raw.message {
            Message::Text(text)
            | Message::Object {
                content: Inner::Text(text),
            } => Self::Text(text),
            Message::Blocks(blocks)
            | Message::Object {
                content: Inner::Blocks(blocks),
            } => Self::Blocks(blocks),
        })
    }

    /// The words of it, blocks other than text left out.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => {
                let mut words = Vec::new();
                for block in blocks {
                    if let Block::Text { text } = block {
                        words.push(text.as_str());
                    }
                }
                words.join("\n")
            }
        }
    }
}

/// One block of structured content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A call of a tool by the agent.
    ToolUse {
        /// The call's id, which its result repeats.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments.
        input: serde_json::Value,
    },
    /// The result of a tool call.
    ToolResult {
        /// The id of the call.
        tool_use_id: String,
        /// What the tool returned.
        content: String,
        /// Whether the tool failed.
        #[serde(default)]
        is_error: bool,
    },
    /// A provider's own part, such as signed thinking, kept as it came.
    #[serde(untagged)]
    Opaque(serde_json::Value),
}

/// Who triggered a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "http-api", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum TriggerSource {
    /// A person.
    User,
    /// A heartbeat.
    Heartbeat,
    /// A job.
    Cron,
    /// A subagent.
    Subagent,
    /// An agent-client-protocol peer.
    Acp,
}

impl TriggerSource {
    /// Every source.
    pub const ALL: [Self; 5] = [
        Self::User,
        Self::Heartbeat,
        Self::Cron,
        Self::Subagent,
        Self::Acp,
    ];

    /// The word stored in the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Heartbeat => "heartbeat",
            Self::Cron => "cron",
            Self::Subagent => "subagent",
            Self::Acp => "acp",
        }
    }

    /// The source that is stored as this word.
    pub fn from_stored(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == word)
    }

    /// Who triggers the turns of a session, as its key says; for writers that do not say it.
    ///
    /// ```
    /// use chatcron::{ids::SessionKey, transcript::TriggerSource};
    /// let of = |key: &str| TriggerSource::of_session(&SessionKey::from_stored(key));
    /// assert_eq!(of("telegram:direct:5550001"), TriggerSource::User);
    /// assert_eq!(of("telegram:direct:5550001:heartbeat"), TriggerSource::Heartbeat);
    /// assert_eq!(of("cron:budget"), TriggerSource::Cron);
    /// ```
    pub fn of_session(key: &SessionKey) -> Self {
        let key = key.as_str();
        let is_before_uuid = |segment: &str| {
            key.match_indices(segment)
                .any(|(at, _)| begins_with_uuid(&key[at + segment.len()..]))
        };
        if key.ends_with(":heartbeat") {
            Self::Heartbeat
        } else if key.starts_with("cron:") || key.contains(":cron:") {
            Self::Cron
        } else if is_before_uuid(":subagent:") {
            Self::Subagent
        } else if is_before_uuid(":acp:") {
            Self::Acp
        } else {
            Self::User
        }
    }

    /// True when no person initiated the turn.
    pub fn is_automated(self) -> bool {
        self != Self::User
    }
}

/// Whether a text begins with a UUID that ends there, or at a colon.
fn begins_with_uuid(text: &str) -> bool {
    let word = text.split(':').next().unwrap_or("");
    let groups: Vec<&str> = word.split('-').collect();
    let is_hex = |group: &&str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]) && groups.iter().all(is_hex)
}

/// Who may see an entry, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "http-api", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// The chat showed it.
    Visible,
    /// Tool calls and results of a person's committed turn.
    Interior,
    /// Never in a chat's recall.
    Internal,
    /// A reply part that is not yet confirmed, or a user's row whose turn has not begun.
    Pending,
    /// A reply part that failed or was cancelled.
    Withheld,
}

impl Visibility {
    const ALL: [Self; 5] = [
        Self::Visible,
        Self::Interior,
        Self::Internal,
        Self::Pending,
        Self::Withheld,
    ];

    /// The word stored in the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Visible => "visible",
            Self::Interior => "interior",
            Self::Internal => "internal",
            Self::Pending => "pending",
            Self::Withheld => "withheld",
        }
    }

    /// The visibility that is stored as this word.
    pub fn from_stored(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|seen| seen.as_str() == word)
    }
}

/// One immutable record of a session, as it is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The session.
    pub session_key: SessionKey,
    /// The count of resets of the session when it was written.
    pub generation: i64,
    /// Its place in the history.
    pub seq: i64,
    /// Who speaks.
    pub role: Role,
    /// What is said, clean of framing.
    pub content: Content,
    /// What came, with its framing, where that is something else.
    pub framed: Option<Content>,
    /// Who may see it.
    pub visibility: Visibility,
    /// Where it came from.
    pub provenance: Provenance,
    /// When the row was written.
    pub created_at: Timestamp,
    /// When the chat showed it.
    pub shown_at: Option<Timestamp>,
    /// The channel's id of the message.
    pub channel_message_id: Option<String>,
}

/// Where an entry came from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Who triggered its turn; `None` on rows older than the column.
    pub trigger_source: Option<TriggerSource>,
    /// As what it was sent; `None` for rows that were not sent.
    pub origin: Option<Origin>,
    /// The job that posted it.
    pub posted_by_job: Option<JobId>,
    /// The exact note that replay puts before it.
    pub posting_note: Option<String>,
    /// The name of the person who wrote it.
    pub sender_display: Option<String>,
    /// The channel's id of that person.
    pub sender_id_raw: Option<String>,
    /// The user turn it belongs to.
    pub turn_id: Option<TurnId>,
    /// The run it belongs to.
    pub run_id: Option<RunId>,
    /// The attempt within the run.
    pub attempt: Option<u32>,
    /// The key it was sent under.
    pub idempotency_key: Option<IdempotencyKey>,
}

/// An entry that is about to be written; the store gives it its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewEntry {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Content,
    /// What came, with its framing, where that is something else.
    pub framed: Option<Content>,
}

impl NewEntry {
    /// Plain words.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            content: Content::Text(text.into()),
            framed: None,
        }
    }

    /// Words, calls, and results of calls.
    pub fn blocks(role: Role, blocks: Vec<Block>) -> Self {
        Self {
            role,
            content: Content::Blocks(blocks),
            framed: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_key_says_who_triggers_its_turns() {
        let uuid = "f47ac10b-58cc-4372-a567-0e02b2c3d479";
        let table = [
            ("telegram:direct:abc123", TriggerSource::User),
            ("telegram:direct:abc:heartbeat", TriggerSource::Heartbeat),
            ("telegram:direct:heartbeat:abc", TriggerSource::User),
            ("cron:my-daily-job", TriggerSource::Cron),
            ("agent:main:cron:my-daily-job", TriggerSource::Cron),
            ("telegram:direct:cron", TriggerSource::User),
            (
                &format!("agent:main:subagent:{uuid}"),
                TriggerSource::Subagent,
            ),
            (
                &format!("agent:main:subagent:{uuid}:x"),
                TriggerSource::Subagent,
            ),
            (&format!("agent:main:acp:{uuid}"), TriggerSource::Acp),
            ("agent:main:subagent:tests", TriggerSource::User),
            (
                "agent:main:acp:f47ac10b-58cc-4372-a567",
                TriggerSource::User,
            ),
            ("", TriggerSource::User),
        ];
        for (key, trigger) in table {
            let key = SessionKey::from_stored(key);
            assert_eq!(TriggerSource::of_session(&key), trigger, "{key}");
        }
    }
}
