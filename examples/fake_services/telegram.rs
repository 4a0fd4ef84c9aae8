//! A Telegram Bot API that knows one bot: the shapes and the errors of the real one.

use std::{collections::VecDeque, time::Duration};

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use chatcron::channel::log::ShownLine;
use serde_json::{Value, json};

use crate::{
    faults::Said,
    state::{Fakes, Received},
};

/// The most UTF-16 units of one message.
const TEXT_MAX: usize = 4096;

/// What people wrote to the bot, until it is confirmed.
#[derive(Debug, Default)]
pub(crate) struct Updates {
    waiting: VecDeque<Value>,
    last: Option<Value>,
    next_id: i64,
    messages: usize,
    /// Raised by every request: the newest ends those before it.
    polls: u64,
}

impl Updates {
    /// How many messages there were.
    pub(crate) fn messages(&self) -> usize {
        self.messages
    }

    /// Somebody writes.
    pub(crate) fn add(&mut self, message_id: usize, said: Said) {
        self.messages += 1;
        let kind = if said.chat < 0 {
            "supergroup"
        } else {
            "private"
        };
        let mut message = json!({
            "message_id": message_id,
            "from": {"id": 777, "is_bot": false, "first_name": "Ada", "last_name": "Lovelace"},
            "chat": {"id": said.chat, "type": kind},
            "date": 1_796_000_000,
        });
        if let Some(text) = said.text {
            message["text"] = json!(text);
        }
        for (field, value) in said.message {
            message[field] = value;
        }
        self.push(message);
    }

    /// The last message comes once more, as after a service has lost what was confirmed.
    pub(crate) fn add_last_again(&mut self) {
        if let Some(message) = self.last.clone() {
            self.push(message);
        }
    }

    fn push(&mut self, message: Value) {
        self.next_id += 1;
        self.last = Some(message.clone());
        self.waiting
            .push_back(json!({"update_id": 9000 + self.next_id, "message": message}));
    }

    fn behind(&mut self, offset: i64, limit: usize) -> Vec<Value> {
        self.waiting
            .retain(|update| update["update_id"].as_i64() >= Some(offset));
        self.waiting.iter().take(limit).cloned().collect()
    }
}

pub(crate) async fn answer(fakes: &Fakes, request: &Received) -> Response {
    let mut path = request.path.trim_start_matches('/').splitn(2, '/');
    let token = path.next().and_then(|bot| bot.strip_prefix("bot"));
    match (token, path.next()) {
        (Some(token), Some(_)) if token != fakes.token => error(401, "Unauthorized"),
        (Some(_), Some("getMe")) => ok(json!({
            "id": 123_456, "is_bot": true, "first_name": "Fake", "username": "fake_bot",
        })),
        (Some(_), Some("sendMessage")) => send_message(fakes, request),
        (Some(_), Some("getUpdates")) => get_updates(fakes, request).await,
        _ => error(404, "Not Found"),
    }
}

/// Waits until somebody has written, or the time is over, or somebody else asks.
async fn get_updates(fakes: &Fakes, request: &Received) -> Response {
    let asked = &request.json;
    let offset = asked["offset"].as_i64().unwrap_or(0);
    let limit = asked["limit"].as_u64().unwrap_or(100);
    let limit = usize::try_from(limit).unwrap_or(100);
    let own = fakes.updates(|updates| {
        updates.polls += 1;
        updates.polls
    });
    let turns = asked["timeout"].as_u64().unwrap_or(0) * 50;
    for turn in 0..=turns {
        let is_newest = fakes.updates(|updates| updates.polls == own);
        if !is_newest {
            return error(
                409,
                "Conflict: terminated by other getUpdates request; make sure that only one bot \
                 instance is running",
            );
        }
        let found = fakes.updates(|updates| updates.behind(offset, limit));
        if !found.is_empty() {
            return ok(json!(found));
        }
        if turn < turns {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    ok(json!([]))
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
        409 => {
            "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to \
                delete the webhook first"
                .to_owned()
        }
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
