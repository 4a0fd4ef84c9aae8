//! One turn: everything that is to be done at one instant.

use crate::{
    ids::{PartId, RunId},
    job::Late,
    message::{Receipt, RefusalScope, SendAnswer},
    policy::{
        Grant, ON_TIME, admit,
        outbox::{Doubt, LateRule, PartView, Transition, answered},
    },
};

use super::{Simulation, Standing, decided::Told};
use crate::simulate::{
    Event, Happening, Sink,
    event::{SendState, slot_of},
    lanes::Part,
};

impl Simulation {
    /// Absorbs, decides and fills lanes until nothing more can be done at this instant.
    pub(super) fn turn(&mut self, sink: &mut impl Sink) {
        loop {
            let absorbed = self.absorb(sink);
            let decided = self.dispatch(sink);
            let filled = self.fill(sink);
            if !absorbed && !decided && !filled {
                return;
            }
        }
    }

    /// What the worker does at its start: it decides about the runs that waited for their first
    /// attempt, and then about those that were interrupted.
    pub(super) fn recover(&mut self, sink: &mut impl Sink) {
        let now = self.wall();
        let is_late = |run: &usize| {
            let run = self.runs[*run].as_ref();
            run.is_some_and(|run| {
                run.standing == Standing::Queued
                    && run.attempts == 0
                    && now.duration_since(run.due_at) > ON_TIME
            })
        };
        let of_jobs = self.jobs.iter().flat_map(|job| job.runs.iter().copied());
        let late: Vec<usize> = of_jobs.filter(is_late).collect();
        for run in late {
            self.tell_not_begun(run, sink);
        }
        let is_interrupted = |run: &usize| {
            let run = self.runs[*run].as_ref();
            run.is_some_and(|run| run.standing == Standing::Interrupted)
        };
        let of_jobs = self.jobs.iter().flat_map(|job| job.runs.iter().copied());
        let interrupted: Vec<usize> = of_jobs.filter(is_interrupted).collect();
        for run in interrupted {
            self.tell(run, Told::LeaseLost, sink);
        }
    }

    /// Takes what channels and agents have answered; answers of channels first, as the worker does.
    fn absorb(&mut self, sink: &mut impl Sink) -> bool {
        let mut absorbed = false;
        for (lane, part) in std::mem::take(&mut self.sent) {
            absorbed = true;
            self.settle(lane, part, sink);
        }
        while let Some((at, job, place)) = self.ends.first().copied() {
            if at > self.now {
                break;
            }
            absorbed = true;
            self.ends.remove(&(at, job, place));
            let standing = self.runs[place].as_ref().map(|run| run.standing);
            if let Some(Standing::Running { result, .. }) = standing {
                self.tell(place, Told::Finished(result), sink);
            }
        }
        absorbed
    }

    /// Decides about every job whose wake-up has come.
    fn dispatch(&mut self, sink: &mut impl Sink) -> bool {
        let now = self.wall();
        let mut decided = false;
        while let Some((at, job)) = self.wakes.first().copied() {
            if at > now {
                break;
            }
            decided = true;
            self.wake(job, sink);
            if self.jobs[job].wake_at == Some(at) {
                // It was asked, and has nothing to do before the clock goes on.
                debug_assert!(false, "job {job} wants to be woken at {at} again");
                self.wakes.remove(&(at, job));
                self.jobs[job].wake_at = None;
            }
        }
        decided
    }

    /// Grants free lanes until nothing more can be granted.
    fn fill(&mut self, sink: &mut impl Sink) -> bool {
        let now = self.wall();
        let mut filled = false;
        loop {
            let slots_free = self.max_concurrent.saturating_sub(self.ends.len());
            let jobs = &self.jobs;
            let id_of = |job: usize| &jobs[job].plan.job.id;
            let queues = self.lanes.queues(now, slots_free, id_of);
            if queues.is_empty() {
                return filled;
            }
            let grants = admit(&queues, slots_free, now);
            if grants.is_empty() {
                return filled;
            }
            filled = true;
            for (key, grant) in grants {
                let Some(lane) = self.lanes.place_of(&key) else {
                    continue;
                };
                match grant {
                    Grant::Deliver(PartId(_)) => {
                        if let Some(part) = self.lanes.take_for_part(lane) {
                            self.sent.push((lane, part));
                        }
                    }
                    Grant::Run(RunId(run)) => self.begin_attempt(lane, run as usize, sink),
                    // Nobody writes in a simulation.
                    Grant::Turn(_) => {}
                }
            }
        }
    }

    fn begin_attempt(&mut self, lane: usize, place: usize, sink: &mut impl Sink) {
        let at = self.wall();
        let Some(run) = &mut self.runs[place] else {
            return;
        };
        self.lanes.take_for_run(lane, run.queued(place), run.cause);
        run.attempts += 1;
        let job = &self.jobs[run.job];
        let (time, result) = job
            .world
            .attempt(&job.plan.job, run.nominal, run.attempts, self.now);
        let ends_at = self.now.saturating_add(time).unwrap_or(self.now);
        run.standing = Standing::Running { ends_at, result };
        self.ends.insert((ends_at, run.job, place));
        if let Some(slot) = slot_of(&run.occurrence) {
            sink.take(&Event {
                at,
                job: Some((run.job, &job.plan.job.id)),
                what: Happening::Attempt {
                    slot,
                    attempt: run.attempts,
                    nominal: run.nominal,
                },
            });
        }
    }

    /// What the answer of a channel does to a part.
    fn settle(&mut self, lane: usize, mut part: Part, sink: &mut impl Sink) {
        let now = self.wall();
        let job = &self.jobs[part.job];
        part.attempts += 1;
        part.begun = true;
        part.first_attempt_at.get_or_insert(now);
        let answer = if job.world.refuses(part.nominal, part.attempts) {
            SendAnswer::Refused {
                retry_after: None,
                scope: RefusalScope::Chat,
                why: String::new(),
            }
        } else {
            SendAnswer::Receipt(Receipt {
                message_id: String::new(),
                shown_at: None,
            })
        };
        let policies = &job.plan.job.policies;
        let is_result = job.destination.as_ref().is_some_and(|to| !to.reply);
        let is_late = part.attempts == 1
            && is_result
            && LateRule::of(part.nominal, policies).decide(now) == Some(Late::Withhold);
        let view = PartView {
            since: part.enqueued_at,
            first_attempt_at: part.first_attempt_at,
            attempts: part.attempts,
            in_doubt: false,
            on_unknown: policies.on_unknown,
        };
        let state = match answered(&view, answer, Doubt::Blind, now) {
            _ if is_late => SendState::Withheld,
            Transition::Confirm(_) => SendState::Confirmed,
            Transition::TryAgain { at, .. } => SendState::Again(at),
            Transition::Fail { .. } => SendState::Failed,
            Transition::Unknown | Transition::Readdress { .. } => SendState::Unknown,
        };
        let to = job.destination.as_ref().map_or("", |to| &to.name);
        sink.take(&Event {
            at: now,
            job: Some((part.job, &job.plan.job.id)),
            what: Happening::Send {
                slot: &part.slot,
                to,
                attempt: part.attempts,
                state,
            },
        });
        let again = match state {
            SendState::Again(at) => {
                part.next_attempt_at = at;
                Some(part)
            }
            SendState::Confirmed | SendState::Failed | SendState::Unknown | SendState::Withheld => {
                None
            }
        };
        self.lanes.give_back(lane, again);
    }
}
