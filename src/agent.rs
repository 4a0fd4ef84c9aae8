//! What an agent must be able to do. Adapters are in `agent/`, one outside system a file.

#[cfg(feature = "http-client")]
pub mod anthropic;
pub mod command;
pub mod echo;
mod effects;
#[cfg(feature = "http-client")]
mod exchange;
#[cfg(feature = "http-client")]
pub mod gemini;
#[cfg(feature = "http-client")]
pub mod http;
#[cfg(feature = "http-client")]
pub mod openai;
#[cfg(feature = "http-client")]
pub mod openai_responses;
mod plain;
#[cfg(feature = "http-client")]
mod steps;

mod tools;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::{
    ids::{AgentName, IdempotencyKey, JobId, SessionKey},
    transcript::{Entry, NewEntry, TriggerSource},
};

pub use effects::{EffectReporter, ReportError};
pub use tools::{ToolCall, ToolOutput, Toolbox, Tools};

/// Answers turns.
#[async_trait]
pub trait Agent: Send + Sync + 'static {
    /// Runs one turn. `cancel` asks it to stop; an agent that ignores it is abandoned.
    ///
    /// # Errors
    /// [`AgentError`] says whether another try can help.
    async fn reply(
        &self,
        turn: &AgentTurn,
        cancel: &CancellationToken,
    ) -> Result<AgentReply, AgentError>;
}

/// One turn, as an agent is given it.
#[derive(Debug, Clone)]
pub struct AgentTurn {
    /// The agent.
    pub agent: AgentName,
    /// The session in which the turn runs.
    pub session_key: SessionKey,
    /// Who triggered it.
    pub trigger: TriggerSource,
    /// The job, where one triggered it.
    pub job: Option<JobId>,
    /// Stable over every attempt of the same turn; for agents that can deduplicate.
    pub key: IdempotencyKey,
    /// The session's history, oldest first.
    pub history: Vec<Entry>,
    /// What is asked now: rows of this attempt, ending in the user's role.
    pub prompt: Vec<NewEntry>,
    /// Where an agent says that it is about to change something outside.
    pub effects: EffectReporter,
    /// What the agent may do besides answering.
    pub tools: Toolbox,
}

/// What an agent answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentReply {
    /// Tool calls, their results and words beside them, in order. The chat does not show them.
    pub interior: Vec<NewEntry>,
    /// The words of the reply. `NO_REPLY` for nothing to say.
    pub text: String,
    /// What the provider counted.
    pub usage: Option<Usage>,
    /// Whether the provider says that the words end early, because the answer was as long as it may
    /// be.
    pub is_cut: bool,
}

/// Tokens, as a provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "http-api", derive(utoipa::ToSchema))]
pub struct Usage {
    /// Tokens of the request.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
}

/// Why an agent gave no answer. The texts carry no prompt, reply or secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// Another try may help: overloaded, rate-limited, unreachable.
    #[error("{why}")]
    Transient {
        /// What happened.
        why: String,
    },
    /// Another try cannot help: wrong key, unknown model, malformed request.
    #[error("{why}")]
    Permanent {
        /// What happened.
        why: String,
    },
    /// It was asked to stop, and did.
    #[error("cancelled")]
    Cancelled,
}
