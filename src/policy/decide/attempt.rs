//! What follows from the end of an attempt: the end of its occurrence, or another attempt.

use jiff::Timestamp;

use crate::{
    job::{CatchUp, OnInterrupt, Overlap, Policies},
    occurrence::{FailReason, OccurrenceKind, OccurrenceRef, Outcome},
};

use super::{Draft, account};
use crate::policy::{AttemptResult, Effect, Effects, JobPlan, Phase};

/// An attempt that is over.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    /// Of what.
    pub(super) occurrence: &'a OccurrenceRef,
    /// How many have been made, this one included.
    pub(super) attempts_made: u32,
    /// Whether it has had effects.
    pub(super) effects: Effects,
    /// The policies of the definition under which the run started.
    pub(super) policies: &'a Policies,
}

impl Draft {
    /// An attempt ended: the occurrence ends with it, or another attempt is due after a wait.
    pub(super) fn attempt_finished(
        &mut self,
        plan: &JobPlan,
        attempt: Attempt<'_>,
        result: AttemptResult,
        now: Timestamp,
    ) {
        let occurrence = attempt.occurrence;
        let reason = match result {
            AttemptResult::Done => return self.end(occurrence, Outcome::Done),
            AttemptResult::Silent => return self.end(occurrence, Outcome::Silent),
            AttemptResult::Failed(reason) => reason,
        };
        let backoff = attempt.policies.retry.backoff_after(attempt.attempts_made);
        let until = now.saturating_add(backoff).unwrap_or(now);
        match self.may_try_again(plan, attempt, reason, until) {
            Ok(()) => self.back_off(occurrence, until),
            Err(reason) => self.fail(plan, occurrence, reason, now),
        }
    }

    /// The process that worked on an attempt is gone, and nobody knows how far it came.
    pub(super) fn lease_lost(&mut self, plan: &JobPlan, attempt: Attempt<'_>, now: Timestamp) {
        let occurrence = attempt.occurrence;
        if !self
            .state
            .active
            .iter()
            .any(|run| run.occurrence == *occurrence)
        {
            return;
        }
        if attempt.attempts_made == 0 {
            return self.not_begun(plan, occurrence, now);
        }
        let again = match attempt.policies.on_interrupt {
            OnInterrupt::Fail => Err(FailReason::Interrupted),
            OnInterrupt::Retry => self.may_try_again(plan, attempt, FailReason::Interrupted, now),
        };
        match again {
            // The restart was wait enough; the attempts bound a job that kills its process.
            Ok(()) => self.effects.push(Effect::Requeue {
                occurrence: occurrence.clone(),
            }),
            Err(reason) => self.fail(plan, occurrence, reason, now),
        }
    }

    /// A slot's run still waited for its first attempt while nobody was there to make it. It has used
    /// no attempt, and goes on waiting unless it would begin too late: then it must not take the
    /// place of a slot that has come meanwhile.
    fn not_begun(&mut self, plan: &JobPlan, occurrence: &OccurrenceRef, now: Timestamp) {
        let OccurrenceRef::Scheduled(slot) = occurrence else {
            return;
        };
        let Some(nominal) = plan.planner.resolve(slot) else {
            return;
        };
        let policies = &plan.job.policies;
        let is_too_late = match (policies.catch_up, policies.overlap) {
            (CatchUp::None, _) => true,
            (CatchUp::Latest, Overlap::Skip | Overlap::CancelRunning) => {
                let next = plan.planner.next(self.state.cursor);
                next.is_some_and(|next| next.nominal <= now)
                    || !account::is_in_window(plan, nominal, now)
            }
            (CatchUp::Latest, Overlap::BufferOne | Overlap::BufferAll | Overlap::Allow)
            | (CatchUp::All, _) => !account::is_kept(plan, nominal, now),
        };
        if is_too_late && !account::is_on_time(nominal, now) {
            self.fail(plan, occurrence, FailReason::Interrupted, now);
        }
    }

    /// Ends an occurrence as failed; after so many of them in a row the job pauses itself.
    pub(super) fn fail(
        &mut self,
        plan: &JobPlan,
        occurrence: &OccurrenceRef,
        reason: FailReason,
        now: Timestamp,
    ) {
        let before = self.state.failure_streak;
        self.end(occurrence, Outcome::Failed(reason));
        let streak = self.state.failure_streak;
        let most = plan.job.policies.pause_after_failures;
        let reached = streak > before && most.is_some_and(|most| streak >= most);
        if reached && self.state.pause.is_none() {
            let failures = if streak == 1 { "failure" } else { "failures" };
            self.pause(plan, format!("{streak} {failures} in a row"), now);
        }
    }

    /// Whether another attempt may begin at `at`; if not, why the occurrence has failed.
    ///
    /// Effects count only against an attempt that would have been made without them:
    ///
    /// | tries left, curable, before the next slot | effects | `retry_after_effects` | |
    /// |---|---|---|---|
    /// | no | any | any | fails for its own reason |
    /// | yes | none | any | tried again |
    /// | yes | reported | yes | tried again |
    /// | yes | reported | no | `failed(after-effects)` |
    fn may_try_again(
        &self,
        plan: &JobPlan,
        attempt: Attempt<'_>,
        reason: FailReason,
        at: Timestamp,
    ) -> Result<(), FailReason> {
        let policies = attempt.policies;
        let curable = match reason {
            FailReason::Transient | FailReason::Timeout | FailReason::Interrupted => true,
            FailReason::Permanent
            | FailReason::Panicked
            | FailReason::AfterEffects
            | FailReason::Paused => false,
        };
        let reaches_next_nominal = plan
            .planner
            .next(self.state.cursor)
            .is_some_and(|next| at >= next.nominal);
        let has_tries_left = attempt.attempts_made < policies.retry.attempts;
        if !curable || !has_tries_left || reaches_next_nominal {
            return Err(reason);
        }
        match (attempt.effects, policies.retry_after_effects) {
            (Effects::Reported, false) => Err(FailReason::AfterEffects),
            (Effects::Reported, true) | (Effects::None, _) if self.is_suspended(plan) => {
                Err(FailReason::Paused)
            }
            (Effects::Reported, true) | (Effects::None, _) => Ok(()),
        }
    }

    fn back_off(&mut self, occurrence: &OccurrenceRef, until: Timestamp) {
        let active = &mut self.state.active;
        let Some(run) = active.iter_mut().find(|run| run.occurrence == *occurrence) else {
            return;
        };
        run.phase = Phase::Backoff { until };
        self.effects.push(Effect::Backoff {
            occurrence: occurrence.clone(),
            until,
        });
    }

    /// Ends an active run; its occurrence is terminal once.
    pub(super) fn end(&mut self, occurrence: &OccurrenceRef, outcome: Outcome) {
        let before = self.state.active.len();
        self.state
            .active
            .retain(|run| run.occurrence != *occurrence);
        if self.state.active.len() == before {
            return;
        }
        // A run by hand says nothing about the schedule, and a pause is no failure of the agent.
        match (occurrence.kind(), outcome) {
            (OccurrenceKind::Scheduled, Outcome::Done | Outcome::Silent) => {
                self.state.failure_streak = 0;
            }
            (OccurrenceKind::Scheduled, Outcome::Failed(reason))
                if reason != FailReason::Paused =>
            {
                self.state.failure_streak = self.state.failure_streak.saturating_add(1);
            }
            (
                OccurrenceKind::Scheduled | OccurrenceKind::Manual | OccurrenceKind::Backfill,
                Outcome::Done
                | Outcome::Silent
                | Outcome::Failed(_)
                | Outcome::Cancelled
                | Outcome::Skipped(_),
            ) => {}
        }
        self.effects.push(Effect::End {
            occurrence: occurrence.clone(),
            outcome,
        });
    }
}
