//! Runs, and slots that did not run.

use axum::extract::State;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    ids::{JobId, OccurrenceId, RunId},
    occurrence::SkipReason,
    store::{RangeCursor, RunCursor, RunFilter},
    view::{self, Run, RunDetail, RunState, Stretch},
};

use super::{
    Api,
    extract::{Instant, Named, Query},
    page,
    problem::{Kind, Problem},
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(skipped))
}

/// Which runs are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Of this job only.
    job: Option<String>,
    /// In these states only, with commas between them: `waiting`, `queued`, `running`, `backoff`,
    /// `done`, `failed`, `cancelled`, `skipped`.
    #[param(
        pattern = "^(waiting|queued|running|backoff|done|failed|cancelled|skipped)(,(waiting|queued|running|backoff|done|failed|cancelled|skipped))*$"
    )]
    state: Option<String>,
    /// Slots only that passed while nothing could start them.
    missed: Option<bool>,
    /// With a nominal instant at or after this one.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Instant>,
    /// How many items, 50 where nothing is said.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

impl Which {
    async fn filter(&self, api: &Api) -> Result<(RunFilter, u32), Problem> {
        let size = page::size(self.limit)?;
        let job_id = match &self.job {
            Some(job) => {
                let services = api.services();
                Some(api.control(&services).job_or_removed(job).await?.job.id)
            }
            None => None,
        };
        let filter = RunFilter {
            job_id,
            since: self.since.map(|since| since.0),
            states: states(self.state.as_deref())?,
            skipped_as: if self.missed == Some(true) {
                vec![SkipReason::Missed, SkipReason::Superseded]
            } else {
                Vec::new()
            },
            // One more tells whether there are more.
            limit: Some(size + 1),
            ..RunFilter::default()
        };
        Ok((filter, size))
    }
}

fn states(words: Option<&str>) -> Result<Vec<String>, Problem> {
    let words = words.into_iter().flat_map(|words| words.split(','));
    words
        .map(|word| {
            let mut known = RunState::ALL.into_iter().map(RunState::as_str);
            let word = word.trim();
            known
                .find(|known| *known == word)
                .map(str::to_owned)
                .ok_or_else(|| {
                    let known: Vec<_> = RunState::ALL.map(RunState::as_str).to_vec();
                    Kind::Unprocessable
                        .because(format!("`state` has `{}`", super::extract::brief(word)))
                        .help(format!("the states are {}", known.join(", ")))
                })
        })
        .collect()
}

/// Runs, newest first.
#[derive(Serialize, ToSchema)]
struct RunPage {
    runs: Vec<Run>,
    /// The `cursor` of the next page; null where there is none.
    next: Option<String>,
}

/// List what ran, newest first, and single slots that wait or did not run.
#[utoipa::path(get, path = "/v1/runs", tag = "runs", params(Which),
    responses(
        (status = 200, description = "Runs, newest first", body = RunPage),
        (status = 404, description = "There is no such job"),
    ))]
async fn list(
    State(api): State<Api>,
    Query(which): Query<Which>,
) -> Result<axum::Json<RunPage>, Problem> {
    let (mut filter, size) = which.filter(&api).await?;
    if let Some(cursor) = &which.cursor {
        let [nominal, occurrence] = page::numbers(cursor)?;
        filter.before = Some(RunCursor {
            nominal_at: Timestamp::from_microsecond(nominal).map_err(|_| page::unknown(cursor))?,
            occurrence_id: OccurrenceId(occurrence),
        });
    }
    let (runs, more) = page::cut(api.store.runs(&filter).await?, size);
    let last = runs.last().filter(|_| more);
    Ok(axum::Json(RunPage {
        next: last.map(|run| format!("{}.{}", run.nominal_at.as_microsecond(), run.occurrence_id)),
        runs: runs.iter().map(Run::from).collect(),
    }))
}

/// Show everything about a run: its attempts, its messages, and what is worth knowing.
#[utoipa::path(get, path = "/v1/runs/{run}", tag = "runs",
    params(("run" = i64, Path, description = "The run's id")),
    responses(
        (status = 200, description = "The run", body = RunDetail),
        (status = 404, description = "There is no such run, or not any more"),
    ))]
async fn show(State(api): State<Api>, named: Named) -> Result<axum::Json<RunDetail>, Problem> {
    let id = RunId(named.number(Kind::UnknownRun, "run")?);
    let found = view::run(api.store.as_ref(), id).await?;
    let rows = found.ok_or_else(|| {
        Kind::UnknownRun
            .because(format!("there is no run {id}"))
            .help("`GET /v1/runs` lists them; old ones are pruned as `[retention]` says")
    })?;
    Ok(axum::Json(RunDetail::from(&rows)))
}

/// Stretches of slots that did not run, newest first.
#[derive(Serialize, ToSchema)]
struct StretchPage {
    skipped: Vec<Stretch>,
    /// The `cursor` of the next page; null where there is none.
    next: Option<String>,
}

/// List stretches of slots that did not run, newest first.
#[utoipa::path(get, path = "/v1/skipped", tag = "runs", params(Which),
    responses(
        (status = 200, description = "Stretches, newest first", body = StretchPage),
        (status = 404, description = "There is no such job"),
    ))]
async fn skipped(
    State(api): State<Api>,
    Query(which): Query<Which>,
) -> Result<axum::Json<StretchPage>, Problem> {
    let (mut filter, size) = which.filter(&api).await?;
    if let Some(cursor) = &which.cursor {
        filter.ranges_before = Some(range_cursor(cursor)?);
    }
    let (ranges, more) = page::cut(api.store.ranges(&filter).await?, size);
    let last = ranges.last().filter(|_| more);
    Ok(axum::Json(StretchPage {
        next: last
            .map(|last| format!("{}.{}", last.first_nominal_at.as_microsecond(), last.job_id)),
        skipped: ranges.iter().map(Stretch::from).collect(),
    }))
}

fn range_cursor(cursor: &str) -> Result<RangeCursor, Problem> {
    let read = || {
        let (nominal, job) = cursor.split_once('.')?;
        Some(RangeCursor {
            first_nominal_at: Timestamp::from_microsecond(nominal.parse().ok()?).ok()?,
            job_id: JobId::new(job).ok()?,
        })
    };
    read().ok_or_else(|| page::unknown(cursor))
}
