//! The simulator and the worker are one: the same jobs through an outage, a crash, slow and failing
//! runs, clock steps and a clock change, and the same decisions at the same instants.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "sameness/ledger.rs"]
mod ledger;
#[path = "support/stepping.rs"]
mod stepping;

use std::collections::{BTreeMap, BTreeSet};

use chatcron::{
    ids::{JobId, RunId},
    occurrence::Slot,
    policy::JournalEntry,
    simulate::{ClockStep, Failing, Outage, Rate, RunTime, Scenario, Simulation},
    store::{OutboxScope, RunFilter, Store},
};
use jiff::{SignedDuration, Timestamp};
use ledger::{Ledger, REFUSED, SHOWN, spelled};
use stepping::{JobsWorld, Stepping};

const JOBS: &str = r#"
timezone = "Europe/Berlin"
max_concurrent = 3

[jobs.night]
daily   = ["02:15", "02:30"]
prompt  = "night"
deliver = "me"

[jobs.slow]
every   = "20m"
anchor  = "2026-01-01T00:05"
timeout = "2h"
prompt  = "slow"
deliver = "me"

[jobs.often]
cron    = "*/13 * * * *"
jitter  = "3m"
prompt  = "often"
deliver = "ops"

[jobs.fails]
cron    = "7 * * * *"
retry   = { attempts = 3, backoff = ["30s", "2m"] }
prompt  = "fails"
deliver = "ops"

[jobs.gives-up]
every    = "3h"
anchor   = "2026-01-01T00:11"
catch_up = "none"
max_runs = 6
prompt   = "gives up"
deliver  = "history"

[jobs.chats]
every  = "47m"
anchor = "2026-01-01T00:02"
chat   = "me"
catch_up_window = "2h"
prompt = "chats"

[chats.me]
channel = "phone"
agent   = "main"

[chats.ops]
channel = "phone"
agent   = "main"

[channels.phone]
kind = "console"

[agents.main]
kind = "echo"
"#;

/// One run at a time, so that others wait while the clock is set back: they are not due any more.
const ONE_AT_A_TIME: &str = r#"
timezone = "Europe/Berlin"
max_concurrent = 1

[jobs.first]
daily   = "10:00"
prompt  = "first"
deliver = "history"

[jobs.second]
daily   = "10:00"
prompt  = "second"
deliver = "history"

[jobs.third]
daily   = "10:01"
prompt  = "third"
deliver = "history"

[chats.me]
channel = "phone"
agent   = "main"

[channels.phone]
kind = "console"

[agents.main]
kind = "echo"
"#;

/// Every value of `overlap` and `catch_up`, and a job that pauses itself.
const POLICIES: &str = r#"
timezone = "UTC"
max_concurrent = 8

[jobs.buffers-one]
every   = "5m"
anchor  = "2026-12-01T00:00"
overlap = "buffer-one"
prompt  = "buffers one"
deliver = "history"

[jobs.buffers-all]
every           = "10m"
anchor          = "2026-12-01T00:02"
overlap         = "buffer-all"
catch_up_window = "40m"
timeout         = "1h"
prompt          = "buffers all"
deliver         = "history"

[jobs.cancels]
every   = "15m"
anchor  = "2026-12-01T00:04"
overlap = "cancel-running"
timeout = "1h"
prompt  = "cancels"
deliver = "me"

[jobs.cancels-in-chat]
every   = "20m"
anchor  = "2026-12-01T00:06"
overlap = "cancel-running"
timeout = "1h"
prompt  = "cancels in chat"
chat    = "me"

[jobs.allows]
every   = "30m"
anchor  = "2026-12-01T00:08"
overlap = "allow"
timeout = "2h"
# Two that begin again together would end together, and nothing says which of them first.
on_interrupt = "fail"
prompt  = "allows"
deliver = "me"

[jobs.makes-up]
every    = "17m"
anchor   = "2026-12-01T00:01"
catch_up = "all"
timeout  = "1h"
prompt   = "makes up"
deliver  = "history"

[jobs.pauses]
every                = "30m"
anchor               = "2026-12-01T00:03"
retry                = { attempts = 1 }
pause_after_failures = 3
prompt               = "pauses"
deliver              = "history"

[chats.me]
channel = "phone"
agent   = "main"

[channels.phone]
kind = "console"

[agents.main]
kind = "echo"
"#;

/// Jobs, a window, and a world that is told to both.
struct Story {
    jobs: &'static str,
    from: Timestamp,
    to: Timestamp,
    scenario: Scenario,
    world: JobsWorld,
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn id(text: &str) -> JobId {
    text.parse().unwrap()
}

/// A day and a night with everything in it.
fn everything() -> Story {
    let mut run_times = BTreeMap::new();
    let mut times = BTreeMap::new();
    for (job, seconds) in [
        ("night", 90),
        ("slow", 1510),
        ("often", 20),
        ("fails", 9),
        ("gives-up", 5),
        ("chats", 75),
    ] {
        let time = SignedDuration::from_secs(seconds);
        run_times.insert(id(job), RunTime::fixed(time));
        times.insert(id(job), time);
    }
    let outages = vec![Outage {
        from: at("2027-03-27T10:05:17Z"),
        to: at("2027-03-27T13:20:00Z"),
    }];
    let clock_steps = vec![
        ClockStep {
            at: at("2027-03-27T18:03:00Z"),
            by: SignedDuration::from_mins(40),
        },
        ClockStep {
            at: at("2027-03-28T04:10:00Z"),
            by: SignedDuration::from_mins(-25),
        },
    ];
    let failures = BTreeMap::from([(id("fails"), vec![Failing::Rate(Rate::ALWAYS)])]);
    let world = JobsWorld {
        times,
        refused: BTreeSet::new(),
        failing: vec![id("fails")],
        outages: outages
            .iter()
            .map(|outage| (outage.from, outage.to))
            .collect(),
        clock_steps: clock_steps.iter().map(|step| (step.at, step.by)).collect(),
    };
    Story {
        jobs: JOBS,
        from: at("2027-03-27T06:00:30Z"),
        to: at("2027-03-28T09:00:00Z"),
        scenario: Scenario {
            outages,
            clock_steps,
            run_times,
            failures,
            channel_failures: BTreeMap::from([
                ("me".parse().unwrap(), Rate(400_000)),
                ("ops".parse().unwrap(), Rate(300_000)),
            ]),
            ..Scenario::default()
        },
        world,
    }
}

/// The clock is set back while runs wait for the one that is under way.
fn queued_over_a_step_back() -> Story {
    let time = SignedDuration::from_mins(2);
    let jobs = ["first", "second", "third"];
    let step = ClockStep {
        at: at("2026-12-01T09:01:30Z"),
        by: SignedDuration::from_mins(-25),
    };
    Story {
        jobs: ONE_AT_A_TIME,
        from: at("2026-12-01T08:00:00Z"),
        to: at("2026-12-02T12:00:00Z"),
        scenario: Scenario {
            clock_steps: vec![step],
            run_times: jobs
                .iter()
                .map(|job| (id(job), RunTime::fixed(time)))
                .collect(),
            ..Scenario::default()
        },
        world: JobsWorld {
            times: jobs.iter().map(|job| (id(job), time)).collect(),
            failing: Vec::new(),
            refused: BTreeSet::new(),
            outages: Vec::new(),
            clock_steps: vec![(step.at, step.by)],
        },
    }
}

/// Runs that are longer than their periods, an outage in their midst, and a step back.
fn every_policy() -> Story {
    // None ends as a slot comes due: which of the two is seen first is a matter of luck.
    let seconds = [
        ("buffers-one", 431),
        ("buffers-all", 727),
        ("cancels", 1_321),
        ("cancels-in-chat", 1_259),
        ("allows", 4_217),
        ("makes-up", 547),
        ("pauses", 61),
    ];
    let times = || {
        let each = seconds.into_iter();
        each.map(|(job, seconds)| (id(job), SignedDuration::from_secs(seconds)))
    };
    let outage = Outage {
        from: at("2026-12-01T03:11:00Z"),
        to: at("2026-12-01T05:02:00Z"),
    };
    let step = ClockStep {
        at: at("2026-12-01T08:03:00Z"),
        by: SignedDuration::from_mins(-33),
    };
    let failures = BTreeMap::from([(id("pauses"), vec![Failing::Rate(Rate::ALWAYS)])]);
    Story {
        jobs: POLICIES,
        from: at("2026-12-01T00:00:30Z"),
        to: at("2026-12-01T12:00:00Z"),
        scenario: Scenario {
            outages: vec![outage],
            clock_steps: vec![step],
            run_times: times()
                .map(|(job, time)| (job, RunTime::fixed(time)))
                .collect(),
            failures,
            ..Scenario::default()
        },
        world: JobsWorld {
            times: times().collect(),
            failing: vec![id("pauses")],
            refused: BTreeSet::new(),
            outages: vec![(outage.from, outage.to)],
            clock_steps: vec![(step.at, step.by)],
        },
    }
}

/// The clock is set forward for an evening and put right, once by less than a day and once by years.
fn a_clock_that_is_put_right() -> Story {
    let time = SignedDuration::from_secs(40);
    let jobs = ["night", "slow", "often", "fails", "gives-up", "chats"];
    let step = |text: &str, by: SignedDuration| ClockStep { at: at(text), by };
    let hours = SignedDuration::from_hours;
    let clock_steps = vec![
        step("2026-12-01T10:00:30Z", hours(14)),
        step("2026-12-01T15:00:30Z", hours(-14)),
        step("2026-12-02T18:00:30Z", hours(10 * 365 * 24)),
        step("2026-12-02T21:30:30Z", hours(-10 * 365 * 24)),
    ];
    Story {
        jobs: JOBS,
        from: at("2026-12-01T06:00:30Z"),
        to: at("2026-12-03T09:00:00Z"),
        scenario: Scenario {
            clock_steps: clock_steps.clone(),
            run_times: jobs
                .iter()
                .map(|job| (id(job), RunTime::fixed(time)))
                .collect(),
            ..Scenario::default()
        },
        world: JobsWorld {
            times: jobs.iter().map(|job| (id(job), time)).collect(),
            failing: Vec::new(),
            refused: BTreeSet::new(),
            outages: Vec::new(),
            clock_steps: clock_steps.iter().map(|step| (step.at, step.by)).collect(),
        },
    }
}

fn simulated(story: &Story) -> Ledger {
    let file = stepping::read(story.jobs, story.from);
    let max_concurrent = usize::try_from(file.max_concurrent).unwrap();
    let mut simulation = Simulation::new(
        file.jobs,
        &file.directory.chats,
        max_concurrent,
        &story.scenario,
        story.from,
    )
    .unwrap();
    let mut ledger = Ledger::default();
    simulation.run_until(story.to, &mut ledger);
    ledger
}

async fn worked(story: Story) -> Ledger {
    let mut stepping = Stepping::new(story.jobs, story.from, story.world).await;
    stepping.run_until(story.to).await;
    let mut ledger = Ledger::default();
    for line in std::fs::read_to_string(stepping.journal()).unwrap().lines() {
        let entry: JournalEntry = serde_json::from_str(line).unwrap();
        let decided = entry.decided;
        for effect in &decided.decision.effects {
            ledger.decided(&decided.job.id, spelled(decided.now, effect));
        }
    }
    let store = &stepping.store;
    let audit = store.audit(None).await.unwrap();
    assert!(audit.holds() && audit.unproved == 0, "{audit:#?}");
    let mut runs = store.runs(&RunFilter::default()).await.unwrap();
    runs.sort_by_key(|run| run.run_id);
    for run in runs.iter().filter(|run| run.run_id.is_some()) {
        let slot = run.slot.as_ref().unwrap();
        for attempt in store.attempts(run.run_id.unwrap()).await.unwrap() {
            let number = attempt.attempt;
            ledger.attempted(
                &run.job_id,
                format!("{} began {slot} {number}", attempt.started_at),
            );
            if let Some(ended_at) = attempt.ended_at {
                let result = attempt.result.unwrap_or_default();
                ledger.attempted(
                    &run.job_id,
                    format!("{ended_at} ended {slot} {number} {result}"),
                );
            }
        }
    }
    let slots = runs
        .iter()
        .filter_map(|run| Some((run.run_id?, run.slot.clone()?)));
    let slots: BTreeMap<RunId, Slot> = slots.collect();
    let rows = store.outbox(OutboxScope::All).await.unwrap();
    let mut tries_of = BTreeMap::new();
    for tried in stepping.tries() {
        // An alert is of no run.
        let row = rows.iter().find(|row| row.key == tried.key).unwrap();
        let Some(run_id) = row.run_id else {
            continue;
        };
        let job = &row.posted_by.as_ref().unwrap().job_id;
        let number = tries_of.entry(row.part_id).or_insert(0);
        *number += 1;
        let slot = &slots[&run_id];
        let answer = if tried.refused { REFUSED } else { SHOWN };
        ledger.sent(job, slot, (tried.at, *number), answer);
    }
    let of_runs = rows.iter().filter(|row| row.run_id.is_some());
    for row in of_runs.filter(|row| row.attempts > 0) {
        let since = row.settled_at.unwrap_or(row.next_attempt_at);
        let standing = format!("{} {since}", row.state.as_str());
        let job = &row.posted_by.as_ref().unwrap().job_id;
        ledger.stands(job, &slots[&row.run_id.unwrap()], row.attempts, standing);
    }
    ledger
}

/// Fails at the first line that differs.
fn same_lines(said: &BTreeMap<JobId, Vec<String>>, did: &BTreeMap<JobId, Vec<String>>) {
    for (job, lines) in said {
        let empty = Vec::new();
        let worked = did.get(job).unwrap_or(&empty);
        let first = lines.iter().zip(worked).position(|(said, did)| said != did);
        let first = first.unwrap_or(lines.len().min(worked.len()));
        assert!(
            lines == worked,
            "{job} differs from line {first}:\nsimulated {:#?}\nworked    {:#?}",
            &lines[first.saturating_sub(2)..lines.len().min(first + 3)],
            &worked[first.saturating_sub(2).min(worked.len())..worked.len().min(first + 3)],
        );
    }
}

/// What the simulator said, which is what the worker did.
async fn told_alike(mut story: Story) -> Ledger {
    let mut said = simulated(&story);
    // Which tries are refused is drawn; the chats of the worker refuse the same ones.
    story.world.refused = said.refused.clone();
    let mut did = worked(story).await;
    // Attempts of runs that overlap are told by time here, and run by run there.
    for lines in said.attempts.values_mut().chain(did.attempts.values_mut()) {
        lines.sort();
    }
    same_lines(&said.decisions, &did.decisions);
    same_lines(&said.attempts, &did.attempts);
    same_lines(&said.sends, &did.sends);
    assert_eq!(said, did);
    said
}

#[tokio::test]
async fn runs_that_wait_while_the_clock_is_set_back_begin_alike() {
    let said = told_alike(queued_over_a_step_back()).await;
    let second = &said.attempts[&id("second")];
    assert!(
        second[0].starts_with("2026-12-01T09:00:00Z began"),
        "it begins when it is due by the new clock: {second:?}"
    );
}

#[tokio::test]
async fn a_clock_that_was_ahead_and_is_put_right_is_followed_alike() {
    let said = told_alike(a_clock_that_is_put_right()).await;
    let all: Vec<&String> = said.decisions.values().flatten().collect();
    assert!(
        !all.iter().any(|line| line.starts_with("2036")),
        "nothing is decided by a clock that is not believed"
    );
    let night = &said.decisions[&id("night")];
    let started = |slot: &str| night.iter().filter(|line| line.contains(slot)).count();
    // It came early by the wrong clock, and not again.
    assert_eq!(started("2026-12-02T02:30:00"), 2, "{night:#?}");
    assert_eq!(started("2026-12-03T02:30:00"), 2, "{night:#?}");
}

#[tokio::test]
async fn the_worker_decides_as_the_simulator_said_it_would() {
    let said = told_alike(everything()).await;
    if cfg!(feature = "other-rule") {
        return;
    }
    let all: Vec<&String> = said.decisions.values().flatten().collect();
    for (what, at_least) in [
        ("overlap", 10),
        ("catch-up", 3),
        ("missed", 2),
        ("superseded", 1),
        ("backoff", 20),
        ("failed", 10),
        ("T02:15:00[Europe/Berlin]", 2),
        ("+2027-03-28T02:30:00[Europe/Berlin] ", 1),
    ] {
        let found = all.iter().filter(|line| line.contains(what)).count();
        assert!(found >= at_least, "the scenario has only {found} of {what}");
    }
    let tries: Vec<&String> = said.sends.values().flatten().collect();
    for (answer, at_least) in [("refused", 20), ("shown", 60), (" 3 shown", 1)] {
        let found = tries.iter().filter(|line| line.ends_with(answer)).count();
        assert!(found >= at_least, "the scenario has only {found} {answer}");
    }
}

#[tokio::test]
async fn every_policy_means_the_same_to_the_worker_and_the_simulator() {
    let said = told_alike(every_policy()).await;
    if cfg!(feature = "other-rule") {
        return;
    }
    let count = |job: &str, what: &str| {
        let lines = said.decisions[&id(job)].iter();
        lines.filter(|line| line.contains(what)).count()
    };
    assert!(count("buffers-one", " wait ") > 10 && count("buffers-one", "overlap") > 10);
    assert!(count("buffers-all", " wait ") > 10 && count("buffers-all", "missed") > 0);
    assert!(count("cancels", "cancelled") > 10);
    assert!(count("cancels-in-chat", "cancelled") > 5);
    assert!(count("allows", " start ") > 15 && count("allows", "overlap") == 0);
    assert!(count("makes-up", "catch-up") > 5 && count("makes-up", " skip ") == 0);
    assert_eq!(count("pauses", " start "), 3);
}

/// With the feature `other-rule`, no slot is inside its catch-up window: that is seen in what the
/// simulator says, and the test above finds the worker of the same mind.
#[test]
fn a_rule_that_is_changed_in_the_policy_changes_what_is_simulated() {
    let said = simulated(&everything());
    let caught_up = said
        .decisions
        .values()
        .flatten()
        .filter(|line| line.ends_with(" catch-up"));
    assert_eq!(caught_up.count() > 0, !cfg!(feature = "other-rule"));
}
