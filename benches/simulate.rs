//! A year of ten thousand jobs, beside croner 4 stepping through the same slots.
//!
//! Run with `cargo bench --no-default-features --bench simulate`. Each line has what it took, and
//! the most memory that the process had so far.

use std::{collections::BTreeMap, fs, hint::black_box, time::Instant};

use chatcron::{
    ids::{AgentName, JobId},
    job::{Deliver, Job, Mode, Policies, ScheduleSpec, Weekdays, When},
    policy::JobPlan,
    simulate::{Log, Report, RunTime, Scenario, Simulation, Tally, Window, totals},
};
use chrono::DateTime;
use chrono_tz::Tz;
use jiff::{SignedDuration, Timestamp, civil};

const JOBS: u32 = 10_000;
const ZONE: &str = "Europe/Berlin";

fn main() {
    let window = year();
    let scenario = Scenario {
        run_time: RunTime {
            shortest: SignedDuration::from_secs(10),
            longest: SignedDuration::from_secs(120),
        },
        ..Scenario::default()
    };
    let daily = || (0..JOBS).map(daily_job).collect::<Vec<_>>();
    let mixed = || (0..JOBS).map(mixed_job).collect::<Vec<_>>();
    measured("daily, totals", 2.0, || {
        let simulation = simulation(daily(), &scenario, window);
        starts(&totals(&simulation, &scenario, window).expect("there is room for all"))
    });
    let events = measured("daily, every event", f64::INFINITY, || {
        let mut simulation = simulation(daily(), &scenario, window);
        let mut tally = Tally::new(&simulation, window);
        simulation.run_until(window.to, &mut tally);
        starts(&tally.finish(&simulation))
    });
    measured("daily, event log and hash", f64::INFINITY, || {
        let mut simulation = simulation(daily(), &scenario, window);
        let mut log = Log::new(std::io::sink());
        simulation.run_until(window.to, &mut log);
        log.finish().map_or(0, |(_, sum)| sum.lines)
    });
    let ours = measured("daily, planner alone", f64::INFINITY, || {
        iterate(&daily(), window)
    });
    let theirs = measured("daily, croner 4", f64::INFINITY, || iterate_croner(window));
    println!("planner against croner 4: {:.0} times", theirs / ours);
    println!("every event against croner 4: {:.1} times", theirs / events);
    measured("mixed, totals", 60.0, || {
        let simulation = simulation(mixed(), &scenario, window);
        starts(&totals(&simulation, &scenario, window).expect("there is room for all"))
    });
}

fn year() -> Window {
    let at = |text: &str| text.parse::<Timestamp>().expect("an instant");
    Window {
        from: at("2026-12-31T23:00:00Z"),
        to: at("2027-12-31T23:00:00Z"),
    }
}

fn measured(name: &str, most: f64, work: impl FnOnce() -> u64) -> f64 {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    let began_at = Instant::now();
    let count = black_box(work());
    let took = began_at.elapsed().as_secs_f64();
    let target = if most.is_finite() {
        format!(
            "  target {most} s: {}",
            if took <= most { "met" } else { "MISSED" }
        )
    } else {
        String::new()
    };
    let each = took * 1e9 / count as f64;
    let memory = memory();
    println!(
        "{name:28} {took:7.2} s  {count:>11} slots  {each:6.0} ns each  {memory:>4} MB{target}"
    );
    took
}

/// The most memory that the process had, in MB.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    number.unwrap_or(0) / 1024
}

fn simulation(jobs: Vec<Job>, scenario: &Scenario, window: Window) -> Simulation {
    let room = JOBS as usize;
    Simulation::new(jobs, &BTreeMap::new(), room, scenario, window.from)
        .expect("jobs that can be planned")
}

fn starts(report: &Report) -> u64 {
    report.sum(|job| job.starts)
}

fn iterate(jobs: &[Job], window: Window) -> u64 {
    let before = window.from - SignedDuration::from_micros(1);
    let count = |job: &Job| {
        let plan = JobPlan::new(job.clone(), window.from).expect("a job that can be planned");
        let slots = plan.planner.firing_between(before, window.to);
        slots.fold(0, |count, slot| count + u64::from(black_box(slot).fires()))
    };
    jobs.iter().map(count).sum()
}

fn iterate_croner(window: Window) -> u64 {
    let zone: Tz = ZONE.parse().expect("a zone");
    let zoned = |at: Timestamp| {
        DateTime::from_timestamp(at.as_second(), 0)
            .expect("an instant")
            .with_timezone(&zone)
    };
    let (from, to) = (zoned(window.from), zoned(window.to));
    let count = |number: u32| {
        let (hour, minute) = (number % 24, number % 60);
        let text = format!("{minute} {hour} * * *");
        let cron: croner::Cron = text.parse().expect("a pattern that croner reads");
        let times = cron.iter_after(from).take_while(|at| *at < to);
        times.fold(0, |count, at| count + u64::from(black_box(at) >= from))
    };
    (0..JOBS).map(count).sum()
}

fn job(number: u32, when: When) -> Job {
    Job {
        id: JobId::new(format!("job-{number:05}")).expect("a name"),
        name: None,
        enabled: true,
        schedule: ScheduleSpec {
            when,
            zone: ZONE.to_owned(),
            from: None,
            until: None,
            exclude: Vec::new(),
            jitter: SignedDuration::ZERO,
        },
        prompt: String::new(),
        mode: Mode::Background {
            deliver: Deliver::History,
            agent: AgentName::new("main").expect("a name"),
            memory: false,
            context: None,
        },
        policies: Policies::default(),
    }
}

fn daily_job(number: u32) -> Job {
    let time = civil::time((number % 24) as i8, (number % 60) as i8, 0, 0);
    let when = When::Daily {
        times: vec![time],
        days: Weekdays::ALL,
    };
    job(number, when)
}

/// From every five minutes to once a month: 21,000 slots a year, on average.
fn mixed_job(number: u32) -> Job {
    let minute = number % 60;
    let when = match number % 20 {
        0..=1 => When::Cron("*/5 * * * *".to_owned()),
        2..=4 => When::Every {
            period: SignedDuration::from_mins(15),
            anchor: None,
        },
        5 => When::Cron(format!(
            "{},{} 9-17 * * mon-fri",
            minute % 30,
            minute % 30 + 30
        )),
        6 => When::Cron(format!("{minute} 7 1 * *")),
        7..=9 => When::Cron(format!("{minute} * * * *")),
        10..=16 => return daily_job(number),
        _ => When::Every {
            period: SignedDuration::from_secs(1_200),
            anchor: None,
        },
    };
    job(number, when)
}
