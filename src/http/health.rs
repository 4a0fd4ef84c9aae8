//! Whether it lives, whether it works, and how much it does.

use axum::{extract::State, http::header, response::IntoResponse};
use metrics::gauge;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::message::PartState;

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

/// What Prometheus asks.
pub(super) fn metrics_route() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(metrics))
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

/// Figures for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operation",
    responses((status = 200, description = "Figures in the text format of Prometheus",
        body = String, content_type = "text/plain")))]
async fn metrics(State(api): State<Api>) -> Result<impl IntoResponse, Problem> {
    let counts = api.store.open_parts().await?;
    for state in [
        PartState::Pending,
        PartState::Sending,
        PartState::Unknown,
        PartState::Failed,
    ] {
        let found = counts.iter().find(|(found, _)| *found == state);
        let count = found.map_or(0, |(_, count)| *count);
        // Beyond 2^53 a part more or less does not matter.
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        gauge!(crate::measure::OUTBOX_PARTS, "state" => state.as_str()).set(count as f64);
    }
    let next = api.store.next_wake().await?;
    let late = next.map_or(0.0, |next| api.now().duration_since(next).as_secs_f64());
    gauge!(crate::measure::DUE_AGE).set(late.max(0.0));
    api.metrics.run_upkeep();
    let format = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, format)], api.metrics.render()))
}
