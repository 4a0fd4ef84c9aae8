//! Whether it lives, and whether it works.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    problem::{Kind, Problem},
};

/// What a probe asks.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(healthz))
        .routes(routes!(readyz))
}

/// How it is.
#[derive(Serialize, ToSchema)]
struct Health {
    /// `ok`.
    status: &'static str,
    /// The version of chatcron.
    version: &'static str,
}

impl Health {
    fn ok() -> axum::Json<Self> {
        axum::Json(Self {
            status: "ok",
            version: env!("CARGO_PKG_VERSION"),
        })
    }
}

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", tag = "operation", security(()),
    responses((status = 200, description = "It does", body = Health)))]
async fn healthz() -> axum::Json<Health> {
    Health::ok()
}

/// Whether the worker works: its store can be read and written, and it is not being stopped.
#[utoipa::path(get, path = "/readyz", tag = "operation", security(()),
    responses(
        (status = 200, description = "It does", body = Health),
        (status = 503, description = "It does not at the moment"),
    ))]
async fn readyz(State(api): State<Api>) -> Result<axum::Json<Health>, Problem> {
    if api.draining.is_cancelled() {
        return Err(Kind::Unavailable.because("it is being stopped"));
    }
    // In words it may name files, which is for the log.
    if api.trouble.borrow().is_some() || api.trouble.has_changed().is_err() {
        return Err(Kind::Unavailable.because("the worker does not work; the log says why"));
    }
    api.store.clock_seen().await?;
    Ok(Health::ok())
}
