//! OpenAI's Responses.

use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    Agent, AgentError, AgentReply, AgentTurn, Usage,
    exchange::{counted, missing, permanent, tokens, transient},
    steps::{self, Answer, Api, Model, arguments},
};
use crate::{
    directory::{ModelEndpoint, ReplayMode},
    http_client::HttpSetupError,
    replay::Family,
    transcript::Block,
};

/// Asks a model by Responses.
#[derive(Debug)]
pub struct OpenAiResponses(Model);

const API: Api = Api {
    family: Family::OpenAiResponses,
    authorise: steps::bearer,
    read,
};

impl OpenAiResponses {
    /// A model, with the agent's own system prompt. A key is sent as a bearer token.
    ///
    /// # Errors
    /// [`HttpSetupError`] if the settings' `base_url` cannot be used.
    pub fn new(
        settings: ModelEndpoint,
        api_key: Option<SecretString>,
        system: Option<&str>,
    ) -> Result<Self, HttpSetupError> {
        Ok(Self(Model::new(
            settings,
            api_key,
            "responses",
            system,
            API,
        )?))
    }

    /// How a person's messages are replayed.
    #[must_use]
    pub fn with_replay(mut self, mode: ReplayMode) -> Self {
        self.0.conversation.mode = mode;
        self
    }
}

#[async_trait]
impl Agent for OpenAiResponses {
    async fn reply(
        &self,
        turn: &AgentTurn,
        cancel: &CancellationToken,
    ) -> Result<AgentReply, AgentError> {
        self.0.reply(turn, cancel).await
    }
}

fn read(answer: &Value) -> Result<Answer, AgentError> {
    if word(answer, "/status") == Some("failed") {
        return Err(failed(answer));
    }
    let items = answer
        .get("output")
        .and_then(Value::as_array)
        .ok_or_else(|| missing("output"))?;
    let mut said = Said::default();
    for item in items {
        match word(item, "/type") {
            Some("message") => said.message(item)?,
            Some("function_call") => said.call(item)?,
            // Without its content the server looks for an item that it was asked not to keep.
            Some("reasoning") if item.get("encrypted_content").is_some() => {
                said.blocks.push(Block::Opaque(item.clone()));
            }
            Some(_) => {}
            None => return Err(missing("output[].type")),
        }
    }
    let usage = counted(answer, "usage", |usage| Usage {
        input_tokens: tokens(usage, "input_tokens"),
        output_tokens: tokens(usage, "output_tokens"),
    });
    let nothing = || {
        if said.refused {
            permanent("the model refused to answer (`refusal`)")
        } else {
            without_words(answer)
        }
    };
    let is_cut = word(answer, "/incomplete_details/reason") == Some("max_output_tokens");
    Ok(Answer {
        is_cut,
        ..Answer::of(said.blocks, said.text, usage, nothing)
    })
}

/// What the items of an answer say, as they are read.
#[derive(Default)]
struct Said {
    blocks: Vec<Block>,
    text: String,
    refused: bool,
}

impl Said {
    fn message(&mut self, item: &Value) -> Result<(), AgentError> {
        let parts = item
            .get("content")
            .and_then(Value::as_array)
            .ok_or_else(|| missing("output[].content"))?;
        for part in parts {
            match word(part, "/type") {
                Some("output_text") => {
                    let text = word(part, "/text");
                    let text = text.ok_or_else(|| missing("output[].content[].text"))?;
                    self.text.push_str(text);
                    let text = text.to_owned();
                    self.blocks.push(Block::Text { text });
                }
                Some("refusal") => self.refused = true,
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    fn call(&mut self, item: &Value) -> Result<(), AgentError> {
        let name = word(item, "/name").ok_or_else(|| missing("output[].name"))?;
        let id = word(item, "/call_id").ok_or_else(|| missing("output[].call_id"))?;
        self.blocks.push(Block::ToolUse {
            id: id.to_owned(),
            name: name.to_owned(),
            input: arguments(word(item, "/arguments").unwrap_or_default()),
        });
        Ok(())
    }
}

fn word<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// A response that the server itself calls failed.
fn failed(answer: &Value) -> AgentError {
    match word(answer, "/error/code") {
        Some("rate_limit_exceeded") => {
            transient("the model's server gave up on the answer (`rate_limit_exceeded`)")
        }
        Some("invalid_prompt") => {
            permanent("the model's server refused the request (`invalid_prompt`)")
        }
        Some(_) | None => transient("the model's server gave up on the answer (`failed`)"),
    }
}

/// An answer without words: by rule, or by chance.
fn without_words(answer: &Value) -> AgentError {
    match word(answer, "/incomplete_details/reason") {
        Some("content_filter") => {
            permanent("the model's server withheld the answer (`content_filter`)")
        }
        Some("max_output_tokens") => permanent(
            "the model's answer has no words: `max_tokens` was used up before the first (`max_output_tokens`)",
        ),
        Some(_) | None => transient("the model's answer has no words (`output`)"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spoken(answer: &Value) -> Result<AgentReply, AgentError> {
        read(answer).and_then(Answer::words)
    }

    #[test]
    fn an_answer_is_the_text_of_its_messages_and_its_counts() {
        let reply = spoken(&json!({
            "status": "completed",
            "output": [
                {"type": "reasoning", "id": "r", "summary": []},
                {"type": "message", "role": "assistant", "content": [
                    {"type": "output_text", "text": "one ", "annotations": []},
                    {"type": "output_text", "text": "two"},
                ]},
            ],
            "usage": {"input_tokens": 3, "output_tokens": 7},
        }))
        .unwrap();
        assert_eq!(reply.text, "one two");
        let counted = Usage {
            input_tokens: 3,
            output_tokens: 7,
        };
        assert_eq!(reply.usage, Some(counted));
    }

    #[test]
    fn a_broken_answer_names_the_part_and_has_a_class() {
        let part = |part: Value| json!({"output": [{"type": "message", "content": [part]}]});
        let ended = |reason: &str| json!({"output": [], "incomplete_details": {"reason": reason}});
        let failed = |code: &str| json!({"status": "failed", "error": {"code": code}});
        let table = [
            (json!({}), "`output`", true),
            (json!({"output": "words"}), "`output`", true),
            (json!({"output": [{}]}), "output[].type", true),
            (
                json!({"output": [{"type": "message", "content": "x"}]}),
                "output[].content",
                true,
            ),
            (part(json!({"type": "output_text"})), "content[].text", true),
            (
                part(json!({"type": "refusal", "refusal": "no"})),
                "refused",
                true,
            ),
            (
                json!({"output": [{"type": "function_call"}]}),
                "output[].name",
                true,
            ),
            (ended("max_output_tokens"), "max_tokens", true),
            (ended("content_filter"), "withheld", true),
            (json!({"output": []}), "no words", false),
            (failed("invalid_prompt"), "invalid_prompt", true),
            (failed("rate_limit_exceeded"), "rate_limit", false),
            (failed("server_error"), "failed", false),
        ];
        for (answer, part, permanent) in table {
            let error = spoken(&answer).unwrap_err();
            assert!(error.to_string().contains(part), "{answer}: {error}");
            assert_eq!(
                matches!(error, AgentError::Permanent { .. }),
                permanent,
                "{answer}"
            );
        }
    }

    #[test]
    fn a_call_is_read_with_the_reasoning_that_can_come_back() {
        let kept = json!({"type": "reasoning", "encrypted_content": "e"});
        let answer = read(&json!({"output": [
            {"type": "reasoning", "summary": []},
            kept,
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{\"q\":1}"},
            {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{broken"},
        ]}));
        let used = |id: &str, input: Value| Block::ToolUse {
            id: id.to_owned(),
            name: "look".to_owned(),
            input,
        };
        let expected = [
            Block::Opaque(kept),
            used("c1", json!({"q": 1})),
            used("c2", json!("{broken")),
        ];
        assert_eq!(answer.unwrap().blocks, expected);
    }
}
