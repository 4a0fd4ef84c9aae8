//! `decide`: one job, one event, one instant; what follows.

use jiff::{SignedDuration, Timestamp};

use crate::{
    job::Overlap,
    occurrence::{Cause, FailReason, OccurrenceRef, Outcome, SkipReason},
    schedule::Planned,
};

use super::{
    ActiveRun, Decision, Effect, Event, JobPlan, JobState, Pause, Phase, Refusal, WaitsFor,
};

mod account;
mod attempt;
mod backfill;
mod overlap;

use account::{Starting, account};
use attempt::Attempt;
pub use backfill::BACKFILL_MAX;
use overlap::Occupant;
pub use overlap::QUEUE_MAX;

/// A slot that starts this soon after its fire time is on time: it is not caught up, whatever made
/// it wait. As long as the longest sleep of a worker, which re-derives its sleeps from the clock.
pub const ON_TIME: SignedDuration = SignedDuration::from_secs(30);

/// Decides what `event` means for a job at `now`.
///
/// Total: every event is answered in every state. An event about a run that is not active (its end
/// was decided already) changes nothing.
pub fn decide(plan: &JobPlan, state: &JobState, event: Event<'_>, now: Timestamp) -> Decision {
    decide_from(plan, state.clone(), event, now)
}

/// The same, from a state that nobody needs any more.
pub fn decide_from(plan: &JobPlan, state: JobState, event: Event<'_>, now: Timestamp) -> Decision {
    let mut draft = Draft {
        state,
        effects: Vec::new(),
        refusal: None,
        foreseen: None,
    };
    draft.state.put_back(now);
    let mut current = plan;
    match event {
        Event::WakeUp => draft.look(plan, now),
        Event::AttemptFinished {
            occurrence,
            result,
            attempts_made,
            effects,
            policies,
        } => {
            let attempt = Attempt {
                occurrence,
                attempts_made,
                effects,
                policies,
            };
            draft.attempt_finished(plan, attempt, result, now);
            draft.look(plan, now);
        }
        Event::LeaseLost {
            occurrence,
            attempts_made,
            effects,
            policies,
        } => {
            let attempt = Attempt {
                occurrence,
                attempts_made,
                effects,
                policies,
            };
            draft.lease_lost(plan, attempt, now);
            draft.look(plan, now);
        }
        Event::RunCancelled { occurrence } => {
            draft.end(occurrence, Outcome::Cancelled);
            draft.look(plan, now);
        }
        // It does not look first: a slot that is due as well waits for the end of this run.
        Event::ManualTrigger { request } => {
            draft.trigger(plan, OccurrenceRef::Manual(request), now);
        }
        Event::Backfill { slots } => {
            draft.take_on(plan, slots);
            draft.look(plan, now);
        }
        Event::Paused { reason } => draft.pause(plan, reason, now),
        Event::Resumed => draft.resume(plan, now),
        Event::DefinitionChanged { new } => {
            draft.change_definition(plan, new, now);
            draft.foreseen = None;
            current = new;
        }
        Event::Removed => draft.remove(plan, now),
    }
    let wake_at = draft.wake_at(current);
    Decision {
        state: draft.state,
        effects: draft.effects,
        wake_at,
        refusal: draft.refusal,
    }
}

/// A decision in the making.
struct Draft {
    state: JobState,
    effects: Vec<Effect>,
    refusal: Option<Refusal>,
    /// A cursor, and the first slot after it that fires, where the planner has just said so.
    foreseen: Option<(Timestamp, Timestamp)>,
}

impl Draft {
    /// Does what has come due: retries, slots, and slots that were waiting.
    fn look(&mut self, plan: &JobPlan, now: Timestamp) {
        self.make_due_retries(plan, now);
        if self.is_suspended(plan) {
            return;
        }
        account(self, plan, Starting::Allowed, now);
        self.start_waiting(plan, now);
        self.start_backfill(now);
    }

    fn is_suspended(&self, plan: &JobPlan) -> bool {
        self.state.pause.is_some() || !plan.job.enabled
    }

    /// Begins the next attempts whose time has come. One that nobody made in time, so that the
    /// job's next slot has come too, is not made: it would take that slot's place.
    fn make_due_retries(&mut self, plan: &JobPlan, now: Timestamp) {
        let is_due =
            |run: &&ActiveRun| matches!(run.phase, Phase::Backoff { until } if until <= now);
        let due: Vec<_> = self
            .state
            .active
            .iter()
            .filter(is_due)
            .map(|run| run.occurrence.clone())
            .collect();
        if due.is_empty() {
            return;
        }
        let next = plan.planner.next(self.state.cursor);
        let is_too_late = next.is_some_and(|next| next.nominal <= now);
        for occurrence in due {
            if is_too_late {
                self.fail(plan, &occurrence, FailReason::Interrupted, now);
            } else {
                self.requeue(occurrence);
            }
        }
    }

    fn requeue(&mut self, occurrence: OccurrenceRef) {
        let active = &mut self.state.active;
        if let Some(run) = active.iter_mut().find(|run| run.occurrence == occurrence) {
            run.phase = Phase::Open;
            self.effects.push(Effect::Requeue { occurrence });
        }
    }

    fn trigger(&mut self, plan: &JobPlan, occurrence: OccurrenceRef, now: Timestamp) {
        if !plan.job.enabled {
            self.refusal = Some(Refusal::Disabled);
        } else if !self.state.active.is_empty() && plan.job.policies.overlap != Overlap::Allow {
            self.refusal = Some(Refusal::RunActive);
        } else {
            self.start_requested(occurrence, now, Cause::Manual, now);
        }
    }

    /// Starts a run that somebody asked for.
    fn start_requested(
        &mut self,
        occurrence: OccurrenceRef,
        nominal: Timestamp,
        cause: Cause,
        now: Timestamp,
    ) {
        self.state.active.push(ActiveRun {
            occurrence: occurrence.clone(),
            phase: Phase::Open,
            from_queue: false,
        });
        self.effects.push(Effect::Start {
            occurrence,
            nominal,
            fire_at: now,
            cause,
            merged: Vec::new(),
        });
    }

    fn pause(&mut self, plan: &JobPlan, reason: String, now: Timestamp) {
        self.suspend(plan, now);
        let since = self.state.pause.as_ref().map_or(now, |pause| pause.since);
        self.state.pause = Some(Pause { since, reason });
    }

    /// Lets nothing start: what is due or waiting is skipped, retries are not made, and an attempt
    /// under way finishes.
    fn suspend(&mut self, plan: &JobPlan, now: Timestamp) {
        if !self.is_suspended(plan) {
            account(self, plan, Starting::NotNow(SkipReason::Paused), now);
        }
        for slot in std::mem::take(&mut self.state.waiting) {
            self.end_waiting(&slot, Outcome::Skipped(SkipReason::Paused));
        }
        let backing_off: Vec<_> = self
            .state
            .active
            .iter()
            .filter(|run| matches!(run.phase, Phase::Backoff { .. }))
            .map(|run| run.occurrence.clone())
            .collect();
        for occurrence in backing_off {
            self.end(&occurrence, Outcome::Failed(FailReason::Paused));
        }
    }

    fn resume(&mut self, plan: &JobPlan, now: Timestamp) {
        if plan.job.enabled && self.state.pause.is_some() {
            account(self, plan, Starting::Never(SkipReason::Paused), now);
        }
        self.state.pause = None;
        // Whoever resumes a job that paused itself has looked at it: it gets as many tries again.
        self.state.failure_streak = 0;
        self.look(plan, now);
    }

    fn change_definition(&mut self, old: &JobPlan, new: &JobPlan, now: Timestamp) {
        match (old.job.enabled, new.job.enabled) {
            (true, true) => self.look(old, now),
            (true, false) => {
                self.suspend(old, now);
                self.state.backfill.clear();
                self.cancel_active(|_| true);
            }
            (false, true) if self.state.pause.is_none() => {
                account(self, old, Starting::Never(SkipReason::Paused), now);
            }
            (false, _) => {}
        }
        for slot in &mut self.state.waiting {
            slot.outdated = true;
        }
        let suspended = self.state.pause.is_some() || !new.job.enabled;
        if old.job.schedule != new.job.schedule {
            if suspended {
                // What the old plan would have had up to now is its own to account for.
                account(self, old, Starting::Never(SkipReason::Paused), now);
            }
            self.state.cursor = self.state.cursor.max(now);
            self.state.planned_from = Some(self.state.cursor);
            self.state.accounted.clear();
        }
    }

    fn remove(&mut self, plan: &JobPlan, now: Timestamp) {
        let starting = if self.is_suspended(plan) {
            Starting::Never(SkipReason::Paused)
        } else {
            Starting::NotNow(SkipReason::Superseded)
        };
        account(self, plan, starting, now);
        for slot in std::mem::take(&mut self.state.waiting) {
            self.end_waiting(&slot, Outcome::Cancelled);
        }
        self.state.backfill.clear();
        self.cancel_active(|_| true);
    }

    /// When the job next needs a decision.
    fn wake_at(&self, plan: &JobPlan) -> Option<Timestamp> {
        let retries = self.state.active.iter().filter_map(|run| match run.phase {
            Phase::Backoff { until } => Some(until),
            Phase::Open => None,
        });
        if self.is_suspended(plan) {
            return retries.min();
        }
        let next = if self.has_runs_left(plan) {
            self.next_after_cursor(plan)
        } else {
            None
        };
        retries.chain(self.waiting_wake(plan)).chain(next).min()
    }

    /// When a waiting slot next needs a look. What waits for a run is looked at when that ends, and
    /// of a queue the first one goes first.
    fn waiting_wake(&self, plan: &JobPlan) -> Option<Timestamp> {
        let is_idle = self.state.active.is_empty();
        // What comes due beside a requested run waits for its end.
        let behind_a_request = matches!(self.occupied_by(), Occupant::RequestedRun)
            && plan.job.policies.overlap != Overlap::Allow;
        let waiting = self.state.waiting.iter();
        let mut is_first = true;
        let timed = waiting.filter(|slot| match slot.waits_for {
            WaitsFor::Instant => !behind_a_request,
            WaitsFor::Run => is_idle,
            WaitsFor::Queue => is_idle && std::mem::take(&mut is_first),
        });
        timed.map(|slot| slot.fire_at).min()
    }

    /// Remembers which slot follows the cursor, if it fires.
    fn foresee(&mut self, next: Option<Planned>) {
        let cursor = self.state.cursor;
        let next = next.filter(Planned::fires);
        self.foreseen = next.map(|next| (cursor, next.nominal));
    }

    fn next_after_cursor(&self, plan: &JobPlan) -> Option<Timestamp> {
        let mut next = match self.foreseen {
            Some((cursor, next)) if cursor == self.state.cursor => Some(next),
            Some(_) | None => {
                let next = plan.planner.next(self.state.cursor);
                next.map(|next| next.nominal)
            }
        };
        // A clock that was ahead has left records there.
        while let Some(until) = next.and_then(|next| self.state.accounted_past(next)) {
            next = plan.planner.next(until).map(|next| next.nominal);
        }
        next
    }

    fn has_runs_left(&self, plan: &JobPlan) -> bool {
        self.state.has_runs_left(&plan.job.policies)
    }
}

#[cfg(test)]
mod tests;
