//! Runs, as the store gives them.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    agent::Usage,
    ids::{Epoch, JobId, OccurrenceId, PartId, RunId, SessionKey, TurnId},
    job::Job,
    message::Destination,
    occurrence::{Cause, OccurrenceRef, SkipReason, Slot},
};

use super::StoredJob;

/// A run whose next attempt may begin: the lane is held under this epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedRun {
    /// The run.
    pub run_id: RunId,
    /// The fence of everything this attempt writes.
    pub epoch: Epoch,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// The definition under which its first attempt started.
    pub job: Job,
    /// Raised when the job's id is created again.
    pub incarnation: i64,
    /// What it executes.
    pub occurrence: OccurrenceRef,
    /// Its row in the ledger, of which idempotency keys are derived.
    pub occurrence_id: OccurrenceId,
    /// Its nominal instant.
    pub nominal_at: Timestamp,
    /// Why it runs.
    pub cause: Cause,
    /// The session in which it runs.
    pub lane: SessionKey,
    /// Where its result goes.
    pub destination: Option<Destination>,
    /// The snapshot of a chat that an earlier attempt was given.
    pub context: Option<String>,
    /// The job as it was when the run was read, where it has the run's definition still: its end is
    /// decided on as it is here, unless another decision has come between.
    pub stored_job: Option<Arc<StoredJob>>,
}

/// What is under way in one session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UnderWay {
    /// Attempts of runs.
    pub runs: Vec<ClaimedRun>,
    /// Whether a part is being sent.
    pub is_sending: bool,
}

/// A run, as it is listed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// Its row in the ledger.
    pub occurrence_id: OccurrenceId,
    /// The run; `None` for an occurrence that did not run.
    pub run_id: Option<RunId>,
    /// The job.
    pub job_id: JobId,
    /// The slot; `None` for a manual run.
    pub slot: Option<Slot>,
    /// Its nominal instant.
    pub nominal_at: Timestamp,
    /// When it could start.
    pub fire_at: Timestamp,
    /// Why it runs.
    pub cause: Cause,
    /// `waiting`, `queued`, `running`, `backoff`, `done`, `failed`, `cancelled` or `skipped`.
    pub state: String,
    /// The reason for that.
    pub reason: Option<String>,
    /// Attempts made.
    pub attempts: u32,
    /// When the first attempt began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When the next attempt may begin, while it waits for one.
    pub due_at: Option<Timestamp>,
    /// The last error.
    pub error: Option<String>,
    /// What the agent said.
    pub output: Option<String>,
    /// What the provider counted.
    pub usage: Option<Usage>,
    /// Where its result goes.
    pub destination: Option<Destination>,
    /// Parts of its messages, by state: confirmed, unknown, failed, cancelled, open.
    pub delivery: DeliveryCounts,
    /// How many warnings it has.
    pub warnings: u32,
}

/// How the parts of a run's messages stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http-api", derive(utoipa::ToSchema))]
pub struct DeliveryCounts {
    /// Shown.
    pub confirmed: u32,
    /// Nobody can say.
    pub unknown: u32,
    /// Given up.
    pub failed: u32,
    /// No longer wanted.
    pub cancelled: u32,
    /// Still to be sent.
    pub open: u32,
}

/// An attempt, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRow {
    /// Which one, from 1.
    pub attempt: u32,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How.
    pub result: Option<String>,
    /// In words.
    pub error: Option<String>,
    /// When it said that it was about to have effects.
    pub effects_at: Option<Timestamp>,
}

/// A stretch of slots that did not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeRow {
    /// The job.
    pub job_id: JobId,
    /// The first slot.
    pub first_slot: Slot,
    /// The last slot.
    pub last_slot: Slot,
    /// The first nominal instant.
    pub first_nominal_at: Timestamp,
    /// The last nominal instant.
    pub last_nominal_at: Timestamp,
    /// How many slots.
    pub slots: u64,
    /// Why.
    pub reason: SkipReason,
}

/// Which runs are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Of this job only.
    pub job_id: Option<JobId>,
    /// This run only.
    pub run_id: Option<RunId>,
    /// With a nominal instant at or after this one.
    pub since: Option<Timestamp>,
    /// In one of these states; all where there is none. Ranges are `skipped`.
    pub states: Vec<String>,
    /// Skipped for one of these reasons; whatever it is where there is none.
    pub skipped_as: Vec<SkipReason>,
    /// At most so many; `None` for all.
    pub limit: Option<u32>,
    /// Only runs that are listed behind this one.
    pub before: Option<RunCursor>,
    /// Only skipped stretches that are listed behind this one.
    pub ranges_before: Option<RangeCursor>,
}

/// A place in a list of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunCursor {
    /// The nominal instant of the run there.
    pub nominal_at: Timestamp,
    /// Its row in the ledger.
    pub occurrence_id: OccurrenceId,
}

/// A place in a list of skipped stretches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeCursor {
    /// The first nominal instant of the stretch there.
    pub first_nominal_at: Timestamp,
    /// Its job.
    pub job_id: JobId,
}

/// How much a diagnostic matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http-api", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Worth knowing.
    Info,
    /// Something a person would have expected otherwise.
    Warn,
}

/// What a person should know about a run, a turn or a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The run.
    pub run_id: Option<RunId>,
    /// The turn.
    pub turn_id: Option<TurnId>,
    /// The part.
    pub part_id: Option<PartId>,
    /// How much it matters.
    pub level: Level,
    /// A stable word.
    pub code: &'static str,
    /// In words.
    pub message: String,
}

/// A diagnostic, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiagnosticRow {
    /// How much it matters.
    pub level: Level,
    /// A stable word.
    pub code: String,
    /// In words.
    pub message: String,
    /// When it was recorded.
    pub recorded_at: Timestamp,
}
