//! What the policy knows of a job, what can happen to it, and what it can ask for.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    ids::RequestId,
    job::{Job, Policies},
    occurrence::{Cause, FailReason, OccurrenceRef, Outcome, SkipReason, Slot},
    schedule::{Planner, ScheduleError},
};

use super::BACKFILL_MAX;

use super::clock::AccountedSpan;

/// A job with its compiled schedule.
#[derive(Debug, Clone)]
pub struct JobPlan {
    /// The definition.
    pub job: Job,
    /// Its schedule.
    pub planner: Planner,
}

impl JobPlan {
    /// Compiles the job's schedule. `first_seen_at` is the default anchor of an `every` job.
    ///
    /// # Errors
    /// [`ScheduleError`] where the schedule cannot be planned with the zone data in use.
    pub fn new(job: Job, first_seen_at: Timestamp) -> Result<Self, ScheduleError> {
        let planner = Planner::new(&job.schedule, first_seen_at)?;
        Ok(Self { job, planner })
    }
}

/// Everything the policy remembers of a job between two decisions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobState {
    /// The last nominal instant that is accounted for.
    pub cursor: Timestamp,
    /// Runs that have started and not ended, in the order of their start.
    pub active: Vec<ActiveRun>,
    /// Slots that are accounted for and have not started, in nominal order.
    pub waiting: Vec<WaitingSlot>,
    /// Scheduled runs that were started, catch-up included.
    pub started_runs: u32,
    /// Scheduled runs that failed since the last one that was done, or since the job was resumed.
    pub failure_streak: u32,
    /// Set while the job is paused by a person or a policy.
    pub pause: Option<Pause>,
    /// Slots that a backfill will run again, one after another, when nothing else is active; at
    /// most [`BACKFILL_MAX`](super::BACKFILL_MAX).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backfill: Vec<BackfillSlot>,
    /// The instant after which the present schedule has planned: slots from here to the cursor have
    /// their records. Not known of a job that is older than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_from: Option<Timestamp>,
    /// Slots after the cursor that have their records, in ascending order: the clock was ahead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounted: Vec<AccountedSpan>,
}

impl JobState {
    /// The state of a job that is seen for the first time: nothing before `activated_at` is due.
    pub fn activated(activated_at: Timestamp) -> Self {
        Self {
            cursor: activated_at,
            active: Vec::new(),
            waiting: Vec::new(),
            started_runs: 0,
            failure_streak: 0,
            pause: None,
            backfill: Vec::new(),
            planned_from: Some(activated_at),
            accounted: Vec::new(),
        }
    }

    /// Whether more scheduled runs may begin under these policies.
    pub fn has_runs_left(&self, policies: &Policies) -> bool {
        self.runs_left(policies) > 0
    }

    /// How many more scheduled runs may begin under these policies; one that waits for its start
    /// will count when it starts.
    pub fn runs_left(&self, policies: &Policies) -> u32 {
        let waiting = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        let begun = self.started_runs.saturating_add(waiting);
        policies.max_runs.unwrap_or(u32::MAX).saturating_sub(begun)
    }

    /// The state after a slot that turned out to have its record already is passed over.
    #[must_use]
    pub fn past(mut self, nominal: Timestamp) -> Self {
        self.cursor = self.cursor.max(nominal);
        self
    }
}

/// A run that has started and not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveRun {
    /// What it executes.
    pub occurrence: OccurrenceRef,
    /// Where it stands.
    pub phase: Phase,
    /// Whether it has come out of the queue of `catch_up = "all"`; a slot that comes due meanwhile
    /// joins that queue.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_queue: bool,
}

/// Where an active run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It waits for its lane and a slot, or an attempt is under way.
    Open,
    /// An attempt has failed; the next one begins then.
    Backoff {
        /// When the next attempt may begin.
        until: Timestamp,
    },
}

/// A slot that is accounted for and has not started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingSlot {
    /// The slot.
    pub slot: Slot,
    /// Its nominal instant.
    pub nominal: Timestamp,
    /// When it may start.
    pub fire_at: Timestamp,
    /// Why it will run.
    pub cause: Cause,
    /// What it waits for besides.
    #[serde(default, skip_serializing_if = "WaitsFor::is_instant")]
    pub waits_for: WaitsFor,
    /// Whether the definition has changed since: a slot of the new one goes before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outdated: bool,
}

/// What a slot that is accounted for waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitsFor {
    /// Its drawn instant, by jitter or spread, alone.
    #[default]
    Instant,
    /// The end of a run that it met: it is buffered.
    Run,
    /// Its turn in the queue of `catch_up = "all"`.
    Queue,
}

impl WaitsFor {
    fn is_instant(&self) -> bool {
        *self == Self::Instant
    }
}

/// A slot that was accounted for and shall run again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackfillSlot {
    /// Who asked for it.
    pub request: RequestId,
    /// The slot.
    pub slot: Slot,
    /// Its nominal instant.
    pub nominal: Timestamp,
}

/// Why nothing accrues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Since when.
    pub since: Timestamp,
    /// In words, for people.
    pub reason: String,
}

/// What can happen to a job.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// Its wake-up came, or something else made a look worthwhile.
    WakeUp,
    /// An attempt of a run has ended.
    AttemptFinished {
        /// What the run executes.
        occurrence: &'a OccurrenceRef,
        /// How the attempt ended.
        result: AttemptResult,
        /// How many attempts have been made, this one included.
        attempts_made: u32,
        /// Whether this one has had effects.
        effects: Effects,
        /// The policies of the definition under which the run started.
        policies: &'a Policies,
    },
    /// The process that executed a run has died, or was to execute it and was not there.
    LeaseLost {
        /// What the run executes.
        occurrence: &'a OccurrenceRef,
        /// How many attempts have been made, the interrupted one included; none where it still
        /// waited for its first.
        attempts_made: u32,
        /// Whether the interrupted one has had effects.
        effects: Effects,
        /// The policies of the definition under which the run started.
        policies: &'a Policies,
    },
    /// A run was called off, by a reset of its chat or by hand.
    RunCancelled {
        /// What the run executes.
        occurrence: &'a OccurrenceRef,
    },
    /// Somebody asks for a run now.
    ManualTrigger {
        /// The request.
        request: RequestId,
    },
    /// Somebody asks for slots of the past to run again.
    Backfill {
        /// Those slots, in nominal order.
        slots: &'a [BackfillSlot],
    },
    /// Nothing shall accrue from now on.
    Paused {
        /// In words, for people.
        reason: String,
    },
    /// The next nominal shall run again.
    Resumed,
    /// The definition has changed; the plan given to `decide` is the old one.
    DefinitionChanged {
        /// The new plan.
        new: &'a JobPlan,
    },
    /// The job is gone from where it was defined.
    Removed,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptResult {
    /// It has something to show.
    Done,
    /// It has nothing to say.
    Silent,
    /// It failed.
    Failed(FailReason),
}

/// Whether an attempt has changed something outside that would be changed twice by another one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effects {
    /// As far as is known, nothing.
    #[default]
    None,
    /// A tool of it sent a message, or its agent said that it has effects.
    Reported,
}

impl Effects {
    /// Whether there are none; so that records of earlier versions read and stay as they were.
    pub(super) fn are_none(&self) -> bool {
        *self == Self::None
    }
}

/// How an attempt ended, as it is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptFate {
    /// By itself.
    Ended(AttemptResult),
    /// Its process died.
    Interrupted,
    /// It was called off.
    Cancelled,
}

impl AttemptFate {
    /// The words stored in the column.
    pub fn to_stored(self) -> String {
        match self {
            Self::Ended(AttemptResult::Done) => "done".to_owned(),
            Self::Ended(AttemptResult::Silent) => "silent".to_owned(),
            Self::Ended(AttemptResult::Failed(reason)) => format!("failed:{}", reason.as_str()),
            Self::Interrupted => "interrupted".to_owned(),
            Self::Cancelled => "cancelled".to_owned(),
        }
    }
}

/// What a decision asks for. All of it is committed with the new state, or none of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Account for a slot that starts later.
    Wait {
        /// The slot.
        waiting: WaitingSlot,
        /// Other written times that became the same occurrence.
        merged: Vec<Slot>,
    },
    /// Start a run of an occurrence; it may have been waiting.
    Start {
        /// The occurrence.
        occurrence: OccurrenceRef,
        /// Its nominal instant.
        nominal: Timestamp,
        /// The instant from which on it may start.
        fire_at: Timestamp,
        /// Why.
        cause: Cause,
        /// Other written times that became the same occurrence.
        merged: Vec<Slot>,
    },
    /// Put a run that was backing off, or was interrupted, in the queue again.
    Requeue {
        /// The occurrence.
        occurrence: OccurrenceRef,
    },
    /// Let a run wait for its next attempt.
    Backoff {
        /// The occurrence.
        occurrence: OccurrenceRef,
        /// When the next attempt may begin.
        until: Timestamp,
    },
    /// End an occurrence that was waiting or active.
    End {
        /// The occurrence.
        occurrence: OccurrenceRef,
        /// How.
        outcome: Outcome,
    },
    /// Record slots that do not run.
    Skip(SkippedRange),
}

impl Effect {
    /// How many slots it records as skipped, and why.
    pub fn skipped(&self) -> Option<(SkipReason, u64)> {
        match self {
            Self::Skip(range) => Some((range.reason, range.count)),
            Self::End {
                outcome: Outcome::Skipped(reason),
                ..
            } => Some((*reason, 1)),
            Self::Wait { .. }
            | Self::Start { .. }
            | Self::Requeue { .. }
            | Self::Backoff { .. }
            | Self::End { .. } => None,
        }
    }
}

/// A stretch of slots that do not run, for one reason, with nothing else between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedRange {
    /// The first slot.
    pub first: Slot,
    /// Its nominal instant.
    pub first_nominal: Timestamp,
    /// The last slot; the same as the first where there is one only.
    pub last: Slot,
    /// Its nominal instant.
    pub last_nominal: Timestamp,
    /// How many slots.
    pub count: u64,
    /// Why.
    pub reason: SkipReason,
}

/// Why a request was not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// A run of the job is active, and two at a time are not allowed.
    #[error("a run of the job is active")]
    RunActive,
    /// The job is disabled.
    #[error("the job is disabled")]
    Disabled,
    /// More slots than may wait for a backfill at once.
    #[error("{BACKFILL_MAX} slots wait to be run again at most")]
    BackfillFull,
}

/// What follows from an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The new state.
    pub state: JobState,
    /// What is committed with it.
    pub effects: Vec<Effect>,
    /// When the job next needs a decision; `None` for never.
    pub wake_at: Option<Timestamp>,
    /// Set where the event was a request that is not followed.
    pub refusal: Option<Refusal>,
}

impl Decision {
    /// Up to where the plan on which it was decided has accounted for its slots: `before` is the
    /// state that it was made on. A changed schedule moves the cursor further than that.
    pub fn accounted_to(&self, before: &JobState) -> Timestamp {
        let nominals = self.effects.iter().filter_map(|effect| match effect {
            Effect::Wait { waiting, .. } => Some(waiting.nominal),
            Effect::Start {
                occurrence: OccurrenceRef::Scheduled(_),
                nominal,
                ..
            } => Some(*nominal),
            Effect::Skip(range) => Some(range.last_nominal),
            Effect::Start { .. }
            | Effect::Requeue { .. }
            | Effect::Backoff { .. }
            | Effect::End { .. } => None,
        });
        nominals.fold(before.accounted_to(), Timestamp::max)
    }
}
