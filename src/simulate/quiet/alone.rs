//! One job, followed alone.

use jiff::{SignedDuration, Timestamp};

use crate::{
    job::{Late, Overlap, When},
    occurrence::{Cause, OccurrenceRef, Outcome},
    policy::{
        AttemptResult, Decision, Effect, Effects, Event as JobEvent, JobPlan, JobState, Phase,
        decide, decide_from,
    },
    schedule::{Fate, Planned},
};

use super::load::Load;
use crate::simulate::{
    Event, Failing, Happening, Rate, Sink, Tally,
    event::slot_of,
    run::{OneJob, before},
    world::JobWorld,
};

/// So many quiet slots of a job are decided on by the policy, each of them: more than half a year of
/// a daily job. Slots that a clock change moved, or that meet anything, are never quiet.
const ASKED_FIRST: u64 = 200;

/// After those, one of so many is.
const ASKED_EVERY: u64 = 256;

/// A job in its world.
pub(super) struct Alone<'s> {
    index: usize,
    plan: &'s JobPlan,
    world: &'s JobWorld,
    destination: Option<usize>,
    window_end: Timestamp,
    state: JobState,
    wake_at: Option<Timestamp>,
    run: Option<Run>,
    /// Whether quiet slots are all alike, as far as the policy was asked.
    quiet: bool,
    /// Quiet slots that were passed.
    passed: u64,
}

/// Its run that has not ended.
struct Run {
    occurrence: OccurrenceRef,
    nominal: Timestamp,
    attempts: u32,
    /// The end of the attempt under way.
    ends: Option<(Timestamp, AttemptResult)>,
    queued: bool,
}

impl<'s> Alone<'s> {
    /// Nothing where something of it is not told by the second.
    pub(super) fn new(job: OneJob<'s>, names: &[&str], window_end: Timestamp) -> Option<Self> {
        let second = SignedDuration::from_secs(1);
        let policies = &job.plan.job.policies;
        let mut instants = job.world.failing().iter().map(|failing| match failing {
            Failing::Rate(_) => true,
            Failing::At(at) => is_whole(*at),
            Failing::Between(from, to) => is_whole(*from) && is_whole(*to),
        });
        let whole = |duration: &SignedDuration| duration.subsec_nanos() == 0;
        let anchored = match &job.plan.job.schedule.when {
            When::Every { period, anchor } => whole(period) && anchor.is_none_or(is_whole),
            When::Daily { .. } | When::Cron(_) | When::At(_) => true,
        };
        let by_the_second = anchored
            && policies.overlap == Overlap::Skip
            && job.plan.job.schedule.jitter.is_zero()
            && job.world.run_time.shortest >= second
            && job.world.refusals == Rate::NEVER
            && instants.all(|whole| whole)
            && whole(&policies.timeout)
            && policies.timeout >= second
            && policies.late == Late::Label
            && policies.retry.backoff.iter().all(whole);
        let destination = match job.destination {
            Some(name) => Some(names.binary_search(&name).ok()?),
            None => None,
        };
        by_the_second.then_some(Self {
            index: job.index,
            quiet: policies.max_runs.is_none() && job.plan.job.enabled && job.state.pause.is_none(),
            plan: job.plan,
            world: job.world,
            destination,
            window_end,
            state: job.state.clone(),
            wake_at: Some(job.now),
            run: None,
            passed: 0,
        })
    }

    /// The definition and the state.
    pub(super) fn standing(&self) -> (&JobPlan, &JobState) {
        (self.plan, &self.state)
    }

    /// Goes on to `to`; nothing where something turns out not to be told by the second.
    pub(super) fn run_until(
        &mut self,
        to: Timestamp,
        tally: &mut Tally,
        load: &mut Load,
    ) -> Option<()> {
        loop {
            if self.quiet && self.run.is_none() && self.state.waiting.is_empty() {
                self.pass_quiet_slots(to, tally, load);
            }
            let end = self.run.as_ref().and_then(|run| Some(run.ends?.0));
            let Some(at) = self.wake_at.into_iter().chain(end).min() else {
                return Some(());
            };
            if at >= to {
                return Some(());
            }
            if !is_whole(at) {
                return None;
            }
            self.turn(at, tally, load);
        }
    }

    /// Counts slots that are decided like the one before, up to the first that may not be.
    fn pass_quiet_slots(&mut self, to: Timestamp, tally: &mut Tally, load: &mut Load) {
        let job = &self.plan.job;
        let mut slots = self
            .plan
            .planner
            .between(self.state.cursor, before(to))
            .peekable();
        let mut passed = Passed::default();
        while let Some(slot) = slots.next() {
            let plain = slot.fate == Fate::Fires && slot.moved.is_none();
            let following = match slots.peek() {
                Some(next) => Some(next.nominal),
                None => self.next_after(slot.nominal),
            };
            let (time, result) = self.world.attempt(job, slot.nominal, 1, slot.nominal);
            let Ok(end) = slot.nominal.checked_add(time) else {
                break;
            };
            let in_time = following.is_none_or(|next| end < next) && end < self.window_end;
            if !plain || !in_time || result != AttemptResult::Done {
                break;
            }
            let asks = self.passed < ASKED_FIRST || self.passed.is_multiple_of(ASKED_EVERY);
            if asks && !self.is_decided_so(&slot, end, following) {
                self.quiet = false;
                break;
            }
            self.passed += 1;
            let (from, until) = (slot.nominal.as_second(), end.as_second());
            load.start(from);
            load.attempt(from, until);
            if let Some(destination) = self.destination {
                load.message(destination, until);
            }
            passed.add(&slot);
            self.state.cursor = slot.nominal;
            self.wake_at = following;
        }
        self.state.started_runs = self
            .state
            .started_runs
            .saturating_add(u32::try_from(passed.count).unwrap_or(u32::MAX));
        if passed.count > 0 {
            self.state.failure_streak = 0;
        }
        tally.pass(self.index, passed.count, passed.first, passed.last);
    }

    fn next_after(&self, nominal: Timestamp) -> Option<Timestamp> {
        let next = self.plan.planner.next(nominal);
        next.map(|next| next.nominal)
    }

    /// Whether the policy starts the slot at once, ends it with its attempt, and wants to be woken
    /// for the next one.
    fn is_decided_so(&self, slot: &Planned, end: Timestamp, following: Option<Timestamp>) -> bool {
        let Decision {
            state,
            effects,
            wake_at,
            ..
        } = decide(self.plan, &self.state, JobEvent::WakeUp, slot.nominal);
        let [
            Effect::Start {
                occurrence,
                nominal,
                fire_at,
                cause: Cause::Scheduled,
                merged,
            },
        ] = &effects[..]
        else {
            return false;
        };
        let finished = JobEvent::AttemptFinished {
            occurrence,
            result: AttemptResult::Done,
            attempts_made: 1,
            effects: Effects::None,
            policies: &self.plan.job.policies,
        };
        let ended = decide_from(self.plan, state, finished, end);
        let is_done = matches!(
            &ended.effects[..],
            [Effect::End { occurrence: of, outcome: Outcome::Done }] if of == occurrence
        );
        // Nothing of the slot is left in the state but what was counted.
        let counted = JobState {
            cursor: self.state.cursor,
            started_runs: self.state.started_runs,
            failure_streak: self.state.failure_streak,
            ..ended.state
        };
        *nominal == slot.nominal
            && *fire_at == slot.nominal
            && merged.is_empty()
            && wake_at == following
            && ended.wake_at == following
            && is_done
            && ended.state.cursor == slot.nominal
            && ended.state.failure_streak == 0
            && counted == self.state
    }

    /// Everything that is to be done at one instant: as the whole simulation does it.
    fn turn(&mut self, at: Timestamp, tally: &mut Tally, load: &mut Load) {
        if let Some(run) = &mut self.run
            && let Some((_, result)) = run.ends.filter(|(end, _)| *end <= at)
        {
            run.ends = None;
            let (occurrence, attempts) = (run.occurrence.clone(), run.attempts);
            let finished = JobEvent::AttemptFinished {
                occurrence: &occurrence,
                result,
                attempts_made: attempts,
                effects: Effects::None,
                policies: &self.plan.job.policies,
            };
            let decision = decide(self.plan, &self.state, finished, at);
            self.follow(decision, at, tally, load);
            if let (AttemptResult::Done, Some(destination)) = (result, self.destination) {
                load.message(destination, at.as_second());
            }
        }
        if self.wake_at.is_some_and(|wake_at| wake_at <= at) {
            let decision = decide(self.plan, &self.state, JobEvent::WakeUp, at);
            self.follow(decision, at, tally, load);
        }
        self.begin_attempt(at, tally, load);
    }

    fn follow(&mut self, decision: Decision, at: Timestamp, tally: &mut Tally, load: &mut Load) {
        for effect in &decision.effects {
            if let Some(what) = Happening::of(effect) {
                self.tell(at, what, tally);
            }
            match effect {
                Effect::Start {
                    occurrence,
                    nominal,
                    ..
                } => {
                    load.start(at.as_second());
                    self.run = Some(Run {
                        occurrence: occurrence.clone(),
                        nominal: *nominal,
                        attempts: 0,
                        ends: None,
                        queued: true,
                    });
                }
                Effect::Requeue { .. } => {
                    if let Some(run) = &mut self.run {
                        run.queued = true;
                    }
                }
                Effect::End { occurrence, .. } => {
                    if self
                        .run
                        .as_ref()
                        .is_some_and(|run| run.occurrence == *occurrence)
                    {
                        self.run = None;
                    }
                }
                Effect::Wait { .. } | Effect::Backoff { .. } | Effect::Skip(_) => {}
            }
        }
        self.state = decision.state;
        self.wake_at = decision.wake_at;
    }

    fn begin_attempt(&mut self, at: Timestamp, tally: &mut Tally, load: &mut Load) {
        let job = &self.plan.job;
        let Some(run) = self.run.as_mut().filter(|run| run.queued) else {
            return;
        };
        run.queued = false;
        run.attempts += 1;
        let (time, result) = self.world.attempt(job, run.nominal, run.attempts, at);
        let end = at.saturating_add(time).unwrap_or(at);
        run.ends = Some((end, result));
        let (nominal, attempt) = (run.nominal, run.attempts);
        load.attempt(at.as_second(), end.as_second());
        if let Some(run) = &self.run
            && let Some(slot) = slot_of(&run.occurrence)
        {
            let what = Happening::Attempt {
                slot,
                attempt,
                nominal,
            };
            self.tell(at, what, tally);
        }
    }

    fn tell(&self, at: Timestamp, what: Happening<'_>, tally: &mut Tally) {
        tally.take(&Event {
            at,
            job: Some((self.index, &self.plan.job.id)),
            what,
        });
    }

    /// Tells what has not ended.
    pub(super) fn close(&self, tally: &mut Tally) {
        let phase = |phase| match phase {
            Phase::Open => "running",
            Phase::Backoff { .. } => "backoff",
        };
        let active = self.state.active.iter();
        let active = active.filter_map(|run| Some((slot_of(&run.occurrence)?, phase(run.phase))));
        let waiting = self
            .state
            .waiting
            .iter()
            .map(|slot| (&slot.slot, "waiting"));
        for (slot, phase) in active.chain(waiting) {
            self.tell(self.window_end, Happening::Open { slot, phase }, tally);
        }
    }
}

/// What a stretch of quiet slots comes to.
#[derive(Default)]
struct Passed {
    count: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

impl Passed {
    fn add(&mut self, slot: &Planned) {
        self.count += 1;
        self.first.get_or_insert(slot.nominal);
        self.last = Some(slot.nominal);
    }
}

fn is_whole(at: Timestamp) -> bool {
    at.subsec_nanosecond() == 0
}
