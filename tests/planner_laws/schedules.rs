//! Random schedules, zones and instants, most of them near a clock change.

use chatcron::{
    job::{ScheduleSpec, Weekdays, When},
    schedule::{Planner, cron},
};
use jiff::{SignedDuration, Span, Timestamp, tz::TimeZone};
use proptest::prelude::*;

use crate::expr;

const ZONES: [&str; 14] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "America/Sao_Paulo",
    "Africa/Monrovia",
    "Antarctica/Troll",
    "America/St_Johns",
    "Pacific/Kwajalein",
    "Europe/Dublin",
    "Asia/Pyongyang",
    "UTC",
];

pub(crate) fn spec(when: When, zone: &str) -> ScheduleSpec {
    ScheduleSpec {
        when,
        zone: zone.to_owned(),
        from: None,
        until: None,
        exclude: Vec::new(),
        jitter: SignedDuration::ZERO,
    }
}

pub(crate) fn planner(spec: &ScheduleSpec) -> Planner {
    Planner::new(spec, "2026-01-01T00:00:07.5Z".parse().unwrap()).unwrap()
}

/// An instant near a clock change of the zone, or anywhere.
pub(crate) fn instant(zone: &'static str) -> impl Strategy<Value = Timestamp> {
    let anywhere = -150_000_000_i64..2_500_000_000;
    let near = (anywhere.clone(), -180_000_i64..90_000).prop_map(move |(second, aside)| {
        let tz = TimeZone::get(zone).unwrap();
        let at = Timestamp::from_second(second).unwrap();
        let change = tz.following(at).next().map(|change| change.timestamp());
        let second = change.unwrap_or(at).as_second() + aside;
        Timestamp::from_second(second.min(2_500_000_000)).unwrap()
    });
    prop_oneof![
        3 => near,
        1 => anywhere.prop_map(|second| Timestamp::from_second(second).unwrap()),
    ]
}

pub(crate) fn zone_and_instant() -> impl Strategy<Value = (&'static str, Timestamp)> {
    prop::sample::select(ZONES.as_slice())
        .prop_flat_map(|zone| instant(zone).prop_map(move |at| (zone, at)))
}

pub(crate) fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        max_global_rejects: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// A schedule of any kind near the instant, with bounds and excluded dates.
pub(crate) fn any_spec() -> impl Strategy<Value = (ScheduleSpec, Timestamp)> {
    let bounds = (any::<u8>(), 0..5i64, 0..5i64, 0..72i64);
    (zone_and_instant(), expr::any_dates(), bounds, 0..86_400u32).prop_map(
        |((zone, at), expr, (pick, skip, gone, hours), second)| {
            let local = TimeZone::get(zone).unwrap().to_datetime(at);
            let clock = local.date().at(0, 0, 0, 0) + Span::new().seconds(i64::from(second));
            let when = match pick % 4 {
                0 => When::Daily {
                    times: vec![clock.time()],
                    days: Weekdays::ALL,
                },
                1 => When::Every {
                    period: SignedDuration::from_secs(i64::from(second) + 1),
                    anchor: (pick % 8 < 4).then_some(at),
                },
                2 if cron::parse(&expr.text()).is_ok() => When::Cron(expr.text()),
                _ => When::At(clock),
            };
            let mut spec = spec(when, zone);
            if pick & 16 != 0 {
                spec.from = Some(local + Span::new().hours(hours - 24));
            }
            if pick & 32 != 0 {
                spec.until = Some(local + Span::new().hours(hours + 24));
            }
            if pick & 64 != 0 {
                let day = |days: i64| (local + Span::new().days(days)).date();
                spec.exclude = vec![day(skip), day(gone), day(0)];
            }
            (spec, at)
        },
    )
}
