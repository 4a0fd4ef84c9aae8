//! What must hold of every simulation, whatever the jobs and the world.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is missing"
)]

use std::collections::{BTreeMap, BTreeSet};

use chatcron::{
    ids::AgentName,
    job::{Deliver, Mode, Policies, Weekdays, When},
    occurrence::Cause,
    policy::JobPlan,
    simulate::{Outage, Scenario, Window},
};
use jiff::{SignedDuration, Timestamp, civil::time};
use proptest::{prelude::*, strategy::ValueTree};

#[path = "simulate_laws/worlds.rs"]
mod worlds;

use worlds::{Line, Told, ends_well, jobs, simulation, whole, worlds};

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
            if job.policies.max_runs.is_some() {
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
                    let plan = JobPlan::new(of_job.clone(), window.from).unwrap();
                    let nominal = line.nominal.unwrap();
                    let following = plan.planner.next(nominal).map(|next| next.nominal);
                    prop_assert!(following.is_none_or(|next| line.fire_at.unwrap() < next), "{line:?}");
                }
                "start" => {
                    prop_assert!(line.fire_at.unwrap() <= line.at, "{line:?}");
                    let of_job = active.entry(job).or_default();
                    prop_assert!(of_job.is_empty(), "{line:?} beside {of_job:?}");
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
            job.mode = Mode::Background {
                deliver: Deliver::History,
                agent: AgentName::new("main").unwrap(),
                memory: false,
                context: None,
            };
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
}

#[test]
fn a_made_up_run_says_that_it_is_one() {
    let mut job = jobs()
        .new_tree(&mut proptest::test_runner::TestRunner::deterministic())
        .unwrap()
        .current()
        .remove(0);
    job.schedule.when = When::Daily {
        times: vec![time(8, 0, 0, 0)],
        days: Weekdays::ALL,
    };
    job.schedule.zone = "UTC".to_owned();
    job.policies = Policies::default();
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
