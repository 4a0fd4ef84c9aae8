//! A whole request: the messages, with the system prompt and the settings where a provider wants them.

use serde_json::{Value, json};

use super::{Family, Message, Tool, ToolCalls, to_json, tools_called};

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
    /// The tools that are declared, always in this order: they stand before the conversation in
    /// what a provider caches.
    pub tools: &'a [Tool],
    /// Whether the answer may call them.
    pub tool_calls: ToolCalls,
}

/// The JSON body of a request for the next answer.
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
    let function = |tool: &Tool| {
        json!({"type": "function", "function": {
            "name": tool.name, "description": tool.description, "parameters": tool.parameters,
        }})
    };
    offer(&mut body, settings, function);
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
    let function = |tool: &Tool| {
        json!({
            "type": "function", "name": tool.name, "description": tool.description,
            "parameters": tool.parameters, "strict": false,
        })
    };
    offer(&mut body, settings, function);
    body
}

/// Declares tools as OpenAI's APIs do, where there are any.
fn offer(body: &mut Value, settings: &Settings<'_>, spelled: impl Fn(&Tool) -> Value) {
    if settings.tools.is_empty() {
        return;
    }
    body["tools"] = settings.tools.iter().map(spelled).collect();
    if settings.tool_calls == ToolCalls::Forbidden {
        body["tool_choice"] = json!("none");
    }
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
    let offered = settings.tools.iter().map(|tool| {
        json!({
            "name": tool.name, "description": tool.description, "input_schema": tool.parameters,
        })
    });
    // A history with tool calls is refused unless their tools are declared, also those of old.
    let of_old = not_offered(tools, settings.tools)
        .map(|name| json!({"name": name, "input_schema": {"type": "object"}}));
    let declared: Vec<Value> = offered.chain(of_old).collect();
    if !declared.is_empty() {
        body["tools"] = Value::Array(declared);
        if settings.tools.is_empty() || settings.tool_calls == ToolCalls::Forbidden {
            body["tool_choice"] = json!({"type": "none"});
        }
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
    if !settings.tools.is_empty() {
        let declarations: Vec<Value> = settings.tools.iter().map(gemini_declaration).collect();
        body["tools"] = json!([{"functionDeclarations": declarations}]);
        if settings.tool_calls == ToolCalls::Forbidden {
            body["toolConfig"] = json!({"functionCallingConfig": {"mode": "NONE"}});
        }
    }
    body
}

/// Gemini refuses an object without properties; a tool that takes nothing has no schema.
fn gemini_declaration(tool: &Tool) -> Value {
    let mut declaration = json!({"name": tool.name, "description": tool.description});
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    if properties.is_some_and(|properties| !properties.is_empty()) {
        declaration["parameters"] = tool.parameters.clone();
    }
    declaration
}

fn bedrock(messages: Vec<Value>, tools: &[&str], settings: &Settings<'_>) -> Value {
    let mut body = json!({"system": [{"text": settings.system}], "messages": messages});
    let mut limits = json!({});
    set_limits(&mut limits, settings, "maxTokens");
    if limits != json!({}) {
        body["inferenceConfig"] = limits;
    }
    // As for Anthropic; this API has no way to say that none may be called.
    let offered = settings.tools.iter().map(|tool| {
        json!({"toolSpec": {
            "name": tool.name, "description": tool.description,
            "inputSchema": {"json": tool.parameters},
        }})
    });
    let of_old = not_offered(tools, settings.tools).map(|name| {
        let schema = json!({"json": {"type": "object"}});
        json!({"toolSpec": {"name": name, "inputSchema": schema}})
    });
    let declared: Vec<Value> = offered.chain(of_old).collect();
    if !declared.is_empty() {
        body["toolConfig"] = json!({"tools": declared});
    }
    body
}

/// Tools that a history has called and that are not offered now.
fn not_offered<'a>(called: &'a [&'a str], offered: &'a [Tool]) -> impl Iterator<Item = &'a str> {
    let is_offered = |name: &str| offered.iter().any(|tool| tool.name == name);
    let called = called.iter().copied();
    called.filter(move |name| !is_offered(name))
}

fn set_limits(place: &mut Value, settings: &Settings<'_>, max_tokens: &str) {
    if let Some(max) = settings.max_tokens {
        place[max_tokens] = json!(max);
    }
    if let Some(temperature) = settings.temperature {
        place["temperature"] = json!(temperature);
    }
}
