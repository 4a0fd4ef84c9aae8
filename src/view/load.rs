//! Reading what a job's objects tell of it.

use jiff::Timestamp;

use crate::{
    directory::Chat,
    ids::{JobId, RunId},
    store::{
        AttemptRow, DiagnosticRow, IncidentRow, OutboxRow, RangeRow, RunFilter, RunRow, Store,
        StoreError, StoredJob,
    },
};

use super::{Attempt, Diagnostic, Part, Run, RunDetail, Standing, Start, upcoming};

/// How many of a job's newest rows are looked at for one that has ended and one that has not.
const LOOKED_AT: u32 = 8;
/// How many of a job's newest runs are shown.
pub(crate) const RUNS_SHOWN: u32 = 5;
/// How many of its next times.
pub(crate) const TIMES_SHOWN: usize = 3;

/// A job as it is listed.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) stored: StoredJob,
    pub(crate) standing: Standing,
    /// The newest run that has ended.
    pub(crate) last: Option<RunRow>,
    /// What fails at present.
    pub(crate) incidents: Vec<IncidentRow>,
}

/// These jobs, as they are listed.
///
/// # Errors
/// [`StoreError`] where the store cannot be read.
pub(crate) async fn list(
    store: &dyn Store,
    jobs: Vec<StoredJob>,
    now: Timestamp,
) -> Result<Vec<Listed>, StoreError> {
    let open = store.open_incidents().await?;
    let mut listed = Vec::with_capacity(jobs.len());
    for stored in jobs {
        let runs = store.runs(&newest(&stored.job.id, LOOKED_AT)).await?;
        listed.push(Listed {
            standing: Standing::of(&stored, &runs, now),
            last: runs.into_iter().find(|run| run.ended_at.is_some()),
            incidents: of_job(&open, &stored.job.id),
            stored,
        });
    }
    Ok(listed)
}

/// What is known of a job.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) stored: StoredJob,
    #[cfg_attr(
        not(feature = "cli"),
        expect(dead_code, reason = "only people are told addresses")
    )]
    pub(crate) chats: Vec<Chat>,
    pub(crate) standing: Standing,
    pub(crate) times: Vec<Start>,
    pub(crate) runs: Vec<RunRow>,
    pub(crate) skipped: Vec<RangeRow>,
    pub(crate) incidents: Vec<IncidentRow>,
    pub(crate) diagnostics: Vec<(RunId, DiagnosticRow)>,
}

/// Everything about one job.
///
/// # Errors
/// [`StoreError`] where the store cannot be read.
pub(crate) async fn show(
    store: &dyn Store,
    stored: StoredJob,
    now: Timestamp,
) -> Result<Shown, StoreError> {
    let filter = newest(&stored.job.id, RUNS_SHOWN);
    let runs = store.runs(&filter).await?;
    let mut diagnostics = Vec::new();
    for run in runs.iter().filter_map(|run| run.run_id) {
        let rows = store.diagnostics(run).await?;
        diagnostics.extend(rows.into_iter().map(|row| (run, row)));
    }
    Ok(Shown {
        chats: store.chats().await?,
        skipped: store.ranges(&filter).await?,
        incidents: of_job(&store.open_incidents().await?, &stored.job.id),
        standing: Standing::of(&stored, &runs, now),
        times: upcoming(&stored, now, TIMES_SHOWN),
        runs,
        diagnostics,
        stored,
    })
}

fn newest(job: &JobId, limit: u32) -> RunFilter {
    RunFilter {
        job_id: Some(job.clone()),
        limit: Some(limit),
        ..RunFilter::default()
    }
}

/// The incidents of one job.
fn of_job(all: &[IncidentRow], id: &JobId) -> Vec<IncidentRow> {
    let of_it = all.iter().filter(|row| row.job_id == *id);
    of_it.cloned().collect()
}

/// What is known of a run.
#[derive(Debug)]
pub(crate) struct RunRows {
    pub(crate) run: RunRow,
    pub(crate) attempts: Vec<AttemptRow>,
    pub(crate) diagnostics: Vec<DiagnosticRow>,
    pub(crate) parts: Vec<OutboxRow>,
}

/// Everything about one run; `None` where there is none.
///
/// # Errors
/// [`StoreError`] where the store cannot be read.
pub(crate) async fn run(store: &dyn Store, id: RunId) -> Result<Option<RunRows>, StoreError> {
    let filter = RunFilter {
        run_id: Some(id),
        ..RunFilter::default()
    };
    let Some(run) = store.runs(&filter).await?.into_iter().next() else {
        return Ok(None);
    };
    Ok(Some(RunRows {
        run,
        attempts: store.attempts(id).await?,
        diagnostics: store.diagnostics(id).await?,
        parts: store.run_parts(id).await?,
    }))
}

impl From<&RunRows> for RunDetail {
    fn from(rows: &RunRows) -> Self {
        Self {
            run: Run::from(&rows.run),
            attempts: rows.attempts.iter().map(Attempt::from).collect(),
            diagnostics: rows.diagnostics.iter().map(Diagnostic::from).collect(),
            parts: rows.parts.iter().map(Part::from).collect(),
        }
    }
}
