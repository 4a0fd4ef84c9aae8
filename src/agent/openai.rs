//! Any server of OpenAI's chat completions.

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
    directory::{ChatDialect, ModelEndpoint, ReplayMode},
    http_client::HttpSetupError,
    replay::Family,
    transcript::Block,
};

/// Asks a model by chat completions.
#[derive(Debug)]
pub struct OpenAi(Model);

const API: Api = Api {
    family: Family::OpenAiChat,
    authorise: steps::bearer,
    read,
};

impl OpenAi {
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
            "chat/completions",
            system,
            API,
        )?))
    }

    /// What the server demands of a conversation.
    #[must_use]
    pub fn with_dialect(mut self, dialect: ChatDialect) -> Self {
        self.0.conversation.family = match dialect {
            ChatDialect::OpenAi => Family::OpenAiChat,
            ChatDialect::Mistral => Family::Mistral,
            ChatDialect::Strict => Family::StrictChat,
        };
        self
    }

    /// How a person's messages are replayed.
    #[must_use]
    pub fn with_replay(mut self, mode: ReplayMode) -> Self {
        self.0.conversation.mode = mode;
        self
    }
}

#[async_trait]
impl Agent for OpenAi {
    async fn reply(
        &self,
        turn: &AgentTurn,
        cancel: &CancellationToken,
    ) -> Result<AgentReply, AgentError> {
        self.0.reply(turn, cancel).await
    }
}

fn read(answer: &Value) -> Result<Answer, AgentError> {
    let choice = answer
        .get("choices")
        .and_then(|choices| choices.get(0))
        .ok_or_else(|| missing("choices[0]"))?;
    let message = choice
        .get("message")
        .filter(|message| message.is_object())
        .ok_or_else(|| missing("choices[0].message"))?;
    let text = match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => joined(parts),
        Some(Value::Null) | None => String::new(),
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
            return Err(missing("choices[0].message.content"));
        }
    };
    let mut blocks = Vec::new();
    if !text.trim().is_empty() {
        blocks.push(Block::Text { text: text.clone() });
    }
    blocks.extend(calls(message)?);
    let usage = counted(answer, "usage", |usage| Usage {
        input_tokens: tokens(usage, "prompt_tokens"),
        output_tokens: tokens(usage, "completion_tokens"),
    });
    let nothing = || without_words(choice);
    let is_cut = choice.get("finish_reason").and_then(Value::as_str) == Some("length");
    Ok(Answer {
        is_cut,
        ..Answer::of(blocks, text, usage, nothing)
    })
}

fn calls(message: &Value) -> Result<Vec<Block>, AgentError> {
    let calls = match message.get("tool_calls") {
        Some(Value::Array(calls)) => calls.as_slice(),
        Some(_) | None => &[],
    };
    let call = |(index, call): (usize, &Value)| {
        let name = call.pointer("/function/name").and_then(Value::as_str);
        let name = name.ok_or_else(|| missing("choices[0].message.tool_calls[].function.name"))?;
        let id = call.get("id").and_then(Value::as_str);
        let input = match call.pointer("/function/arguments") {
            Some(Value::String(text)) => arguments(text),
            // Some servers give the object itself.
            Some(object) => object.clone(),
            None => arguments(""),
        };
        Ok(Block::ToolUse {
            id: id.map_or_else(|| format!("call{index}"), str::to_owned),
            name: name.to_owned(),
            input,
        })
    };
    calls.iter().enumerate().map(call).collect()
}

fn joined(parts: &[Value]) -> String {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| part.get("text")?.as_str())
        .collect();
    texts.join("\n\n")
}

/// An answer without words: by rule, or by chance.
fn without_words(choice: &Value) -> AgentError {
    match choice.get("finish_reason").and_then(Value::as_str) {
        Some("content_filter") => {
            permanent("the model's server withheld the answer (`content_filter`)")
        }
        Some("length") => permanent(
            "the model's answer has no words: `max_tokens` was used up before the first (`length`)",
        ),
        Some(_) | None => {
            transient("the model's answer has no words (`choices[0].message.content`)")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(message: Value, reason: &str) -> Result<AgentReply, AgentError> {
        let answer = read(&json!({
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5},
        }));
        answer.and_then(Answer::words)
    }

    #[test]
    fn an_answer_is_its_text_and_its_counts() {
        let reply = answer(json!({"role": "assistant", "content": " hi\n"}), "stop").unwrap();
        assert_eq!(reply.text, " hi\n");
        let counted = Usage {
            input_tokens: 10,
            output_tokens: 5,
        };
        assert_eq!(reply.usage, Some(counted));
        let parts =
            json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]});
        assert_eq!(answer(parts, "stop").unwrap().text, "a\n\nb");
        let whole = answer(json!({"content": "x", "tool_calls": []}), "stop").unwrap();
        assert!(!whole.is_cut);
        let cut = answer(json!({"content": "x"}), "length").unwrap();
        assert!(cut.is_cut);
    }

    #[test]
    fn a_broken_answer_names_the_part_and_has_a_class() {
        let permanent = |result: Result<AgentReply, AgentError>, part: &str| {
            let error = result.unwrap_err();
            assert!(matches!(error, AgentError::Permanent { .. }), "{error}");
            assert!(error.to_string().contains(part), "{error}");
        };
        permanent(
            read(&json!({"object": "list"})).and_then(Answer::words),
            "choices[0]",
        );
        permanent(
            read(&json!({"choices": []})).and_then(Answer::words),
            "choices[0]",
        );
        permanent(
            read(&json!({"choices": [{"text": "old"}]})).and_then(Answer::words),
            "message",
        );
        permanent(answer(json!({"content": 5}), "stop"), "content");
        permanent(
            answer(
                json!({"content": null, "tool_calls": [{"id": "x"}]}),
                "tool_calls",
            ),
            "tool_calls",
        );
        permanent(answer(json!({"content": ""}), "length"), "max_tokens");
        permanent(answer(json!({"content": ""}), "content_filter"), "withheld");
        let empty = answer(json!({"content": " "}), "stop").unwrap_err();
        assert!(matches!(empty, AgentError::Transient { .. }));
    }

    #[test]
    fn calls_are_read_beside_words_whatever_their_arguments() {
        let call = |id: &str, arguments: Value| {
            json!({"id": id, "type": "function",
            "function": {"name": "look", "arguments": arguments}})
        };
        let calls = [
            call("c1", json!("{\"q\":1}")),
            call("c2", json!("")),
            call("c3", json!("{broken")),
        ];
        let answer = read(&json!({"choices": [{"message":
            {"content": "One moment.", "tool_calls": calls}}]}));
        let used = |id: &str, input: Value| Block::ToolUse {
            id: id.to_owned(),
            name: "look".to_owned(),
            input,
        };
        let expected = [
            Block::Text {
                text: "One moment.".to_owned(),
            },
            used("c1", json!({"q": 1})),
            used("c2", json!({})),
            used("c3", json!("{broken")),
        ];
        assert_eq!(answer.unwrap().blocks, expected);
    }
}
