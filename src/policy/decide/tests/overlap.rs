//! What a slot does that meets a run.

use super::*;
use crate::{
    policy::WaitingSlot,
    policy::decide::overlap::{Occupant, QUEUE_MAX, Queue, Step, step},
};

/// The table of the overlap policies: what is active, and what waits already.
#[test]
fn overlap_follows_its_table() {
    use Occupant::{Nothing, RequestedRun, ScheduledRun};
    use Overlap::{Allow, BufferAll, BufferOne, CancelRunning, Skip};
    #[rustfmt::skip]
    let table = [
        // occupant      policy         nothing waits  something waits  no room
        (Nothing,        Skip,          Step::Start, Step::Start, Step::Start),
        (Nothing,        BufferOne,     Step::Start, Step::Start, Step::Start),
        (Nothing,        BufferAll,     Step::Start, Step::Start, Step::Start),
        (Nothing,        CancelRunning, Step::Start, Step::Start, Step::Start),
        (Nothing,        Allow,         Step::Start, Step::Start, Step::Start),
        (ScheduledRun,   Skip,          Step::Skip,  Step::Skip,  Step::Skip),
        (ScheduledRun,   BufferOne,     Step::Wait,  Step::Skip,  Step::Skip),
        (ScheduledRun,   BufferAll,     Step::Wait,  Step::Wait,  Step::Skip),
        (ScheduledRun,   CancelRunning, Step::CancelThenStart, Step::CancelThenStart, Step::CancelThenStart),
        (ScheduledRun,   Allow,         Step::Start, Step::Start, Step::Start),
        (RequestedRun,   Skip,          Step::Wait,  Step::Skip,  Step::Skip),
        (RequestedRun,   BufferOne,     Step::Wait,  Step::Skip,  Step::Skip),
        (RequestedRun,   BufferAll,     Step::Wait,  Step::Wait,  Step::Skip),
        (RequestedRun,   CancelRunning, Step::Wait,  Step::Skip,  Step::Skip),
        (RequestedRun,   Allow,         Step::Start, Step::Start, Step::Start),
    ];
    for (occupant, policy, empty, begun, full) in table {
        let steps =
            [Queue::Empty, Queue::Begun, Queue::Full].map(|queue| step(occupant, policy, queue));
        assert_eq!(steps, [empty, begun, full], "{occupant:?}, {policy:?}");
    }
}

/// A job that runs every day at 08:00 under this policy; its runs take days.
fn slow(overlap: Overlap) -> JobPlan {
    let mut job = daily();
    job.policies.overlap = overlap;
    plan(job)
}

fn waits(day: u32) -> Effect {
    Effect::Wait {
        waiting: WaitingSlot {
            slot: slot(day),
            nominal: nominal(day),
            fire_at: nominal(day),
            cause: Cause::Scheduled,
            waits_for: WaitsFor::Run,
            outdated: false,
        },
        merged: Vec::new(),
    }
}

/// Wakes the job at these days' slots, one after the other; returns the last state and the effects
/// of each.
fn woken(plan: &JobPlan, state: JobState, days: &[u32]) -> (JobState, Vec<Vec<Effect>>) {
    let mut state = state;
    let mut effects = Vec::new();
    for day in days {
        let decision = decide(plan, &state, Event::WakeUp, nominal(*day));
        state = decision.state;
        effects.push(decision.effects);
    }
    (state, effects)
}

fn done_at(plan: &JobPlan, state: &JobState, day: u32, now: Timestamp) -> Decision {
    let occurrence = scheduled(day);
    let finished = finished(plan, &occurrence, AttemptResult::Done, 1);
    decide(plan, state, finished, now)
}

#[test]
fn buffer_one_keeps_the_first_slot_and_starts_it_when_the_run_ends() {
    let plan = slow(Overlap::BufferOne);
    let (state, effects) = woken(&plan, running(&plan, 1), &[2, 3]);
    assert_eq!(
        effects,
        [vec![waits(2)], vec![skip(3, 3, SkipReason::Overlap)]]
    );
    let ended = nominal(3) + SignedDuration::from_hours(1);
    // The window that nobody has set is a day, and the slot is 25 hours old.
    let late = done_at(&plan, &state, 1, ended);
    assert_eq!(
        late.effects,
        [
            end(scheduled(1), Outcome::Done),
            end(scheduled(2), Outcome::Skipped(SkipReason::Missed)),
        ]
    );
    let ended = nominal(2) + SignedDuration::from_hours(3);
    let (state, _) = woken(&plan, running(&plan, 1), &[2]);
    let next = done_at(&plan, &state, 1, ended);
    assert_eq!(
        next.effects,
        [
            end(scheduled(1), Outcome::Done),
            start(2, Cause::Scheduled, nominal(2))
        ]
    );
    assert_eq!(next.wake_at, Some(nominal(3)));
}

#[test]
fn a_buffered_slot_that_expires_leaves_its_place_to_the_next_one() {
    let plan = slow(Overlap::BufferOne);
    let (state, effects) = woken(&plan, running(&plan, 1), &[2, 3, 4]);
    assert_eq!(effects[1], [skip(3, 3, SkipReason::Overlap)]);
    assert_eq!(
        effects[2],
        [
            end(scheduled(2), Outcome::Skipped(SkipReason::Missed)),
            waits(4)
        ]
    );
    assert_eq!(state.waiting.len(), 1);
}

#[test]
fn buffer_all_keeps_the_nominal_order_and_one_run_at_a_time() {
    let mut job = daily();
    job.policies.overlap = Overlap::BufferAll;
    job.policies.catch_up_window = Some(SignedDuration::from_hours(24 * 30));
    let plan = plan(job);
    let (mut state, _) = woken(&plan, running(&plan, 1), &[2, 3, 4]);
    let now = nominal(4) + SignedDuration::from_hours(1);
    for day in 1..=3 {
        let next = done_at(&plan, &state, day, now);
        assert_eq!(
            next.effects,
            [
                end(scheduled(day), Outcome::Done),
                start(day + 1, Cause::Scheduled, nominal(day + 1))
            ]
        );
        state = next.state;
    }
    assert!(state.waiting.is_empty());
}

#[test]
fn a_slot_that_comes_due_as_the_run_ends_goes_behind_what_is_buffered() {
    let plan = slow(Overlap::BufferOne);
    let (state, _) = woken(&plan, running(&plan, 1), &[2]);
    let both = done_at(&plan, &state, 1, nominal(3));
    assert_eq!(
        both.effects,
        [
            end(scheduled(1), Outcome::Done),
            start(2, Cause::Scheduled, nominal(2)),
            waits(3)
        ]
    );
}

#[test]
fn buffers_are_bounded() {
    let mut job = job(When::Every {
        period: SignedDuration::from_mins(1),
        anchor: None,
    });
    job.policies.overlap = Overlap::BufferAll;
    let plan = plan(job);
    let mut now = utc("2026-12-01T00:00:00Z");
    let mut state = JobState::activated(now);
    let mut last = Vec::new();
    for _ in 0..QUEUE_MAX + 2 {
        now += SignedDuration::from_mins(1);
        let decision = decide(&plan, &state, Event::WakeUp, now);
        state = decision.state;
        last = decision.effects;
    }
    assert_eq!(state.waiting.len(), QUEUE_MAX);
    assert!(
        matches!(
            last.as_slice(),
            [Effect::Skip(SkippedRange {
                reason: SkipReason::Overlap,
                ..
            })]
        ),
        "{last:?}"
    );
}

#[test]
fn cancel_running_calls_off_the_run_and_starts_the_slot() {
    let plan = slow(Overlap::CancelRunning);
    let decision = decide(&plan, &running(&plan, 1), Event::WakeUp, nominal(2));
    assert_eq!(
        decision.effects,
        [
            end(scheduled(1), Outcome::Cancelled),
            start(2, Cause::Scheduled, nominal(2))
        ]
    );
    let late = done_at(&plan, &decision.state, 1, nominal(2));
    assert_eq!(late.effects, [], "its outcome comes too late");
}

#[test]
fn allow_starts_beside_scheduled_and_requested_runs() {
    let plan = slow(Overlap::Allow);
    let first = running(&plan, 1);
    let second = decide(&plan, &first, Event::WakeUp, nominal(2));
    assert_eq!(second.effects, [start(2, Cause::Scheduled, nominal(2))]);
    let request = RequestId(1);
    let manual = Event::ManualTrigger { request };
    let third = decide(&plan, &second.state, manual, nominal(2));
    assert_eq!(third.refusal, None);
    assert_eq!(third.state.active.len(), 3);
    let occurrence = scheduled(1);
    let one_done = finished(&plan, &occurrence, AttemptResult::Done, 1);
    let rest = decide(&plan, &third.state, one_done, nominal(2));
    assert_eq!(rest.state.active.len(), 2);
}

#[test]
fn a_slot_of_a_new_definition_goes_before_what_the_old_one_left() {
    let old = slow(Overlap::BufferOne);
    let mut job = daily();
    job.policies.overlap = Overlap::BufferOne;
    job.prompt = "Otherwise.".to_owned();
    let new = plan(job);
    let (state, _) = woken(&old, running(&old, 1), &[2]);
    let edited = decide(
        &old,
        &state,
        Event::DefinitionChanged { new: &new },
        nominal(2) + SignedDuration::from_hours(1),
    );
    assert_eq!(edited.effects, [], "it keeps its slot");
    let (_, effects) = woken(&new, edited.state.clone(), &[3]);
    let superseded = end(scheduled(2), Outcome::Skipped(SkipReason::Superseded));
    assert_eq!(effects, [vec![superseded, waits(3)]]);
    let soon = nominal(2) + SignedDuration::from_hours(2);
    let ended = done_at(&new, &edited.state, 1, soon);
    assert_eq!(
        ended.effects[1..],
        [start(2, Cause::Scheduled, nominal(2))],
        "it runs if no slot of the new definition comes first"
    );
}
