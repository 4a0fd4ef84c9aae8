//! What an agent of one's own is told: the turn as plain JSON, the same for a program and a server.

use serde_json::{Value, json};

use super::{AgentError, AgentTurn, ReportError};
use crate::{
    directory::ReplayMode,
    replay::{self, Family},
};

/// The turn: who is asked, why, and the conversation in the form of OpenAI's chat completions. It
/// ends in what is asked now.
pub(super) fn conversation(turn: &AgentTurn, system: Option<&str>, mode: ReplayMode) -> Value {
    let family = Family::OpenAiChat;
    let messages = replay::project(&turn.history, &turn.prompt, family, mode);
    json!({
        "agent": turn.agent.as_str(),
        "session": turn.session_key.as_str(),
        "job": turn.job.as_ref().map(|job| job.as_str()),
        "trigger": turn.trigger.as_str(),
        "key": turn.key.as_str(),
        "system": replay::system_prompt(system),
        "messages": replay::to_json(&messages, family),
    })
}

/// Reports the effects of an agent that may have some whenever it is asked, before it is asked.
pub(super) async fn report_effects(turn: &AgentTurn) -> Result<(), AgentError> {
    turn.effects.report().await.map_err(|error| match error {
        ReportError::Over => AgentError::Cancelled,
        ReportError::Store(error) => AgentError::Transient {
            why: format!("cannot record that the attempt is about to have effects: {error}"),
        },
    })
}
