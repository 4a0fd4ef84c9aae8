//! Several workers on one database of a server: two or three in one process, step by step, and real
//! processes that are killed and frozen.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/checker.rs"]
mod checker;
#[path = "support/fakes.rs"]
mod fakes;
#[path = "several_workers/files.rs"]
mod files;
#[path = "support/process.rs"]
mod process;
#[path = "several_workers/processes.rs"]
mod processes;
#[path = "support/world.rs"]
mod world;

use std::time::Duration;

use chatcron::worker::Worker;
use futures_util::future::join_all;
use world::{TestAgent, TestChannel, World, cluster::Cluster};

/// A world on a server; where the machine has none, the test is skipped, and says so.
macro_rules! world_or_skip {
    ($jobs:expr, $agent:expr, $channel:expr) => {{
        if Cluster::shared().is_none() {
            return;
        }
        World::in_my_chat(
            $jobs,
            "2026-12-01T12:00:00Z",
            $agent.clone(),
            $channel.clone(),
        )
        .await
    }};
}
pub(crate) use world_or_skip;

const REPORT: &str = r#"
timezone = "UTC"
[jobs.report]
daily   = ["13:00", "14:00"]
prompt  = "The report."
deliver = "me"
"#;

fn daily(id: &str, more: &str) -> String {
    format!("[jobs.{id}]\ndaily = \"13:00\"\nprompt = \"{id}\"\ndeliver = \"me\"\n{more}\n")
}

/// Steps until something is so.
async fn until(worker: &mut Worker, what: &str, is_so: impl AsyncFn() -> bool) {
    for _ in 0..800 {
        worker.step().await.unwrap();
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("never came: {what}");
}

/// Lets each do what it can, in turns, until none has anything to do.
async fn all_quiet(workers: &mut [Worker]) {
    for _ in 0..20 {
        for worker in &mut *workers {
            worker.until_quiet().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_worker_is_taken_over_from_and_begins_anew_when_it_thaws() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let world = world_or_skip!(REPORT, agent, channel);
    let mut frozen = world.start().await;
    agent.close();
    world.clock.set("2026-12-01T13:00:00Z");
    frozen.step().await.unwrap();
    agent.until_asked(1).await;
    world.end_oldest_lease().await;
    let mut other = world.join().await;
    other.step().await.unwrap();
    agent.until_asked(2).await;
    agent.open();
    // It thaws with an answer, which nobody wants any more.
    until(&mut frozen, "it begins anew", async || {
        world.store.living_workers().await.unwrap().len() == 2
    })
    .await;
    other.until_quiet().await.unwrap();
    frozen.until_quiet().await.unwrap();
    let runs = world.runs().await;
    assert_eq!((runs[0].state.as_str(), runs[0].attempts), ("done", 2));
    assert_eq!(world.transcript("me").await, ["The report."]);
    // And it works as well as any other.
    drop(other);
    world.clock.set("2026-12-01T14:00:00Z");
    until(&mut frozen, "the next slot is shown", async || {
        world.transcript("me").await.len() == 2
    })
    .await;
    world.assert_verified(&channel, &["me"]).await;
    assert!(world.store.audit(None).await.unwrap().holds());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_living_notice_that_one_is_dead_and_do_its_work_turns_included() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::blind());
    let world = world_or_skip!(REPORT, agent, channel);
    let mut dead = world.start().await;
    let mut living = world.join().await;
    agent.close();
    world.clock.set("2026-12-01T13:00:00Z");
    dead.step().await.unwrap();
    world.say("me", "Hello?").await;
    dead.step().await.unwrap();
    agent.until_asked(2).await;
    // While its lease lasts nothing is taken from it.
    living.step().await.unwrap();
    assert_eq!(agent.asked().len(), 2);
    drop(dead);
    until(&mut living, "both are asked for again", async || {
        agent.asked().len() == 4
    })
    .await;
    agent.open();
    living.until_quiet().await.unwrap();
    let runs = world.runs().await;
    assert_eq!((runs[0].state.as_str(), runs[0].attempts), ("done", 2));
    let mut shown = world.transcript("me").await;
    shown.sort();
    assert_eq!(shown, ["Hello?", "Hello?", "The report."]);
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_in_doubt_is_settled_by_another_and_a_late_receipt_counts() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::blind());
    let world = world_or_skip!(REPORT, agent, channel);
    let mut frozen = world.start().await;
    channel.close();
    world.clock.set("2026-12-01T13:00:00Z");
    until(&mut frozen, "the channel has it", async || {
        channel.attempts() == 1
    })
    .await;
    world.end_oldest_lease().await;
    let mut other = world.join().await;
    other.until_quiet().await.unwrap();
    assert_eq!(world.parts().await, ["unknown"]);
    channel.open();
    until(&mut frozen, "its receipt counts", async || {
        world.parts().await == ["confirmed"]
    })
    .await;
    assert_eq!(world.transcript("me").await, ["The report."]);
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_runs_are_under_way_than_may_be_over_all_workers_and_no_chat_is_blocked() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let ids = ["a", "b", "c", "d", "e"];
    let jobs: String = ids.iter().map(|id| daily(id, "")).collect();
    let jobs = format!("timezone = \"UTC\"\nmax_concurrent = 2\n{jobs}");
    let world = world_or_skip!(&jobs, agent, channel);
    let mut workers = [world.start().await, world.join().await, world.join().await];
    agent.close();
    world.clock.set("2026-12-01T13:00:00Z");
    for _ in 0..3 {
        let stepping = workers.iter_mut().map(Worker::step);
        for stepped in join_all(stepping).await {
            stepped.unwrap();
        }
    }
    agent.until_asked(2).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(agent.asked().len(), 2);
    assert_eq!(world.store.running_runs().await.unwrap(), 2);
    // A full house of runs blocks no person.
    world.say("me", "Hello?").await;
    workers[2].step().await.unwrap();
    agent.until_asked(3).await;
    agent.open();
    all_quiet(&mut workers).await;
    assert!(world.runs().await.iter().all(|run| run.state == "done"));
    assert_eq!(world.transcript("me").await.len(), 7);
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_calls_off_what_another_worker_runs_there_and_happens_once() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let jobs =
        "timezone = \"UTC\"\n[jobs.check]\ndaily = \"13:00\"\nprompt = \"Well?\"\nchat = \"me\"\n";
    let world = world_or_skip!(jobs, agent, channel);
    let mut first = world.start().await;
    let mut second = world.join().await;
    agent.close();
    world.clock.set("2026-12-01T13:00:00Z");
    first.step().await.unwrap();
    agent.until_asked(1).await;
    let session = world.session("me");
    let now = "2026-12-01T13:00:00Z".parse().unwrap();
    world.store.request_reset(&session, now).await.unwrap();
    second.step().await.unwrap();
    first.step().await.unwrap();
    assert!(world.store.pending_resets().await.unwrap().is_empty());
    let runs = world.runs().await;
    assert_eq!(runs[0].state, "cancelled");
    agent.open();
    first.until_quiet().await.unwrap();
    second.until_quiet().await.unwrap();
    assert!(world.parts().await.is_empty(), "nothing of it is sent");
    world.say("me", "Hello?").await;
    second.until_quiet().await.unwrap();
    let generations = world
        .entries("me", chatcron::store::WindowOf::Shown)
        .await
        .into_iter()
        .map(|entry| entry.generation);
    let last = generations.max().unwrap();
    assert!(
        last <= 2,
        "one reset raises one generation, and this is {last}"
    );
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_workers_at_once_run_each_slot_once() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let jobs: String = (0..60)
        .map(|n| format!("[jobs.j{n}]\nevery = \"1m\"\nprompt = \"{n}\"\ndeliver = \"me\"\n"))
        .collect();
    let jobs = format!("timezone = \"UTC\"\n{jobs}");
    let world = world_or_skip!(&jobs, agent, channel);
    let mut workers = [world.start().await, world.join().await, world.join().await];
    for minute in 1..=3 {
        world.clock.set(&format!("2026-12-01T12:0{minute}:00Z"));
        let working = workers.iter_mut().map(Worker::until_quiet);
        for worked in join_all(working).await {
            worked.unwrap();
        }
        all_quiet(&mut workers).await;
    }
    let runs = world.runs().await;
    assert_eq!(runs.len(), 180);
    assert!(
        runs.iter()
            .all(|run| run.state == "done" && run.attempts == 1)
    );
    assert_eq!(agent.asked().len(), 180);
    assert_eq!(world.transcript("me").await.len(), 180);
    world.assert_verified(&channel, &["me"]).await;
    assert!(world.store.audit(None).await.unwrap().holds());
}
