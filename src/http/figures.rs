//! Figures for Prometheus.

use std::{
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use axum::{extract::State, http::header, response::IntoResponse};
use metrics::gauge;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{clock::Clock, measure, message::PartState};

use super::{
    Api,
    problem::{Kind, Problem},
};

/// How often what was measured is put in its buckets, where nobody asks for it.
const UPKEEP: Duration = Duration::from_secs(5);

static RECORDER: OnceLock<Option<Mutex<PrometheusHandle>>> = OnceLock::new();

/// Installs the recorder of this process, once; what was counted before is not shown.
pub(super) fn install() {
    RECORDER.get_or_init(|| match new_recorder() {
        Ok(recorder) => Some(Mutex::new(recorder)),
        Err(error) => {
            tracing::warn!(%error, "`/metrics` has nothing to show");
            None
        }
    });
}

fn new_recorder() -> Result<PrometheusHandle, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for (name, buckets) in measure::BUCKETS {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)?;
    }
    let handle = builder.install_recorder()?;
    measure::describe();
    Ok(handle)
}

/// The recorder of this process; `None` where the program has installed its own. The lock is held
/// while gauges are set and shown, because each database has its own.
fn recorder() -> Option<MutexGuard<'static, PrometheusHandle>> {
    let recorder = RECORDER.get()?.as_ref()?;
    Some(recorder.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Puts what was measured in its buckets, so that it does not pile up where nobody asks for it.
pub(super) async fn keep_up(clock: &dyn Clock, stop: &CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = clock.sleep(UPKEEP) => {
                if let Some(recorder) = recorder() {
                    recorder.run_upkeep();
                }
            }
        }
    }
}

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(metrics))
}

/// Figures for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operation",
    responses(
        (status = 200, description = "Figures in the text format of Prometheus",
        body = String, content_type = "text/plain"),
        (status = 503, description = "It cannot be done at the moment, or the program counts by a \
            recorder of its own"),
    ))]
async fn metrics(State(api): State<Api>) -> Result<impl IntoResponse, Problem> {
    let counts = api.store.open_parts().await?;
    let next = api.store.next_wake().await?;
    let recorder = recorder().ok_or_else(|| {
        Kind::Unavailable
            .because("the program that chatcron is a part of counts by a recorder of its own")
            .help("ask that program for its figures")
    })?;
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
        gauge!(measure::OUTBOX_PARTS, "state" => state.as_str()).set(count as f64);
    }
    let late = next.map_or(0.0, |next| api.now().duration_since(next).as_secs_f64());
    gauge!(measure::DUE_AGE).set(late.max(0.0));
    recorder.run_upkeep();
    let format = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, format)], recorder.render()))
}
