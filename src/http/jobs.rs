//! Jobs: looking at them, and what may be asked of them.

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    config::JobDraft,
    ids::JobId,
    policy::{FailedSlots, Refill, Refusal},
    store::StoredJob,
    view::{self, At, JobDetail},
    worker::{JobChange, JobError, PastSlot, Stretch},
};

use super::{
    Api,
    extract::{Instant, Json, Named, Query},
    page::{self, Paging},
    problem::{Kind, Problem, Wrong},
};

/// Who has created a job, where nothing is said.
const CREATOR: &str = "HTTP API";
/// Why a job is paused, where nothing is said.
const REASON: &str = "paused by the HTTP API";

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(show, update, delete))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(trigger))
        .routes(routes!(backfill))
}

/// Jobs, by id.
#[derive(Serialize, ToSchema)]
struct JobPage {
    jobs: Vec<view::Job>,
    /// The `cursor` of the next page; null where there is none.
    next: Option<String>,
}

/// List the jobs: when each runs, where, how it stands, what came last.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", params(Paging),
    responses((status = 200, description = "Jobs, by id", body = JobPage)))]
async fn list(
    State(api): State<Api>,
    Query(paging): Query<Paging>,
) -> Result<axum::Json<JobPage>, Problem> {
    let size = page::size(paging.limit)?;
    let now = api.now();
    let after = match &paging.cursor {
        Some(last) => Some(JobId::new(last.clone()).map_err(|_| page::unknown(last))?),
        None => None,
    };
    // One more tells whether there are more.
    let most = usize::try_from(size).unwrap_or(usize::MAX) + 1;
    let jobs = api.store.jobs_after(after.as_ref(), most).await?;
    let (jobs, more) = page::cut(jobs, size);
    let last = jobs.last().map(|stored| stored.job.id.to_string());
    let listed = view::list(api.store.as_ref(), jobs, now).await?;
    let jobs = listed.iter().map(|job| view::Job::new(job, now));
    Ok(axum::Json(JobPage {
        jobs: jobs.collect(),
        next: last.filter(|_| more),
    }))
}

/// A job that shall be there.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewJob {
    /// 1 to 64 letters, digits, `-` or `_`, starting with a letter or digit.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length = 64)]
    id: String,
    #[schema(value_type = super::openapi::JobDefinition)]
    definition: Map<String, Value>,
    /// Who creates it, for whoever looks.
    creator: Option<String>,
}

/// Create a job. No jobs file changes or removes it.
#[utoipa::path(post, path = "/v1/jobs", tag = "jobs", request_body = NewJob,
    responses(
        (status = 201, description = "It is created", body = JobDetail,
            headers(("location" = String, description = "The job"))),
        (status = 409, description = "The id is taken"),
        (status = 422, description = "The definition is wrong; `problems` has every mistake"),
    ))]
async fn create(State(api): State<Api>, Json(new): Json<NewJob>) -> Result<Response, Problem> {
    let services = api.services();
    let now = api.now();
    let draft = JobDraft::of_keys(new.id, new.definition);
    let job = read(&draft, &services.directory, now)?;
    let creator = new.creator.as_deref().unwrap_or(CREATOR);
    let stored = api.control(&services).create(job, creator, now).await?;
    api.has_changed(&stored.job.id, JobChange::Defined);
    let location = format!("/v1/jobs/{}", stored.job.id);
    let detail = detail(&api, stored).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], detail).into_response())
}

fn read(
    draft: &JobDraft,
    directory: &crate::directory::Directory,
    now: Timestamp,
) -> Result<crate::job::Job, Problem> {
    let read = draft.read(directory, now);
    read.map_err(|invalid| JobError::from(invalid).into())
}

async fn detail(api: &Api, stored: StoredJob) -> Result<axum::Json<JobDetail>, Problem> {
    let shown = view::show(api.store.as_ref(), stored, api.now()).await?;
    Ok(axum::Json(JobDetail::from(&shown)))
}

/// Show everything about a job, also about one that was removed.
#[utoipa::path(get, path = "/v1/jobs/{job}", tag = "jobs",
    params(("job" = String, Path, description = "The job's id")),
    responses(
        (status = 200, description = "The job", body = JobDetail),
        (status = 404, description = "There is no such job"),
    ))]
async fn show(State(api): State<Api>, Named(job): Named) -> Result<axum::Json<JobDetail>, Problem> {
    let services = api.services();
    let stored = api.control(&services).job_or_removed(&job).await?;
    detail(&api, stored).await
}

/// Another definition of a job.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Redefinition {
    #[schema(value_type = super::openapi::JobDefinition)]
    definition: Map<String, Value>,
    /// The revision that was looked at; at another one nothing is changed.
    revision: Option<i64>,
}

/// Put another definition in the place of the one of a job that was created at run time.
#[utoipa::path(put, path = "/v1/jobs/{job}", tag = "jobs", request_body = Redefinition,
    params(("job" = String, Path, description = "The job's id")),
    responses(
        (status = 200, description = "The job as it is now", body = JobDetail),
        (status = 404, description = "There is no such job"),
        (status = 409, description = "It has another revision, or a jobs file defines it"),
        (status = 422, description = "The definition is wrong; `problems` has every mistake"),
    ))]
async fn update(
    State(api): State<Api>,
    Named(job): Named,
    Json(new): Json<Redefinition>,
) -> Result<axum::Json<JobDetail>, Problem> {
    let services = api.services();
    let control = api.control(&services);
    let now = api.now();
    // What is not there is told before what is wrong with its definition.
    control.job(&job).await?;
    let job = read(
        &JobDraft::of_keys(job, new.definition),
        &services.directory,
        now,
    )?;
    let stored = control.update(job, new.revision, now).await?;
    api.has_changed(&stored.job.id, JobChange::Defined);
    detail(&api, stored).await
}

/// Which revision is meant.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Revision {
    /// The revision that was looked at; at another one nothing is changed.
    revision: Option<i64>,
}

/// Delete a job that was created at run time. Its history is kept.
#[utoipa::path(delete, path = "/v1/jobs/{job}", tag = "jobs",
    params(("job" = String, Path, description = "The job's id"), Revision),
    responses(
        (status = 204, description = "It is deleted"),
        (status = 404, description = "There is no such job"),
        (status = 409, description = "It has another revision, or a jobs file defines it"),
    ))]
async fn delete(
    State(api): State<Api>,
    Named(job): Named,
    Query(query): Query<Revision>,
) -> Result<StatusCode, Problem> {
    let services = api.services();
    let control = api.control(&services);
    let id = control.delete(&job, query.revision, api.now()).await?;
    api.has_changed(&id, JobChange::Removed);
    Ok(StatusCode::NO_CONTENT)
}

/// Why a job is paused.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PauseReason {
    /// For whoever looks.
    reason: Option<String>,
}

/// Nothing to say.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Let nothing of a job start until it is resumed. One that is paused already keeps its reason, unless
/// another one is given.
#[utoipa::path(post, path = "/v1/jobs/{job}/pause", tag = "jobs", request_body = PauseReason,
    params(("job" = String, Path, description = "The job's id")),
    responses(
        (status = 200, description = "The job as it is now", body = JobDetail),
        (status = 404, description = "There is no such job"),
    ))]
async fn pause(
    State(api): State<Api>,
    Named(job): Named,
    Json(said): Json<PauseReason>,
) -> Result<axum::Json<JobDetail>, Problem> {
    let services = api.services();
    let control = api.control(&services);
    let mut stored = control.job(&job).await?;
    // Why it was paused first is not lost to a second request that says nothing of it.
    if stored.state.pause.is_none() || said.reason.is_some() {
        let reason = said.reason.as_deref().unwrap_or(REASON);
        control.pause(&job, reason, api.now()).await?;
        stored = control.job(&job).await?;
        api.has_changed(&stored.job.id, JobChange::Paused);
    }
    detail(&api, stored).await
}

/// Let a paused job run again, from its next slot on.
#[utoipa::path(post, path = "/v1/jobs/{job}/resume", tag = "jobs", request_body = Nothing,
    params(("job" = String, Path, description = "The job's id")),
    responses(
        (status = 200, description = "The job as it is now", body = JobDetail),
        (status = 404, description = "There is no such job"),
    ))]
async fn resume(
    State(api): State<Api>,
    Named(job): Named,
    Json(Nothing {}): Json<Nothing>,
) -> Result<axum::Json<JobDetail>, Problem> {
    let services = api.services();
    let control = api.control(&services);
    control.resume(&job, api.now()).await?;
    let stored = control.job(&job).await?;
    api.has_changed(&stored.job.id, JobChange::Resumed);
    detail(&api, stored).await
}

/// A run that was asked for.
#[derive(Serialize, ToSchema)]
struct Triggered {
    run_id: i64,
}

/// Run a job now, besides its schedule.
#[utoipa::path(post, path = "/v1/jobs/{job}/trigger", tag = "jobs", request_body = Nothing,
    params(("job" = String, Path, description = "The job's id")),
    responses(
        (status = 202, description = "The run is queued", body = Triggered,
            headers(("location" = String, description = "The run"))),
        (status = 404, description = "There is no such job"),
        (status = 409, description = "A run of it is active, or it is off"),
    ))]
async fn trigger(
    State(api): State<Api>,
    Named(job): Named,
    Json(Nothing {}): Json<Nothing>,
) -> Result<Response, Problem> {
    let services = api.services();
    let run = api.control(&services).trigger(&job, api.now()).await?;
    api.worker.look();
    let location = format!("/v1/runs/{run}");
    let body = axum::Json(Triggered { run_id: run.0 });
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, location)], body).into_response())
}

/// Slots of the past.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Backfill {
    /// From when on.
    #[schema(value_type = String, format = DateTime)]
    from: Instant,
    /// Until when, not part of it.
    #[schema(value_type = String, format = DateTime)]
    to: Instant,
    /// Slots as well that failed or were called off.
    #[serde(default)]
    failed: bool,
    /// Say what would run, and change nothing.
    #[serde(default)]
    dry_run: bool,
}

/// What becomes of slots of the past.
#[derive(Serialize, ToSchema)]
struct Backfilled {
    job: String,
    dry_run: bool,
    slots: Vec<BackfilledSlot>,
}

/// A slot of the past.
#[derive(Serialize, ToSchema)]
struct BackfilledSlot {
    slot: String,
    nominal_at: At,
    /// In words.
    was: String,
    /// Whether it runs again.
    runs: bool,
}

impl From<&PastSlot> for BackfilledSlot {
    fn from(past: &PastSlot) -> Self {
        Self {
            slot: past.slot.as_str().to_owned(),
            nominal_at: At(past.nominal),
            was: past.was.clone(),
            runs: past.refill == Refill::Runs,
        }
    }
}

/// Run slots of the past again that were skipped, one after another. Asking twice does nothing
/// twice.
#[utoipa::path(post, path = "/v1/jobs/{job}/backfill", tag = "jobs", request_body = Backfill,
    params(("job" = String, Path, description = "The job's id")),
    responses(
        (status = 200, description = "The slots, and which run again", body = Backfilled),
        (status = 404, description = "There is no such job"),
        (status = 409, description = "The job does not allow it now"),
        (status = 422, description = "The stretch is empty or too long"),
    ))]
async fn backfill(
    State(api): State<Api>,
    Named(job): Named,
    Json(asked): Json<Backfill>,
) -> Result<axum::Json<Backfilled>, Problem> {
    let services = api.services();
    let control = api.control(&services);
    let stretch = Stretch {
        from: asked.from.0,
        to: asked.to.0,
        failed: if asked.failed {
            FailedSlots::Run
        } else {
            FailedSlots::Stay
        },
    };
    let slots = if asked.dry_run {
        control.preview_backfill(&job, stretch).await?
    } else {
        control.backfill(&job, stretch, api.now()).await?
    };
    api.worker.look();
    Ok(axum::Json(Backfilled {
        job,
        dry_run: asked.dry_run,
        slots: slots.iter().map(BackfilledSlot::from).collect(),
    }))
}

impl From<JobError> for Problem {
    fn from(error: JobError) -> Self {
        let words = error.to_string();
        match error {
            JobError::Store(error) => error.into(),
            JobError::Invalid(invalid) => Kind::WrongDefinition
                .because(words)
                .help("the keys are those of `[jobs.ID]` in docs/jobs.md")
                .problems(invalid.problems.iter().map(Wrong::from).collect()),
            JobError::UnknownJob { .. } => Kind::UnknownJob
                .because(words)
                .help("`GET /v1/jobs` lists the jobs"),
            JobError::Schedule { .. }
            | JobError::UnknownChat { .. }
            | JobError::UnknownAgent { .. }
            | JobError::NeverRuns { .. } => Kind::WrongDefinition
                .because(words)
                .help("the keys are those of `[jobs.ID]` in docs/jobs.md"),
            JobError::Exists { .. } => Kind::JobExists
                .because(words)
                .help("`PUT /v1/jobs/{job}` puts another definition in the place of its own"),
            JobError::DefinedInFile { .. } => Kind::FileJob
                .because(words)
                .help("edit the file, which the worker reads again when it is saved"),
            JobError::StaleRevision { .. } => Kind::StaleRevision
                .because(words)
                .help("look at the job again, and send the revision that it has now"),
            JobError::Refused { refusal, .. } => Kind::Refused.because(words).help(match refusal {
                Refusal::RunActive => "wait for its end: `GET /v1/runs?job=JOB` says how it stands",
                Refusal::Disabled => "give it a definition without `enabled = false`",
                Refusal::BackfillFull => "wait for their ends, and ask for the rest then",
            }),
            JobError::Backfill(_) => Kind::Unprocessable
                .because(words)
                .help("ask for a shorter stretch by `from` and `to`"),
            JobError::ClockDoubted { .. } => Kind::Unavailable
                .because(words)
                .help("`chatcron accept-clock` confirms it"),
            JobError::Busy { .. } => Kind::Unavailable
                .because(words)
                .help("try again")
                .header(header::RETRY_AFTER, "1"),
        }
    }
}

impl From<&crate::config::Problem> for Wrong {
    fn from(problem: &crate::config::Problem) -> Self {
        Self {
            code: problem.code.as_str(),
            message: problem.message.clone(),
            help: problem.help.clone(),
        }
    }
}
