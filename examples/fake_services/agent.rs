//! A server of one's own, as agents of kind `http` ask: at any path, in their plain form.

use std::time::Duration;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::{
    faults::Service,
    models::last_words,
    state::{Fakes, Received},
};

/// Says what the control port told it to, or what it was asked.
pub(crate) async fn answer(fakes: &Fakes, request: &Received) -> Response {
    let messages = request.json["messages"].as_array();
    let Some(messages) = messages.filter(|_| request.method == "POST") else {
        return (StatusCode::BAD_REQUEST, "no messages").into_response();
    };
    let reply = fakes.take_reply(Service::Agent);
    if let Some(reply) = &reply {
        tokio::time::sleep(Duration::from_millis(reply.delay_ms)).await;
    }
    let text = reply.map_or_else(|| last_words(messages), |reply| reply.text);
    let usage = json!({"input_tokens": 10, "output_tokens": 5});
    Json(json!({"text": text, "usage": usage})).into_response()
}
