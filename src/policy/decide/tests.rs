use jiff::civil;

use super::*;
use crate::{
    ids::{AgentName, JobId, RequestId},
    job::{
        CatchUp, Deliver, Job, Mode, OnInterrupt, Policies, Retry, ScheduleSpec, Weekdays, When,
    },
    occurrence::Slot,
    policy::{AttemptResult, Effects, SkippedRange},
};

mod backfill;
mod catching_up;
mod overlap;
mod pausing;

fn utc(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn job(when: When) -> Job {
    Job {
        id: JobId::new("budget").unwrap(),
        name: None,
        enabled: true,
        schedule: ScheduleSpec {
            when,
            zone: "UTC".to_owned(),
            from: None,
            until: None,
            exclude: Vec::new(),
            jitter: SignedDuration::ZERO,
        },
        prompt: "Summarise.".to_owned(),
        mode: Mode::Background {
            deliver: Deliver::History,
            agent: AgentName::new("main").unwrap(),
            memory: false,
            context: None,
        },
        policies: Policies {
            catch_up_spread: SignedDuration::ZERO,
            ..Policies::default()
        },
    }
}

/// Every day at 08:00 UTC.
fn daily() -> Job {
    job(When::Daily {
        times: vec![civil::time(8, 0, 0, 0)],
        days: Weekdays::ALL,
    })
}

fn plan(job: Job) -> JobPlan {
    JobPlan::new(job, utc("2026-01-01T00:00:00Z")).unwrap()
}

fn activated(at: &str) -> JobState {
    JobState::activated(utc(at))
}

fn slot(day: u32) -> Slot {
    Slot::from_text(format!("2026-12-{day:02}T08:00:00[UTC]"))
}

fn scheduled(day: u32) -> OccurrenceRef {
    OccurrenceRef::Scheduled(slot(day))
}

fn nominal(day: u32) -> Timestamp {
    utc(&format!("2026-12-{day:02}T08:00:00Z"))
}

fn start(day: u32, cause: Cause, fire_at: Timestamp) -> Effect {
    Effect::Start {
        occurrence: scheduled(day),
        nominal: nominal(day),
        fire_at,
        cause,
        merged: Vec::new(),
    }
}

fn skip(first: u32, last: u32, reason: SkipReason) -> Effect {
    Effect::Skip(SkippedRange {
        first: slot(first),
        first_nominal: nominal(first),
        last: slot(last),
        last_nominal: nominal(last),
        count: u64::from(last - first + 1),
        reason,
    })
}

fn end(occurrence: OccurrenceRef, outcome: Outcome) -> Effect {
    Effect::End {
        occurrence,
        outcome,
    }
}

/// A state in which the run of this day's slot is active.
fn running(plan: &JobPlan, day: u32) -> JobState {
    let before = JobState::activated(nominal(day) - SignedDuration::from_hours(1));
    decide(plan, &before, Event::WakeUp, nominal(day)).state
}

fn finished<'a>(
    plan: &'a JobPlan,
    occurrence: &'a OccurrenceRef,
    result: AttemptResult,
    attempts_made: u32,
) -> Event<'a> {
    Event::AttemptFinished {
        occurrence,
        result,
        attempts_made,
        effects: Effects::None,
        policies: &plan.job.policies,
    }
}

#[test]
fn nothing_starts_before_its_nominal_instant() {
    let plan = plan(daily());
    let decision = decide(
        &plan,
        &activated("2026-12-01T00:00:00Z"),
        Event::WakeUp,
        utc("2026-12-01T07:59:59.999999Z"),
    );
    assert_eq!(decision.effects, []);
    assert_eq!(decision.wake_at, Some(nominal(1)));
}

#[test]
fn a_slot_starts_at_its_instant_and_the_cursor_moves_with_it() {
    let plan = plan(daily());
    let decision = decide(
        &plan,
        &activated("2026-12-01T00:00:00Z"),
        Event::WakeUp,
        nominal(1),
    );
    assert_eq!(decision.effects, [start(1, Cause::Scheduled, nominal(1))]);
    assert_eq!(decision.state.cursor, nominal(1));
    assert_eq!(decision.wake_at, Some(nominal(2)));
    let again = decide(&plan, &decision.state, Event::WakeUp, nominal(1));
    assert_eq!(again.effects, []);
}

/// How late the newest slot is, and what catch-up does with three missed days.
#[test]
fn catch_up_follows_its_table() {
    use SkipReason::{Missed, Superseded};
    let hours = SignedDuration::from_hours;
    let wide = Some(hours(72));
    #[rustfmt::skip]
    let table = [
        ("on time", CatchUp::Latest, None, "08:00:30", vec![skip(1, 2, Missed), start(3, Cause::Scheduled, nominal(3))]),
        ("on time, none", CatchUp::None, None, "08:00:30", vec![skip(1, 2, Missed), start(3, Cause::Scheduled, nominal(3))]),
        ("late", CatchUp::Latest, None, "10:00:00", vec![skip(1, 2, Missed), start(3, Cause::CatchUp, utc("2026-12-03T10:00:00Z"))]),
        ("late, none", CatchUp::None, None, "10:00:00", vec![skip(1, 3, Missed)]),
        ("late, wide window", CatchUp::Latest, wide, "08:00:00", vec![skip(1, 2, Superseded), start(3, Cause::Scheduled, nominal(3))]),
        ("at the window's end", CatchUp::Latest, Some(hours(2)), "10:00:00", vec![skip(1, 2, Missed), start(3, Cause::CatchUp, utc("2026-12-03T10:00:00Z"))]),
        ("past the window", CatchUp::Latest, Some(hours(2)), "10:00:01", vec![skip(1, 3, Missed)]),
        ("no window at all", CatchUp::Latest, Some(SignedDuration::ZERO), "08:01:00", vec![skip(1, 3, Missed)]),
    ];
    for (name, catch_up, window, time, effects) in table {
        let mut job = daily();
        job.policies.catch_up = catch_up;
        job.policies.catch_up_window = window;
        let now = utc(&format!("2026-12-03T{time}Z"));
        let decision = decide(
            &plan(job),
            &activated("2026-12-01T00:00:00Z"),
            Event::WakeUp,
            now,
        );
        assert_eq!(decision.effects, effects, "{name}");
        assert_eq!(decision.wake_at, Some(nominal(4)), "{name}");
    }
}

#[test]
fn catch_up_starts_are_spread_by_a_stable_offset_and_overtaken_by_the_next_slot() {
    let mut job = daily();
    job.policies.catch_up_spread = SignedDuration::from_mins(10);
    let plan = plan(job);
    let now = utc("2026-12-01T10:00:00Z");
    let decision = decide(
        &plan,
        &activated("2026-12-01T00:00:00Z"),
        Event::WakeUp,
        now,
    );
    let [Effect::Wait { waiting, .. }] = decision.effects.as_slice() else {
        panic!("{:?}", decision.effects);
    };
    assert!(waiting.fire_at >= now && waiting.fire_at < now + SignedDuration::from_mins(10));
    assert_eq!(decision.wake_at, Some(waiting.fire_at));
    let due = decide(&plan, &decision.state, Event::WakeUp, waiting.fire_at);
    assert_eq!(due.effects, [start(1, Cause::CatchUp, waiting.fire_at)]);

    let overtaken = decide(&plan, &decision.state, Event::WakeUp, nominal(2));
    assert_eq!(
        overtaken.effects,
        [
            end(scheduled(1), Outcome::Skipped(SkipReason::Superseded)),
            start(2, Cause::Scheduled, nominal(2)),
        ]
    );
}

#[test]
fn a_year_of_downtime_is_one_range_and_one_start() {
    let plan = plan(job(When::Every {
        period: SignedDuration::from_mins(1),
        anchor: None,
    }));
    let now = utc("2027-01-01T00:00:30Z");
    let decision = decide(
        &plan,
        &activated("2026-01-01T00:00:00Z"),
        Event::WakeUp,
        now,
    );
    let counts: Vec<_> = decision
        .effects
        .iter()
        .map(|effect| match effect {
            Effect::Skip(range) => (range.count, Some(range.reason)),
            Effect::Start { .. } => (1, None),
            Effect::Wait { .. }
            | Effect::Requeue { .. }
            | Effect::Backoff { .. }
            | Effect::End { .. } => {
                panic!("{effect:?}")
            }
        })
        .collect();
    let in_window = 5;
    let year = 365 * 24 * 60;
    assert_eq!(
        counts,
        [
            (year - in_window, Some(SkipReason::Missed)),
            (in_window - 1, Some(SkipReason::Superseded)),
            (1, None),
        ]
    );
}

#[test]
fn thousands_of_years_of_seconds_are_counted_at_once() {
    let second = When::Every {
        period: SignedDuration::from_secs(1),
        anchor: None,
    };
    let state = activated("2026-01-01T00:00:00Z");
    let now = utc("9000-01-01T00:00:00Z");
    let decision = decide(&plan(job(second)), &state, Event::WakeUp, now);
    let counted: u64 = decision
        .effects
        .iter()
        .filter_map(|effect| Some(effect.skipped()?.1))
        .sum();
    // The last one starts.
    let seconds = state.cursor.duration_until(now).as_secs() as u64;
    assert_eq!(counted, seconds - 1);
    assert_eq!(decision.state.cursor, now);
}

#[test]
fn what_is_counted_at_once_is_what_is_found_by_a_walk() {
    let state = activated("2026-01-03T00:00:00Z");
    // Nothing is counted past an excluded date that is so near, though it changes nothing here.
    let the_day_before = civil::date(2026, 1, 2);
    let hours = SignedDuration::from_hours;
    for minutes in [1, 7, 90, 3_000, 20_000] {
        for jitter in [SignedDuration::ZERO, hours(60)] {
            for catch_up in [CatchUp::Latest, CatchUp::None] {
                for window in [None, Some(SignedDuration::ZERO), Some(hours(70))] {
                    let mut counted = job(When::Every {
                        period: SignedDuration::from_mins(minutes),
                        anchor: None,
                    });
                    counted.schedule.jitter = jitter;
                    counted.policies.catch_up = catch_up;
                    counted.policies.catch_up_window = window;
                    let mut walked = counted.clone();
                    walked.schedule.exclude = vec![the_day_before];
                    let (counted, walked) = (plan(counted), plan(walked));
                    for down in [1, 23, 25, 49, 500] {
                        let now = state.cursor + hours(down) + SignedDuration::from_secs(61);
                        for event in [Event::WakeUp, Event::Removed] {
                            assert_eq!(
                                decide(&counted, &state, event.clone(), now),
                                decide(&walked, &state, event, now),
                                "{minutes} min, {jitter:?}, {catch_up:?}, {window:?}, {down} h"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_slot_that_meets_a_scheduled_run_is_skipped() {
    let plan = plan(daily());
    let decision = decide(&plan, &running(&plan, 1), Event::WakeUp, nominal(2));
    assert_eq!(decision.effects, [skip(2, 2, SkipReason::Overlap)]);
    assert_eq!(decision.wake_at, Some(nominal(3)));
}

#[test]
fn a_slot_that_meets_a_manual_run_waits_for_its_end() {
    let plan = plan(daily());
    let request = RequestId(7);
    let before = activated("2026-12-01T00:00:00Z");
    let manual = decide(
        &plan,
        &before,
        Event::ManualTrigger { request },
        utc("2026-12-01T07:59:00Z"),
    );
    assert_eq!(manual.refusal, None);
    assert_eq!(manual.state.started_runs, 0, "a manual run does not count");
    let met = decide(&plan, &manual.state, Event::WakeUp, nominal(1));
    assert!(
        matches!(met.effects.as_slice(), [Effect::Wait { .. }]),
        "{:?}",
        met.effects
    );
    assert_eq!(
        met.wake_at,
        Some(nominal(2)),
        "it does not wake for a slot that cannot start"
    );
    let occurrence = OccurrenceRef::Manual(request);
    let now = utc("2026-12-01T08:05:00Z");
    let done = decide(
        &plan,
        &met.state,
        finished(&plan, &occurrence, AttemptResult::Done, 1),
        now,
    );
    assert_eq!(
        done.effects,
        [
            end(occurrence, Outcome::Done),
            start(1, Cause::Scheduled, nominal(1))
        ]
    );
}

#[test]
fn a_manual_trigger_goes_before_a_slot_that_is_due_as_well() {
    let plan = plan(daily());
    let request = RequestId(7);
    let state = activated("2026-12-01T00:00:00Z");
    let manual = decide(&plan, &state, Event::ManualTrigger { request }, nominal(1));
    assert_eq!(manual.refusal, None);
    assert_eq!(
        manual.wake_at,
        Some(nominal(1)),
        "the slot is looked at next"
    );
    let met = decide(&plan, &manual.state, Event::WakeUp, nominal(1));
    assert!(
        matches!(met.effects.as_slice(), [Effect::Wait { .. }]),
        "{:?}",
        met.effects
    );
}

#[test]
fn a_manual_trigger_is_refused_while_a_run_is_active_or_the_job_is_disabled() {
    let enabled = plan(daily());
    let trigger = || Event::ManualTrigger {
        request: RequestId(1),
    };
    let busy = decide(
        &enabled,
        &running(&enabled, 1),
        trigger(),
        utc("2026-12-01T08:01:00Z"),
    );
    assert_eq!(
        (busy.refusal, busy.effects),
        (Some(Refusal::RunActive), Vec::new())
    );
    let disabled = plan(Job {
        enabled: false,
        ..daily()
    });
    let off = decide(
        &disabled,
        &activated("2026-12-01T00:00:00Z"),
        trigger(),
        nominal(1),
    );
    assert_eq!(
        (off.refusal, off.effects),
        (Some(Refusal::Disabled), Vec::new())
    );
}

/// How an attempt ended, how many were made, and what follows.
#[test]
fn retry_follows_its_table() {
    use FailReason::{Interrupted, Panicked, Permanent, Timeout, Transient};
    let plan = plan(daily());
    let occurrence = scheduled(1);
    let now = utc("2026-12-01T08:10:00Z");
    let ends = |outcome| vec![end(scheduled(1), outcome)];
    let backs_off = |seconds| {
        let until = now + SignedDuration::from_secs(seconds);
        vec![Effect::Backoff {
            occurrence: scheduled(1),
            until,
        }]
    };
    let failed = |reason| ends(Outcome::Failed(reason));
    #[rustfmt::skip]
    let table = [
        (AttemptResult::Done, 1, ends(Outcome::Done)),
        (AttemptResult::Silent, 1, ends(Outcome::Silent)),
        (AttemptResult::Failed(Transient), 1, backs_off(30)),
        (AttemptResult::Failed(Timeout), 2, backs_off(120)),
        (AttemptResult::Failed(Transient), 3, failed(Transient)),
        (AttemptResult::Failed(Interrupted), 3, failed(Interrupted)),
        (AttemptResult::Failed(Permanent), 1, failed(Permanent)),
        (AttemptResult::Failed(Panicked), 1, failed(Panicked)),
    ];
    for (result, attempts, effects) in table {
        let state = running(&plan, 1);
        let decision = decide(
            &plan,
            &state,
            finished(&plan, &occurrence, result, attempts),
            now,
        );
        assert_eq!(decision.effects, effects, "{result:?} after {attempts}");
    }
}

#[test]
fn a_retry_is_an_attempt_of_the_same_occurrence_and_the_grid_never_moves() {
    let plan = plan(daily());
    let occurrence = scheduled(1);
    let failed = AttemptResult::Failed(FailReason::Transient);
    let now = utc("2026-12-01T08:10:00Z");
    let decision = decide(
        &plan,
        &running(&plan, 1),
        finished(&plan, &occurrence, failed, 1),
        now,
    );
    let until = now + SignedDuration::from_secs(30);
    assert_eq!(decision.wake_at, Some(until));
    let due = decide(&plan, &decision.state, Event::WakeUp, until);
    assert_eq!(due.effects, [Effect::Requeue { occurrence }]);
    assert_eq!(due.wake_at, Some(nominal(2)));
}

#[test]
fn a_retry_that_would_reach_the_next_nominal_is_not_made() {
    let mut job = daily();
    job.policies.retry = Retry {
        attempts: 5,
        backoff: vec![SignedDuration::from_hours(24)],
    };
    let plan = plan(job);
    let occurrence = scheduled(1);
    let failed = AttemptResult::Failed(FailReason::Transient);
    let decision = decide(
        &plan,
        &running(&plan, 1),
        finished(&plan, &occurrence, failed, 1),
        nominal(1),
    );
    assert_eq!(
        decision.effects,
        [end(scheduled(1), Outcome::Failed(FailReason::Transient))]
    );
    assert_eq!(decision.state.failure_streak, 1);
}

/// What a dead process leaves, and what becomes of it.
#[test]
fn a_retry_that_nobody_made_in_time_gives_way_to_the_next_slot() {
    let plan = plan(daily());
    let backing_off = decide(
        &plan,
        &running(&plan, 1),
        finished(
            &plan,
            &scheduled(1),
            AttemptResult::Failed(FailReason::Transient),
            1,
        ),
        utc("2026-12-01T08:10:00Z"),
    );
    // The process was down from then on; the retry was due half a minute later.
    let in_time = utc("2026-12-02T07:59:00Z");
    let again = decide(&plan, &backing_off.state, Event::WakeUp, in_time);
    let requeued = Effect::Requeue {
        occurrence: scheduled(1),
    };
    assert_eq!(again.effects, [requeued]);
    let too_late = nominal(2);
    let given_up = decide(&plan, &backing_off.state, Event::WakeUp, too_late);
    assert_eq!(
        given_up.effects,
        [
            end(scheduled(1), Outcome::Failed(FailReason::Interrupted)),
            start(2, Cause::Scheduled, too_late),
        ]
    );
}

#[test]
fn interruption_follows_its_table() {
    let requeue = vec![Effect::Requeue {
        occurrence: scheduled(1),
    }];
    let failed = vec![end(scheduled(1), Outcome::Failed(FailReason::Interrupted))];
    let newer = vec![failed[0].clone(), start(2, Cause::Scheduled, nominal(2))];
    #[rustfmt::skip]
    let table = [
        (OnInterrupt::Retry, 1, "2026-12-01T08:10:00Z", requeue),
        (OnInterrupt::Retry, 3, "2026-12-01T08:10:00Z", failed.clone()),
        (OnInterrupt::Fail, 1, "2026-12-01T08:10:00Z", failed),
        (OnInterrupt::Retry, 1, "2026-12-02T08:00:00Z", newer),
    ];
    for (on_interrupt, attempts_made, now, effects) in table {
        let mut job = daily();
        job.policies.on_interrupt = on_interrupt;
        let plan = plan(job);
        let event = Event::LeaseLost {
            occurrence: &scheduled(1),
            attempts_made,
            effects: Effects::None,
            policies: &plan.job.policies,
        };
        let decision = decide(&plan, &running(&plan, 1), event, utc(now));
        assert_eq!(
            decision.effects, effects,
            "{on_interrupt:?}, {attempts_made}, {now}"
        );
    }
}

#[test]
fn an_attempt_after_effects_follows_its_table() {
    use FailReason::{AfterEffects, Interrupted, Paused, Permanent, Transient};
    const YES: bool = true;
    const NO: bool = false;
    #[rustfmt::skip]
    let table = [
        // effects, retry_after_effects, how it ended, attempts made: why it has failed, if it has
        (Effects::None, NO, Transient, 1, None),
        (Effects::None, NO, Interrupted, 1, None),
        (Effects::Reported, NO, Transient, 1, Some(AfterEffects)),
        (Effects::Reported, NO, FailReason::Timeout, 1, Some(AfterEffects)),
        (Effects::Reported, NO, Interrupted, 1, Some(AfterEffects)),
        (Effects::Reported, YES, Transient, 1, None),
        (Effects::Reported, YES, Interrupted, 1, None),
        // It would have failed anyway, and says why.
        (Effects::Reported, NO, Permanent, 1, Some(Permanent)),
        (Effects::Reported, NO, Transient, 3, Some(Transient)),
        (Effects::Reported, YES, Transient, 3, Some(Transient)),
        (Effects::Reported, NO, Interrupted, 3, Some(Interrupted)),
    ];
    let now = utc("2026-12-01T08:10:00Z");
    for (effects, retry_after_effects, reason, attempts_made, failed) in table {
        let case = format!("{effects:?}, {retry_after_effects}, {reason:?}, {attempts_made}");
        let mut job = daily();
        job.policies.retry_after_effects = retry_after_effects;
        let plan = plan(job);
        let occurrence = &scheduled(1);
        let policies = &plan.job.policies;
        let ended = || {
            if reason == Interrupted {
                Event::LeaseLost {
                    occurrence,
                    attempts_made,
                    effects,
                    policies,
                }
            } else {
                Event::AttemptFinished {
                    occurrence,
                    result: AttemptResult::Failed(reason),
                    attempts_made,
                    effects,
                    policies,
                }
            }
        };
        let outcome_in = |state: &JobState| {
            let decision = decide(&plan, state, ended(), now);
            let [effect] = &decision.effects[..] else {
                panic!("{case}: {:?}", decision.effects);
            };
            if let Effect::End { outcome, .. } = effect {
                Some(*outcome)
            } else {
                None
            }
        };
        let running = running(&plan, 1);
        assert_eq!(outcome_in(&running), failed.map(Outcome::Failed), "{case}");
        // A pause changes only what would have been tried again.
        let reason = "stop".to_owned();
        let paused = decide(&plan, &running, Event::Paused { reason }, now).state;
        let when_paused = Outcome::Failed(failed.unwrap_or(Paused));
        assert_eq!(outcome_in(&paused), Some(when_paused), "{case}");
    }
}

#[test]
fn a_run_that_waited_while_nobody_was_there_is_given_up_where_it_would_begin_too_late() {
    const LATE: Option<Outcome> = Some(Outcome::Failed(FailReason::Interrupted));
    let (soon, same_day, next_day) = (
        "2026-12-01T08:00:20Z",
        "2026-12-01T20:00:00Z",
        "2026-12-02T09:00:00Z",
    );
    #[rustfmt::skip]
    let table = [
        // catch_up, overlap, when somebody is there again: how it ends, and which slot starts
        (CatchUp::Latest, Overlap::Skip, soon, None, None),
        (CatchUp::Latest, Overlap::Skip, same_day, None, None),
        (CatchUp::Latest, Overlap::Skip, next_day, LATE, Some(2)),
        (CatchUp::Latest, Overlap::CancelRunning, next_day, LATE, Some(2)),
        (CatchUp::None, Overlap::Skip, soon, None, None),
        (CatchUp::None, Overlap::Skip, same_day, LATE, None),
        // The newer slot waits behind it, or runs beside it, while it is worth beginning.
        (CatchUp::Latest, Overlap::Allow, same_day, None, None),
        (CatchUp::Latest, Overlap::BufferOne, next_day, LATE, Some(2)),
        (CatchUp::All, Overlap::Skip, next_day, None, None),
    ];
    for (catch_up, overlap, now, ends, starts) in table {
        let case = format!("{catch_up:?}, {overlap:?}, {now}");
        let mut job = daily();
        job.policies.catch_up = catch_up;
        job.policies.overlap = overlap;
        job.policies.catch_up_spread = SignedDuration::ZERO;
        let plan = plan(job);
        let occurrence = scheduled(1);
        let waited = Event::LeaseLost {
            occurrence: &occurrence,
            attempts_made: 0,
            effects: Effects::None,
            policies: &plan.job.policies,
        };
        let decision = decide(&plan, &running(&plan, 1), waited, utc(now));
        let mut ended = None;
        let mut started = None;
        for effect in &decision.effects {
            if let Effect::End {
                occurrence: of,
                outcome,
            } = effect
                && *of == occurrence
            {
                ended = Some(*outcome);
            }
            if let Effect::Start { occurrence, .. } = effect {
                started = Some(occurrence.clone());
            }
        }
        assert_eq!(ended, ends, "{case}");
        assert_eq!(started, starts.map(scheduled), "{case}");
        let overlapped = decision.effects.iter().filter_map(Effect::skipped);
        let overlapped = overlapped.filter(|(reason, _)| *reason == SkipReason::Overlap);
        assert_eq!(overlapped.count(), 0, "{case}");
    }
}

#[test]
fn an_event_about_a_run_that_has_ended_changes_nothing() {
    let plan = plan(daily());
    let state = activated("2026-12-01T09:00:00Z");
    let occurrence = scheduled(1);
    let now = utc("2026-12-01T09:10:00Z");
    let events = [
        finished(&plan, &occurrence, AttemptResult::Done, 1),
        finished(
            &plan,
            &occurrence,
            AttemptResult::Failed(FailReason::Transient),
            1,
        ),
        Event::RunCancelled {
            occurrence: &occurrence,
        },
        Event::LeaseLost {
            occurrence: &occurrence,
            attempts_made: 1,
            effects: Effects::None,
            policies: &plan.job.policies,
        },
    ];
    for event in events {
        let decision = decide(&plan, &state, event, now);
        assert_eq!(
            (decision.effects, decision.state),
            (Vec::new(), state.clone())
        );
    }
}

#[test]
fn nothing_accrues_while_paused_and_resume_starts_at_the_next_nominal() {
    let plan = plan(daily());
    let pause = Event::Paused {
        reason: "holiday".to_owned(),
    };
    let paused = decide(
        &plan,
        &activated("2026-12-01T00:00:00Z"),
        pause,
        utc("2026-12-01T09:00:00Z"),
    );
    assert_eq!(paused.effects, [skip(1, 1, SkipReason::Paused)]);
    assert_eq!(paused.wake_at, None);
    let asleep = decide(
        &plan,
        &paused.state,
        Event::WakeUp,
        utc("2026-12-03T12:00:00Z"),
    );
    assert_eq!(asleep.effects, []);
    let resumed = decide(
        &plan,
        &asleep.state,
        Event::Resumed,
        utc("2026-12-04T12:00:00Z"),
    );
    assert_eq!(resumed.effects, [skip(2, 4, SkipReason::Paused)]);
    assert_eq!(resumed.wake_at, Some(nominal(5)));
}

#[test]
fn pausing_ends_a_run_that_backs_off_and_lets_one_under_way_finish() {
    let plan = plan(daily());
    let occurrence = scheduled(1);
    let failed = AttemptResult::Failed(FailReason::Transient);
    let now = utc("2026-12-01T08:10:00Z");
    let pause = || Event::Paused {
        reason: "stop".to_owned(),
    };
    let under_way = decide(&plan, &running(&plan, 1), pause(), now);
    assert_eq!(under_way.effects, []);
    let not_retried = decide(
        &plan,
        &under_way.state,
        finished(&plan, &occurrence, failed, 1),
        now,
    );
    assert_eq!(
        not_retried.effects,
        [end(scheduled(1), Outcome::Failed(FailReason::Paused))]
    );
    let backing_off = decide(
        &plan,
        &running(&plan, 1),
        finished(&plan, &occurrence, failed, 1),
        now,
    );
    let paused = decide(&plan, &backing_off.state, pause(), now);
    assert_eq!(
        paused.effects,
        [end(scheduled(1), Outcome::Failed(FailReason::Paused))]
    );
}

#[test]
fn max_runs_counts_started_scheduled_runs_only() {
    let mut job = daily();
    job.policies.max_runs = Some(1);
    let plan = plan(job);
    let first = decide(
        &plan,
        &activated("2026-12-01T00:00:00Z"),
        Event::WakeUp,
        nominal(1),
    );
    assert_eq!(first.wake_at, None);
    let later = decide(&plan, &first.state, Event::WakeUp, nominal(3));
    assert_eq!(later.effects, []);
}

#[test]
fn jitter_waits_under_a_record_of_its_own() {
    let mut job = daily();
    job.schedule.jitter = SignedDuration::from_hours(1);
    let plan = plan(job);
    let decision = decide(
        &plan,
        &activated("2026-12-01T00:00:00Z"),
        Event::WakeUp,
        nominal(1),
    );
    let [Effect::Wait { waiting, .. }] = decision.effects.as_slice() else {
        panic!("{:?}", decision.effects);
    };
    let due = decide(&plan, &decision.state, Event::WakeUp, waiting.fire_at);
    assert_eq!(due.effects, [start(1, Cause::Scheduled, waiting.fire_at)]);
    let hours_late = waiting.fire_at + SignedDuration::from_hours(30);
    let missed = decide(&plan, &decision.state, Event::WakeUp, hours_late);
    assert!(!missed.effects.iter().any(|effect| matches!(
        effect,
        Effect::Start { occurrence, .. } if *occurrence == scheduled(1)
    )));
}

#[test]
fn an_edited_schedule_accounts_the_old_slots_and_plans_from_now() {
    let old = plan(daily());
    let new = plan(job(When::Daily {
        times: vec![civil::time(9, 0, 0, 0)],
        days: Weekdays::ALL,
    }));
    let now = utc("2026-12-01T08:00:10Z");
    let event = Event::DefinitionChanged { new: &new };
    let decision = decide(&old, &activated("2026-12-01T00:00:00Z"), event, now);
    assert_eq!(decision.effects, [start(1, Cause::Scheduled, nominal(1))]);
    assert_eq!(decision.wake_at, Some(utc("2026-12-01T09:00:00Z")));
}

#[test]
fn another_edit_keeps_the_cursor_and_never_fires_an_accounted_slot_again() {
    let old = plan(daily());
    let new = plan(Job {
        prompt: "Otherwise.".to_owned(),
        ..daily()
    });
    let state = running(&old, 1);
    let event = Event::DefinitionChanged { new: &new };
    let decision = decide(&old, &state, event, utc("2026-12-01T08:00:10Z"));
    assert_eq!((decision.effects, decision.state), (Vec::new(), state));
}

#[test]
fn disabling_and_removing_call_off_what_runs_and_what_waits() {
    let enabled = plan(daily());
    let disabled = plan(Job {
        enabled: false,
        ..daily()
    });
    let now = utc("2026-12-01T08:10:00Z");
    let state = running(&enabled, 1);
    for event in [Event::DefinitionChanged { new: &disabled }, Event::Removed] {
        let decision = decide(&enabled, &state, event, now);
        assert_eq!(decision.effects, [end(scheduled(1), Outcome::Cancelled)]);
        assert!(decision.state.active.is_empty());
    }
    let off = decide(
        &enabled,
        &state,
        Event::DefinitionChanged { new: &disabled },
        now,
    )
    .state;
    let back = decide(
        &disabled,
        &off,
        Event::DefinitionChanged { new: &enabled },
        utc("2026-12-03T12:00:00Z"),
    );
    assert_eq!(back.effects, [skip(2, 3, SkipReason::Paused)]);
    assert_eq!(back.wake_at, Some(nominal(4)));
}

#[test]
fn excluded_dates_have_records_of_their_own() {
    let mut job = daily();
    job.schedule.exclude = vec![civil::date(2026, 12, 2)];
    let plan = plan(job);
    let decision = decide(&plan, &running(&plan, 1), Event::WakeUp, nominal(3));
    assert_eq!(
        decision.effects,
        [
            skip(2, 2, SkipReason::Excluded),
            skip(3, 3, SkipReason::Overlap)
        ]
    );
}

#[test]
fn a_one_shot_that_was_past_when_first_seen_never_runs() {
    let plan = plan(job(When::At(civil::datetime(2026, 12, 1, 18, 0, 0, 0))));
    let late = decide(
        &plan,
        &activated("2026-12-01T18:00:01Z"),
        Event::WakeUp,
        utc("2026-12-05T00:00:00Z"),
    );
    assert_eq!((late.effects, late.wake_at), (Vec::new(), None));
    let in_time = activated("2026-12-01T17:00:00Z");
    let caught_up = decide(&plan, &in_time, Event::WakeUp, utc("2026-12-02T17:59:00Z"));
    assert!(matches!(
        caught_up.effects.as_slice(),
        [Effect::Start {
            cause: Cause::CatchUp,
            ..
        }]
    ));
    let too_late = decide(&plan, &in_time, Event::WakeUp, utc("2026-12-02T18:00:01Z"));
    assert!(matches!(
        too_late.effects.as_slice(),
        [Effect::Skip(SkippedRange {
            reason: SkipReason::Missed,
            ..
        })]
    ));
}
