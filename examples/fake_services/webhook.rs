//! A receiver of webhooks that shows each id once, and gives what a chat is sent an id of its own.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use chatcron::{channel::log::ShownLine, ids::IdempotencyKey};
use serde_json::json;

use crate::state::{Fakes, Received};

pub(crate) fn answer(fakes: &Fakes, request: &Received) -> Response {
    let Some(id) = request.header("webhook-id") else {
        return (StatusCode::BAD_REQUEST, "no webhook-id").into_response();
    };
    let chat = request.chat();
    let shown = fakes.shown_under(id);
    let is_new = shown.is_none();
    let message_id = match (shown, &chat) {
        (Some(line), _) => line.message_id,
        (None, Some(_)) => format!("m{}", fakes.next_message_id()),
        (None, None) => id.to_owned(),
    };
    if is_new {
        let text = request.json["data"]["text"].as_str();
        fakes.show(ShownLine {
            chat: chat.clone().unwrap_or_else(|| request.path.clone()),
            thread: request.json["data"]["thread"].as_str().map(str::to_owned),
            message_id: message_id.clone(),
            key: Some(IdempotencyKey::from_stored(id)),
            text: text.unwrap_or(&request.body).to_owned(),
            at: request.at,
        });
    }
    match chat {
        Some(_) => Json(json!({"message_id": message_id})).into_response(),
        None => Json(json!({"received": is_new})).into_response(),
    }
}
