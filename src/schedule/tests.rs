//! Facts about the planner, one a test.

use jiff::{SignedDuration, Timestamp, civil};

use crate::{
    ids::JobId,
    job::{ScheduleSpec, Weekdays, When},
    occurrence::Slot,
    schedule::{Fate, Moved, Planned, Planner, ScheduleError},
};

fn spec(when: When, zone: &str) -> ScheduleSpec {
    ScheduleSpec {
        when,
        zone: zone.to_owned(),
        from: None,
        until: None,
        exclude: Vec::new(),
        jitter: SignedDuration::ZERO,
    }
}

fn cron(expr: &str, zone: &str) -> ScheduleSpec {
    spec(When::Cron(expr.to_owned()), zone)
}

fn daily(times: &[&str]) -> When {
    When::Daily {
        times: times.iter().map(|time| time.parse().unwrap()).collect(),
        days: Weekdays::ALL,
    }
}

fn planner(spec: &ScheduleSpec) -> Planner {
    Planner::new(spec, at("2026-01-01T00:00:07.25Z")).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn wall(text: &str) -> civil::DateTime {
    text.parse().unwrap()
}

/// Nominal, fate and slot of everything between.
fn listed(planner: &Planner, after: &str, until: &str) -> Vec<(String, Fate, String)> {
    planner
        .between(at(after), at(until))
        .map(|planned| {
            let slot = planner.slot(&planned).to_string();
            (planned.nominal.to_string(), planned.fate, slot)
        })
        .collect()
}

fn next(planner: &Planner, after: &str) -> Planned {
    planner.next(at(after)).unwrap()
}

fn next_text(planner: &Planner, after: &str) -> String {
    next(planner, after).nominal.to_string()
}

#[test]
fn written_times_in_one_gap_and_its_end_are_one_occurrence() {
    let planner = planner(&spec(
        daily(&["02:15", "02:45", "03:00", "04:00"]),
        "Europe/Berlin",
    ));
    let planned = next(&planner, "2027-03-28T00:00:00Z");
    assert_eq!(planned.nominal, at("2027-03-28T01:00:00Z"));
    assert_eq!(planned.moved, Some(Moved::ToGapEnd));
    let slot = planner.slot(&planned);
    assert_eq!(slot.as_str(), "2027-03-28T02:15:00[Europe/Berlin]");
    assert_eq!(
        planner.merged(&planned),
        ["02:45", "03:00"]
            .map(|time| Slot::from_text(format!("2027-03-28T{time}:00[Europe/Berlin]")))
    );
    assert_eq!(
        planner.latest_at_or_before(at("2027-03-28T01:30:00Z")),
        Some(planned)
    );
    assert_eq!(
        next_text(&planner, "2027-03-28T01:00:00Z"),
        "2027-03-28T02:00:00Z"
    );
}

#[test]
fn a_gap_end_alone_is_an_ordinary_occurrence() {
    let planner = planner(&spec(daily(&["03:00"]), "Europe/Berlin"));
    let planned = next(&planner, "2027-03-28T00:00:00Z");
    assert_eq!(planned.nominal, at("2027-03-28T01:00:00Z"));
    assert_eq!((planned.moved, planner.note(&planned)), (None, None));
    assert!(planner.merged(&planned).is_empty());
}

#[test]
fn a_fixed_time_runs_on_the_first_pass_and_says_so() {
    let planner = planner(&spec(daily(&["02:30"]), "Europe/Berlin"));
    let planned = next(&planner, "2026-10-24T12:00:00Z");
    assert_eq!(planned.nominal, at("2026-10-25T00:30:00Z"));
    assert_eq!(planned.moved, Some(Moved::FirstPass));
    assert_eq!(
        planner.note(&planned).unwrap(),
        "02:30 comes twice on 2026-10-25 in Europe/Berlin; runs at the first"
    );
    assert_eq!(
        next_text(&planner, "2026-10-25T00:30:00Z"),
        "2026-10-26T01:30:00Z"
    );
}

#[test]
fn a_frequent_job_runs_on_both_passes_under_two_names() {
    let planner = planner(&cron("30 */1 * * *", "Europe/Berlin"));
    let slots: Vec<String> = planner
        .between(at("2026-10-25T00:00:00Z"), at("2026-10-25T02:00:00Z"))
        .map(|planned| planner.slot(&planned).to_string())
        .collect();
    assert_eq!(
        slots,
        [
            "2026-10-25T02:30:00[Europe/Berlin]",
            "2026-10-25T02:30:00/2[Europe/Berlin]"
        ]
    );
    let second = planner.resolve(&Slot::from_text(slots[1].as_str()));
    assert_eq!(second, Some(at("2026-10-25T01:30:00Z")));
}

#[test]
fn bounds_and_exclusions_look_at_what_was_written_and_not_where_it_moved() {
    // In Beirut midnight of 2022-03-27 became 01:00.
    let mut spec = spec(daily(&["00:30"]), "Asia/Beirut");
    spec.until = Some(wall("2022-03-27T01:00"));
    let planned = next(&planner(&spec), "2022-03-26T12:00:00Z");
    assert_eq!(planned.nominal, at("2022-03-26T22:00:00Z"));
    spec.until = Some(wall("2022-03-27T00:30"));
    assert_eq!(planner(&spec).next(at("2022-03-26T12:00:00Z")), None);
    spec.until = None;
    spec.from = Some(wall("2022-03-27T00:31"));
    let planned = next(&planner(&spec), "2022-03-26T12:00:00Z");
    assert_eq!(planned.nominal, at("2022-03-27T21:30:00Z"));
    spec.from = None;
    spec.exclude = vec![civil::date(2022, 3, 27)];
    assert_eq!(
        listed(
            &planner(&spec),
            "2022-03-26T12:00:00Z",
            "2022-03-28T00:00:00Z"
        ),
        [
            (
                "2022-03-26T22:00:00Z".to_owned(),
                Fate::Excluded,
                "2022-03-27T00:30:00[Asia/Beirut]".to_owned()
            ),
            (
                "2022-03-27T21:30:00Z".to_owned(),
                Fate::Fires,
                "2022-03-28T00:30:00[Asia/Beirut]".to_owned()
            ),
        ]
    );
}

#[test]
fn a_date_that_the_zone_skipped_is_one_void_slot_at_the_transition() {
    let planner = planner(&spec(daily(&["08:00", "20:00"]), "Pacific/Apia"));
    let found: Vec<Planned> = planner
        .between(at("2011-12-30T08:00:00Z"), at("2011-12-30T20:00:00Z"))
        .collect();
    let [void, fires] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(void.nominal, at("2011-12-30T10:00:00Z"));
    assert_eq!(void.fate, Fate::NoSuchDate);
    assert_eq!(
        planner.slot(void).as_str(),
        "2011-12-30T08:00:00[Pacific/Apia]"
    );
    assert_eq!(
        planner.merged(void)[0].as_str(),
        "2011-12-30T20:00:00[Pacific/Apia]"
    );
    assert_eq!(
        planner.note(void).unwrap(),
        "2011-12-30 does not exist in Pacific/Apia; does not run"
    );
    assert_eq!(fires.fate, Fate::Fires);
    assert_eq!(
        planner.latest_at_or_before(void.nominal).unwrap().nominal,
        at("2011-12-30T06:00:00Z")
    );
}

#[test]
fn at_is_one_instant_also_inside_a_clock_change() {
    for (written, zone, nominal) in [
        ("2026-12-24T18:00", "Europe/Berlin", "2026-12-24T17:00:00Z"),
        ("2027-03-28T02:30", "Europe/Berlin", "2027-03-28T01:00:00Z"),
        ("2026-10-25T02:30", "Europe/Berlin", "2026-10-25T00:30:00Z"),
        ("9000-02-28T12:00", "Europe/Berlin", "9000-02-28T11:00:00Z"),
    ] {
        let planner = planner(&spec(When::At(wall(written)), zone));
        assert_eq!(next_text(&planner, "2026-01-01T00:00:00Z"), nominal);
        assert_eq!(planner.next(at(nominal)), None);
        let latest = planner.latest_at_or_before(Timestamp::MAX).unwrap();
        assert_eq!(latest.nominal, at(nominal));
        assert_eq!(planner.latest_at_or_before(at("2026-01-01T00:00Z")), None);
    }
}

#[test]
fn leap_days_are_found_over_2100_and_beyond_the_near_table() {
    let planner = planner(&cron("0 0 29 2 *", "Europe/Berlin"));
    for (after, nominal) in [
        ("2026-01-01T00:00Z", "2028-02-28T23:00:00Z"),
        ("2096-03-01T00:00Z", "2104-02-28T23:00:00Z"),
        ("2299-03-01T00:00Z", "2304-02-28T23:00:00Z"),
        ("9990-01-01T00:00Z", "9992-02-28T23:00:00Z"),
    ] {
        assert_eq!(next_text(&planner, after), nominal);
    }
    let latest = |text| planner.latest_at_or_before(at(text)).unwrap().nominal;
    assert_eq!(latest("2104-02-28T22:59:59Z"), at("2096-02-28T23:00Z"));
    assert_eq!(planner.next(at("9999-01-01T00:00Z")), None);
}

#[test]
fn never_is_found_in_bounded_time() {
    let mut spec = cron("0 8 1 1 *", "Europe/Berlin");
    spec.until = Some(wall("2026-01-01T00:00"));
    assert_eq!(planner(&spec).next(at("2026-01-01T00:00Z")), None);
    assert_eq!(
        planner(&spec)
            .latest_at_or_before(Timestamp::MAX)
            .unwrap()
            .nominal,
        at("2025-01-01T07:00Z")
    );
    spec.from = Some(wall("2025-06-01T00:00"));
    assert_eq!(planner(&spec).latest_at_or_before(Timestamp::MAX), None);
    for extreme in [Timestamp::MIN, Timestamp::MAX] {
        for expr in ["* * * * * *", "0 0 29 2 *", "*/5 * * * *"] {
            let planner = planner(&cron(expr, "America/New_York"));
            let (next, latest) = (planner.next(extreme), planner.latest_at_or_before(extreme));
            assert!(next.is_none_or(|next| next.nominal > extreme));
            assert!(latest.is_none_or(|latest| latest.nominal <= extreme));
        }
    }
}

#[test]
fn a_grid_begins_at_the_second_the_job_was_first_seen() {
    let period = SignedDuration::from_hours(2);
    let mut spec = spec(
        When::Every {
            period,
            anchor: None,
        },
        "Europe/Berlin",
    );
    let planned = next(&planner(&spec), "2026-03-28T23:59:59Z");
    assert_eq!(planned.nominal, at("2026-03-29T00:00:07Z"));
    assert_eq!(
        planner(&spec).slot(&planned).as_str(),
        "2026-03-29T00:00:07Z"
    );
    spec.exclude = vec![civil::date(2026, 3, 29)];
    let planned = next(&planner(&spec), "2026-03-28T21:00:00Z");
    assert_eq!(planned.nominal, at("2026-03-28T22:00:07Z"));
    let planned = next(&planner(&spec), "2026-03-28T22:00:07Z");
    assert_eq!(planned.nominal, at("2026-03-29T22:00:07Z"));
    let latest = planner(&spec).latest_at_or_before(at("2026-03-29T21:59:59Z"));
    assert_eq!(latest.unwrap().nominal, at("2026-03-28T22:00:07Z"));
}

#[test]
fn a_grid_meets_a_date_again_where_the_clock_goes_back_over_midnight() {
    // In St. John's 00:01 of 1990-10-28 became 23:01 of the day before.
    let anchor = Some(at("1990-10-28T02:30:30Z"));
    let period = SignedDuration::from_mins(30);
    let mut spec = spec(When::Every { period, anchor }, "America/St_Johns");
    spec.exclude = vec![civil::date(1990, 10, 28)];
    assert_eq!(
        next_text(&planner(&spec), "1990-10-28T02:10:00Z"),
        "1990-10-28T03:00:30Z"
    );
    let latest = planner(&spec).latest_at_or_before(at("1990-10-28T05:00:00Z"));
    assert_eq!(latest.unwrap().nominal, at("1990-10-28T03:00:30Z"));
}

#[test]
fn jitter_differs_between_jobs_and_slots_and_stays_below_the_following_nominal() {
    let mut spec = cron("* * * * *", "Europe/Berlin");
    spec.jitter = SignedDuration::from_hours(1);
    let planner = planner(&spec);
    let jobs = ["a", "b"].map(|id| JobId::new(id).unwrap());
    let first = next(&planner, "2026-06-01T00:00:00Z");
    let second = planner.next(first.nominal).unwrap();
    let starts = [
        planner.fire_at(&jobs[0], &first),
        planner.fire_at(&jobs[1], &first),
        planner.fire_at(&jobs[0], &second),
    ];
    assert!(starts[0] != starts[1] && starts[0] < second.nominal);
    assert_ne!(
        first.nominal.duration_until(starts[0]),
        second.nominal.duration_until(starts[2])
    );
}

#[test]
fn what_is_no_slot_resolves_to_nothing() {
    let planner = planner(&cron("* * * * *", "UTC"));
    for text in [
        "",
        "soon",
        "2026-10-25T02:30:00/3[Europe/Berlin]",
        "2026-06-01T02:30:00/2[Europe/Berlin]",
        "2026-06-01T02:30:00/0[Europe/Berlin]",
        "2026-06-01T02:30:00[Europe/Berln]",
    ] {
        assert_eq!(planner.resolve(&Slot::from_text(text)), None, "{text}");
    }
    let foreign = Slot::from_text("2026-06-01T02:30:00[Europe/Berlin]");
    assert_eq!(planner.resolve(&foreign), Some(at("2026-06-01T00:30Z")));
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let refused = |spec: &ScheduleSpec| Planner::new(spec, Timestamp::UNIX_EPOCH).unwrap_err();
    let error = refused(&cron("* * * * *", "Europe/Berln"));
    assert_eq!(
        error.to_string(),
        "`Europe/Berln` is not an IANA time zone, did you mean `Europe/Berlin`?"
    );
    assert_eq!(refused(&spec(daily(&[]), "UTC")), ScheduleError::NoTimes);
    let mut days = spec(daily(&["08:00"]), "UTC");
    if let When::Daily { days, .. } = &mut days.when {
        *days = Weekdays::NONE;
    }
    assert_eq!(refused(&days), ScheduleError::NoDays);
    let fraction = refused(&spec(daily(&["08:00:00.5"]), "UTC"));
    assert!(matches!(fraction, ScheduleError::FractionOfSecond { .. }));
    for millis in [0, 999, -5_000] {
        let period = SignedDuration::from_millis(millis);
        let every = When::Every {
            period,
            anchor: None,
        };
        let error = refused(&spec(every, "UTC"));
        assert_eq!(error, ScheduleError::Period { found: period });
    }
    assert!(matches!(
        refused(&cron("0 0 30 2 *", "UTC")),
        ScheduleError::Cron(_)
    ));
}
