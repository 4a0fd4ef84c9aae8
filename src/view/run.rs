//! Runs, their attempts, and slots that did not run.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    agent::Usage,
    ids::RunId,
    occurrence::{Cause, SkipReason},
    store::{AttemptRow, DeliveryCounts, DiagnosticRow, Level, RangeRow, RunRow},
};

use super::{At, Destination, Part};

/// A run, or a slot that waits or was skipped alone.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Run {
    /// The run; null for an occurrence that did not run.
    run_id: Option<i64>,
    job_id: String,
    /// The slot; null for a manual run.
    slot: Option<String>,
    /// Its nominal instant.
    nominal_at: At,
    /// When it could start.
    fire_at: At,
    cause: Cause,
    #[schema(value_type = RunState)]
    state: String,
    /// The reason for that.
    reason: Option<String>,
    /// Attempts made.
    attempts: u32,
    started_at: Option<At>,
    ended_at: Option<At>,
    /// When the next attempt may begin, while it waits for one.
    due_at: Option<At>,
    /// The last error.
    error: Option<String>,
    /// What the agent said.
    output: Option<String>,
    usage: Option<Usage>,
    /// Where its result goes; null for run history.
    destination: Option<Destination>,
    /// Parts of its messages, by state.
    delivery: DeliveryCounts,
    /// How many warnings it has.
    warnings: u32,
}

/// How a run, or a slot that did not become one, stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RunState {
    Waiting,
    Queued,
    Running,
    Backoff,
    Done,
    Failed,
    Cancelled,
    Skipped,
}

impl RunState {
    /// All of them.
    pub(crate) const ALL: [Self; 8] = [
        Self::Waiting,
        Self::Queued,
        Self::Running,
        Self::Backoff,
        Self::Done,
        Self::Failed,
        Self::Cancelled,
        Self::Skipped,
    ];

    /// The word that is stored.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Backoff => "backoff",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
        }
    }
}

impl From<&RunRow> for Run {
    fn from(row: &RunRow) -> Self {
        Self {
            run_id: row.run_id.map(|id| id.0),
            job_id: row.job_id.to_string(),
            slot: row.slot.as_ref().map(|slot| slot.as_str().to_owned()),
            nominal_at: At(row.nominal_at),
            fire_at: At(row.fire_at),
            cause: row.cause,
            state: row.state.clone(),
            reason: row.reason.clone(),
            attempts: row.attempts,
            started_at: row.started_at.map(At),
            ended_at: row.ended_at.map(At),
            due_at: row.due_at.map(At),
            error: row.error.clone(),
            output: row.output.clone(),
            usage: row.usage,
            destination: row.destination.as_ref().map(Destination::from),
            delivery: row.delivery,
            warnings: row.warnings,
        }
    }
}

/// A stretch of slots that did not run.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Stretch {
    job_id: String,
    first_slot: String,
    last_slot: String,
    first_nominal_at: At,
    last_nominal_at: At,
    /// How many slots.
    slots: u64,
    reason: SkipReason,
}

impl From<&RangeRow> for Stretch {
    fn from(row: &RangeRow) -> Self {
        Self {
            job_id: row.job_id.to_string(),
            first_slot: row.first_slot.as_str().to_owned(),
            last_slot: row.last_slot.as_str().to_owned(),
            first_nominal_at: At(row.first_nominal_at),
            last_nominal_at: At(row.last_nominal_at),
            slots: row.slots,
            reason: row.reason,
        }
    }
}

/// An attempt of a run.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Attempt {
    /// Which one, from 1.
    attempt: u32,
    started_at: At,
    ended_at: Option<At>,
    /// How it ended.
    result: Option<String>,
    error: Option<String>,
    /// When it said that it was about to have effects.
    effects_at: Option<At>,
}

impl From<&AttemptRow> for Attempt {
    fn from(row: &AttemptRow) -> Self {
        Self {
            attempt: row.attempt,
            started_at: At(row.started_at),
            ended_at: row.ended_at.map(At),
            result: row.result.clone(),
            error: row.error.clone(),
            effects_at: row.effects_at.map(At),
        }
    }
}

/// What a person should know about a run.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Diagnostic {
    level: Level,
    /// A stable word.
    code: String,
    message: String,
    recorded_at: At,
    /// The run, where it is not clear from the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<i64>,
}

impl Diagnostic {
    /// The same among diagnostics of several runs.
    pub(crate) fn of_run(run: RunId, row: &DiagnosticRow) -> Self {
        Self {
            run_id: Some(run.0),
            ..Self::from(row)
        }
    }
}

impl From<&DiagnosticRow> for Diagnostic {
    fn from(row: &DiagnosticRow) -> Self {
        Self {
            level: row.level,
            code: row.code.clone(),
            message: row.message.clone(),
            recorded_at: At(row.recorded_at),
            run_id: None,
        }
    }
}

/// Everything about one run.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct RunDetail {
    pub(crate) run: Run,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) parts: Vec<Part>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_spelled_the_same_everywhere() {
        for state in RunState::ALL {
            let word = serde_json::to_value(state).unwrap();
            assert_eq!(word, state.as_str());
        }
    }
}
