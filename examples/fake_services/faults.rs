//! The orders that the control port takes.
//!
//! ```json
//! {"fault": {"service": "telegram", "kind": "hang", "show": true, "times": 2, "chat": "-1001"}}
//! {"fault": {"service": "telegram", "kind": "status", "status": 429, "retry_after": 3}}
//! {"reply": {"service": "openai", "text": "Hello", "delay_ms": 100}}
//! {"reply": {"service": "openai", "calls": [{"name": "pause_job", "arguments": {"job": "$posted-by"}}]}}
//! {"said": {"chat": 5550001, "text": "Hello", "message": {"message_thread_id": 7, "is_topic_message": true}}}
//! {"clear": {}}
//! ```
//!
//! A fault applies to the next `times` requests of its service that are about its `chat` (Telegram,
//! webhook), of its `method` (Telegram), or are anything at all; faults wait in line. With `show`, the service first does what
//! it was asked: the message is shown, and the sender does not learn of it.
//!
//! What is said is an update of Telegram's, with the fields of `message` put in; `redelivered` gives
//! the last one out once more, under a new number.
//!
//! In the arguments of a call `$posted-by` stands for the job that the last posting note of the
//! request names. Arguments that are a text are given as they are, also where that is no JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The fakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Service {
    Telegram,
    Openai,
    Anthropic,
    Gemini,
    /// A server of one's own, as agents of kind `http` ask.
    Agent,
    Webhook,
}

impl Service {
    pub(crate) const ALL: [Self; 6] = [
        Self::Telegram,
        Self::Openai,
        Self::Anthropic,
        Self::Gemini,
        Self::Agent,
        Self::Webhook,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Telegram => "telegram",
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Agent => "agent",
            Self::Webhook => "webhook",
        }
    }
}

/// One order.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Order {
    Fault(Fault),
    Reply(Reply),
    Said(Said),
    Redelivered {},
    /// Forgets all faults and replies that wait.
    Clear {},
}

/// What goes wrong.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) service: Service,
    pub(crate) chat: Option<String>,
    /// The method of Telegram's that it meets.
    pub(crate) method: Option<String>,
    #[serde(default = "once")]
    pub(crate) times: u32,
    #[serde(default)]
    pub(crate) show: bool,
    #[serde(flatten)]
    pub(crate) kind: Kind,
}

fn once() -> u32 {
    1
}

/// How it goes wrong.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// No answer, for as long as the sender waits.
    Hang,
    /// The connection is reset.
    Reset,
    /// The usual answer, late.
    Slow { ms: u64 },
    /// 200, and half of a JSON text.
    BrokenJson,
    /// An error, with the service's own body unless another is given.
    Status {
        status: u16,
        body: Option<Value>,
        retry_after: Option<u32>,
    },
    /// Telegram: the group became a supergroup.
    Migrate { to: i64 },
}

/// What somebody writes to the bot.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Said {
    pub(crate) chat: i64,
    pub(crate) text: Option<String>,
    /// Further fields of the message, or other ones.
    #[serde(default)]
    pub(crate) message: serde_json::Map<String, Value>,
}

/// The next words of a model. Without one, a model says back what it was asked.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Reply {
    pub(crate) service: Service,
    #[serde(default)]
    pub(crate) text: String,
    /// The tools that it calls beside its words.
    #[serde(default)]
    pub(crate) calls: Vec<Call>,
    #[serde(default)]
    pub(crate) delay_ms: u64,
}

/// One call of a tool.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Call {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) arguments: Value,
}
