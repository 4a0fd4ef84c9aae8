//! What happens, as it happens.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    response::sse::{Event, KeepAlive, Sse},
};
use futures_util::{Stream, stream};
use serde_json::json;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::worker::{self, Missed};

use super::Api;

/// How often a reader is told that the connection is there, where nothing happens.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(events))
}

/// What happens from now on, as server-sent events: runs, turns, deliveries, alerts, changes of jobs.
/// A reader that is too slow is told how many it has missed.
#[utoipa::path(get, path = "/v1/events", tag = "operation",
    responses((status = 200, description = "Events, until the worker is stopped",
        body = String, content_type = "text/event-stream")))]
async fn events(State(api): State<Api>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let draining = api.draining.clone();
    let events = stream::unfold(
        (api.events.read(), draining),
        |(mut reader, draining)| async {
            let next = tokio::select! {
                () = draining.cancelled() => None,
                next = reader.next() => next,
            };
            Some((Ok(told(&next?)), (reader, draining)))
        },
    );
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

/// One event: its name and its JSON.
fn told(next: &Result<worker::Event, Missed>) -> Event {
    let (name, data) = match next {
        Ok(event) => {
            let data = serde_json::to_value(event).unwrap_or_default();
            let name = data["event"].as_str().unwrap_or("other").to_owned();
            (name, data)
        }
        Err(missed) => ("missed".to_owned(), json!({ "missed": missed.missed })),
    };
    Event::default().event(name).data(data.to_string())
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_reader_that_is_too_slow_is_told_how_many_it_has_missed() {
        let event = told(&Err(Missed { missed: 7 }));
        let sent = Sse::new(stream::iter([Ok::<_, Infallible>(event)])).into_response();
        let body = sent.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "event: missed\ndata: {\"missed\":7}\n\n");
    }
}
