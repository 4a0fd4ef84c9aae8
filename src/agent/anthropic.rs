//! Anthropic's Messages, and servers that speak it.

use async_trait::async_trait;
use reqwest::RequestBuilder;
use secrecy::SecretString;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    Agent, AgentError, AgentReply, AgentTurn, Usage,
    exchange::{counted, missing, permanent, secret_header, tokens, transient},
    steps::{Answer, Api, Authorised, Model, arguments},
};
use crate::{
    directory::{ModelEndpoint, ReplayMode},
    http_client::HttpSetupError,
    replay::Family,
    transcript::Block,
};

/// The version of the API that is spoken.
const VERSION: &str = "2023-06-01";

/// Asks a model by the Messages API.
#[derive(Debug)]
pub struct Anthropic(Model);

const API: Api = Api {
    family: Family::AnthropicMessages,
    authorise,
    read,
};

impl Anthropic {
    /// A model, with the agent's own system prompt.
    ///
    /// # Errors
    /// [`HttpSetupError`] if the settings' `base_url` cannot be used.
    pub fn new(
        settings: ModelEndpoint,
        api_key: Option<SecretString>,
        system: Option<&str>,
    ) -> Result<Self, HttpSetupError> {
        Ok(Self(Model::new(
            settings, api_key, "messages", system, API,
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
impl Agent for Anthropic {
    async fn reply(
        &self,
        turn: &AgentTurn,
        cancel: &CancellationToken,
    ) -> Result<AgentReply, AgentError> {
        self.0.reply(turn, cancel).await
    }
}

fn authorise(request: RequestBuilder, key: Option<&SecretString>) -> Authorised {
    let request = request.header("anthropic-version", VERSION);
    Ok(match key {
        Some(key) => request.header("x-api-key", secret_header(key)?),
        None => request,
    })
}

fn read(answer: &Value) -> Result<Answer, AgentError> {
    let content = answer
        .get("content")
        .and_then(Value::as_array)
        .ok_or_else(|| missing("content"))?;
    let mut blocks = Vec::new();
    let mut text = String::new();
    for block in content {
        let word = |field: &str| block.get(field).and_then(Value::as_str);
        match word("type") {
            Some("text") => {
                let words = word("text").ok_or_else(|| missing("content[].text"))?;
                text.push_str(words);
                let text = words.to_owned();
                blocks.push(Block::Text { text });
            }
            Some("tool_use") => blocks.push(Block::ToolUse {
                id: word("id")
                    .ok_or_else(|| missing("content[].id"))?
                    .to_owned(),
                name: word("name")
                    .ok_or_else(|| missing("content[].name"))?
                    .to_owned(),
                input: block.get("input").cloned().unwrap_or_else(|| arguments("")),
            }),
            // Thinking has to come back before the calls that it led to.
            Some("thinking" | "redacted_thinking") => blocks.push(Block::Opaque(block.clone())),
            Some(_) | None => {}
        }
    }
    let usage = counted(answer, "usage", usage);
    let nothing = || without_words(answer);
    let is_cut = answer.get("stop_reason").and_then(Value::as_str) == Some("max_tokens");
    Ok(Answer {
        is_cut,
        ..Answer::of(blocks, text, usage, nothing)
    })
}

/// What was read from or written to the prompt cache was part of the request too.
fn usage(usage: &Value) -> Usage {
    let input = [
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
    ];
    Usage {
        input_tokens: input.into_iter().map(|field| tokens(usage, field)).sum(),
        output_tokens: tokens(usage, "output_tokens"),
    }
}

/// An answer without words: by rule, or by chance.
fn without_words(answer: &Value) -> AgentError {
    match answer.get("stop_reason").and_then(Value::as_str) {
        Some("refusal") => permanent("the model refused to answer (`refusal`)"),
        Some("max_tokens") => {
            permanent("the model's answer has no words: `max_tokens` was used up before the first")
        }
        Some(_) | None => transient("the model's answer has no words (`content`)"),
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
    fn text_blocks_are_joined_and_all_input_is_counted() {
        let reply = spoken(&json!({
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "one "},
                {"type": "text", "text": "two"},
            ],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 3, "cache_read_input_tokens": 100, "output_tokens": 7},
        }))
        .unwrap();
        assert_eq!(reply.text, "one two");
        assert_eq!(
            reply.usage,
            Some(Usage {
                input_tokens: 103,
                output_tokens: 7
            })
        );
    }

    #[test]
    fn a_broken_answer_names_the_part_and_has_a_class() {
        let table = [
            (json!({"type": "message"}), "`content`", true),
            (json!({"content": "words"}), "`content`", true),
            (json!({"content": [{"type": "text"}]}), "text", true),
            (
                json!({"content": [{"type": "tool_use", "id": "x"}]}),
                "content[].name",
                true,
            ),
            (
                json!({"content": [], "stop_reason": "refusal"}),
                "refused",
                true,
            ),
            (
                json!({"content": [], "stop_reason": "max_tokens"}),
                "max_tokens",
                true,
            ),
            (
                json!({"content": [], "stop_reason": "end_turn"}),
                "no words",
                false,
            ),
        ];
        for (answer, part, permanent) in table {
            let error = spoken(&answer).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
            assert_eq!(matches!(error, AgentError::Permanent { .. }), permanent);
        }
    }

    #[test]
    fn a_call_is_read_behind_the_thinking_that_led_to_it() {
        let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
        let answer = read(&json!({"content": [
            thinking,
            {"type": "text", "text": "One moment."},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {"q": 1}},
        ], "stop_reason": "tool_use"}));
        let expected = [
            Block::Opaque(thinking),
            Block::Text {
                text: "One moment.".to_owned(),
            },
            Block::ToolUse {
                id: "c1".to_owned(),
                name: "look".to_owned(),
                input: json!({"q": 1}),
            },
        ];
        assert_eq!(answer.unwrap().blocks, expected);
    }
}
