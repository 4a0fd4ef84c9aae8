//! Laws that hold for every schedule, zone and instant.

#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

#[path = "planner_laws/brute.rs"]
mod brute;
#[path = "planner_laws/expr.rs"]
mod expr;
#[path = "planner_laws/schedules.rs"]
mod schedules;

use std::process::Command;

use chatcron::{
    ids::JobId,
    job::When,
    schedule::{Fate, Planned, cron},
};
use jiff::{
    SignedDuration, Span, Timestamp,
    civil::{Date, DateTime},
    tz::TimeZone,
};
use proptest::prelude::*;

use brute::Job;
use schedules::{any_spec, config, instant, planner, spec, zone_and_instant};

fn nominals(planned: impl Iterator<Item = Planned>) -> Vec<Timestamp> {
    planned.map(|planned| planned.nominal).collect()
}

proptest! {
    #![proptest_config(config(1_500))]

    #[test]
    fn nominals_increase_strictly_and_a_split_range_is_the_whole_range(
        (spec, at) in any_spec(),
        cut in 0..400_000_i64,
    ) {
        let planner = planner(&spec);
        let (after, until) = (at - SignedDuration::from_hours(30), at + SignedDuration::from_hours(90));
        let middle = after + SignedDuration::from_secs(cut);
        let whole: Vec<Planned> = planner.between(after, until).take(20_000).collect();
        prop_assert!(whole.windows(2).all(|pair| pair[0].nominal < pair[1].nominal));
        prop_assert!(whole.iter().all(|planned| planned.nominal > after && planned.nominal <= until));
        let split: Vec<Planned> = planner
            .between(after, middle)
            .chain(planner.between(middle, until))
            .take(20_000)
            .collect();
        prop_assert_eq!(&whole, &split);
        let firing: Vec<Planned> = planner.firing_between(after, until).take(20_000).collect();
        let filtered: Vec<Planned> = whole.into_iter().filter(Planned::fires).collect();
        prop_assert_eq!(&firing[..filtered.len().min(firing.len())], &filtered[..]);
    }

    #[test]
    fn next_is_the_first_of_the_range_and_latest_is_its_mirror((spec, at) in any_spec()) {
        let planner = planner(&spec);
        let next = planner.next(at);
        prop_assert_eq!(next, planner.between(at, Timestamp::MAX).find(Planned::fires));
        if let Some(next) = next {
            prop_assert!(next.nominal > at);
            prop_assert_eq!(planner.latest_at_or_before(next.nominal), Some(next));
            let just_before = next.nominal - SignedDuration::from_nanos(1);
            let latest = planner.latest_at_or_before(just_before);
            prop_assert_eq!(latest, planner.latest_at_or_before(at));
            prop_assert_eq!(planner.next(just_before), Some(next));
        }
        if let Some(latest) = planner.latest_at_or_before(at) {
            prop_assert!(latest.nominal <= at);
            prop_assert_eq!(planner.next(latest.nominal), next);
            let just_before = latest.nominal - SignedDuration::from_nanos(1);
            prop_assert_eq!(planner.next(just_before), Some(latest));
        }
    }

    #[test]
    fn a_series_is_what_a_walk_counts((spec, at) in any_spec(), hours in -200..200_i64) {
        let planner = planner(&spec);
        let after = at + SignedDuration::from_hours(hours);
        let until = after + SignedDuration::from_hours(30);
        let walked: Vec<Planned> = planner.between(after, until).collect();
        match planner.series(after, until) {
            Some(series) => {
                prop_assert!(walked.iter().all(Planned::fires));
                prop_assert_eq!(walked.first(), Some(&series.first));
                prop_assert_eq!(walked.last(), Some(&series.last));
                prop_assert_eq!(walked.len() as u64, series.count);
            }
            None => {
                let is_grid = matches!(spec.when, When::Every { .. });
                prop_assert!(walked.is_empty() || !is_grid || !spec.exclude.is_empty());
            }
        }
    }

    #[test]
    fn slots_are_unique_and_come_back_to_their_instants((spec, at) in any_spec()) {
        let planner = planner(&spec);
        let until = at + SignedDuration::from_hours(90);
        let planned: Vec<Planned> = planner
            .between(at - SignedDuration::from_hours(30), until)
            .take(2_000)
            .collect();
        let mut slots = Vec::new();
        for planned in &planned {
            let slot = planner.slot(planned);
            let resolved = planner.resolve(&slot).unwrap();
            if planned.fires() {
                prop_assert_eq!(resolved, planned.nominal, "{}", slot);
            }
            slots.push(slot);
            slots.extend(planner.merged(planned));
        }
        let count = slots.len();
        slots.sort();
        slots.dedup();
        prop_assert_eq!(slots.len(), count);
    }

    #[test]
    fn a_start_lies_in_its_jitter_window_and_before_the_following_nominal(
        (mut spec, at) in any_spec(),
        jitter in 0..200_000_i64,
    ) {
        spec.jitter = SignedDuration::from_secs(jitter);
        let planner = planner(&spec);
        let job = JobId::new("budget").unwrap();
        for planned in planner.firing_between(at, at + SignedDuration::from_hours(48)).take(50) {
            let start = planner.fire_at(&job, &planned);
            prop_assert_eq!(start, planner.fire_at(&job, &planned));
            prop_assert!(start >= planned.nominal);
            prop_assert!(jitter == 0 || start < planned.nominal + spec.jitter);
            let next = planner.next(planned.nominal);
            prop_assert!(next.is_none_or(|next| start < next.nominal));
        }
    }
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn a_scan_of_every_real_half_minute_finds_the_same_instants(
        (zone, at) in zone_and_instant(),
        expr in prop_oneof![3 => expr::frequent_dates(), 1 => expr::any_dates()],
        bounds in any::<u8>(),
        hours in 0..60_i64,
    ) {
        prop_assume!(cron::parse(&expr.text()).is_ok());
        let mut spec = spec(When::Cron(expr.text()), zone);
        let tz = TimeZone::get(zone).unwrap();
        let local = tz.to_datetime(at);
        let shifted = |hours: i64| -> DateTime { local + Span::new().hours(hours) };
        spec.from = (bounds & 3 == 1).then(|| shifted(hours - 20));
        spec.until = (bounds & 12 == 4).then(|| shifted(hours + 10));
        let excluded: [Date; 1] = [shifted(hours).date()];
        if bounds & 48 == 16 {
            spec.exclude = excluded.to_vec();
        }
        let job = Job {
            expr: &expr,
            zone: tz,
            from: spec.from,
            until: spec.until,
            exclude: &spec.exclude,
        };
        let until = at + SignedDuration::from_hours(60);
        let planner = planner(&spec);
        prop_assert_eq!(nominals(planner.firing_between(at, until)), job.firing(at, until));
    }
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn every_written_time_of_a_fixed_job_is_accounted_for_exactly_once(
        (zone, at) in zone_and_instant(),
        expr in expr::any_dates(),
        excluded in 0..6_i64,
    ) {
        prop_assume!(expr.is_fixed() && cron::parse(&expr.text()).is_ok());
        let mut spec = spec(When::Cron(expr.text()), zone);
        let first = TimeZone::get(zone).unwrap().to_datetime(at).date();
        spec.exclude = vec![first + Span::new().days(excluded)];
        let planner = planner(&spec);
        let last = first + Span::new().days(4);
        let written: Vec<String> = (0..4 * 1_440)
            .map(|minute| first.at(0, 0, 0, 0) + Span::new().minutes(minute))
            .filter(|wall| expr.names(*wall))
            .map(|wall| format!("{wall}[{zone}]"))
            .collect();
        let around = SignedDuration::from_hours(72);
        let mut slots: Vec<String> = planner
            .between(at - around, at + around + SignedDuration::from_hours(96))
            .flat_map(|planned| [vec![planner.slot(&planned)], planner.merged(&planned)].concat())
            .map(|slot| slot.to_string())
            .filter(|slot| {
                let wall: DateTime = slot.split('[').next().unwrap().parse().unwrap();
                wall.date() >= first && wall.date() < last
            })
            .collect();
        slots.sort();
        prop_assert_eq!(slots, written);
    }

    #[test]
    fn latest_walks_a_range_backward_as_next_walks_it_forward(
        (zone, at) in zone_and_instant(),
        expr in expr::frequent_dates(),
        excluded in 0..5_i64,
    ) {
        let mut spec = spec(When::Cron(expr.text()), zone);
        let local = TimeZone::get(zone).unwrap().to_datetime(at);
        spec.exclude = vec![(local + Span::new().days(excluded)).date()];
        let planner = planner(&spec);
        let until = at + SignedDuration::from_hours(60);
        let forward: Vec<Planned> = planner.firing_between(at, until).collect();
        let mut backward = Vec::new();
        let mut top = until;
        while let Some(planned) = planner.latest_at_or_before(top).filter(|planned| planned.nominal > at) {
            backward.push(planned);
            top = planned.nominal - SignedDuration::from_nanos(1);
        }
        backward.reverse();
        prop_assert_eq!(forward, backward);
    }

    #[test]
    fn a_seconds_field_of_zero_changes_nothing(
        (zone, at) in zone_and_instant(),
        expr in expr::any_dates(),
    ) {
        prop_assume!(cron::parse(&expr.text()).is_ok());
        let five = planner(&spec(When::Cron(expr.text()), zone));
        let six = planner(&spec(When::Cron(format!("0 {}", expr.text())), zone));
        let until = at + SignedDuration::from_hours(60);
        let first: Vec<Planned> = five.between(at, until).collect();
        prop_assert_eq!(first, six.between(at, until).collect::<Vec<_>>());
    }
}

/// Zones whose rules both zone databases have alike, without a gap that croner gives up on.
const COMMON_ZONES: [&str; 6] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/Toronto",
    "UTC",
];

proptest! {
    #![proptest_config(config(1_500))]

    #[test]
    fn croner_agrees_wherever_both_follow_one_rule(
        (zone, at) in prop::sample::select(COMMON_ZONES.as_slice())
            .prop_flat_map(|zone| instant(zone).prop_map(move |at| (zone, at))),
        expr in prop_oneof![1 => expr::frequent_dates(), 1 => expr::any_dates()],
    ) {
        prop_assume!(cron::parse(&expr.text()).is_ok());
        prop_assume!(at.as_second() > 190_000_000 && at.as_second() < 2_100_000_000);
        let planner = planner(&spec(When::Cron(expr.text()), zone));
        let Some(ours) = planner.next(at) else { return Ok(()) };
        // croner takes a job for fixed only where it has a single time of day.
        let same_rule = expr.is_fixed() == expr.is_single_time();
        let day = SignedDuration::from_hours(26);
        let mut changes = TimeZone::get(zone)
            .map(|tz| tz.following(at - day).take(1).map(|change| change.timestamp()).collect::<Vec<_>>())
            .unwrap()
            .into_iter();
        prop_assume!(same_rule || changes.next().is_none_or(|change| change > ours.nominal + day));
        prop_assert_eq!(Some(ours.nominal.as_second()), by_croner(&expr.text(), zone, at));
    }
}

fn by_croner(expr: &str, zone: &str, after: Timestamp) -> Option<i64> {
    let zone: chrono_tz::Tz = zone.parse().unwrap();
    let after = chrono::DateTime::from_timestamp(after.as_second(), 0)?.with_timezone(&zone);
    let cron: croner::Cron = expr.parse().unwrap();
    cron.find_next_occurrence(&after, false)
        .ok()
        .map(|next| next.timestamp())
}

#[test]
fn the_zone_of_the_host_has_no_effect() {
    if std::env::var_os("PRINT_PLAN").is_some() {
        let planner = planner(&spec(When::Cron("*/7 1-3 * * *".into()), "Europe/Berlin"));
        let range = ["2026-03-01T00:00Z", "2026-11-30T00:00Z"].map(|at| at.parse().unwrap());
        for planned in planner.between(range[0], range[1]) {
            println!("plan {}", planner.slot(&planned));
        }
        return;
    }
    let plan_on_host = |zone: &str| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "the_zone_of_the_host_has_no_effect",
                "--nocapture",
            ])
            .env("PRINT_PLAN", "1")
            .env("TZ", zone)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().filter(|line| line.contains("plan ")).count();
        assert!(lines > 7_000, "{text}");
        text.lines()
            .filter(|line| line.contains("plan "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let plans = ["Pacific/Apia", "America/New_York", "UTC"].map(plan_on_host);
    assert!(plans.iter().all(|plan| *plan == plans[0]));
}

#[test]
fn void_slots_of_a_skipped_date_stand_before_what_fires_there() {
    let planner = planner(&spec(When::Cron("0 0 * * *".into()), "Pacific/Apia"));
    let range = ["2011-12-29T00:00Z", "2011-12-31T00:00Z"].map(|at| at.parse().unwrap());
    let fates: Vec<_> = planner
        .between(range[0], range[1])
        .map(|planned| (planner.slot(&planned).to_string(), planned.fate))
        .collect();
    assert_eq!(
        fates,
        [
            ("2011-12-29T00:00:00[Pacific/Apia]".to_owned(), Fate::Fires),
            (
                "2011-12-30T00:00:00[Pacific/Apia]".to_owned(),
                Fate::NoSuchDate
            ),
            ("2011-12-31T00:00:00[Pacific/Apia]".to_owned(), Fate::Fires),
        ]
    );
    let whole: Vec<Planned> = planner.between(range[0], range[1]).collect();
    let gap_end: Timestamp = "2011-12-30T10:00Z".parse().unwrap();
    for micros in -3..3 {
        let cut = gap_end + SignedDuration::from_micros(micros);
        let split = planner
            .between(range[0], cut)
            .chain(planner.between(cut, range[1]));
        assert_eq!(whole, split.collect::<Vec<_>>(), "{cut}");
    }
}
