//! Gemini's generateContent.

use async_trait::async_trait;
use reqwest::RequestBuilder;
use secrecy::SecretString;
use serde_json::{Value, json};
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

/// Asks a model by generateContent.
#[derive(Debug)]
pub struct Gemini(Model);

const API: Api = Api {
    family: Family::Gemini,
    authorise,
    read,
};

impl Gemini {
    /// A model, with the agent's own system prompt. The model's name is part of the address.
    ///
    /// # Errors
    /// [`HttpSetupError`] if the settings' `base_url` cannot be used.
    pub fn new(
        settings: ModelEndpoint,
        api_key: Option<SecretString>,
        system: Option<&str>,
    ) -> Result<Self, HttpSetupError> {
        let path = if settings.model.contains('/') {
            format!("{}:generateContent", settings.model)
        } else {
            format!("models/{}:generateContent", settings.model)
        };
        Ok(Self(Model::new(settings, api_key, &path, system, API)?))
    }

    /// How a person's messages are replayed.
    #[must_use]
    pub fn with_replay(mut self, mode: ReplayMode) -> Self {
        self.0.conversation.mode = mode;
        self
    }
}

#[async_trait]
impl Agent for Gemini {
    async fn reply(
        &self,
        turn: &AgentTurn,
        cancel: &CancellationToken,
    ) -> Result<AgentReply, AgentError> {
        self.0.reply(turn, cancel).await
    }
}

fn authorise(request: RequestBuilder, key: Option<&SecretString>) -> Authorised {
    Ok(match key {
        Some(key) => request.header("x-goog-api-key", secret_header(key)?),
        None => request,
    })
}

fn read(answer: &Value) -> Result<Answer, AgentError> {
    let blocked = answer.pointer("/promptFeedback/blockReason");
    let Some(candidate) = answer.pointer("/candidates/0") else {
        return Err(match blocked {
            Some(_) => permanent("the model's server refused the request (`promptFeedback`)"),
            None => missing("candidates[0]"),
        });
    };
    let empty = Vec::new();
    let parts = match candidate.pointer("/content/parts") {
        Some(Value::Array(parts)) => parts,
        // A candidate that says nothing has no parts, and a reason.
        None if candidate.get("finishReason").is_some() => &empty,
        Some(_) | None => return Err(missing("candidates[0].content.parts")),
    };
    let mut text = String::new();
    let mut blocks = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        if let Some(call) = part.get("functionCall") {
            blocks.extend(called(index, part, call)?);
            continue;
        }
        let is_thought = part.get("thought").and_then(Value::as_bool) == Some(true);
        match part.get("text") {
            Some(Value::String(words)) if !is_thought => {
                text.push_str(words);
                let text = words.clone();
                blocks.push(Block::Text { text });
            }
            Some(Value::String(_)) | None => {}
            Some(_) => return Err(missing("candidates[0].content.parts[].text")),
        }
    }
    let usage = counted(answer, "usageMetadata", usage);
    let nothing = || without_words(candidate);
    let is_cut = candidate.get("finishReason").and_then(Value::as_str) == Some("MAX_TOKENS");
    Ok(Answer {
        is_cut,
        ..Answer::of(blocks, text, usage, nothing)
    })
}

/// A call, behind the signature that has to come back with it.
fn called(index: usize, part: &Value, call: &Value) -> Result<Vec<Block>, AgentError> {
    let word = |field: &str| call.get(field).and_then(Value::as_str);
    let name = word("name");
    let name = name.ok_or_else(|| missing("candidates[0].content.parts[].functionCall.name"))?;
    let signature = part
        .get("thoughtSignature")
        .map(|signature| json!({"type": "thought_signature", "signature": signature}));
    let call = Block::ToolUse {
        // Older models give calls no id.
        id: word("id").map_or_else(|| format!("call{index}"), str::to_owned),
        name: name.to_owned(),
        input: call.get("args").cloned().unwrap_or_else(|| arguments("")),
    };
    Ok(signature
        .map(Block::Opaque)
        .into_iter()
        .chain([call])
        .collect())
}

/// Thinking is part of the answer that is paid for.
fn usage(usage: &Value) -> Usage {
    Usage {
        input_tokens: tokens(usage, "promptTokenCount"),
        output_tokens: tokens(usage, "candidatesTokenCount") + tokens(usage, "thoughtsTokenCount"),
    }
}

/// An answer without words: by rule, or by chance.
fn without_words(candidate: &Value) -> AgentError {
    match candidate.get("finishReason").and_then(Value::as_str) {
        Some("MAX_TOKENS") => permanent(
            "the model's answer has no words: `max_tokens` was used up before the first (`MAX_TOKENS`)",
        ),
        Some("SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII") => {
            permanent("the model's server withheld the answer (`finishReason`)")
        }
        Some(_) | None => transient("the model's answer has no words (`candidates[0].content`)"),
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
    fn texts_are_joined_without_thoughts_and_all_output_is_counted() {
        let reply = spoken(&json!({
            "candidates": [{"content": {"role": "model", "parts": [
                {"text": "hm", "thought": true},
                {"text": "one ", "thoughtSignature": "s"},
                {"text": "two"},
            ]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 7, "thoughtsTokenCount": 5},
        }))
        .unwrap();
        assert_eq!(reply.text, "one two");
        let counted = Usage {
            input_tokens: 3,
            output_tokens: 12,
        };
        assert_eq!(reply.usage, Some(counted));
    }

    #[test]
    fn a_broken_answer_names_the_part_and_has_a_class() {
        let ended = |reason: &str| json!({"candidates": [{"finishReason": reason}]});
        let parts = |parts: Value| json!({"candidates": [{"content": {"parts": parts}}]});
        let table = [
            (json!({}), "candidates[0]", true),
            (json!({"candidates": []}), "candidates[0]", true),
            (
                json!({"promptFeedback": {"blockReason": "SAFETY"}}),
                "promptFeedback",
                true,
            ),
            (json!({"candidates": [{}]}), "content.parts", true),
            (parts(json!("words")), "content.parts", true),
            (parts(json!([{"text": 5}])), "parts[].text", true),
            (
                parts(json!([{"functionCall": {"args": {}}}])),
                "functionCall.name",
                true,
            ),
            (ended("SAFETY"), "withheld", true),
            (ended("MAX_TOKENS"), "max_tokens", true),
            (ended("STOP"), "no words", false),
            (parts(json!([])), "no words", false),
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
    fn a_call_keeps_its_signature_and_gets_an_id() {
        let call = json!({"functionCall": {"name": "look", "args": {"q": "x"}},
            "thoughtSignature": "s1"});
        let answer = read(&json!({"candidates": [
            {"content": {"parts": [{"text": "One moment."}, call, {"functionCall": {"name": "look"}}]}}
        ]}));
        let used = |id: &str, input: Value| Block::ToolUse {
            id: id.to_owned(),
            name: "look".to_owned(),
            input,
        };
        let signature = json!({"type": "thought_signature", "signature": "s1"});
        let expected = [
            Block::Text {
                text: "One moment.".to_owned(),
            },
            Block::Opaque(signature),
            used("call1", json!({"q": "x"})),
            used("call2", json!({})),
        ];
        assert_eq!(answer.unwrap().blocks, expected);
    }
}
