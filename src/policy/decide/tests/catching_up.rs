//! `catch_up = "all"`: every missed slot runs, one after another.

use super::*;
use crate::policy::{WaitingSlot, WaitsFor, decide::QUEUE_MAX};

fn all(overlap: Overlap) -> Job {
    let mut job = daily();
    job.policies.catch_up = CatchUp::All;
    job.policies.overlap = overlap;
    job
}

fn queued(day: u32, cause: Cause, fire_at: Timestamp) -> Effect {
    Effect::Wait {
        waiting: WaitingSlot {
            slot: slot(day),
            nominal: nominal(day),
            fire_at,
            cause,
            waits_for: WaitsFor::Queue,
            outdated: false,
        },
        merged: Vec::new(),
    }
}

fn done(plan: &JobPlan, state: &JobState, day: u32, now: Timestamp) -> Decision {
    let occurrence = scheduled(day);
    let event = finished(plan, &occurrence, AttemptResult::Done, 1);
    decide(plan, state, event, now)
}

#[test]
fn all_missed_slots_run_one_after_another_whatever_the_overlap_policy() {
    let policies = [
        Overlap::Skip,
        Overlap::BufferOne,
        Overlap::BufferAll,
        Overlap::CancelRunning,
        Overlap::Allow,
    ];
    for overlap in policies {
        let plan = plan(all(overlap));
        let now = utc("2026-12-03T09:00:00Z");
        let state = activated("2026-12-01T00:00:00Z");
        let back = decide(&plan, &state, Event::WakeUp, now);
        assert_eq!(
            back.effects,
            [
                start(1, Cause::CatchUp, now),
                queued(2, Cause::CatchUp, now),
                queued(3, Cause::CatchUp, now),
            ],
            "{overlap:?}"
        );
        assert_eq!(back.wake_at, Some(nominal(4)), "{overlap:?}");
        let second = done(&plan, &back.state, 1, now);
        let third = done(&plan, &second.state, 2, now);
        assert_eq!(
            third.effects[1..],
            [start(3, Cause::CatchUp, now)],
            "{overlap:?}"
        );
        assert!(third.state.waiting.is_empty(), "{overlap:?}");
    }
}

#[test]
fn slots_that_were_missed_for_seconds_are_made_up_for_too() {
    let mut job = job(When::Every {
        period: SignedDuration::from_secs(5),
        anchor: None,
    });
    job.policies.catch_up = CatchUp::All;
    let plan = plan(job);
    let state = activated("2026-12-01T00:00:00Z");
    let back = decide(&plan, &state, Event::WakeUp, utc("2026-12-01T00:00:28Z"));
    assert_eq!(back.state.active.len(), 1);
    assert_eq!(back.state.waiting.len(), 4, "{:?}", back.effects);
    assert!(back.effects.iter().all(|effect| effect.skipped().is_none()));
}

#[test]
fn a_slot_that_comes_due_meanwhile_joins_the_end_of_the_queue() {
    let plan = plan(all(Overlap::Skip));
    let now = utc("2026-12-02T09:00:00Z");
    let state = activated("2026-12-01T00:00:00Z");
    let back = decide(&plan, &state, Event::WakeUp, now);
    let due = decide(&plan, &back.state, Event::WakeUp, nominal(3));
    assert_eq!(
        due.effects,
        [queued(3, Cause::Scheduled, nominal(3))],
        "it is never skipped for overlap"
    );
    let last = done(
        &plan,
        &done(&plan, &due.state, 1, nominal(3)).state,
        2,
        nominal(3),
    );
    assert_eq!(last.effects[1..], [start(3, Cause::Scheduled, nominal(3))]);
    // The queue is at work until its last run has ended.
    let during = decide(&plan, &last.state, Event::WakeUp, nominal(4));
    assert_eq!(during.effects, [queued(4, Cause::Scheduled, nominal(4))]);
}

#[test]
fn the_queue_waits_for_its_spread_as_one() {
    let mut job = all(Overlap::Skip);
    job.policies.catch_up_spread = SignedDuration::from_hours(1);
    let plan = plan(job);
    let now = utc("2026-12-02T09:00:00Z");
    let state = activated("2026-12-01T00:00:00Z");
    let back = decide(&plan, &state, Event::WakeUp, now);
    let fire_at = back.wake_at.unwrap();
    assert!(fire_at > now && fire_at < now + SignedDuration::from_hours(1));
    assert_eq!(
        back.effects,
        [
            queued(1, Cause::CatchUp, fire_at),
            queued(2, Cause::CatchUp, fire_at)
        ]
    );
    let begun = decide(&plan, &back.state, Event::WakeUp, fire_at);
    assert_eq!(begun.effects, [start(1, Cause::CatchUp, fire_at)]);
}

#[test]
fn the_queue_takes_the_newest_slots_for_which_there_is_room() {
    let mut job = job(When::Every {
        period: SignedDuration::from_mins(1),
        anchor: None,
    });
    job.policies.catch_up = CatchUp::All;
    let plan = plan(job);
    let now = utc("2026-12-01T10:00:00Z");
    let state = activated("2026-12-01T00:00:00Z");
    let back = decide(&plan, &state, Event::WakeUp, now);
    let missed: Vec<_> = back.effects.iter().filter_map(Effect::skipped).collect();
    let dropped = 600 - u64::try_from(QUEUE_MAX).unwrap();
    assert_eq!(missed, [(SkipReason::Missed, dropped)]);
    assert_eq!(
        back.state.waiting.len() + back.state.active.len(),
        QUEUE_MAX
    );
    let last = back.state.waiting.last().map(|slot| slot.nominal);
    assert_eq!(last, Some(now));
}

#[test]
fn slots_outside_a_window_are_missed() {
    let mut job = all(Overlap::Skip);
    job.policies.catch_up_window = Some(SignedDuration::from_hours(25));
    let plan = plan(job);
    let now = utc("2026-12-03T09:00:00Z");
    let state = activated("2026-12-01T00:00:00Z");
    let back = decide(&plan, &state, Event::WakeUp, now);
    assert_eq!(
        back.effects,
        [
            skip(1, 1, SkipReason::Missed),
            start(2, Cause::CatchUp, now),
            queued(3, Cause::CatchUp, now),
        ]
    );
}

#[test]
fn a_job_with_an_end_takes_the_slots_up_to_it_and_no_more() {
    let mut job = all(Overlap::Skip);
    job.policies.max_runs = Some(2);
    let plan = plan(job);
    let now = utc("2026-12-04T09:00:00Z");
    let state = activated("2026-12-01T00:00:00Z");
    let back = decide(&plan, &state, Event::WakeUp, now);
    assert_eq!(
        back.effects,
        [
            start(1, Cause::CatchUp, now),
            queued(2, Cause::CatchUp, now)
        ]
    );
    let over = done(&plan, &done(&plan, &back.state, 1, now).state, 2, now);
    assert_eq!(over.state.started_runs, 2);
    assert_eq!(over.wake_at, None);
}

#[test]
fn a_clock_that_is_set_back_lets_the_queue_wait_and_forgets_nothing() {
    let mut job = all(Overlap::Skip);
    job.policies.catch_up_spread = SignedDuration::from_hours(1);
    let plan = plan(job);
    let now = utc("2026-12-02T09:00:00Z");
    let back = decide(
        &plan,
        &activated("2026-12-01T00:00:00Z"),
        Event::WakeUp,
        now,
    );
    let earlier = now - SignedDuration::from_hours(3);
    let asleep = decide(&plan, &back.state, Event::WakeUp, earlier);
    assert_eq!(asleep.effects, []);
    assert_eq!(asleep.state.waiting, back.state.waiting);
    // What is behind the clock has its record, and does not come again.
    assert_eq!(asleep.state.accounted_to(), back.state.cursor);
    assert_eq!(asleep.wake_at, back.wake_at);
}
