//! Accounting: every slot between the cursor and now gets its record.
//!
//! Slots are counted, by arithmetic or by a walk, and written as a handful of ranges, so that a year
//! of downtime costs one transaction.

use std::iter;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use crate::{
    job::{CatchUp, When},
    occurrence::{Cause, Outcome, SkipReason},
    schedule::{Fate, Occurrences, Planned, Series},
};

use super::{Candidate, Draft, ON_TIME};
use crate::policy::{Effect, JobPlan, SkippedRange, WaitingSlot};

/// The catch-up window of a job that comes once, or seldom.
const LONGEST_WINDOW: SignedDuration = SignedDuration::from_hours(24);

/// Whether the newest slot may start.
#[derive(Clone, Copy)]
pub(super) enum Starting {
    /// By the policies.
    Allowed,
    /// If it would start, it is skipped for this reason instead.
    NotNow(SkipReason),
    /// Nothing would have started in this stretch; every slot of it is skipped for this reason.
    Never(SkipReason),
}

/// Gives every slot in (cursor, now] its record, and starts the newest one if that is due.
pub(super) fn account(draft: &mut Draft, plan: &JobPlan, starting: Starting, now: Timestamp) {
    if draft.state.cursor >= now || !draft.has_runs_left(plan) {
        return;
    }
    let mut ranges = Ranges::new(plan);
    count_long_past(draft, &mut ranges, starting, now);
    let mut slots = Due::after(plan, draft.state.cursor, now);
    let first = slots.take();
    // A slot alone is the newest, and nearly always it is alone; of more the planner says.
    let newest = if slots.has_more() {
        plan.planner.latest_at_or_before(now)
    } else {
        first.filter(Planned::fires)
    };
    let newest = newest.map(|planned| planned.nominal);
    let mut due = None;
    for planned in first.into_iter().chain(iter::from_fn(|| slots.take())) {
        draft.state.cursor = planned.nominal;
        let is_newest = newest == Some(planned.nominal);
        let in_window = || is_in_window(plan, planned.nominal, now);
        let reason = match (planned.fate, starting) {
            (Fate::Excluded, _) => SkipReason::Excluded,
            (Fate::NoSuchDate, _) => SkipReason::NoSuchDate,
            (Fate::Fires, Starting::Never(reason)) => reason,
            (Fate::Fires, Starting::Allowed) if is_newest && starts(plan, &planned, now) => {
                due = Some(planned);
                continue;
            }
            (Fate::Fires, Starting::NotNow(reason)) if is_newest && starts(plan, &planned, now) => {
                reason
            }
            (Fate::Fires, Starting::Allowed | Starting::NotNow(_)) => {
                match plan.job.policies.catch_up {
                    CatchUp::Latest if !is_newest && in_window() => SkipReason::Superseded,
                    CatchUp::Latest | CatchUp::None => SkipReason::Missed,
                }
            }
        };
        ranges.add(Series::of(planned), reason);
    }
    draft.foresee(slots.next);
    draft.effects.extend(ranges.finish());
    if let Some(planned) = due {
        take_up(draft, plan, &planned, now);
    }
}

/// Counts the slots that are too old to start, where the planner can without a walk: in a year an
/// `every` job of a second has 31 million of them.
fn count_long_past(draft: &mut Draft, ranges: &mut Ranges<'_>, starting: Starting, now: Timestamp) {
    let planner = &ranges.plan.planner;
    let window = ranges.plan.job.policies.catch_up_window;
    let long_past = now.saturating_sub(window.unwrap_or(LONGEST_WINDOW));
    let long_past = long_past.unwrap_or(Timestamp::MIN);
    // The last one may be the newest there is, and that may start however old it is: its drawn
    // instant need not have come yet.
    let all = planner.series(draft.state.cursor, long_past.min(now));
    let but_one = all.and_then(|all| planner.series(draft.state.cursor, just_before(all.last)));
    let Some(old) = but_one else { return };
    let reason = match starting {
        Starting::Never(reason) => reason,
        Starting::Allowed | Starting::NotNow(_) => SkipReason::Missed,
    };
    draft.state.cursor = old.last.nominal;
    ranges.add(old, reason);
}

fn just_before(planned: Planned) -> Timestamp {
    let micro = SignedDuration::from_micros(1);
    planned
        .nominal
        .saturating_sub(micro)
        .unwrap_or(planned.nominal)
}

/// The slots up to now, and the one after them, which says when to wake up.
struct Due<'a> {
    slots: Occurrences<'a>,
    next: Option<Planned>,
    now: Timestamp,
}

impl<'a> Due<'a> {
    fn after(plan: &'a JobPlan, cursor: Timestamp, now: Timestamp) -> Self {
        let mut slots = plan.planner.between(cursor, Timestamp::MAX);
        let next = slots.next();
        Self { slots, next, now }
    }

    fn take(&mut self) -> Option<Planned> {
        let due = self.next.filter(|next| next.nominal <= self.now)?;
        self.next = self.slots.next();
        Some(due)
    }

    fn has_more(&self) -> bool {
        self.next.is_some_and(|next| next.nominal <= self.now)
    }
}

/// Whether the newest slot starts at all: on time, or as a catch-up inside its window.
fn starts(plan: &JobPlan, planned: &Planned, now: Timestamp) -> bool {
    let fire_at = plan.planner.fire_at(&plan.job.id, planned);
    let on_time = now.duration_since(fire_at) <= ON_TIME;
    on_time
        || match plan.job.policies.catch_up {
            CatchUp::Latest => is_in_window(plan, planned.nominal, now),
            CatchUp::None => false,
        }
}

/// Starts the newest slot, or lets it wait for its drawn instant.
fn take_up(draft: &mut Draft, plan: &JobPlan, planned: &Planned, now: Timestamp) {
    // What still waits is overtaken, unless it waits for a manual run to end.
    if draft.state.active.is_empty() {
        for slot in std::mem::take(&mut draft.state.waiting) {
            draft.end_waiting(&slot, Outcome::Skipped(SkipReason::Superseded));
        }
    }
    let drawn = plan.planner.fire_at(&plan.job.id, planned);
    let on_time = now.duration_since(drawn) <= ON_TIME;
    let (fire_at, cause) = if on_time {
        (drawn, Cause::Scheduled)
    } else {
        (spread(plan, planned, now), Cause::CatchUp)
    };
    let slot = WaitingSlot {
        slot: plan.planner.slot(planned),
        nominal: planned.nominal,
        fire_at,
        cause,
    };
    let candidate = Candidate::Fresh {
        merged: plan.planner.merged(planned),
    };
    if fire_at <= now {
        draft.start(plan, slot, candidate);
    } else {
        draft.wait(slot, candidate);
    }
}

/// When a catch-up starts: a stable offset, so that the jobs of a service that was down do not all
/// start at once. It never reaches the job's next nominal.
fn spread(plan: &JobPlan, planned: &Planned, now: Timestamp) -> Timestamp {
    let mut width = plan.job.policies.catch_up_spread;
    if let Some(next) = plan.planner.next(planned.nominal) {
        width = width.min(next.nominal.duration_since(now));
    }
    let Ok(micros) = u64::try_from(width.as_micros()) else {
        return now;
    };
    if micros == 0 {
        return now;
    }
    let hash = Sha256::digest(format!("{}\n{}", plan.job.id, plan.planner.slot(planned)));
    let draw = hash
        .iter()
        .take(8)
        .fold(0, |draw, byte| draw << 8 | u64::from(*byte));
    let offset = SignedDuration::from_micros(i64::try_from(draw % micros).unwrap_or(0));
    now.saturating_add(offset).unwrap_or(now)
}

/// Whether a slot of this nominal instant may still start now.
pub(super) fn is_in_window(plan: &JobPlan, nominal: Timestamp, now: Timestamp) -> bool {
    now.duration_since(nominal) <= window(plan, nominal)
}

/// The catch-up window of a slot.
fn window(plan: &JobPlan, nominal: Timestamp) -> SignedDuration {
    // For the test that a rule changed here changes the worker and the simulator alike.
    if cfg!(feature = "other-rule") {
        return SignedDuration::ZERO;
    }
    let shortest = SignedDuration::from_mins(5);
    match (plan.job.policies.catch_up_window, &plan.job.schedule.when) {
        (Some(window), _) => window,
        (None, When::At(_)) => LONGEST_WINDOW,
        (None, When::Daily { .. } | When::Cron(_) | When::Every { .. }) => {
            let following = plan.planner.next(nominal);
            following.map_or(LONGEST_WINDOW, |next| {
                next.nominal
                    .duration_since(nominal)
                    .clamp(shortest, LONGEST_WINDOW)
            })
        }
    }
}

/// Folds consecutive slots with one reason into ranges.
struct Ranges<'a> {
    plan: &'a JobPlan,
    closed: Vec<Effect>,
    open: Option<OpenRange>,
}

struct OpenRange {
    slots: Series,
    reason: SkipReason,
}

impl<'a> Ranges<'a> {
    fn new(plan: &'a JobPlan) -> Self {
        Self {
            plan,
            closed: Vec::new(),
            open: None,
        }
    }

    fn add(&mut self, slots: Series, reason: SkipReason) {
        match &mut self.open {
            Some(open) if open.reason == reason => {
                open.slots.last = slots.last;
                open.slots.count += slots.count;
            }
            Some(_) | None => {
                self.close();
                self.open = Some(OpenRange { slots, reason });
            }
        }
    }

    fn close(&mut self) {
        if let Some(OpenRange { slots, reason }) = self.open.take() {
            self.closed.push(Effect::Skip(SkippedRange {
                first: self.plan.planner.slot(&slots.first),
                first_nominal: slots.first.nominal,
                last: self.plan.planner.slot(&slots.last),
                last_nominal: slots.last.nominal,
                count: slots.count,
                reason,
            }));
        }
    }

    fn finish(mut self) -> Vec<Effect> {
        self.close();
        self.closed
    }
}
