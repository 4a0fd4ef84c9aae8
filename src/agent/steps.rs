//! A turn as steps: the model is asked, what it calls is done, and it is asked again with the results.

use reqwest::RequestBuilder;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    AgentError, AgentReply, AgentTurn, ToolCall, ToolOutput, Usage,
    exchange::{Conversation, Endpoint, exchange, permanent},
};
use crate::{
    directory::ModelEndpoint,
    http_client::HttpSetupError,
    replay::{Family, ToolCalls},
    transcript::{Block, NewEntry, Role},
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
    /// Whether the provider says that it was cut at its longest.
    pub(super) is_cut: bool,
    /// Why there are neither words nor calls, where there are none.
    pub(super) nothing: Option<AgentError>,
}

impl Answer {
    /// What an answer came to; `nothing` says why there is nothing in it, where that is so.
    pub(super) fn of(
        blocks: Vec<Block>,
        text: String,
        usage: Option<Usage>,
        nothing: impl FnOnce() -> AgentError,
    ) -> Self {
        let is_call = |block: &Block| matches!(block, Block::ToolUse { .. });
        let is_nothing = text.trim().is_empty() && !blocks.iter().any(is_call);
        Self {
            nothing: is_nothing.then(nothing),
            blocks,
            text,
            usage,
            is_cut: false,
        }
    }

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
                is_cut: self.is_cut,
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

/// What differs between providers, besides the words of their requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Api {
    /// The rules of its conversations.
    pub(super) family: Family,
    /// Adds the key, and what else the provider wants in the headers of a request.
    pub(super) authorise: fn(RequestBuilder, Option<&SecretString>) -> Authorised,
    /// Reads an answer.
    pub(super) read: fn(&Value) -> Result<Answer, AgentError>,
}

/// A request with its headers; a key may be none that can be sent.
pub(super) type Authorised = Result<RequestBuilder, AgentError>;

/// Sends a key as a bearer token.
pub(super) fn bearer(request: RequestBuilder, key: Option<&SecretString>) -> Authorised {
    Ok(match key {
        Some(key) => request.bearer_auth(key.expose_secret()),
        None => request,
    })
}

/// A model behind a provider's API.
#[derive(Debug)]
pub(super) struct Model {
    endpoint: Endpoint,
    pub(super) conversation: Conversation,
    api: Api,
}

impl Model {
    /// `path` is the method's, below the API's root; `system` is the agent's own system prompt.
    ///
    /// # Errors
    /// [`HttpSetupError`] if the settings' `base_url` cannot be used.
    pub(super) fn new(
        settings: ModelEndpoint,
        api_key: Option<SecretString>,
        path: &str,
        system: Option<&str>,
        api: Api,
    ) -> Result<Self, HttpSetupError> {
        Ok(Self {
            endpoint: Endpoint::new(settings, api_key, path)?,
            conversation: Conversation::new(system, api.family),
            api,
        })
    }

    /// Runs a turn to its answer in words.
    pub(super) async fn reply(
        &self,
        turn: &AgentTurn,
        cancel: &CancellationToken,
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
            let answer = self.ask(turn, &asked, tool_calls, cancel).await?;
            usage = sum(usage, answer.usage);
            let calls = answer.calls();
            if calls.is_empty() {
                let is_cut = answer.is_cut;
                let text = words_after(step, answer)?;
                let interior = asked.split_off(turn.prompt.len());
                return Ok(AgentReply {
                    interior,
                    text,
                    usage,
                    is_cut,
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
            asked.push(NewEntry::blocks(Role::Assistant, answer.blocks));
            let results = results(turn, &calls, cancel).await?;
            asked.push(NewEntry::blocks(Role::Tool, results));
        }
        Err(permanent(format!(
            "the model called tools {STEPS_MAX} times and then again, instead of answering"
        )))
    }

    async fn ask(
        &self,
        turn: &AgentTurn,
        asked: &[NewEntry],
        tool_calls: ToolCalls,
        cancel: &CancellationToken,
    ) -> Result<Answer, AgentError> {
        let Endpoint {
            client,
            url,
            settings,
            api_key,
        } = &self.endpoint;
        let body = self.conversation.body(settings, turn, asked, tool_calls);
        let request = client.post(url.clone()).json(&body);
        let request = (self.api.authorise)(request, api_key.as_ref())?;
        (self.api.read)(&exchange(request, cancel).await?)
    }
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
