//! A turn as steps: the model is asked, what it calls is done, and it is asked again with the results.

use reqwest::RequestBuilder;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    AgentError, AgentReply, AgentTurn, ToolCall, ToolOutput, Usage,
    exchange::{Conversation, Endpoint, exchange, permanent},
};
use crate::{
    replay::ToolCalls,
    transcript::{Block, Content, NewEntry, Role},
};

/// How often a model may call tools before it has to answer in words.
pub(super) const STEPS_MAX: usize = 8;
/// How many calls of one answer are made; the rest are answered with an error.
const CALLS_MAX: usize = 16;

/// A provider's answer to one request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Answer {
    /// All of it, as history keeps it: words, calls, and what the provider wants back with them.
    pub(super) blocks: Vec<Block>,
    /// The words alone.
    pub(super) text: String,
    /// What the provider counted.
    pub(super) usage: Option<Usage>,
    /// Why there are neither words nor calls, where there are none.
    pub(super) nothing: Option<AgentError>,
}

impl Answer {
    fn calls(&self) -> Vec<ToolCall> {
        let calls = self.blocks.iter().filter_map(|block| match block {
            Block::ToolUse { id, name, input } => Some(ToolCall {
                id: id.clone(),
                name: name.clone(),
                input: input.clone(),
            }),
            Block::Text { .. } | Block::ToolResult { .. } | Block::Opaque(_) => None,
        });
        calls.collect()
    }

    /// The answer as words of their own, for a request that offered no tool.
    #[cfg(test)]
    pub(super) fn words(self) -> Result<AgentReply, AgentError> {
        match self.nothing {
            Some(nothing) => Err(nothing),
            None => Ok(AgentReply {
                interior: Vec::new(),
                text: self.text,
                usage: self.usage,
            }),
        }
    }
}

/// The arguments of a call that came as JSON text. What is no JSON is kept as it came, for the tool
/// to refuse.
pub(super) fn arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Runs a turn to its answer in words. `authorised` adds a provider's headers to a request, and
/// `read` reads its answers.
pub(super) async fn reply(
    endpoint: &Endpoint,
    conversation: &Conversation,
    turn: &AgentTurn,
    cancel: &CancellationToken,
    authorised: impl Fn(RequestBuilder) -> Result<RequestBuilder, AgentError> + Send,
    read: fn(&Value) -> Result<Answer, AgentError>,
) -> Result<AgentReply, AgentError> {
    let mut asked = turn.prompt.clone();
    let mut usage: Option<Usage> = None;
    for step in 0..=STEPS_MAX {
        let is_last = step == STEPS_MAX || turn.tools.offered().is_empty();
        let tool_calls = if is_last {
            ToolCalls::Forbidden
        } else {
            ToolCalls::Allowed
        };
        let body = conversation.body(&endpoint.settings, turn, &asked, tool_calls);
        let request = endpoint.client.post(endpoint.url.clone()).json(&body);
        let answer = read(&exchange(authorised(request)?, cancel).await?)?;
        usage = sum(usage, answer.usage);
        let calls = answer.calls();
        if calls.is_empty() {
            let text = words_after(step, answer)?;
            let interior = asked.split_off(turn.prompt.len());
            return Ok(AgentReply {
                interior,
                text,
                usage,
            });
        }
        if turn.tools.offered().is_empty() {
            return Err(permanent(
                "the model's answer calls a tool, though none was offered",
            ));
        }
        if is_last {
            break;
        }
        asked.push(row(Role::Assistant, answer.blocks));
        let results = results(turn, &calls, cancel).await?;
        asked.push(row(Role::Tool, results));
    }
    Err(permanent(format!(
        "the model called tools {STEPS_MAX} times and then again, instead of answering"
    )))
}

/// The words of an answer without calls. A model that has done something may have nothing to say.
fn words_after(step: usize, answer: Answer) -> Result<String, AgentError> {
    match answer.nothing {
        Some(AgentError::Transient { .. }) if step > 0 => Ok(String::new()),
        Some(nothing) => Err(nothing),
        None => Ok(answer.text),
    }
}

/// Makes the calls of one answer, in their order.
async fn results(
    turn: &AgentTurn,
    calls: &[ToolCall],
    cancel: &CancellationToken,
) -> Result<Vec<Block>, AgentError> {
    let mut results = Vec::with_capacity(calls.len());
    for (index, call) in calls.iter().enumerate() {
        if cancel.is_cancelled() {
            return Err(AgentError::Cancelled);
        }
        let output = if index < CALLS_MAX {
            turn.tools.call(call).await
        } else {
            ToolOutput::refused(format!(
                "not done: at most {CALLS_MAX} calls are made at once"
            ))
        };
        results.push(Block::ToolResult {
            tool_use_id: call.id.clone(),
            content: output.content,
            is_error: output.is_error,
        });
    }
    Ok(results)
}

fn row(role: Role, blocks: Vec<Block>) -> NewEntry {
    NewEntry {
        role,
        content: Content::Blocks(blocks),
        framed: None,
    }
}

/// What all requests of a turn came to.
fn sum(so_far: Option<Usage>, more: Option<Usage>) -> Option<Usage> {
    match (so_far, more) {
        (Some(one), Some(other)) => Some(Usage {
            input_tokens: one.input_tokens.saturating_add(other.input_tokens),
            output_tokens: one.output_tokens.saturating_add(other.output_tokens),
        }),
        (one, other) => one.or(other),
    }
}
