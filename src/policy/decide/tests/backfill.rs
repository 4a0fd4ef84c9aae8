//! Slots of the past, again.

use super::*;
use crate::policy::{BACKFILL_MAX, BackfillSlot};

fn wanted(days: std::ops::RangeInclusive<u32>) -> Vec<BackfillSlot> {
    days.map(|day| BackfillSlot {
        request: RequestId(7),
        slot: slot(day),
        nominal: nominal(day),
    })
    .collect()
}

fn again(day: u32) -> OccurrenceRef {
    OccurrenceRef::Backfill(RequestId(7), slot(day))
}

fn starts_again(day: u32, now: Timestamp) -> Effect {
    Effect::Start {
        occurrence: again(day),
        nominal: nominal(day),
        fire_at: now,
        cause: Cause::Backfill,
        merged: Vec::new(),
    }
}

fn ended(plan: &JobPlan, state: &JobState, day: u32, now: Timestamp) -> Decision {
    let occurrence = again(day);
    let done = finished(plan, &occurrence, AttemptResult::Done, 1);
    decide(plan, state, done, now)
}

#[test]
fn slots_run_again_one_after_another_and_touch_nothing_of_the_schedule() {
    let plan = plan(daily());
    let before = activated("2026-12-05T09:00:00Z");
    let now = utc("2026-12-05T10:00:00Z");
    let slots = wanted(1..=2);
    let first = decide(&plan, &before, Event::Backfill { slots: &slots }, now);
    assert_eq!(first.effects, [starts_again(1, now)]);
    let second = ended(&plan, &first.state, 1, now);
    assert_eq!(
        second.effects,
        [end(again(1), Outcome::Done), starts_again(2, now)]
    );
    let over = ended(&plan, &second.state, 2, now);
    assert_eq!(over.state, before, "neither cursor nor counters");
    assert_eq!(over.wake_at, Some(nominal(6)));
}

#[test]
fn a_slot_that_comes_due_meanwhile_goes_before_what_is_left_of_the_backfill() {
    let plan = plan(daily());
    let now = utc("2026-12-05T10:00:00Z");
    let slots = wanted(1..=2);
    let begun = decide(
        &plan,
        &activated("2026-12-05T09:00:00Z"),
        Event::Backfill { slots: &slots },
        now,
    );
    let met = decide(&plan, &begun.state, Event::WakeUp, nominal(6));
    assert!(matches!(met.effects[..], [Effect::Wait { .. }]), "{met:?}");
    let later = nominal(6) + SignedDuration::from_mins(5);
    let next = ended(&plan, &met.state, 1, later);
    assert_eq!(
        next.effects,
        [
            end(again(1), Outcome::Done),
            start(6, Cause::Scheduled, nominal(6))
        ]
    );
    let occurrence = scheduled(6);
    let done = finished(&plan, &occurrence, AttemptResult::Done, 1);
    let rest = decide(&plan, &next.state, done, later);
    assert_eq!(rest.effects[1..], [starts_again(2, later)]);
}

#[test]
fn asking_twice_lets_a_slot_wait_once_and_too_many_are_refused() {
    let plan = plan(daily());
    let now = nominal(5) - SignedDuration::from_hours(1);
    let slots = wanted(1..=3);
    let event = || Event::Backfill { slots: &slots };
    let running = decide(&plan, &running(&plan, 4), event(), now);
    assert_eq!(running.effects, [], "it waits for the run that is active");
    let twice = decide(&plan, &running.state, event(), now);
    assert_eq!(twice.state.backfill.len(), 3);
    let many: Vec<_> = (0..=BACKFILL_MAX)
        .map(|n| BackfillSlot {
            request: RequestId(8),
            slot: Slot::from_text(format!("slot-{n}")),
            nominal: nominal(1),
        })
        .collect();
    let refused = decide(&plan, &twice.state, Event::Backfill { slots: &many }, now);
    assert_eq!(refused.refusal, Some(Refusal::BackfillFull));
    assert_eq!(refused.state.backfill.len(), 3, "all or none");
}

#[test]
fn a_paused_job_keeps_its_backfill_and_one_that_is_off_forgets_it() {
    let enabled = plan(daily());
    let disabled = plan(Job {
        enabled: false,
        ..daily()
    });
    let now = utc("2026-12-05T10:00:00Z");
    let slots = wanted(1..=2);
    let reason = "wait".to_owned();
    let state = activated("2026-12-05T09:00:00Z");
    let paused = decide(&enabled, &state, Event::Paused { reason }, now);
    let asked = decide(
        &enabled,
        &paused.state,
        Event::Backfill { slots: &slots },
        now,
    );
    assert_eq!(asked.effects, []);
    let resumed = decide(&enabled, &asked.state, Event::Resumed, now);
    assert_eq!(resumed.effects, [starts_again(1, now)]);
    let off = Event::DefinitionChanged { new: &disabled };
    let off = decide(&enabled, &resumed.state, off, now);
    assert_eq!(off.effects, [end(again(1), Outcome::Cancelled)]);
    assert_eq!(off.state.backfill, []);
    let refused = decide(
        &disabled,
        &off.state,
        Event::Backfill { slots: &slots },
        now,
    );
    assert_eq!(refused.refusal, Some(Refusal::Disabled));
}
