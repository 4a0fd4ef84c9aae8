//! The planner beside croner 4, in one run: one `next`, and a year of occurrences.
//!
//! Figures are per occurrence. Run with `cargo bench --no-default-features --bench planner`.

use std::{hint::black_box, time::Duration};

use chatcron::{
    job::{ScheduleSpec, When},
    schedule::Planner,
};
use chrono::DateTime;
use chrono_tz::Tz;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use jiff::{SignedDuration, Timestamp};

const ZONE: &str = "Europe/Berlin";

/// Each pattern with the years that a range of it covers.
const PATTERNS: [(&str, i64); 4] = [
    ("0 9 * * *", 1),
    ("*/5 * * * *", 1),
    ("0 0 29 2 *", 70),
    ("*/15 9-17 * * 1-5", 1),
];

const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24 + 6);

fn start() -> Timestamp {
    Timestamp::constant(1_767_225_600, 0)
}

fn planner(expr: &str) -> Planner {
    let spec = ScheduleSpec {
        when: When::Cron(expr.to_owned()),
        zone: ZONE.to_owned(),
        from: None,
        until: None,
        exclude: Vec::new(),
        jitter: SignedDuration::ZERO,
    };
    Planner::new(&spec, start()).expect("a schedule that can be planned")
}

/// The instant as croner takes it.
fn zoned(at: Timestamp) -> DateTime<Tz> {
    let zone: Tz = ZONE.parse().expect("a zone");
    DateTime::from_timestamp(at.as_second(), 0)
        .expect("an instant")
        .with_timezone(&zone)
}

/// Steps through the range by one question after another.
fn step_next(criterion: &mut Criterion) {
    for (expr, years) in PATTERNS {
        let planner = planner(expr);
        let until = start() + YEAR * years as i32;
        let count = planner.firing_between(start(), until).count() as u64;
        let mut group = criterion.benchmark_group(format!("next {expr}"));
        group.throughput(Throughput::Elements(count));
        group.bench_function("chatcron", |bencher| {
            bencher.iter(|| {
                let mut at = start();
                while let Some(planned) = planner.next(black_box(at)) {
                    if planned.nominal > until {
                        break;
                    }
                    at = planned.nominal;
                }
                at
            });
        });
        let cron: croner::Cron = expr.parse().expect("a pattern that croner reads");
        group.bench_function("croner 4", |bencher| {
            bencher.iter(|| {
                let (mut now, until) = (zoned(start()), zoned(until));
                while let Ok(next) = cron.find_next_occurrence(black_box(&now), false) {
                    if next > until {
                        break;
                    }
                    now = next;
                }
                now
            });
        });
        group.finish();
    }
}

/// Steps through the range by the iterator.
fn walk_range(criterion: &mut Criterion) {
    for (expr, years) in PATTERNS {
        let planner = planner(expr);
        let until = start() + YEAR * years as i32;
        let count = planner.firing_between(start(), until).count() as u64;
        let mut group = criterion.benchmark_group(format!("range {expr}"));
        group.throughput(Throughput::Elements(count));
        group.bench_function("chatcron", |bencher| {
            bencher.iter(|| {
                let mut sum = 0;
                for planned in planner.firing_between(black_box(start()), until) {
                    sum ^= planned.nominal.as_second();
                }
                sum
            });
        });
        let cron: croner::Cron = expr.parse().expect("a pattern that croner reads");
        group.bench_function("croner 4", |bencher| {
            bencher.iter(|| {
                let until = zoned(until);
                let times = cron.iter_after(zoned(black_box(start())));
                times
                    .take_while(|time| *time <= until)
                    .fold(0, |sum, time| sum ^ time.timestamp())
            });
        });
        group.finish();
    }
}

fn quick() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
}

criterion_group! {
    name = benches;
    config = quick();
    targets = step_next, walk_range
}
criterion_main!(benches);
