//! The gateway's agent; another one would ask a model here.

use async_trait::async_trait;
use chatcron::{Agent, AgentError, AgentReply, AgentTurn};
use tokio_util::sync::CancellationToken;

/// Answers with what it was asked, and fails where it is asked to.
pub(crate) struct Brain;

#[async_trait]
impl Agent for Brain {
    async fn reply(
        &self,
        turn: &AgentTurn,
        _cancel: &CancellationToken,
    ) -> Result<AgentReply, AgentError> {
        let asked = turn.prompt.last().map(|entry| entry.content.text());
        let asked = asked.unwrap_or_default();
        if asked == "fail" {
            return Err(AgentError::Permanent {
                why: "the model is not there".to_owned(),
            });
        }
        Ok(AgentReply {
            text: format!("{asked} ({} entries before)", turn.history.len()),
            ..AgentReply::default()
        })
    }
}
