//! What came of a change.

use jiff::{SignedDuration, Timestamp};

use crate::{
    ids::JobId,
    occurrence::{Outcome, SkipReason},
    policy::{Decided, Effect, Refusal},
    schedule::ScheduleError,
    store::Written,
};

/// What a change has led to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Runs that were started and ended by it.
    pub written: Written,
    /// Why a request was not followed.
    pub refusal: Option<Refusal>,
    /// When the job next needs a decision.
    pub wake_at: Option<Timestamp>,
    /// How far the job's cursor was ahead of the clock, where it was put back.
    pub put_back: Option<SignedDuration>,
    /// How many slots were recorded as skipped, by reason.
    pub skipped: Vec<(SkipReason, u64)>,
    /// How occurrences ended that were not skipped.
    pub outcomes: Vec<Outcome>,
    /// Whether a definition is what it was, so that nothing was changed.
    pub is_as_before: bool,
}

impl Applied {
    pub(super) fn of(decided: &Decided, written: Written) -> Self {
        let decision = &decided.decision;
        Self {
            written,
            refusal: decision.refusal,
            wake_at: decision.wake_at,
            put_back: decided.state.ahead_of(decided.now),
            skipped: decision
                .effects
                .iter()
                .filter_map(Effect::skipped)
                .collect(),
            outcomes: decision.effects.iter().filter_map(outcome).collect(),
            is_as_before: false,
        }
    }
}

fn outcome(effect: &Effect) -> Option<Outcome> {
    match effect {
        Effect::End {
            outcome: Outcome::Skipped(_),
            ..
        } => None,
        Effect::End { outcome, .. } => Some(*outcome),
        Effect::Skip(_)
        | Effect::Wait { .. }
        | Effect::Start { .. }
        | Effect::Requeue { .. }
        | Effect::Backoff { .. } => None,
    }
}

/// Why a change has led to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// There is no such job.
    #[error("there is no job `{job_id}`")]
    NoSuchJob {
        /// The id.
        job_id: JobId,
    },
    /// Its schedule cannot be planned with the zone data in use.
    #[error("job `{job_id}` cannot be planned: {source}")]
    Unplannable {
        /// The id.
        job_id: JobId,
        /// Why.
        #[source]
        source: ScheduleError,
    },
    /// It is no longer as it was when it was looked at.
    #[error("job `{job_id}` was changed meanwhile")]
    Outdated {
        /// The id.
        job_id: JobId,
    },
    /// The lease under which its attempt was made is no longer held.
    #[error("the lease of the attempt was lost")]
    LeaseLost,
    /// Another content of its jobs file is in force by now.
    #[error("another worker has applied another content of the jobs file meanwhile")]
    Superseded,
    /// Others were faster too often; it can be tried again.
    #[error("job `{job_id}` is being changed too often at the moment")]
    Busy {
        /// The id.
        job_id: JobId,
    },
}
