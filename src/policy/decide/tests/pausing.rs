//! `pause_after_failures`: a job that fails and fails pauses itself.

use super::*;

fn pausing(after: u32) -> JobPlan {
    let mut job = daily();
    job.policies.pause_after_failures = Some(after);
    job.policies.overlap = Overlap::BufferOne;
    plan(job)
}

fn fails(plan: &JobPlan, state: &JobState, day: u32) -> Decision {
    let started = decide(plan, state, Event::WakeUp, nominal(day));
    let occurrence = scheduled(day);
    let failed = AttemptResult::Failed(FailReason::Permanent);
    decide(
        plan,
        &started.state,
        finished(plan, &occurrence, failed, 1),
        nominal(day),
    )
}

#[test]
fn so_many_failures_in_a_row_pause_the_job_and_say_why() {
    let plan = pausing(2);
    let first = fails(&plan, &activated("2026-12-01T00:00:00Z"), 1);
    assert_eq!(first.state.pause, None);
    let second = fails(&plan, &first.state, 2);
    let pause = second.state.pause.unwrap();
    assert_eq!(pause.reason, "2 failures in a row");
    assert_eq!(pause.since, nominal(2));
    assert_eq!(second.wake_at, None, "nothing accrues");
}

#[test]
fn a_run_that_is_done_begins_the_count_again() {
    let plan = pausing(2);
    let first = fails(&plan, &activated("2026-12-01T00:00:00Z"), 1);
    let started = decide(&plan, &first.state, Event::WakeUp, nominal(2));
    let occurrence = scheduled(2);
    let done = finished(&plan, &occurrence, AttemptResult::Done, 1);
    let done = decide(&plan, &started.state, done, nominal(2));
    let third = fails(&plan, &done.state, 3);
    assert_eq!(third.state.pause, None);
    assert_eq!(third.state.failure_streak, 1);
}

#[test]
fn what_is_buffered_is_skipped_with_the_pause() {
    let plan = pausing(1);
    let met = decide(&plan, &running(&plan, 1), Event::WakeUp, nominal(2));
    let occurrence = scheduled(1);
    let failed = AttemptResult::Failed(FailReason::Permanent);
    let now = nominal(2) + SignedDuration::from_hours(1);
    let paused = decide(
        &plan,
        &met.state,
        finished(&plan, &occurrence, failed, 1),
        now,
    );
    assert_eq!(
        paused.effects,
        [
            end(scheduled(1), Outcome::Failed(FailReason::Permanent)),
            end(scheduled(2), Outcome::Skipped(SkipReason::Paused)),
        ]
    );
}

#[test]
fn a_manual_run_that_fails_neither_counts_nor_pauses() {
    let plan = pausing(1);
    let request = RequestId(1);
    let before = activated("2026-12-01T00:00:00Z");
    let begun = decide(&plan, &before, Event::ManualTrigger { request }, nominal(1));
    let occurrence = OccurrenceRef::Manual(request);
    let failed = AttemptResult::Failed(FailReason::Permanent);
    let over = decide(
        &plan,
        &begun.state,
        finished(&plan, &occurrence, failed, 1),
        utc("2026-12-01T08:00:01Z"),
    );
    assert_eq!((over.state.failure_streak, over.state.pause), (0, None));
}

#[test]
fn a_resumed_job_gets_as_many_tries_again() {
    let plan = pausing(2);
    let first = fails(&plan, &activated("2026-12-01T00:00:00Z"), 1);
    let paused = fails(&plan, &first.state, 2);
    let resumed = decide(
        &plan,
        &paused.state,
        Event::Resumed,
        nominal(2) + SignedDuration::from_hours(1),
    );
    assert_eq!(fails(&plan, &resumed.state, 3).state.pause, None);
}
