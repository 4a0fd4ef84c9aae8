//! Accounting: every slot between the cursor and now gets its record.
//!
//! Slots are counted, by arithmetic or by a walk, and written as a handful of ranges, so that a year
//! of downtime costs one transaction.

use std::{collections::VecDeque, iter};

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use crate::{
    job::{CatchUp, When},
    occurrence::{Cause, Outcome, SkipReason},
    schedule::{Fate, Occurrences, Planned, Series},
};

use super::{
    Draft, ON_TIME,
    overlap::{Candidate, QUEUE_MAX},
};
use crate::policy::{Effect, JobPlan, SkippedRange, WaitingSlot, WaitsFor};

/// The bounds of a catch-up window that nobody has set.
const SHORTEST: SignedDuration = SignedDuration::from_mins(5);
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// Whether slots that are due may start.
#[derive(Clone, Copy)]
pub(super) enum Starting {
    /// By the policies.
    Allowed,
    /// What would start is skipped for this reason instead.
    NotNow(SkipReason),
    /// Nothing would have started in this stretch; every slot of it is skipped for this reason.
    Never(SkipReason),
}

/// Gives every slot in (cursor, now] its record, and takes up those that are due.
pub(super) fn account(draft: &mut Draft, plan: &JobPlan, starting: Starting, now: Timestamp) {
    if draft.state.accounted.is_empty() {
        account_stretch(draft, plan, starting, now);
        return;
    }
    while draft.has_runs_left(plan) {
        let Some(until) = draft.state.unaccounted_to(now) else {
            return;
        };
        // A newer slot has its record already, and nothing older starts after it.
        let starting = match starting {
            Starting::Allowed if until < now => Starting::NotNow(SkipReason::Superseded),
            Starting::Allowed | Starting::NotNow(_) | Starting::Never(_) => starting,
        };
        account_stretch(draft, plan, starting, until);
        // Where the last run was begun on the way, the slots after it are not accounted for.
        if draft.has_runs_left(plan) {
            draft.state.cursor = draft.state.cursor.max(until);
        }
    }
}

fn account_stretch(draft: &mut Draft, plan: &JobPlan, starting: Starting, now: Timestamp) {
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
    let first_due = first_due(draft, plan, newest.as_ref(), now);
    let newest = newest.map(|planned| planned.nominal);
    let mut left = draft.state.runs_left(&plan.job.policies);
    let mut due = Vec::new();
    for planned in first.into_iter().chain(iter::from_fn(|| slots.take())) {
        draft.state.cursor = planned.nominal;
        let is_due = first_due.is_some_and(|first| planned.nominal >= first);
        let reason = match (planned.fate, starting) {
            (Fate::Excluded, _) => SkipReason::Excluded,
            (Fate::NoSuchDate, _) => SkipReason::NoSuchDate,
            (Fate::Fires, Starting::Never(reason)) => reason,
            (Fate::Fires, Starting::NotNow(reason)) if is_due => reason,
            (Fate::Fires, Starting::Allowed) if is_due => {
                due.push(planned);
                left -= 1;
                if left == 0 {
                    break;
                }
                continue;
            }
            (Fate::Fires, Starting::Allowed | Starting::NotNow(_)) => {
                let is_newest = newest == Some(planned.nominal);
                match plan.job.policies.catch_up {
                    CatchUp::Latest if !is_newest && is_in_window(plan, planned.nominal, now) => {
                        SkipReason::Superseded
                    }
                    CatchUp::Latest | CatchUp::None | CatchUp::All => SkipReason::Missed,
                }
            }
        };
        ranges.add(Series::of(planned), reason);
    }
    draft.foresee(slots.next);
    draft.effects.extend(ranges.finish());
    take_up(draft, plan, &due, now);
}

/// The first slot that is due, by its nominal instant; those after it are due as well. It is the
/// newest one, or with `catch_up = "all"` the oldest for which there is room.
fn first_due(
    draft: &Draft,
    plan: &JobPlan,
    newest: Option<&Planned>,
    now: Timestamp,
) -> Option<Timestamp> {
    let newest = newest?;
    match plan.job.policies.catch_up {
        CatchUp::None | CatchUp::Latest => starts(plan, newest, now).then_some(newest.nominal),
        CatchUp::All => {
            let slots = plan.planner.firing_between(draft.state.cursor, now);
            let mut kept = VecDeque::new();
            for planned in slots.filter(|planned| starts(plan, planned, now)) {
                kept.push_back(planned.nominal);
                if kept.len() > draft.room() {
                    kept.pop_front();
                }
            }
            kept.front().copied()
        }
    }
}

/// Counts the slots that are too old to start, where the planner can without a walk: in a year an
/// `every` job of a second has 31 million of them.
fn count_long_past(draft: &mut Draft, ranges: &mut Ranges<'_>, starting: Starting, now: Timestamp) {
    let planner = &ranges.plan.planner;
    let long_past = long_past(ranges.plan, now);
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

/// Slots before this instant are too old to start.
fn long_past(plan: &JobPlan, now: Timestamp) -> Timestamp {
    let policies = &plan.job.policies;
    let longest = match (
        policies.catch_up_window,
        policies.catch_up,
        &plan.job.schedule.when,
    ) {
        (Some(window), _, _) => Some(window),
        (None, CatchUp::Latest | CatchUp::None, _) => Some(LONGEST),
        // The queue takes no more than so many.
        (None, CatchUp::All, When::Every { period, .. }) => {
            let most = i32::try_from(QUEUE_MAX).unwrap_or(i32::MAX);
            period.checked_mul(most)
        }
        (None, CatchUp::All, When::Daily { .. } | When::Cron(_) | When::At(_)) => None,
    };
    let oldest = longest.and_then(|longest| now.checked_sub(longest).ok());
    oldest.unwrap_or(Timestamp::MIN)
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

/// Whether a slot starts at all: on time, or as a catch-up inside its window.
fn starts(plan: &JobPlan, planned: &Planned, now: Timestamp) -> bool {
    is_on_time(plan.planner.fire_at(&plan.job.id, planned), now)
        || match plan.job.policies.catch_up {
            CatchUp::Latest | CatchUp::All => is_in_window(plan, planned.nominal, now),
            CatchUp::None => false,
        }
}

/// Whether a slot that starts now is not caught up.
pub(super) fn is_on_time(fire_at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(fire_at) <= ON_TIME
}

/// Starts what is due, or lets it wait for its drawn instant or its turn.
fn take_up(draft: &mut Draft, plan: &JobPlan, due: &[Planned], now: Timestamp) {
    let Some(newest) = due.last() else {
        return;
    };
    overtake(draft, plan);
    // What is buffered has waited longer.
    draft.start_waiting(plan, now);
    for planned in due {
        let drawn = plan.planner.fire_at(&plan.job.id, planned);
        let (fire_at, cause) = if is_on_time(drawn, now) {
            (drawn, Cause::Scheduled)
        } else {
            (spread(plan, newest, now), Cause::CatchUp)
        };
        // Of several that are due at once all but the newest were missed, however shortly.
        let was_down = due.len() > 1 || cause == Cause::CatchUp;
        let queues =
            plan.job.policies.catch_up == CatchUp::All && (was_down || draft.is_catching_up());
        let slot = WaitingSlot {
            slot: plan.planner.slot(planned),
            nominal: planned.nominal,
            fire_at,
            cause,
            waits_for: if queues {
                WaitsFor::Queue
            } else {
                WaitsFor::Instant
            },
            outdated: false,
        };
        let candidate = Candidate::Fresh {
            merged: plan.planner.merged(planned),
        };
        if fire_at <= now && !draft.is_held(&slot) {
            draft.start(plan, slot, candidate);
        } else {
            draft.wait(slot, candidate);
        }
    }
}

/// Skips what a slot that is due overtakes: what waits for its instant, where nothing is active,
/// and what an older definition has left. With `catch_up = "all"` nothing else is overtaken.
fn overtake(draft: &mut Draft, plan: &JobPlan) {
    let is_idle = draft.state.active.is_empty() && plan.job.policies.catch_up != CatchUp::All;
    for slot in std::mem::take(&mut draft.state.waiting) {
        if slot.outdated || is_idle && slot.waits_for == WaitsFor::Instant {
            draft.end_waiting(&slot, Outcome::Skipped(SkipReason::Superseded));
        } else {
            draft.state.waiting.push(slot);
        }
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
    window(plan, nominal).is_none_or(|window| now.duration_since(nominal) <= window)
}

/// Whether a slot that is buffered or queued is still worth starting. It was asked to wait, so a
/// window that nobody has set is the longest one, and not the time to the following slot.
pub(super) fn is_kept(plan: &JobPlan, nominal: Timestamp, now: Timestamp) -> bool {
    let policies = &plan.job.policies;
    let window = match policies.catch_up {
        CatchUp::All => policies.catch_up_window,
        CatchUp::Latest | CatchUp::None => Some(policies.catch_up_window.unwrap_or(LONGEST)),
    };
    window.is_none_or(|window| now.duration_since(nominal) <= window)
}

/// The catch-up window of a slot; none where only the cap bounds it.
fn window(plan: &JobPlan, nominal: Timestamp) -> Option<SignedDuration> {
    // For the test that a rule changed here changes the worker and the simulator alike.
    if cfg!(feature = "other-rule") {
        return Some(SignedDuration::ZERO);
    }
    let policies = &plan.job.policies;
    match (
        policies.catch_up_window,
        policies.catch_up,
        &plan.job.schedule.when,
    ) {
        (Some(window), _, _) => Some(window),
        (None, CatchUp::All, _) => None,
        (None, CatchUp::Latest | CatchUp::None, When::At(_)) => Some(LONGEST),
        (
            None,
            CatchUp::Latest | CatchUp::None,
            When::Daily { .. } | When::Cron(_) | When::Every { .. },
        ) => {
            let following = plan.planner.next(nominal);
            Some(following.map_or(LONGEST, |next| {
                next.nominal
                    .duration_since(nominal)
                    .clamp(SHORTEST, LONGEST)
            }))
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
