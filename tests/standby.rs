//! Several processes on one database: a hot standby, and a worker that was frozen.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/process.rs"]
mod process;
#[path = "support/world.rs"]
mod world;

use std::{thread, time::Duration};

use process::{Place, TICKING, told, until};
use serde_json::Value;
use world::{TestAgent, TestChannel, World};

const STANDING_BY: &str = "standing by: another chatcron is running";

/// Every slot of the database ran once, and was shown once.
fn nothing_twice_and_no_hole(place: &Place) {
    place.ok(&["audit"]);
    place.ok(&["verify"]);
    let runs = place.json(&["runs", "--limit", "10000"]);
    let slots = runs["runs"].as_array().unwrap().iter();
    let mut slots: Vec<&str> = slots.filter_map(|run| run["slot"].as_str()).collect();
    let all = slots.len();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len(), all, "a slot has two runs");
}

#[test]
fn a_standby_takes_over_at_once_when_the_worker_is_killed() {
    let place = Place::new(TICKING);
    let first = place.start();
    first.until_printed("tock");
    let refused = place.run(&["run"]);
    assert_eq!(refused.status.code(), Some(4), "{}", told(&refused));
    assert!(told(&refused).contains("--standby"), "{}", told(&refused));
    let second = place.start_with(&["run", "--standby"]);
    second.until_logged(STANDING_BY);
    thread::sleep(Duration::from_millis(1200));
    assert_eq!(second.out(), "", "a standby does nothing");
    // Edited meanwhile: what takes over reads the file as it is then.
    place.write("jobs.toml", &TICKING.replace("\"tock\"", "\"taken over\""));
    first.until_printed("taken over");
    first.kill();
    second.until_logged("taking over");
    second.until_printed("taken over");
    let third = place.start_with(&["run", "--standby"]);
    third.until_logged(STANDING_BY);
    // In order, too.
    assert_eq!(second.stop(), Some(0));
    third.until_printed("taken over");
    assert_eq!(third.stop(), Some(0));
    nothing_twice_and_no_hole(&place);
}

#[test]
fn a_standby_ends_when_it_is_asked_to_and_the_worker_goes_on() {
    let place = Place::new(TICKING);
    let first = place.start();
    let second = place.start_with(&["run", "--standby"]);
    second.until_logged(STANDING_BY);
    assert_eq!(second.stop(), Some(0));
    let shown = first.out().len();
    until("the worker goes on", || {
        (first.out().len() > shown)
            .then_some(())
            .ok_or_else(|| first.log())
    });
    assert_eq!(first.stop(), Some(0));
}

#[test]
fn a_frozen_worker_still_holds_the_lock_and_goes_on_when_it_is_thawed() {
    let place = Place::new(TICKING);
    let first = place.start();
    first.until_printed("tock");
    let second = place.start_with(&["run", "--standby"]);
    second.until_logged(STANDING_BY);
    first.signal("STOP");
    thread::sleep(Duration::from_millis(2500));
    assert!(!second.log().contains("taking over"), "{}", second.log());
    first.signal("CONT");
    let shown = first.out().len();
    until("it goes on", || {
        (first.out().len() > shown)
            .then_some(())
            .ok_or_else(|| first.log())
    });
    first.signal("STOP");
    first.kill();
    second.until_printed("tock");
    assert_eq!(second.stop(), Some(0));
    nothing_twice_and_no_hole(&place);
}

/// Eight commands at once, again and again, beside a worker that writes all the time.
#[test]
fn nobody_is_told_that_the_database_is_locked() {
    let many: String = (0..20)
        .map(|n| format!("[jobs.j{n}]\nevery = \"1s\"\nprompt = \"{n}\"\ndeliver = \"ops\"\n"))
        .collect();
    let place = Place::new(&format!("{TICKING}\n{many}"));
    let worker = place.start();
    worker.until_printed("tock");
    let commands: [&[&str]; 8] = [
        &["say", "ops", "hello", "--wait", "30"],
        &["pause", "j1"],
        &["resume", "j1"],
        &["trigger", "j2"],
        &["list"],
        &["runs", "--limit", "100"],
        &["outbox", "--all"],
        &["audit"],
    ];
    let outputs: Vec<_> = thread::scope(|scope| {
        let place = &place;
        let callers = commands.map(|arguments| {
            scope.spawn(move || -> Vec<_> {
                let run = || (arguments, place.run(arguments));
                (0..6).map(|_| run()).collect()
            })
        });
        callers
            .into_iter()
            .flat_map(|caller| caller.join().unwrap())
            .collect()
    });
    for (arguments, output) in &outputs {
        let told = told(output);
        assert!(!told.contains("locked"), "{arguments:?}: {told}");
        // A trigger may meet a run of the job; everything else does what it should.
        let may_be_refused = arguments[0] == "trigger";
        assert!(
            output.status.success() || may_be_refused,
            "{arguments:?}: {told}"
        );
    }
    assert!(!worker.log().contains("locked"), "{}", worker.log());
    assert_eq!(worker.stop(), Some(0));
    place.ok(&["audit"]);
}

#[test]
fn the_slots_that_were_missed_are_listed_by_themselves() {
    let place = Place::new(TICKING);
    let worker = place.start();
    worker.until_printed("tock");
    worker.kill();
    thread::sleep(Duration::from_secs(4));
    let worker = place.start();
    worker.until_logged("skipped");
    assert_eq!(worker.stop(), Some(0));
    let missed = place.json(&["runs", "--missed", "--job", "tick", "--since", "1h"]);
    let count = |list: &Value| list.as_array().unwrap().len();
    assert!(
        count(&missed["runs"]) + count(&missed["skipped"]) > 0,
        "{missed}"
    );
    let runs = missed["runs"].as_array().unwrap();
    assert!(runs.iter().all(|run| run["state"] == "skipped"), "{missed}");
    let done = place.json(&["runs", "--state", "done", "--limit", "1000"]);
    assert!(count(&done["runs"]) > 0 && count(&done["skipped"]) == 0);
    let done = done["runs"].as_array().unwrap();
    assert!(done.iter().all(|run| run["state"] == "done"));
    let none = place.json(&["runs", "--state", "failed", "--state", "cancelled"]);
    assert_eq!(count(&none["runs"]), 0, "{none}");
    let wrong = place.run(&["runs", "--state", "asleep"]);
    assert_eq!(wrong.status.code(), Some(2));
}

/// A stopped process keeps its lock, so the lock is set aside here: two workers over one store, as
/// if the first had been frozen while the second took over.
#[tokio::test]
async fn the_late_outcome_of_a_frozen_worker_is_refused_and_its_late_receipt_counts() {
    const FILE: &str = r#"
timezone = "UTC"
[jobs.report]
daily   = "13:00"
prompt  = "The report."
deliver = "me"
[chats.me]
channel = "phone"
to      = "5550001"
agent   = "main"
[channels.phone]
kind = "console"
[agents.main]
kind = "echo"
"#;
    let (agent, channel) = (TestAgent::echo(), TestChannel::blind());
    let world = World::new(FILE, "2026-12-01T12:00:00Z")
        .await
        .with_agent("main", agent.clone())
        .with_channel("phone", channel.clone());
    let mut frozen = world.start().await;
    agent.close();
    world.clock.set("2026-12-01T13:00:00Z");
    frozen.step().await.unwrap();
    agent.until_asked(1).await;
    // The other takes over, and the run is tried again under its lease.
    let mut other = world.start().await;
    other.step().await.unwrap();
    agent.until_asked(2).await;
    agent.open();
    frozen.until_quiet().await.unwrap();
    let runs = world.runs().await;
    assert_eq!((runs[0].state.as_str(), runs[0].attempts), ("running", 2));
    assert!(world.parts().await.is_empty(), "nothing of it is enqueued");
    // The other marks the part as being sent, and is frozen itself before it can tell the receipt.
    channel.close();
    until_settled(&mut other, &channel).await;
    let mut third = world.start().await;
    third.step().await.unwrap();
    assert_eq!(world.parts().await, ["unknown"]);
    channel.open();
    other.until_quiet().await.unwrap();
    third.until_quiet().await.unwrap();
    assert_eq!(
        world.parts().await,
        ["confirmed"],
        "the receipt is evidence"
    );
    assert_eq!(world.transcript("me").await, ["The report."]);
    assert_eq!(world.runs().await[0].state, "done");
    world.assert_verified(&channel, &["me"]).await;
    assert!(world.store.audit(None).await.unwrap().holds());
}

/// Steps until the channel holds the message and does not answer.
async fn until_settled(worker: &mut chatcron::worker::Worker, channel: &TestChannel) {
    for _ in 0..500 {
        worker.step().await.unwrap();
        if channel.attempts() == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the channel was not asked");
}

/// As after a boot by a clock that is wrong: the last time that anybody worked is days ago.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_by_a_doubtful_clock_waits_until_it_is_confirmed_and_commands_are_refused() {
    use sqlx::Connection;
    let place = Place::new(TICKING);
    let worker = place.start();
    worker.until_printed("tock");
    assert_eq!(worker.stop(), Some(0));
    let url = format!("sqlite:{}", place.path("chatcron.db").display());
    let days_ago = "UPDATE facts SET value = value - 259200000000 WHERE name = 'clock_seen_at'";
    let long_ago = async || {
        let mut conn = sqlx::SqliteConnection::connect(&url).await.unwrap();
        let changed = sqlx::query(days_ago).execute(&mut conn).await.unwrap();
        assert_eq!(changed.rows_affected(), 1);
        conn.close().await.unwrap();
    };
    long_ago().await;
    let paused = place.run(&["pause", "tick"]);
    assert_eq!(paused.status.code(), Some(4), "{}", told(&paused));
    assert!(told(&paused).contains("accept-clock"), "{}", told(&paused));
    let worker = place.start_unready();
    worker.until_logged("nothing is started until the clock is right");
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(worker.out(), "", "nothing starts");
    assert!(place.ok(&["accept-clock"]).contains("is believed"));
    worker.until_printed("tock");
    assert_eq!(worker.stop(), Some(0));
    long_ago().await;
    let worker = place.start_with(&["run", "--accept-clock"]);
    worker.until_printed("tock");
    assert_eq!(worker.stop(), Some(0));
    place.ok(&["audit"]);
}
