//! The HTTP API: what the commands do, for gateways in other languages.
//!
//! Handlers read the store, and change jobs as the worker itself does; shapes are those of `--json`
//! (`src/view.rs`). The OpenAPI document is made from the handlers.

#![allow(unused_qualifications, reason = "utoipa's macros write them")]

mod access;
mod chats;
mod events;
mod explained;
mod extract;
mod figures;
mod guarded;
mod health;
mod jobs;
mod limits;
mod listen;
mod openapi;
mod outbound;
mod outbox;
mod page;
mod problem;
mod runs;
mod serving;
mod turns;

use std::sync::Arc;

use axum::{Router, http::StatusCode, middleware, response::IntoResponse};
use utoipa_axum::router::OpenApiRouter;

// What every handler is given.
use crate::worker::WorkerContext as Api;
use crate::{
    ids::JobId,
    worker::{Control, JobChange, Services},
};

pub use access::{Access, AccessError, TOKEN_MIN, TOKEN_VARIABLE};
#[cfg(feature = "testing")]
pub use openapi::document;
#[cfg(feature = "cli")]
pub(crate) use serving::Bound;
pub use serving::{Listen, ServeError};

use limits::Places;
use problem::{Kind, Problem};

impl Api {
    fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    fn services(&self) -> Arc<Services> {
        self.services.borrow().clone()
    }

    /// Tells that a job was changed here, and has the worker look at it.
    fn has_changed(&self, job: &JobId, change: JobChange) {
        self.events.job(self.now(), job, change);
        self.worker.look();
    }

    fn control<'a>(&'a self, services: &'a Services) -> Control<'a> {
        Control {
            store: self.store.as_ref(),
            directory: &services.directory,
            journal: self.journal.as_deref(),
        }
    }
}

fn app(api: Api, access: Access) -> Router {
    let places = Places::default();
    let (open, guarded) = (open(), guarded());
    let (waiting, _) = waiting().split_for_parts();
    let (guarded, _) = guarded.split_for_parts();
    let (open, _) = open.split_for_parts();
    let bounded = middleware::from_fn_with_state(places.clone(), limits::bounded);
    let waits = middleware::from_fn_with_state(places, limits::waiting);
    let allowed = middleware::from_fn_with_state(access, access::guard);
    let still_taken = middleware::from_fn_with_state(api.draining.clone(), limits::taken);
    guarded
        .merge(openapi::route())
        .fallback(nothing_here)
        .layer(bounded.clone())
        .merge(waiting.layer(waits))
        .layer(still_taken)
        .method_not_allowed_fallback(wrong_method)
        .layer(allowed)
        .merge(
            open.method_not_allowed_fallback(wrong_method)
                .layer(bounded),
        )
        .with_state(api)
}

/// What a probe asks, which has no token.
fn open() -> OpenApiRouter<Api> {
    health::routes()
}

fn guarded() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .merge(jobs::routes())
        .merge(runs::routes())
        .merge(chats::routes())
        .merge(turns::routes())
        .merge(outbox::routes())
        .merge(outbound::routes())
        .merge(figures::routes())
}

/// What waits for something that others do.
fn waiting() -> OpenApiRouter<Api> {
    turns::waiting().merge(events::routes())
}

async fn nothing_here() -> Problem {
    Kind::NoSuchPath
        .because("the API has nothing under this path")
        .help("`GET /openapi.json` says what there is")
}

async fn wrong_method() -> impl IntoResponse {
    (
        StatusCode::METHOD_NOT_ALLOWED,
        Kind::MethodNotAllowed
            .because("this path has other methods")
            .help("`Allow` names them"),
    )
}
