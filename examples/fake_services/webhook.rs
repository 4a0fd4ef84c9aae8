//! A receiver of webhooks that shows each id once.

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
    let is_new = fakes.is_new_webhook(id);
    if is_new {
        let text = request.json["data"]["text"].as_str();
        fakes.show(ShownLine {
            chat: request.chat().unwrap_or_else(|| request.path.clone()),
            thread: request.json["data"]["thread"].as_str().map(str::to_owned),
            message_id: id.to_owned(),
            key: Some(IdempotencyKey::from_stored(id)),
            text: text.unwrap_or(&request.body).to_owned(),
            at: request.at,
        });
    }
    Json(json!({"received": is_new})).into_response()
}
