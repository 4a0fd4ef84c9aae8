//! Anthropic's Messages, and servers that speak it.

use async_trait::async_trait;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Agent, AgentError, AgentReply, AgentTurn, Usage,
    exchange::{Endpoint, exchange, missing, permanent, tokens, transient},
};
use crate::{
    directory::ModelEndpoint,
    http_client::HttpSetupError,
    replay::{self, Family},
};

/// The version of the API that is spoken.
const VERSION: &str = "2023-06-01";
/// The API demands a number.
const MAX_TOKENS: u32 = 4096;

/// Asks a model by the Messages API.
#[derive(Debug)]
pub struct Anthropic {
    endpoint: Endpoint,
    system: String,
}

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
        Ok(Self {
            endpoint: Endpoint::new(settings, api_key, "messages")?,
            system: replay::system_prompt(system),
        })
    }

    fn body(&self, turn: &AgentTurn) -> Value {
        let family = Family::AnthropicMessages;
        let messages = replay::project(&turn.history, &turn.prompt, family);
        let settings = &self.endpoint.settings;
        let mut body = json!({
            "model": settings.model,
            "max_tokens": settings.max_tokens.unwrap_or(MAX_TOKENS),
            "system": self.system,
            "messages": replay::to_json(&messages, family),
        });
        if let Some(temperature) = settings.temperature {
            body["temperature"] = json!(temperature);
        }
        // A history with tool calls is refused unless their tools are declared; none may be called.
        let tools: Vec<Value> = replay::tools_called(&messages)
            .into_iter()
            .map(|name| json!({"name": name, "input_schema": {"type": "object"}}))
            .collect();
        if !tools.is_empty() {
            body["tools"] = Value::Array(tools);
            body["tool_choice"] = json!({"type": "none"});
        }
        body
    }
}

#[async_trait]
impl Agent for Anthropic {
    async fn reply(
        &self,
        turn: &AgentTurn,
        cancel: &CancellationToken,
    ) -> Result<AgentReply, AgentError> {
        let endpoint = &self.endpoint;
        let mut request = endpoint
            .client
            .post(endpoint.url.clone())
            .header("anthropic-version", VERSION)
            .json(&self.body(turn));
        if let Some(key) = &endpoint.api_key {
            request = request.header("x-api-key", secret_header(key)?);
        }
        read(&exchange(request, cancel).await?)
    }
}

/// Marked, so that no log of headers shows it.
fn secret_header(key: &SecretString) -> Result<reqwest::header::HeaderValue, AgentError> {
    let mut value = reqwest::header::HeaderValue::from_str(key.expose_secret())
        .map_err(|_| permanent("the API key has a character that no header can hold"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn read(answer: &Value) -> Result<AgentReply, AgentError> {
    let blocks = answer
        .get("content")
        .and_then(Value::as_array)
        .ok_or_else(|| missing("content"))?;
    let kind = |block: &Value| {
        block
            .get("type")
            .and_then(Value::as_str)
            .map(str::to_owned)
            .unwrap_or_default()
    };
    if blocks.iter().any(|block| kind(block) == "tool_use") {
        return Err(permanent(
            "the model's answer has a `tool_use` block, though no tool was offered",
        ));
    }
    let mut text = String::new();
    for block in blocks.iter().filter(|block| kind(block) == "text") {
        let words = block
            .get("text")
            .and_then(Value::as_str)
            .ok_or_else(|| missing("content[].text"))?;
        text.push_str(words);
    }
    if text.trim().is_empty() {
        return Err(without_words(answer));
    }
    Ok(AgentReply {
        interior: Vec::new(),
        text,
        usage: answer
            .get("usage")
            .filter(|usage| usage.is_object())
            .map(usage),
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
    use super::*;

    #[test]
    fn text_blocks_are_joined_and_all_input_is_counted() {
        let reply = read(&json!({
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
                "tool_use",
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
            let error = read(&answer).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
            assert_eq!(matches!(error, AgentError::Permanent { .. }), permanent);
        }
    }
}
