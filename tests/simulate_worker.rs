//! The worker, with a real store and a clock that is moved, does what the simulator says: the same
//! rows of the ledger with the same reasons, attempts and instants, and the same skipped stretches.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/world.rs"]
mod world;

use std::{collections::BTreeMap, path::Path};

use chatcron::{
    agent::AgentError,
    clock::Clock,
    config,
    policy::{JobPlan, JobState},
    simulate::{Event, Failing, Happening, Outage, RunTime, Scenario, Simulation, Sink},
    store::{RunFilter, RunRow},
    worker::Worker,
};
use jiff::{SignedDuration, Timestamp};
use world::{TestAgent, TestChannel, World, last_words, words};

const JOBS: &str = r#"
timezone = "Europe/Berlin"
[jobs.budget]
daily   = ["02:30", "08:00"]
prompt  = "Summarise."
deliver = "me"
jitter = "90s"
[jobs.watch]
every   = "30m"
catch_up_window = "1d"
prompt  = "Look."
deliver = "me"
[jobs.frequent]
cron = "*/20 * * * *"
prompt  = "Look."
deliver = "history"
catch_up = "none"
[jobs.check-in]
cron  = "15 */4 * * *"
chat   = "me"
prompt = "Ask."
exclude = ["2027-03-29"]
retry = { attempts = 2, backoff = "10m" }
[chats.me]
channel = "phone"
to      = "5550001"
agent   = "main"

[channels.phone]
kind = "console"

[agents.main]
kind = "echo"
"#;

/// Three days in which clocks go forward, the process is down for a morning, and the agent fails for
/// an afternoon.
const FROM: &str = "2027-03-27T10:00:00Z";
const DOWN: [&str; 2] = ["2027-03-28T05:10:00Z", "2027-03-28T09:41:00Z"];
const FAILS: [&str; 2] = ["2027-03-28T12:00:00Z", "2027-03-28T16:10:00Z"];
const TO: &str = "2027-03-30T10:00:00Z";

/// A row of the ledger, by job and slot.
#[derive(Debug, Default, Clone, PartialEq)]
struct Row {
    state: String,
    reason: Option<String>,
    attempts: u32,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
}

/// A skipped stretch: job, first and last slot, how many, and why.
type Stretch = (String, String, String, u64, &'static str);

/// What the ledger would have.
#[derive(Default)]
struct Ledger {
    rows: BTreeMap<(String, String), Row>,
    stretches: Vec<Stretch>,
}

impl Sink for Ledger {
    fn take(&mut self, event: &Event<'_>) {
        let Some((_, id)) = event.job else { return };
        let id = id.to_string();
        match &event.what {
            Happening::Wait { slot, .. } | Happening::Start { slot, .. } => {
                let waits = event.what.word() == "wait";
                let row = self.rows.entry((id, slot.to_string())).or_default();
                row.state = if waits { "waiting" } else { "active" }.to_owned();
            }
            Happening::Attempt { slot, attempt, .. } => {
                let row = self.rows.get_mut(&(id, slot.to_string())).unwrap();
                row.attempts = *attempt;
                row.started_at.get_or_insert(event.at);
            }
            Happening::End { slot, outcome } => {
                let row = self.rows.get_mut(&(id, slot.to_string())).unwrap();
                row.state = outcome.state().to_owned();
                row.reason = outcome.reason().map(str::to_owned);
                row.ended_at = Some(event.at);
            }
            Happening::Skip(range) => self.stretches.push((
                id,
                range.first.to_string(),
                range.last.to_string(),
                range.count,
                range.reason.as_str(),
            )),
            Happening::Down
            | Happening::Up
            | Happening::ClockStep(_)
            | Happening::AttemptEnd { .. }
            | Happening::Backoff { .. }
            | Happening::Requeue { .. }
            | Happening::Send { .. }
            | Happening::Open { .. } => {}
        }
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Moves the clock from one instant at which something is due to the next.
async fn drive(world: &World, worker: &mut Worker, until: &str) {
    loop {
        let next = worker.until_quiet().await.unwrap();
        let Some(next) = next.filter(|next| *next < at(until)) else {
            return;
        };
        world.clock.move_to(next);
    }
}

/// The ledger of a worker that lived through it.
async fn worked() -> Ledger {
    let world = World::new(JOBS, FROM).await;
    let clock = world.clock.clone();
    let agent = TestAgent::scripted(move |turn| {
        if (at(FAILS[0])..=at(FAILS[1])).contains(&clock.now()) {
            let why = "overloaded".to_owned();
            return Err(AgentError::Transient { why });
        }
        Ok(words(&last_words(turn)))
    });
    let world = world
        .with_agent("main", agent)
        .with_channel("phone", TestChannel::blind());
    let mut worker = world.start().await;
    drive(&world, &mut worker, DOWN[0]).await;
    drop(worker);
    world.clock.set(DOWN[1]);
    let mut worker = world.start().await;
    drive(&world, &mut worker, TO).await;

    let mut ledger = Ledger::default();
    for run in world.store.runs(&RunFilter::default()).await.unwrap() {
        let slot = run.slot.clone().unwrap().to_string();
        ledger.rows.insert((run.job_id.to_string(), slot), row(run));
    }
    for range in world.store.ranges(&RunFilter::default()).await.unwrap() {
        ledger.stretches.push((
            range.job_id.to_string(),
            range.first_slot.to_string(),
            range.last_slot.to_string(),
            range.slots,
            range.reason.as_str(),
        ));
    }
    ledger
}

fn row(run: RunRow) -> Row {
    let is_active = ["queued", "running", "backoff"].contains(&&*run.state);
    Row {
        state: if is_active {
            "active".to_owned()
        } else {
            run.state
        },
        reason: run.reason,
        attempts: run.attempts,
        started_at: run.started_at,
        ended_at: run.ended_at,
    }
}

/// What the simulator says of it.
fn simulated() -> Ledger {
    let from = at(FROM);
    let no_files = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let file = config::parse(JOBS, &no_files, from).file.unwrap();
    let failing = vec![Failing::Between(at(FAILS[0]), at(FAILS[1]))];
    let failures = file
        .jobs
        .iter()
        .map(|job| (job.id.clone(), failing.clone()));
    let scenario = Scenario {
        outages: vec![Outage {
            from: at(DOWN[0]),
            to: at(DOWN[1]),
        }],
        // The agent of the test answers at once.
        run_time: RunTime::fixed(SignedDuration::ZERO),
        failures: failures.collect(),
        ..Scenario::default()
    };
    let plans = file.jobs.iter().map(|job| {
        let plan = JobPlan::new(job.clone(), from).unwrap();
        (plan, JobState::activated(from))
    });
    let chats = &file.directory.chats;
    let room = usize::try_from(file.max_concurrent).unwrap();
    let mut simulation = Simulation::resume(plans.collect(), chats, room, &scenario, from);
    let mut ledger = Ledger::default();
    simulation.run_until(at(TO), &mut ledger);
    ledger
}

#[tokio::test]
async fn the_ledger_of_a_worker_is_what_the_simulator_says() {
    let (mut worked, mut simulated) = (worked().await, simulated());
    let has = |reason: &str| {
        let rows = worked.rows.values();
        let of_row = rows.filter_map(|row| row.reason.as_deref());
        let stretches = worked.stretches.iter().map(|stretch| stretch.4);
        of_row.chain(stretches).any(|found| found == reason)
    };
    // The window has what it is there for.
    for reason in ["transient", "missed", "superseded", "excluded"] {
        assert!(has(reason), "{reason}");
    }
    for (key, row) in &simulated.rows {
        assert_eq!(worked.rows.get(key), Some(row), "{key:?}");
    }
    assert_eq!(worked.rows.len(), simulated.rows.len());
    worked.stretches.sort();
    simulated.stretches.sort();
    assert_eq!(worked.stretches, simulated.stretches);
}
