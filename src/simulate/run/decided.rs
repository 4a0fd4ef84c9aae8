//! From a decision to what it does: the state, the effects one by one, the next wake-up.

use jiff::Timestamp;

use crate::{
    ids::{OccurrenceId, SessionKey},
    job::Overlap,
    occurrence::{Cause, OccurrenceRef},
    policy::{AttemptFate, AttemptResult, Decision, Effect, Effects, Event as JobEvent, decide},
};

use super::{Run, Simulation, Standing};
use crate::simulate::{Event, Happening, Sink, event::slot_of, lanes::Part};

/// What happened to a run, as the worker would tell the policy.
pub(super) enum Told {
    Finished(AttemptResult),
    LeaseLost,
}

impl Simulation {
    /// Asks the policy about a job whose wake-up has come.
    pub(super) fn wake(&mut self, job: usize, sink: &mut impl Sink) {
        let now = self.wall();
        let simulated = &self.jobs[job];
        let decision = decide(&simulated.plan, &simulated.state, JobEvent::WakeUp, now);
        self.follow(job, decision, sink);
    }

    /// Tells the end of an attempt, and asks the policy what it means.
    pub(super) fn tell(&mut self, run: usize, told: Told, sink: &mut impl Sink) {
        let Some(Run {
            job,
            occurrence,
            attempts,
            nominal,
            lane,
            ..
        }) = self.runs[run].clone()
        else {
            return;
        };
        let now = self.wall();
        let fate = match told {
            Told::Finished(result) => AttemptFate::Ended(result),
            Told::LeaseLost => AttemptFate::Interrupted,
        };
        let simulated = &self.jobs[job];
        if let Some(slot) = slot_of(&occurrence) {
            sink.take(&Event {
                at: now,
                job: Some((job, &simulated.plan.job.id)),
                what: Happening::AttemptEnd {
                    slot,
                    attempt: attempts,
                    fate,
                },
            });
        }
        let policies = &simulated.plan.job.policies;
        let event = match told {
            Told::Finished(result) => JobEvent::AttemptFinished {
                occurrence: &occurrence,
                result,
                attempts_made: attempts,
                // A scenario has no agents that change anything.
                effects: Effects::None,
                policies,
            },
            Told::LeaseLost => JobEvent::LeaseLost {
                occurrence: &occurrence,
                attempts_made: attempts,
                effects: Effects::None,
                policies,
            },
        };
        let decision = decide(&simulated.plan, &simulated.state, event, now);
        self.lanes.give_back(lane, None);
        self.follow(job, decision, sink);
        if fate == AttemptFate::Ended(AttemptResult::Done) {
            self.enqueue(job, &occurrence, nominal, now);
        }
    }

    /// Tells that nobody was there to make the first attempt of a run, and asks the policy what that
    /// means.
    pub(super) fn tell_not_begun(&mut self, run: usize, sink: &mut impl Sink) {
        let Some(Run {
            job, occurrence, ..
        }) = self.runs[run].clone()
        else {
            return;
        };
        let simulated = &self.jobs[job];
        let event = JobEvent::LeaseLost {
            occurrence: &occurrence,
            attempts_made: 0,
            effects: Effects::None,
            policies: &simulated.plan.job.policies,
        };
        let decision = decide(&simulated.plan, &simulated.state, event, self.wall());
        self.follow(job, decision, sink);
    }

    fn enqueue(
        &mut self,
        job: usize,
        occurrence: &OccurrenceRef,
        nominal: Timestamp,
        now: Timestamp,
    ) {
        let (Some(target), Some(slot)) = (&self.jobs[job].destination, slot_of(occurrence)) else {
            return;
        };
        self.messages += 1;
        let part = Part {
            message: self.messages,
            job,
            slot: slot.clone(),
            nominal,
            enqueued_at: now,
            first_attempt_at: None,
            next_attempt_at: now,
            attempts: 0,
            begun: target.reply,
        };
        let lane = target.lane;
        self.lanes.queue_part(lane, part);
    }

    fn follow(&mut self, job: usize, decision: Decision, sink: &mut impl Sink) {
        for effect in &decision.effects {
            if let Some(what) = Happening::of(effect) {
                sink.take(&Event {
                    at: self.wall(),
                    job: Some((job, &self.jobs[job].plan.job.id)),
                    what,
                });
            }
            self.do_effect(job, effect, sink);
        }
        let simulated = &mut self.jobs[job];
        simulated.state = decision.state;
        if simulated.wake_at != decision.wake_at {
            if let Some(at) = simulated.wake_at {
                self.wakes.remove(&(at, job));
            }
            self.wakes.extend(decision.wake_at.map(|at| (at, job)));
            simulated.wake_at = decision.wake_at;
        }
    }

    fn do_effect(&mut self, job: usize, effect: &Effect, sink: &mut impl Sink) {
        match effect {
            Effect::Start {
                occurrence,
                nominal,
                fire_at,
                cause,
                ..
            } => self.begin(job, occurrence, *nominal, *fire_at, *cause),
            Effect::Requeue { occurrence } => {
                let now = self.wall();
                let Some(place) = self.run_of(job, occurrence) else {
                    return;
                };
                if let Some(run) = &mut self.runs[place] {
                    run.due_at = now;
                    run.standing = Standing::Queued;
                    let (queued, cause, lane) = (run.queued(place), run.cause, run.lane);
                    self.lanes.queue_run(lane, queued, cause);
                }
            }
            Effect::Backoff { occurrence, .. } => {
                if let Some(place) = self.run_of(job, occurrence)
                    && let Some(run) = &mut self.runs[place]
                {
                    run.standing = Standing::Backoff;
                }
            }
            Effect::End { occurrence, .. } => self.end(job, occurrence, sink),
            Effect::Wait { .. } | Effect::Skip(_) => {}
        }
    }

    fn begin(
        &mut self,
        job: usize,
        occurrence: &OccurrenceRef,
        nominal: Timestamp,
        due_at: Timestamp,
        cause: Cause,
    ) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.runs.push(None);
            self.runs.len() - 1
        });
        let simulated = &self.jobs[job];
        let lane = match simulated.plan.job.policies.overlap {
            Overlap::Allow => {
                let session = SessionKey::job(&simulated.plan.job.id);
                self.lanes.open(&session.of_run(OccurrenceId(place as i64)))
            }
            Overlap::Skip | Overlap::BufferOne | Overlap::BufferAll | Overlap::CancelRunning => {
                simulated.lane
            }
        };
        let run = Run {
            job,
            occurrence: occurrence.clone(),
            nominal,
            cause,
            due_at,
            attempts: 0,
            standing: Standing::Queued,
            lane,
        };
        let queued = run.queued(place);
        self.runs[place] = Some(run);
        self.jobs[job].runs.push(place);
        self.lanes.queue_run(lane, queued, cause);
    }

    fn end(&mut self, job: usize, occurrence: &OccurrenceRef, sink: &mut impl Sink) {
        let Some(place) = self.run_of(job, occurrence) else {
            return;
        };
        let Some(run) = self.runs[place].take() else {
            return;
        };
        let lane = run.lane;
        match run.standing {
            Standing::Queued => self.lanes.remove_run(lane, run.queued(place), run.cause),
            // Ended by somebody else than its attempt.
            Standing::Running { ends_at, .. } => {
                if self.ends.remove(&(ends_at, job, place)) {
                    self.lanes.give_back(lane, None);
                    self.call_off(&run, sink);
                }
            }
            Standing::Interrupted | Standing::Backoff => {}
        }
        self.jobs[job].runs.retain(|known| *known != place);
        self.free.push(place);
    }

    /// Tells that an attempt under way was called off.
    fn call_off(&self, run: &Run, sink: &mut impl Sink) {
        if let Some(slot) = slot_of(&run.occurrence) {
            sink.take(&Event {
                at: self.wall(),
                job: Some((run.job, &self.jobs[run.job].plan.job.id)),
                what: Happening::AttemptEnd {
                    slot,
                    attempt: run.attempts,
                    fate: AttemptFate::Cancelled,
                },
            });
        }
    }

    fn run_of(&self, job: usize, occurrence: &OccurrenceRef) -> Option<usize> {
        let is_it = |place: &&usize| {
            self.runs[**place]
                .as_ref()
                .is_some_and(|run| run.occurrence == *occurrence)
        };
        self.jobs[job].runs.iter().find(is_it).copied()
    }
}
