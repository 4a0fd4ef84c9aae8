//! The OpenAPI document, made from the handlers.

use axum::{
    Router,
    http::header,
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Map, Value, json};
use utoipa::{
    OpenApi, ToSchema,
    openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
};
use utoipa_axum::router::OpenApiRouter;

use crate::config;

use super::{
    Api,
    problem::{Details, MEDIA_TYPE},
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "chatcron",
        description = "Jobs, runs, chats and messages of a running chatcron.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    tags(
        (name = "jobs", description = "What runs, and when"),
        (name = "runs", description = "What ran, and what did not"),
        (name = "chats", description = "What is said, and what was shown"),
        (name = "outbox", description = "Messages on their way"),
        (name = "operation", description = "How it is"),
    ),
    components(schemas(Details)),
    security(("token" = [])),
)]
struct Document;

/// The keys of a job's table in a jobs file, as docs/jobs.md has them; without `prompt_file`, which
/// only a file may name. Its schema is made from the declarations by which the file is read.
#[derive(ToSchema)]
pub(super) struct JobDefinition {}

/// The document as JSON.
pub fn document() -> Value {
    let (_, from_handlers) = OpenApiRouter::with_openapi(Document::openapi())
        .merge(super::open())
        .merge(super::guarded())
        .merge(super::waiting())
        .split_for_parts();
    let mut from_handlers = from_handlers;
    let token = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "Where chatcron runs with a token, and on every address but loopback",
        ))
        .build();
    let components = from_handlers.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(token));
    // Every part of it has string keys.
    let mut document = serde_json::to_value(&from_handlers).unwrap_or_default();
    document["components"]["schemas"]["JobDefinition"] = job_definition();
    if let Some(paths) = document["paths"].as_object_mut() {
        paths.values_mut().for_each(finish_path);
    }
    document
}

/// The schema of a job's table, as the jobs file has it.
fn job_definition() -> Value {
    let mut file = config::schema();
    let mut job = file["properties"]["jobs"]["additionalProperties"].take();
    if let Some(properties) = job["properties"].as_object_mut() {
        properties.remove("prompt_file");
        properties.retain(|_, schema| schema.as_bool() != Some(false));
    }
    job
}

/// Adds what every operation has: problems, and what may be answered besides what it names.
fn finish_path(path: &mut Value) {
    let Some(operations) = path.as_object_mut() else {
        return;
    };
    for operation in operations.values_mut() {
        let has_body = operation.get("requestBody").is_some();
        let Some(responses) = operation["responses"].as_object_mut() else {
            continue;
        };
        let of_bodies: &[_] = if has_body { &OF_BODIES } else { &[] };
        for (status, words) in ALWAYS.iter().chain(of_bodies) {
            responses
                .entry(*status)
                .or_insert_with(|| json!({ "description": words }));
        }
        for (status, response) in responses {
            let is_problem = status.starts_with(['4', '5']);
            if is_problem && response.get("content").is_none() {
                response["content"] = problem();
            }
        }
    }
}

/// What any operation may answer.
const ALWAYS: [(&str, &str); 5] = [
    ("400", "The request cannot be read"),
    ("401", "A token is required"),
    ("403", "The request comes by way of a web page"),
    ("422", "Something that the request says is not accepted"),
    ("503", "It cannot be done at the moment"),
];

/// What one with a body may answer besides.
const OF_BODIES: [(&str, &str); 3] = [
    ("408", "The body did not come in time"),
    ("413", "The body is too large"),
    ("415", "The body is not said to be JSON"),
];

fn problem() -> Value {
    let mut content = Map::new();
    let schema = json!({ "schema": { "$ref": "#/components/schemas/Problem" } });
    content.insert(MEDIA_TYPE.to_owned(), schema);
    Value::Object(content)
}

/// Where the document is served.
pub(super) fn route() -> Router<Api> {
    Router::new().route("/openapi.json", get(served))
}

async fn served() -> Response {
    let text = document().to_string();
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
