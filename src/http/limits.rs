//! How much, how long, and how many at once.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Request, State},
    http::header,
    middleware::Next,
    response::{IntoResponse, Response},
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{guarded::Guarded, problem::Kind};

/// The most bytes of a body.
pub(super) const BODY_MAX: u64 = 1024 * 1024;
/// How long a body may take to come.
pub(super) const BODY_TIME: Duration = Duration::from_secs(10);
/// How long the head of a request may take to come, and how long a connection may be idle.
pub(super) const HEAD_TIME: Duration = Duration::from_secs(10);
/// The most bytes of a request's head.
pub(super) const HEAD_MAX: usize = 64 * 1024;
/// How many connections are open at once.
pub(super) const CONNECTIONS_MAX: usize = 256;
/// How many requests are worked on at once; those that wait for a reply or for events not counted.
const REQUESTS_MAX: usize = 64;
/// How many requests wait for a reply or for events at once.
const WAITERS_MAX: usize = 128;
/// How long a request waits for its place.
const PLACE_TIME: Duration = Duration::from_secs(5);
/// How long a request may take, without the time that it asks to wait.
const REQUEST_TIME: Duration = Duration::from_secs(30);

/// Places for requests.
#[derive(Clone)]
pub(super) struct Places {
    requests: Arc<Semaphore>,
    waiters: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            waiters: Arc::new(Semaphore::new(WAITERS_MAX)),
        }
    }
}

/// Takes nothing new that changes something while the worker is being stopped.
pub(super) async fn taken(
    State(draining): State<CancellationToken>,
    request: Request,
    next: Next,
) -> Response {
    if draining.is_cancelled() && !request.method().is_safe() {
        return Kind::Unavailable
            .because("it is being stopped, and takes nothing new")
            .help("try again when it has started again")
            .into_response();
    }
    next.run(request).await
}

/// Lets a request through when there is a place for it, and for so long only.
pub(super) async fn bounded(
    State(places): State<Places>,
    request: Request,
    next: Next,
) -> Response {
    let place = tokio::time::timeout(PLACE_TIME, places.requests.acquire()).await;
    let Ok(Ok(_place)) = place else {
        return busy("requests", REQUESTS_MAX);
    };
    match tokio::time::timeout(REQUEST_TIME, next.run(request)).await {
        Ok(response) => response,
        Err(_elapsed) => Kind::Unavailable
            .because(format!("it took more than {} s", REQUEST_TIME.as_secs()))
            .help("look what has become of it before you ask again")
            .into_response(),
    }
}

/// Lets a request through that waits for something, when there is a place for it: until the end of
/// its answer.
pub(super) async fn waiting(
    State(places): State<Places>,
    request: Request,
    next: Next,
) -> Response {
    match places.waiters.try_acquire_owned() {
        Ok(place) => {
            let response = next.run(request).await;
            response.map(|body| Body::new(Guarded::new(body, place)))
        }
        Err(_full) => busy("requests that wait", WAITERS_MAX),
    }
}

fn busy(what: &str, most: usize) -> Response {
    Kind::Busy
        .because(format!("there are {most} {what} already"))
        .help("try again in a moment")
        .header(header::RETRY_AFTER, "1")
        .into_response()
}
