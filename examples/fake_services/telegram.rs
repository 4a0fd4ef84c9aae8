//! A Telegram Bot API that knows one bot: the shapes and the errors of the real one.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use chatcron::channel::log::ShownLine;
use serde_json::{Value, json};

use crate::state::{Fakes, Received};

/// The most UTF-16 units of one message.
const TEXT_MAX: usize = 4096;

pub(crate) fn answer(fakes: &Fakes, request: &Received) -> Response {
    let mut path = request.path.trim_start_matches('/').splitn(2, '/');
    let token = path.next().and_then(|bot| bot.strip_prefix("bot"));
    match (token, path.next()) {
        (Some(token), Some(_)) if token != fakes.token => error(401, "Unauthorized"),
        (Some(_), Some("getMe")) => ok(json!({
            "id": 123_456, "is_bot": true, "first_name": "Fake", "username": "fake_bot",
        })),
        (Some(_), Some("sendMessage")) => send_message(fakes, request),
        _ => error(404, "Not Found"),
    }
}

fn send_message(fakes: &Fakes, request: &Received) -> Response {
    let chat = match request.chat() {
        Some(chat) if !chat.is_empty() && chat != "null" => chat,
        Some(_) | None => return error(400, "Bad Request: chat_id is empty"),
    };
    // The service itself trims what it is given.
    let text = request.json["text"].as_str().unwrap_or("").trim();
    if text.is_empty() {
        return error(400, "Bad Request: message text is empty");
    }
    if text.encode_utf16().count() > TEXT_MAX {
        return error(400, "Bad Request: message is too long");
    }
    let id = fakes.next_message_id();
    let thread = request.json["message_thread_id"].as_i64();
    fakes.show(ShownLine {
        chat: chat.clone(),
        thread: thread.map(|thread| thread.to_string()),
        message_id: id.to_string(),
        key: None,
        text: text.to_owned(),
        at: request.at,
    });
    let chat = match chat.parse::<i64>() {
        Ok(number) if number < 0 => json!({"id": number, "type": "supergroup", "title": "Fake"}),
        Ok(number) => json!({"id": number, "type": "private", "first_name": "Someone"}),
        Err(_) => json!({"id": -1_000_000_000_001_i64, "type": "channel", "username": chat}),
    };
    let mut message = json!({
        "message_id": id,
        "from": {"id": 123_456, "is_bot": true, "first_name": "Fake", "username": "fake_bot"},
        "chat": chat,
        "date": request.at.as_second(),
        "text": text,
    });
    if let Some(thread) = thread {
        message["message_thread_id"] = json!(thread);
    }
    ok(message)
}

fn ok(result: Value) -> Response {
    Json(json!({"ok": true, "result": result})).into_response()
}

fn error(code: u16, description: &str) -> Response {
    let body = json!({"ok": false, "error_code": code, "description": description});
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_REQUEST);
    (status, Json(body)).into_response()
}

/// The body that the service sends with a status.
pub(crate) fn error_body(status: u16, retry_after: Option<u32>) -> Value {
    let description = match status {
        400 => "Bad Request: chat not found".to_owned(),
        401 => "Unauthorized".to_owned(),
        403 => "Forbidden: bot was blocked by the user".to_owned(),
        404 => "Not Found".to_owned(),
        429 => format!(
            "Too Many Requests: retry after {}",
            retry_after.unwrap_or(1)
        ),
        _ => "Internal Server Error".to_owned(),
    };
    let mut body = json!({"ok": false, "error_code": status, "description": description});
    if let Some(seconds) = retry_after {
        body["parameters"] = json!({"retry_after": seconds});
    }
    body
}

pub(crate) fn migrated(to: i64) -> Response {
    let body = json!({
        "ok": false,
        "error_code": 400,
        "description": "Bad Request: group chat was upgraded to a supergroup chat",
        "parameters": {"migrate_to_chat_id": to},
    });
    (StatusCode::BAD_REQUEST, Json(body)).into_response()
}
