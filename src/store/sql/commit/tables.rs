//! The rows that decisions write, and the statement of each table.

use serde::Serialize;

use crate::{
    job::Job,
    store::{
        JobCommit,
        sql::{
            connection::Conn,
            failure::Fallible,
            lanes::Release,
            rows::{micros, write_rows},
            statement::{Statement, over_rows},
            stretches::{self, NewStretch, StretchEnd},
        },
    },
};

use super::{begin::BeginCandidate, load::JobRow};

const DEFINITIONS: Statement = over_rows!(
    [digest text, definition text]
    "\
INSERT INTO definitions (digest, definition)
SELECT x.digest, x.definition
FROM",
    "\
WHERE true
ON CONFLICT (digest) DO NOTHING"
);

const JOBS: Statement = over_rows!(
    [
        job_id text, incarnation bigint, revision bigint, version bigint, source text, digest text,
        first_seen_at bigint, state text, wake_at bigint, removed_at bigint,
    ]
    "\
INSERT INTO jobs (job_id, incarnation, revision, version, source, digest, first_seen_at, state, wake_at,
  removed_at)
SELECT x.job_id, x.incarnation, x.revision, x.version, x.source, x.digest, x.first_seen_at,
  x.state, x.wake_at, x.removed_at
FROM",
    "\
WHERE true
ON CONFLICT (job_id) DO UPDATE SET incarnation = excluded.incarnation, revision = excluded.revision,
  version = excluded.version, source = excluded.source, digest = excluded.digest,
  first_seen_at = excluded.first_seen_at, state = excluded.state, wake_at = excluded.wake_at,
  removed_at = excluded.removed_at"
);

// Nearly every decision leaves the definition as it is, and need not look it up. The end of an attempt
// also leaves the wake-up, and with it the index of those.
const STEADY_JOBS: Statement = over_rows!(
    [job_id text, version bigint, state text]
    "\
UPDATE jobs SET version = x.version, state = x.state
FROM",
    "WHERE jobs.job_id = x.job_id"
);

const KEPT_JOBS: Statement = over_rows!(
    [job_id text, version bigint, state text, wake_at bigint]
    "\
UPDATE jobs SET version = x.version, state = x.state, wake_at = x.wake_at
FROM",
    "WHERE jobs.job_id = x.job_id"
);

const NEW_OCCURRENCES: Statement = over_rows!(
    [
        occurrence_id bigint, job_id text, incarnation bigint, kind text, request_id bigint,
        slot text, nominal_at bigint, fire_at bigint, merged text, cause text, digest text,
        lane text, destination text, state text, reason text, accounted_at bigint, ended_at bigint,
    ]
    "\
INSERT INTO occurrences (occurrence_id, job_id, incarnation, kind, request_id, slot, nominal_at, fire_at, merged,
  cause, digest, lane, destination, state, reason, accounted_at, ended_at)
SELECT x.occurrence_id, x.job_id, x.incarnation, x.kind, x.request_id, x.slot, x.nominal_at,
  x.fire_at, x.merged, x.cause, x.digest, x.lane, x.destination, x.state, x.reason,
  x.accounted_at, x.ended_at
FROM",
    ""
);

const OCCURRENCES: Statement = over_rows!(
    [occurrence_id bigint, state text, reason text, ended_at bigint]
    "\
UPDATE occurrences SET state = x.state, reason = x.reason, ended_at = x.ended_at
FROM",
    "WHERE occurrences.occurrence_id = x.occurrence_id"
);

const RANGES: Statement = over_rows!(
    [
        job_id text, incarnation bigint, first_nominal_at bigint, last_nominal_at bigint,
        first_slot text, last_slot text, slots bigint, reason text, recorded_at bigint,
    ]
    "\
INSERT INTO occurrence_ranges (job_id, incarnation, first_nominal_at, last_nominal_at, first_slot, last_slot, slots,
  reason, recorded_at)
SELECT x.job_id, x.incarnation, x.first_nominal_at, x.last_nominal_at, x.first_slot, x.last_slot,
  x.slots, x.reason, x.recorded_at
FROM",
    ""
);

const NEW_RUNS: Statement = over_rows!(
    [
        run_id bigint, occurrence_id bigint, job_id text, lane text, cause text, state text,
        reason text, due_at bigint, ended_at bigint, attempts bigint, epoch bigint,
        worker_id bigint, started_at bigint,
    ]
    "\
INSERT INTO runs (run_id, occurrence_id, job_id, lane, cause, state, reason, due_at, ended_at, attempts,
  epoch, worker_id, started_at)
SELECT x.run_id, x.occurrence_id, x.job_id, x.lane, x.cause, x.state, x.reason, x.due_at,
  x.ended_at, x.attempts, x.epoch, x.worker_id, x.started_at
FROM",
    ""
);

const RUNS: Statement = over_rows!(
    [
        run_id bigint, state text, reason text, due_at bigint, ended_at bigint, epoch bigint,
        attempt_ended boolean, error text, output text, usage text,
    ]
    "\
UPDATE runs SET state = x.state, reason = x.reason, due_at = coalesce(x.due_at, runs.due_at),
  ended_at = x.ended_at, epoch = x.epoch,
  error = CASE WHEN x.attempt_ended THEN x.error ELSE runs.error END,
  output = CASE WHEN x.attempt_ended THEN x.output ELSE runs.output END,
  usage = CASE WHEN x.attempt_ended THEN x.usage ELSE runs.usage END
FROM",
    "WHERE runs.run_id = x.run_id"
);

const ATTEMPTS: Statement = over_rows!(
    [run_id bigint, ended_at bigint, result text, error text]
    "\
UPDATE attempts SET ended_at = x.ended_at, result = x.result, error = x.error
FROM",
    "WHERE attempts.run_id = x.run_id AND attempts.ended_at IS NULL"
);

#[derive(Debug, Serialize)]
pub(super) struct DefinitionRow {
    pub(super) digest: String,
    definition: String,
}

impl DefinitionRow {
    pub(super) fn of(job: &Job) -> Fallible<Self> {
        Ok(Self {
            digest: job.digest(),
            definition: serde_json::to_string(job)?,
        })
    }
}

#[derive(Debug, Serialize)]
pub(super) struct JobChange {
    job_id: String,
    incarnation: i64,
    revision: i64,
    version: i64,
    source: String,
    digest: String,
    first_seen_at: i64,
    state: String,
    wake_at: Option<i64>,
    removed_at: Option<i64>,
}

impl JobChange {
    pub(super) fn new(item: &JobCommit, row: JobRow) -> Fallible<Self> {
        Ok(Self {
            job_id: item.job_id.as_str().to_owned(),
            incarnation: row.incarnation,
            revision: row.revision,
            version: row.version,
            source: row.source,
            digest: row.digest,
            first_seen_at: row.first_seen_at,
            state: serde_json::to_string(&item.state)?,
            wake_at: item.wake_at.map(micros),
            removed_at: row.removed_at,
        })
    }
}

/// A job whose definition stays.
#[derive(Debug, Serialize)]
pub(super) struct KeptJob {
    job_id: String,
    version: i64,
    state: String,
    wake_at: Option<i64>,
}

/// A job whose definition and wake-up stay.
#[derive(Debug, Serialize)]
pub(super) struct SteadyJob {
    job_id: String,
    version: i64,
    state: String,
}

#[derive(Debug, Serialize)]
pub(super) struct NewOccurrence {
    pub(super) occurrence_id: i64,
    pub(super) job_id: String,
    pub(super) incarnation: i64,
    pub(super) kind: &'static str,
    pub(super) request_id: Option<i64>,
    pub(super) slot: Option<String>,
    pub(super) nominal_at: i64,
    pub(super) fire_at: i64,
    pub(super) merged: Option<String>,
    pub(super) cause: &'static str,
    pub(super) digest: String,
    pub(super) lane: String,
    pub(super) destination: Option<String>,
    pub(super) state: &'static str,
    pub(super) reason: Option<&'static str>,
    pub(super) accounted_at: i64,
    pub(super) ended_at: Option<i64>,
}

#[derive(Debug, Serialize)]
pub(super) struct OccurrenceChange {
    pub(super) occurrence_id: i64,
    pub(super) state: String,
    pub(super) reason: Option<&'static str>,
    pub(super) ended_at: Option<i64>,
}

#[derive(Debug, Serialize)]
pub(super) struct NewRange {
    pub(super) job_id: String,
    pub(super) incarnation: i64,
    pub(super) first_nominal_at: i64,
    pub(super) last_nominal_at: i64,
    pub(super) first_slot: String,
    pub(super) last_slot: String,
    pub(super) slots: u64,
    pub(super) reason: &'static str,
    pub(super) recorded_at: i64,
}

#[derive(Debug, Serialize)]
pub(super) struct NewRun {
    pub(super) run_id: i64,
    pub(super) occurrence_id: i64,
    pub(super) job_id: String,
    pub(super) lane: String,
    pub(super) cause: &'static str,
    pub(super) state: &'static str,
    pub(super) reason: Option<&'static str>,
    pub(super) due_at: i64,
    pub(super) ended_at: Option<i64>,
    pub(super) attempts: u32,
    pub(super) epoch: i64,
    pub(super) worker_id: Option<i64>,
    pub(super) started_at: Option<i64>,
}

impl NewRun {
    /// Its first attempt begins as it is written.
    pub(super) fn begin(&mut self, epoch: i64, worker: i64, now: i64) {
        self.state = "running";
        self.attempts = 1;
        self.epoch = epoch;
        self.worker_id = Some(worker);
        self.started_at = Some(now);
    }
}

#[derive(Debug, Serialize)]
pub(super) struct RunChange {
    pub(super) run_id: i64,
    pub(super) state: &'static str,
    pub(super) reason: Option<&'static str>,
    pub(super) due_at: Option<i64>,
    pub(super) ended_at: Option<i64>,
    pub(super) epoch: i64,
    pub(super) attempt_ended: bool,
    pub(super) error: Option<String>,
    pub(super) output: Option<String>,
    pub(super) usage: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct AttemptChange {
    pub(super) run_id: i64,
    pub(super) ended_at: i64,
    pub(super) result: String,
    pub(super) error: Option<String>,
}

/// What one item writes.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) definitions: Vec<DefinitionRow>,
    pub(super) jobs: Vec<JobChange>,
    pub(super) kept_jobs: Vec<KeptJob>,
    /// Likewise, where the wake-up stays too.
    pub(super) steady_jobs: Vec<SteadyJob>,
    pub(super) new_occurrences: Vec<NewOccurrence>,
    pub(super) occurrences: Vec<OccurrenceChange>,
    pub(super) ranges: Vec<NewRange>,
    pub(super) new_runs: Vec<NewRun>,
    pub(super) runs: Vec<RunChange>,
    pub(super) attempts: Vec<AttemptChange>,
    pub(super) releases: Vec<Release>,
    pub(super) removed: Vec<String>,
    pub(super) stretch_ends: Vec<StretchEnd>,
    pub(super) stretches: Vec<NewStretch>,
    /// New runs that may begin at once.
    pub(super) begin_candidates: Vec<BeginCandidate>,
}

/// What a batch writes.
pub(super) type Changes = Change;

impl Change {
    pub(super) fn add(&mut self, other: Self) {
        self.definitions.extend(other.definitions);
        self.jobs.extend(other.jobs);
        self.kept_jobs.extend(other.kept_jobs);
        self.steady_jobs.extend(other.steady_jobs);
        self.new_occurrences.extend(other.new_occurrences);
        self.occurrences.extend(other.occurrences);
        self.ranges.extend(other.ranges);
        self.new_runs.extend(other.new_runs);
        self.runs.extend(other.runs);
        self.attempts.extend(other.attempts);
        self.releases.extend(other.releases);
        self.removed.extend(other.removed);
        self.stretch_ends.extend(other.stretch_ends);
        self.stretches.extend(other.stretches);
        self.begin_candidates.extend(other.begin_candidates);
    }

    /// The job's definition stays as it is; `present` is its row as it was.
    pub(super) fn keep(
        &mut self,
        item: &JobCommit,
        present: &JobRow,
        version: i64,
    ) -> Fallible<()> {
        let job_id = item.job_id.as_str().to_owned();
        let state = serde_json::to_string(&item.state)?;
        let wake_at = item.wake_at.map(micros);
        if wake_at == present.wake_at {
            self.steady_jobs.push(SteadyJob {
                job_id,
                version,
                state,
            });
        } else {
            self.kept_jobs.push(KeptJob {
                job_id,
                version,
                state,
                wake_at,
            });
        }
        Ok(())
    }

    pub(super) async fn write(self, conn: &mut Conn) -> Fallible<()> {
        write_rows(conn, DEFINITIONS, &self.definitions).await?;
        write_rows(conn, JOBS, &self.jobs).await?;
        write_rows(conn, KEPT_JOBS, &self.kept_jobs).await?;
        write_rows(conn, STEADY_JOBS, &self.steady_jobs).await?;
        stretches::write(conn, &self.stretch_ends, &self.stretches).await?;
        write_rows(conn, NEW_OCCURRENCES, &self.new_occurrences).await?;
        write_rows(conn, OCCURRENCES, &self.occurrences).await?;
        write_rows(conn, RANGES, &self.ranges).await?;
        write_rows(conn, NEW_RUNS, &self.new_runs).await?;
        write_rows(conn, RUNS, &self.runs).await?;
        write_rows(conn, ATTEMPTS, &self.attempts).await
    }
}
