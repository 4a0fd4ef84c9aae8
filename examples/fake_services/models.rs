//! Models behind their APIs: they say what the control port told them to, or what they were asked.

use std::time::Duration;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{
    faults::Service,
    state::{Fakes, Received},
};

mod calls;

/// What a model's server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    ChatCompletions,
    Responses,
    Messages,
    GenerateContent,
}

impl Api {
    fn of(request: &Received) -> Option<Self> {
        let path = request.path.as_str();
        match request.service {
            Service::Openai if path == "/v1/chat/completions" => Some(Self::ChatCompletions),
            Service::Openai if path == "/v1/responses" => Some(Self::Responses),
            Service::Anthropic if path == "/v1/messages" => Some(Self::Messages),
            Service::Gemini => path
                .strip_prefix("/v1/models/")
                .and_then(|rest| rest.strip_suffix(":generateContent"))
                .map(|_| Self::GenerateContent),
            Service::Openai
            | Service::Anthropic
            | Service::Agent
            | Service::Telegram
            | Service::Webhook => None,
        }
    }

    /// Where the conversation is in a request.
    fn list(self) -> &'static str {
        match self {
            Self::ChatCompletions | Self::Messages => "messages",
            Self::Responses => "input",
            Self::GenerateContent => "contents",
        }
    }
}

pub(crate) async fn answer(fakes: &Fakes, request: &Received) -> Response {
    let api = Api::of(request).filter(|_| request.method == "POST");
    let Some(api) = api else {
        return error(request.service, 404);
    };
    let Some(messages) = request.json[api.list()].as_array() else {
        return error(request.service, 400);
    };
    if api == Api::Messages && !is_messages_request(request, messages) {
        return error(request.service, 400);
    }
    let reply = fakes.take_reply(request.service);
    if let Some(reply) = &reply {
        tokio::time::sleep(Duration::from_millis(reply.delay_ms)).await;
    }
    let calls = reply.as_ref().map_or(&[][..], |reply| &reply.calls);
    let calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(index, call)| calls::spelled(api, call, index, messages))
        .collect();
    let text = match &reply {
        Some(reply) => reply.text.clone(),
        None if fakes.numbered => numbered(&last_words(messages), fakes.next_answer()),
        None => last_words(messages),
    };
    let mut answer = body(api, request, &text);
    calls::add(api, &mut answer, &text, calls);
    Json(answer).into_response()
}

fn body(api: Api, request: &Received, text: &str) -> Value {
    let model = &request.json["model"];
    match api {
        Api::Messages => json!({
            "id": "msg_fake",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": null,
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }),
        Api::ChatCompletions => json!({
            "id": "chatcmpl-fake",
            "object": "chat.completion",
            "created": request.at.as_second(),
            "model": model,
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": null},
                "logprobs": null,
                "finish_reason": "stop",
            }],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }),
        Api::Responses => json!({
            "id": "resp_fake",
            "object": "response",
            "status": "completed",
            "model": model,
            "output": [{
                "id": "msg_fake",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            }],
            "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
        }),
        Api::GenerateContent => json!({
            "candidates": [{
                "content": {"role": "model", "parts": [{"text": text}]},
                "finishReason": "STOP",
                "index": 0,
            }],
            "usageMetadata": {
                "promptTokenCount": 10,
                "candidatesTokenCount": 5,
                "totalTokenCount": 15,
            },
        }),
    }
}

/// What the Messages API refuses: missing headers and counts, and roles that do not alternate, as
/// some hosts of it demand.
fn is_messages_request(request: &Received, messages: &[Value]) -> bool {
    let role = |message: &Value| message["role"].as_str().unwrap_or("").to_owned();
    let alternates = messages
        .windows(2)
        .all(|pair| role(&pair[0]) != role(&pair[1]));
    request.header("anthropic-version").is_some()
        && request.json["max_tokens"].is_u64()
        && messages.first().is_some_and(|first| role(first) == "user")
        && messages.last().is_some_and(|last| role(last) == "user")
        && alternates
}

/// The words with a number; as many lines of them as `[lines N]` in them says.
fn numbered(words: &str, number: u64) -> String {
    let asked = words
        .split_once("[lines ")
        .and_then(|(_, rest)| rest.split_once(']')?.0.parse().ok());
    let lines = 1..=asked.unwrap_or(1);
    let lines: Vec<_> = lines
        .map(|line: u32| format!("{words} #{number}.{line}"))
        .collect();
    lines.join("\n")
}

/// The last words of the last message.
pub(crate) fn last_words(messages: &[Value]) -> String {
    let last = messages.last().unwrap_or(&Value::Null);
    let content = last.get("content").or_else(|| last.get("parts"));
    let content = content.unwrap_or(&Value::Null);
    let words = match content.as_array() {
        Some(blocks) => blocks.last().and_then(|block| block["text"].as_str()),
        None => content.as_str(),
    };
    words.unwrap_or("(nothing)").to_owned()
}

fn error(service: Service, status: u16) -> Response {
    let body = match service {
        Service::Anthropic => anthropic_error(status),
        Service::Gemini => gemini_error(status),
        Service::Openai | Service::Agent | Service::Telegram | Service::Webhook => {
            openai_error(status)
        }
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    (status, Json(body)).into_response()
}

pub(crate) fn openai_error(status: u16) -> Value {
    let (kind, code) = match status {
        401 => ("invalid_request_error", "invalid_api_key"),
        404 => ("invalid_request_error", "model_not_found"),
        429 => ("requests", "rate_limit_exceeded"),
        400..=499 => ("invalid_request_error", "invalid_value"),
        _ => ("server_error", "server_error"),
    };
    json!({"error": {"message": "The fake refuses.", "type": kind, "param": null, "code": code}})
}

pub(crate) fn anthropic_error(status: u16) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": "The fake refuses."}})
}

pub(crate) fn gemini_error(status: u16) -> Value {
    let word = match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        400..=499 => "INVALID_ARGUMENT",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    json!({"error": {"code": status, "message": "The fake refuses.", "status": word}})
}
