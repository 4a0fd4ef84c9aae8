//! Stand-ins for the services that chatcron talks to, for end-to-end tests: the Telegram Bot API,
//! OpenAI's chat completions and Responses, Anthropic's Messages, Gemini's generateContent, a server
//! that agents of kind `http` ask, and a receiver of webhooks.
//!
//! `fake_services [--shown FILE] [--requests FILE] [--token TOKEN] [--numbered]` binds free ports of
//! 127.0.0.1 and prints them as one line of JSON: `{"telegram":1,"openai":2,"anthropic":3,"gemini":4,
//! "agent":5,"webhook":6,"control":7}`. It ends when its stdin is closed, so it never outlives the test that started it.
//!
//! `FILE` of `--shown` is the truth of what each chat showed, in the form of `channel::log`; of
//! `--requests`, every request as it came, with the fault that it met. Both are appended to. The control port answers
//! `POST /control` (one order, or a list of orders, of `faults.rs`), `GET /requests` and
//! `GET /shown`.

use std::{io::Write, sync::Arc};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{ConnectInfo, DefaultBodyLimit, State},
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use chatcron::clock::{Clock, SystemClock};
use serde_json::{Value, json};
use tokio::net::TcpListener;

mod agent;
mod faults;
mod listener;
mod models;
mod state;
mod telegram;
mod webhook;

use faults::{Kind, Order, Service};
use listener::{Connection, Resettable};
use state::{Fakes, Options, Received};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let fakes = Arc::new(Fakes::open(options())?);
    let mut ports = serde_json::Map::new();
    for service in Service::ALL {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        ports.insert(
            service.name().to_owned(),
            json!(listener.local_addr()?.port()),
        );
        let state = (Arc::clone(&fakes), service);
        let app = Router::new()
            .fallback(answer)
            .layer(DefaultBodyLimit::disable())
            .with_state(state);
        let app = app.into_make_service_with_connect_info::<Connection>();
        tokio::spawn(axum::serve(Resettable(listener), app).into_future());
    }
    let control = TcpListener::bind(("127.0.0.1", 0)).await?;
    ports.insert("control".to_owned(), json!(control.local_addr()?.port()));
    let app = Router::new()
        .route("/control", post(order))
        .route("/requests", get(requests))
        .route("/shown", get(shown))
        .with_state(fakes);
    tokio::spawn(axum::serve(control, app).into_future());

    let mut out = std::io::stdout();
    writeln!(out, "{}", Value::Object(ports))?;
    out.flush()?;
    let closed =
        tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    closed.await??;
    Ok(())
}

fn options() -> Options {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--numbered" {
            options.numbered = true;
            continue;
        }
        let value = arguments.next();
        match name.as_str() {
            "--shown" => options.shown = value.map(Into::into),
            "--requests" => options.requests = value.map(Into::into),
            "--token" => options.token = value.unwrap_or_default(),
            other => eprintln!("fake_services: unknown argument {other}"),
        }
    }
    options
}

/// Every request to a fake: recorded, then answered, or treated as a fault demands.
async fn answer(
    State((fakes, service)): State<(Arc<Fakes>, Service)>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut request = Received::new(service, &method, &uri, &headers, &body, SystemClock.now());
    let fault = fakes.take_fault(&request);
    request.fault.clone_from(&fault);
    fakes.record(&request);
    let Some(fault) = fault else {
        return usual(&fakes, &request).await;
    };
    // What the service did before it failed; nobody is told.
    let done = match (&fault.kind, fault.show) {
        (Kind::Slow { .. }, _) | (_, true) => Some(usual(&fakes, &request).await),
        (_, false) => None,
    };
    match fault.kind {
        Kind::Slow { ms } => {
            tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
            done.unwrap_or_else(|| StatusCode::OK.into_response())
        }
        Kind::Hang => std::future::pending().await,
        Kind::Reset => {
            connection.reset();
            StatusCode::OK.into_response()
        }
        Kind::BrokenJson => (StatusCode::OK, "{\"ok\":true,\"result\":{\"mess").into_response(),
        Kind::Status {
            status,
            body,
            retry_after,
        } => refused(service, status, body, retry_after),
        Kind::Migrate { to } => telegram::migrated(to),
    }
}

async fn usual(fakes: &Fakes, request: &Received) -> Response {
    match request.service {
        Service::Telegram => telegram::answer(fakes, request).await,
        Service::Openai | Service::Anthropic | Service::Gemini => {
            models::answer(fakes, request).await
        }
        Service::Agent => agent::answer(fakes, request).await,
        Service::Webhook => webhook::answer(fakes, request),
    }
}

fn refused(
    service: Service,
    status: u16,
    body: Option<Value>,
    retry_after: Option<u32>,
) -> Response {
    let body = body.unwrap_or_else(|| match service {
        Service::Telegram => telegram::error_body(status, retry_after),
        Service::Openai | Service::Agent => models::openai_error(status),
        Service::Anthropic => models::anthropic_error(status),
        Service::Gemini => models::gemini_error(status),
        Service::Webhook => json!({"error": status}),
    });
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(body)).into_response();
    if let Some(seconds) = retry_after {
        response.headers_mut().insert("retry-after", seconds.into());
    }
    response
}

async fn order(State(fakes): State<Arc<Fakes>>, body: Bytes) -> Response {
    let orders = serde_json::from_slice::<Vec<Order>>(&body)
        .or_else(|_| serde_json::from_slice::<Order>(&body).map(|order| vec![order]));
    match orders {
        Ok(orders) => {
            for order in orders {
                fakes.obey(order);
            }
            StatusCode::NO_CONTENT.into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

async fn requests(State(fakes): State<Arc<Fakes>>) -> Json<Value> {
    Json(json!(fakes.requests()))
}

async fn shown(State(fakes): State<Arc<Fakes>>) -> Json<Value> {
    Json(json!(fakes.shown()))
}
