//! A whole request: the messages, with the system prompt and the settings where a provider wants them.

use serde_json::{Value, json};

use super::{Family, Message, to_json, tools_called};

/// Anthropic's API demands a number.
const ANTHROPIC_MAX_TOKENS: u32 = 4096;

/// What a request says besides the conversation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings<'a> {
    /// The model's name. Gemini and Bedrock have it in the address, not in the request.
    pub model: &'a str,
    /// The system prompt, as [`super::system_prompt`] makes it.
    pub system: &'a str,
    /// The most tokens of the answer; the provider's default if `None`.
    pub max_tokens: Option<u32>,
    /// The sampling temperature; the provider's default if `None`.
    pub temperature: Option<f64>,
}

/// The JSON body of a request for the next answer. No tool may be called.
pub fn request(messages: &[Message], family: Family, settings: &Settings<'_>) -> Value {
    let list = to_json(messages, family);
    match family {
        Family::OpenAiChat | Family::Mistral | Family::StrictChat => chat(list, settings),
        Family::OpenAiResponses => responses(list, settings),
        Family::AnthropicMessages => anthropic(list, &tools_called(messages), settings),
        Family::Gemini => gemini(list, settings),
        Family::BedrockConverse => bedrock(list, &tools_called(messages), settings),
    }
}

fn chat(list: Vec<Value>, settings: &Settings<'_>) -> Value {
    let mut messages = vec![json!({"role": "system", "content": settings.system})];
    messages.extend(list);
    let mut body = json!({"model": settings.model, "messages": messages});
    // The older name of the limit, which every server knows.
    set_limits(&mut body, settings, "max_tokens");
    body
}

fn responses(items: Vec<Value>, settings: &Settings<'_>) -> Value {
    let mut body = json!({
        "model": settings.model,
        "instructions": settings.system,
        "input": items,
        // The whole history is sent each time; the server need not keep it.
        "store": false,
    });
    set_limits(&mut body, settings, "max_output_tokens");
    body
}

fn anthropic(messages: Vec<Value>, tools: &[&str], settings: &Settings<'_>) -> Value {
    let mut body = json!({
        "model": settings.model,
        "max_tokens": settings.max_tokens.unwrap_or(ANTHROPIC_MAX_TOKENS),
        "system": settings.system,
        "messages": messages,
    });
    if let Some(temperature) = settings.temperature {
        body["temperature"] = json!(temperature);
    }
    // A history with tool calls is refused unless their tools are declared; none may be called.
    if !tools.is_empty() {
        let tool = |name: &&str| json!({"name": name, "input_schema": {"type": "object"}});
        body["tools"] = tools.iter().map(tool).collect();
        body["tool_choice"] = json!({"type": "none"});
    }
    body
}

fn gemini(contents: Vec<Value>, settings: &Settings<'_>) -> Value {
    let mut body = json!({
        "systemInstruction": {"parts": [{"text": settings.system}]},
        "contents": contents,
    });
    let mut limits = json!({});
    set_limits(&mut limits, settings, "maxOutputTokens");
    if limits != json!({}) {
        body["generationConfig"] = limits;
    }
    body
}

fn bedrock(messages: Vec<Value>, tools: &[&str], settings: &Settings<'_>) -> Value {
    let mut body = json!({"system": [{"text": settings.system}], "messages": messages});
    let mut limits = json!({});
    set_limits(&mut limits, settings, "maxTokens");
    if limits != json!({}) {
        body["inferenceConfig"] = limits;
    }
    // As for Anthropic; this API has no way to say that none may be called.
    if !tools.is_empty() {
        let tool = |name: &&str| {
            let schema = json!({"json": {"type": "object"}});
            json!({"toolSpec": {"name": name, "inputSchema": schema}})
        };
        body["toolConfig"] = json!({"tools": tools.iter().map(tool).collect::<Vec<_>>()});
    }
    body
}

fn set_limits(place: &mut Value, settings: &Settings<'_>, max_tokens: &str) {
    if let Some(max) = settings.max_tokens {
        place[max_tokens] = json!(max);
    }
    if let Some(temperature) = settings.temperature {
        place["temperature"] = json!(temperature);
    }
}
