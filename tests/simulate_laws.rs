//! What must hold of every simulation, whatever the jobs and the world.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is missing"
)]

use std::collections::{BTreeMap, BTreeSet};

use chatcron::{
    ids::AgentName,
    job::{CatchUp, Deliver, Mode, Overlap, Weekdays, When},
    occurrence::Cause,
    policy::JobPlan,
    simulate::{Failing, Outage, Peak, Rate, Report, RunTime, Scenario, Tally, Window, totals},
};
use jiff::{SignedDuration, Timestamp, civil::time};
use proptest::prelude::*;

#[path = "simulate_laws/worlds.rs"]
mod worlds;

use worlds::{Line, Told, ends_well, simulation, whole, worlds};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn a_window_in_two_parts_is_the_whole(
        (jobs, scenario, cap, window) in worlds(),
        minutes in 1..4_319i64,
    ) {
        let middle = window.from + SignedDuration::from_mins(minutes);
        let mut told = Told::default();
        let mut simulation = simulation(&jobs, &scenario, cap, window.from);
        simulation.run_until(middle, &mut told);
        let mut carried = simulation.clone();
        carried.run_until(window.to, &mut told);
        carried.close(&mut told);
        prop_assert_eq!(told.lines, whole(&jobs, &scenario, cap, window).lines);
    }

    #[test]
    fn every_slot_in_the_window_ends_once_or_is_open(
        (jobs, scenario, cap, window) in worlds(),
    ) {
        prop_assume!(ends_well(&scenario, window));
        let told = whole(&jobs, &scenario, cap, window);
        for job in &jobs {
            let of_job = || told.lines.iter().filter(|line| line.job.as_deref() == Some(job.id.as_str()));
            let mut ended = BTreeSet::new();
            for line in of_job().filter(|line| ["end", "open"].contains(&line.word)) {
                prop_assert!(ended.insert(line.slot.clone()), "twice: {line:?}");
            }
            let skipped: u64 = of_job().filter(|line| line.word == "skip").map(|line| line.slots).sum();
            // What comes after its end, or while it is paused, has no record yet.
            if job.policies.max_runs.is_some() || job.policies.pause_after_failures.is_some() {
                continue;
            }
            let plan = JobPlan::new(job.clone(), window.from).unwrap();
            let micro = SignedDuration::from_micros(1);
            let slots = plan.planner.between(window.from - micro, window.to - micro).count();
            prop_assert_eq!(ended.len() as u64 + skipped, slots as u64, "{}", &job.id);
        }
    }

    #[test]
    fn nothing_starts_before_its_time_and_runs_of_a_job_do_not_overlap(
        (jobs, scenario, cap, window) in worlds(),
    ) {
        let told = whole(&jobs, &scenario, cap, window);
        let mut running = BTreeSet::new();
        let mut active = BTreeMap::<String, BTreeSet<String>>::new();
        for line in &told.lines {
            let job = line.job.clone().unwrap_or_default();
            match line.word {
                "down" => running.clear(),
                "wait" => {
                    prop_assert!(line.fire_at >= line.nominal);
                    let of_job = jobs.iter().find(|known| known.id.as_str() == job).unwrap();
                    // What is made up for one after another is late.
                    if of_job.policies.catch_up == CatchUp::All {
                        continue;
                    }
                    let plan = JobPlan::new(of_job.clone(), window.from).unwrap();
                    let nominal = line.nominal.unwrap();
                    let following = plan.planner.next(nominal).map(|next| next.nominal);
                    prop_assert!(following.is_none_or(|next| line.fire_at.unwrap() < next), "{line:?}");
                }
                "start" => {
                    prop_assert!(line.fire_at.unwrap() <= line.at, "{line:?}");
                    let of_job = active.entry(job.clone()).or_default();
                    let known = jobs.iter().find(|known| known.id.as_str() == job).unwrap();
                    let alone = known.policies.overlap != Overlap::Allow;
                    prop_assert!(!alone || of_job.is_empty(), "{line:?} beside {of_job:?}");
                    of_job.insert(line.slot.clone());
                }
                "end" => {
                    active.entry(job).or_default().remove(&line.slot);
                }
                "attempt" => {
                    // The clock may have been set back since.
                    let stepped = !scenario.clock_steps.is_empty();
                    prop_assert!(stepped || line.at >= line.nominal.unwrap(), "{line:?}");
                    running.insert((job, line.slot.clone()));
                    prop_assert!(running.len() <= cap, "{line:?}");
                }
                "attempt-end" => {
                    running.remove(&(job, line.slot.clone()));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn other_jobs_change_nothing_where_there_is_room(
        (jobs, scenario, _, window) in worlds(),
    ) {
        // A chat is shared, so only jobs without one are each on their own.
        let mut jobs = jobs;
        for job in &mut jobs {
            job.mode = alone();
        }
        let all = whole(&jobs, &scenario, 100, window);
        for job in &jobs {
            let alone = whole(std::slice::from_ref(job), &scenario, 100, window);
            let of_job = all.lines.iter().filter(|line| line.job.as_deref().is_none_or(|id| id == job.id.as_str()));
            let texts = |line: &Line| (line.at, line.text.clone());
            let among: Vec<_> = of_job.map(texts).collect();
            prop_assert_eq!(among, alone.lines.iter().map(texts).collect::<Vec<_>>());
        }
    }

    #[test]
    fn quick_totals_are_those_of_every_event(
        (jobs, scenario, room, window) in worlds(),
        failing in any::<bool>(),
    ) {
        let mut jobs = jobs;
        for (index, job) in jobs.iter_mut().enumerate() {
            if let Mode::InChat { .. } = job.mode && index > 0 {
                job.mode = alone();
            }
            job.schedule.jitter = SignedDuration::ZERO;
        }
        let mut scenario = Scenario { outages: Vec::new(), clock_steps: Vec::new(), ..scenario };
        scenario.channel_failures.clear();
        if !failing {
            scenario.failures.clear();
        }
        let mut simulation = simulation(&jobs, &scenario, room, window.from);
        let quick = totals(&simulation, &scenario, window);
        let mut tally = Tally::new(&simulation, window);
        simulation.run_until(window.to, &mut tally);
        simulation.close(&mut tally);
        let whole = tally.finish(&simulation);
        // Where runs had to wait, or share a chat, there is no quick answer.
        if let Some(quick) = quick {
            for (quick, whole) in quick.jobs.iter().zip(&whole.jobs) {
                prop_assert_eq!(quick, whole);
            }
            prop_assert_eq!(shown(&quick), shown(&whole));
            prop_assert_eq!(quick.concurrency, whole.concurrency);
            prop_assert_eq!(quick.herd_minutes, whole.herd_minutes);
            prop_assert_eq!(quick.busiest, whole.busiest);
        }
    }
}

/// A job of its own, that shares no lane.
fn alone() -> Mode {
    Mode::Background {
        deliver: Deliver::History,
        agent: AgentName::new("main").unwrap(),
        memory: false,
        context: None,
    }
}

fn shown(report: &Report) -> Vec<(String, u64, Peak)> {
    let destinations = report.destinations.iter();
    destinations
        .map(|(name, totals)| (name.clone(), totals.messages, totals.peak_hour))
        .collect()
}

#[test]
fn quick_totals_are_given_where_jobs_are_on_their_own() {
    let whens = [
        When::Daily {
            times: vec![time(2, 30, 0, 0), time(8, 0, 0, 0)],
            days: Weekdays::ALL,
        },
        When::Cron("*/7 * * * *".to_owned()),
        When::Every {
            period: SignedDuration::from_secs(45),
            anchor: None,
        },
    ];
    let jobs: Vec<_> = whens.into_iter().enumerate().map(worlds::plain).collect();
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let window = Window {
        from: at("2027-03-20T00:00:30Z"),
        to: at("2027-05-01T11:11:11Z"),
    };
    let job = jobs[1].id.clone();
    let scenario = Scenario {
        run_time: RunTime {
            shortest: SignedDuration::from_secs(10),
            longest: SignedDuration::from_mins(3),
        },
        failures: BTreeMap::from([(job, vec![Failing::Rate(Rate(200_000))])]),
        ..Scenario::default()
    };
    let mut simulation = simulation(&jobs, &scenario, 3, window.from);
    let quick = totals(&simulation, &scenario, window).unwrap();
    let mut tally = Tally::new(&simulation, window);
    simulation.run_until(window.to, &mut tally);
    simulation.close(&mut tally);
    let whole = tally.finish(&simulation);
    assert_eq!(quick.jobs, whole.jobs);
    assert_eq!(quick.concurrency, whole.concurrency);
    assert_eq!(quick.busiest, whole.busiest);
    assert_eq!(shown(&quick), shown(&whole));
    assert!(quick.sum(|job| job.failures()) > 0 && quick.sum(|job| job.skips()) > 0);
}

#[test]
fn a_made_up_run_says_that_it_is_one() {
    let when = When::Daily {
        times: vec![time(8, 0, 0, 0)],
        days: Weekdays::ALL,
    };
    let job = worlds::plain((0, when));
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let scenario = Scenario {
        outages: vec![Outage {
            from: at("2026-12-01T07:00:00Z"),
            to: at("2026-12-01T10:00:00Z"),
        }],
        ..Scenario::default()
    };
    let window = Window {
        from: at("2026-12-01T00:00:00Z"),
        to: at("2026-12-02T00:00:00Z"),
    };
    let told = whole(&[job], &scenario, 8, window);
    let start = told.lines.iter().find(|line| line.word == "start").unwrap();
    assert!(start.text.contains(&format!("{:?}", Cause::CatchUp)));
    assert!(start.at >= at("2026-12-01T10:00:00Z") && start.at < at("2026-12-01T10:01:00Z"));
}
