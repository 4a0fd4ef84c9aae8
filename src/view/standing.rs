//! How a stored job stands, and when it runs next.

use crate::{
    policy::{Pause, Phase},
    schedule::Planner,
    store::{RunRow, StoredJob},
};
use jiff::Timestamp;

use super::{Start, begin, starts};

/// How a job stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Standing {
    pub(crate) state: State,
    /// Since when and why it is paused; a run that had begun goes on all the same.
    pub(crate) pause: Option<Pause>,
    pub(crate) next_at: Option<Timestamp>,
}

/// What a job is doing, or why it does nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for its next slot.
    Ready,
    /// An attempt is under way.
    Running,
    /// A run waits for its lane or for a free place.
    Queued,
    /// An attempt failed, and the next one comes then.
    RetryAt(Timestamp),
    Paused,
    Disabled,
    /// Nothing comes any more.
    Finished,
    Removed,
}

impl Standing {
    /// How the job stands; `runs` are its newest ones.
    pub(crate) fn of(stored: &StoredJob, runs: &[RunRow], now: Timestamp) -> Self {
        let next_at = upcoming(stored, now, 1).first().map(|start| start.at);
        let is = |state: &str| runs.iter().any(|run| run.state == state);
        let backoff = stored.state.active.iter().find_map(|run| match run.phase {
            Phase::Backoff { until } => Some(until),
            Phase::Open => None,
        });
        let state = if stored.removed_at.is_some() {
            State::Removed
        } else if is("running") {
            State::Running
        } else if let Some(until) = backoff {
            State::RetryAt(until)
        } else if !stored.state.active.is_empty() {
            State::Queued
        } else if !stored.job.enabled {
            State::Disabled
        } else if stored.state.pause.is_some() {
            State::Paused
        } else if next_at.is_none() {
            State::Finished
        } else {
            State::Ready
        };
        let pause = stored.state.pause.clone();
        Self {
            state,
            pause: pause.filter(|_| stored.removed_at.is_none()),
            next_at,
        }
    }
}

impl State {
    /// The word for programs.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Queued => "queued",
            Self::RetryAt(_) => "backoff",
            Self::Paused => "paused",
            Self::Disabled => "disabled",
            Self::Finished => "finished",
            Self::Removed => "removed",
        }
    }
}

/// The next starts of a stored job; none of one that is paused, disabled, removed or has run as
/// often as it may.
pub(crate) fn upcoming(stored: &StoredJob, now: Timestamp, count: usize) -> Vec<Start> {
    let job = &stored.job;
    let left = job.policies.max_runs.map_or(usize::MAX, |max| {
        usize::try_from(max.saturating_sub(stored.state.started_runs)).unwrap_or(usize::MAX)
    });
    let is_still = stored.removed_at.is_some() || stored.state.pause.is_some() || !job.enabled;
    if is_still || left == 0 {
        return Vec::new();
    }
    // A stored schedule can be unplannable only by other zone data; then nothing comes.
    let Ok(planner) = Planner::new(&job.schedule, stored.first_seen_at) else {
        return Vec::new();
    };
    let begin = begin(&job.schedule, Some(stored.first_seen_at), now);
    let waiting = &stored.state.waiting;
    starts(
        &planner,
        Some(&job.id),
        waiting,
        (begin, now),
        count.min(left),
    )
}
