use super::{
    preview::{CountedFrom, Stop},
    *,
};
use crate::view::Start;
use crate::{
    cli::samples::{at, now, stored},
    job::When,
    occurrence::{Cause, Slot},
    policy::{Pause, WaitingSlot, WaitsFor},
};

const HOUR: jiff::SignedDuration = jiff::SignedDuration::from_hours(1);

fn question(count: usize) -> Question {
    Question {
        now: now(),
        after: None,
        count,
    }
}

fn every_two_hours() -> StoredJob {
    let mut stored = stored("watch");
    stored.job.schedule.when = When::Every {
        period: 2 * HOUR,
        anchor: None,
    };
    stored.first_seen_at = at("2026-11-01T11:17:00Z");
    stored
}

fn preview(stored: &StoredJob, history: Option<History>, count: usize) -> Preview<'_> {
    Preview::of_job(&stored.job, String::new(), history, &question(count)).unwrap()
}

fn starts(preview: &Preview<'_>) -> Vec<String> {
    let times = preview.times.iter();
    times.map(|start| start.at.to_string()).collect()
}

#[test]
fn a_job_that_was_seen_counts_from_then_and_a_new_one_from_now() {
    let stored = every_two_hours();
    let seen = preview(&stored, Some(History::from(&stored)), 1);
    assert_eq!(starts(&seen), ["2026-11-30T11:17:00Z"]);
    assert_eq!(
        seen.counted_from,
        Some(CountedFrom::FirstSeen(stored.first_seen_at))
    );
    let new = preview(&stored, None, 1);
    assert_eq!(starts(&new), ["2026-11-30T13:00:00Z"]);
    assert_eq!(new.counted_from, Some(CountedFrom::After(now())));
}

#[test]
fn a_new_job_with_jitter_has_no_slot_before_it_is_seen() {
    let mut stored = every_two_hours();
    stored.job.schedule.jitter = HOUR;
    let new = preview(&stored, None, 1);
    assert_eq!(new.times[0].nominal, at("2026-11-30T13:00:00Z"));
}

#[test]
fn what_is_drawn_in_the_database_is_what_is_shown() {
    let stored = stored("budget");
    let mut history = History::from(&stored);
    history.waiting = vec![
        WaitingSlot {
            slot: Slot::from_text("2026-11-30T08:00:00[Europe/Berlin]"),
            nominal: at("2026-11-30T07:00:00Z"),
            fire_at: at("2026-11-30T11:00:40Z"),
            cause: Cause::CatchUp,
            waits_for: WaitsFor::Instant,
            outdated: false,
        },
        WaitingSlot {
            slot: Slot::from_text("2026-12-01T08:00:00[Europe/Berlin]"),
            nominal: at("2026-12-01T07:00:00Z"),
            fire_at: at("2026-12-01T07:03:00Z"),
            cause: Cause::Scheduled,
            waits_for: WaitsFor::Instant,
            outdated: false,
        },
    ];
    let preview = preview(&stored, Some(history), 3);
    assert_eq!(
        starts(&preview),
        [
            "2026-11-30T11:00:40Z",
            "2026-12-01T07:03:00Z",
            "2026-12-02T07:00:00Z"
        ]
    );
    let Start { note, .. } = &preview.times[0];
    assert_eq!(note.as_deref(), Some("catches up on a missed slot"));
}

#[test]
fn a_job_that_does_not_run_has_no_times_and_says_why() {
    let mut limited = stored("twice");
    limited.job.policies.max_runs = Some(2);
    limited.state.started_runs = 1;
    let left = preview(&limited, Some(History::from(&limited)), 5);
    assert_eq!((left.times.len(), &left.stop), (1, &None));
    limited.state.started_runs = 2;
    let done = preview(&limited, Some(History::from(&limited)), 5);
    assert_eq!((done.times.len(), &done.stop), (0, &Some(Stop::MaxRuns(2))));

    let mut paused = stored("paused");
    paused.state.pause = Some(Pause {
        since: at("2026-11-30T07:00:00Z"),
        reason: "it failed\u{1b}[2J".to_owned(),
    });
    let held = preview(&paused, Some(History::from(&paused)), 5);
    let text = text::render(&[held], &question(5), Screen::wide(None));
    assert!(
        text.contains("paused since today 08:00: it does not run until it is resumed"),
        "{text}"
    );
    crate::cli::samples::assert_harmless(&text);
}

#[test]
fn a_change_touches_what_is_written_into_it() {
    let mut stored = stored("cron");
    for (expression, after, effect) in [
        ("0 8 * * *", "2027-03-01T00:00:00Z", None),
        (
            "30 2 * * *",
            "2027-10-01T00:00:00Z",
            Some("02:30 comes twice on 2027-10-31 in Europe/Berlin; runs at the first"),
        ),
        (
            "*/15 * * * *",
            "2027-03-01T00:00:00Z",
            Some("its times from 02:00 to 03:00 do not come on 2027-03-28"),
        ),
        (
            "*/15 * * * *",
            "2027-10-01T00:00:00Z",
            Some("its times from 02:00 to 03:00 come twice on 2027-10-31"),
        ),
        ("*/15 8 * * *", "2027-03-01T00:00:00Z", None),
    ] {
        stored.job.schedule.when = When::Cron(expression.to_owned());
        let asked = Question {
            after: Some(After::Instant(at(after))),
            ..question(1)
        };
        let preview = Preview::of_job(&stored.job, String::new(), None, &asked).unwrap();
        let found = preview.change.unwrap().effect;
        assert_eq!(found.as_deref(), effect, "{expression} {after}");
    }
}
