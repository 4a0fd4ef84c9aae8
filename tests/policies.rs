//! The policies by the real worker: what overlaps, what is made up for, what pauses, and who waits.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/world.rs"]
mod world;

use std::time::Duration;

use chatcron::{
    agent::AgentError,
    clock::Clock,
    ids::JobId,
    policy::OwnedEvent,
    worker::{Change, Worker},
};
use jiff::SignedDuration;
use world::{TestAgent, TestChannel, World, last_words, words};

/// A second chat.
const OPS: &str = r#"
[chats.ops]
channel = "phone"
to      = "5550002"
agent   = "main"
"#;

async fn world(jobs: &str, agent: &TestAgent, channel: &TestChannel) -> World {
    let jobs = format!("timezone = \"UTC\"\n{jobs}{OPS}");
    let before = "2026-12-01T11:59:59Z";
    World::in_my_chat(&jobs, before, agent.clone(), channel.clone()).await
}

/// The states of all runs, with their reasons.
async fn states(world: &World) -> Vec<String> {
    let runs = world.runs().await;
    let words = runs.iter().map(|run| match &run.reason {
        Some(reason) => format!("{}: {reason}", run.state),
        None => run.state.clone(),
    });
    words.collect()
}

/// Begins what is due at an instant, and waits until the agent was asked so often in all.
async fn begin(world: &World, worker: &mut Worker, agent: &TestAgent, at: &str, asked: usize) {
    world.clock.set(at);
    for _ in 0..200 {
        worker.step().await.unwrap();
        if agent.asked().len() >= asked {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the agent was asked {} times", agent.asked().len());
}

#[tokio::test]
async fn a_turn_that_is_called_off_by_the_next_slot_shows_nothing_and_the_next_one_does() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let jobs = r#"
        [jobs.look]
        cron    = "0 * * * *"
        overlap = "cancel-running"
        timeout = "3h"
        chat    = "me"
        prompt  = "Look."
    "#;
    let world = world(jobs, &agent, &channel).await;
    let mut worker = world.start().await;
    agent.close();
    begin(&world, &mut worker, &agent, "2026-12-01T12:00:00Z", 1).await;
    // The agent does not heed that it is called off; its lane is free all the same.
    begin(&world, &mut worker, &agent, "2026-12-01T13:00:00Z", 2).await;
    agent.open();
    worker.until_quiet().await.unwrap();
    assert_eq!(states(&world).await, ["cancelled", "done"]);
    assert_eq!(world.transcript("me").await, ["Look."]);
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn runs_that_may_overlap_go_on_side_by_side_and_each_result_is_shown_once() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let jobs = r#"
        [jobs.look]
        cron    = "0 * * * *"
        overlap = "allow"
        timeout = "3h"
        deliver = "me"
        prompt  = "Look."
    "#;
    let world = world(jobs, &agent, &channel).await;
    let mut worker = world.start().await;
    agent.close();
    begin(&world, &mut worker, &agent, "2026-12-01T12:00:00Z", 1).await;
    begin(&world, &mut worker, &agent, "2026-12-01T13:00:00Z", 2).await;
    assert_eq!(states(&world).await, ["running", "running"]);
    agent.open();
    worker.until_quiet().await.unwrap();
    assert_eq!(states(&world).await, ["done", "done"]);
    assert_eq!(world.transcript("me").await, ["Look.", "Look."]);
    world.assert_verified(&channel, &["me"]).await;
    let sessions: Vec<_> = agent
        .asked()
        .iter()
        .map(|turn| turn.session_key.clone())
        .collect();
    assert_eq!(
        sessions[0], sessions[1],
        "both write into the job's session"
    );
}

#[tokio::test]
async fn buffered_slots_survive_a_restart_and_keep_their_order() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let jobs = r#"
        [jobs.look]
        cron    = "0 * * * *"
        overlap = "buffer-all"
        timeout = "5h"
        deliver = "history"
        prompt  = "Look."
    "#;
    let world = world(jobs, &agent, &channel).await;
    let mut worker = world.start().await;
    agent.close();
    begin(&world, &mut worker, &agent, "2026-12-01T12:00:00Z", 1).await;
    world.clock.set("2026-12-01T13:00:00Z");
    worker.step().await.unwrap();
    world.clock.set("2026-12-01T14:00:00Z");
    worker.step().await.unwrap();
    assert_eq!(states(&world).await, ["running", "waiting", "waiting"]);
    drop(worker);
    agent.open();
    let mut worker = world.start().await;
    world.run_at(&mut worker, "2026-12-01T14:10:00Z").await;
    assert_eq!(states(&world).await, ["done", "done", "done"]);
    let runs = world.runs().await;
    let begun: Vec<_> = runs
        .iter()
        .map(|run| (run.nominal_at, run.run_id))
        .collect();
    assert!(begun.is_sorted(), "{begun:?}");
    assert_eq!(runs[0].attempts, 2, "the restart counts as an attempt");
}

#[tokio::test]
async fn all_missed_slots_are_made_up_for_one_after_another_also_over_a_second_crash() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let jobs = r#"
        [jobs.book]
        cron            = "0 * * * *"
        catch_up        = "all"
        catch_up_spread = "0s"
        late_after      = "12h"
        deliver         = "me"
        prompt          = "Book."
    "#;
    let world = world(jobs, &agent, &channel).await;
    drop(world.start().await);
    agent.close();
    let mut worker = world.start().await;
    begin(&world, &mut worker, &agent, "2026-12-01T15:30:00Z", 1).await;
    let before = states(&world).await;
    assert_eq!(before, ["running", "waiting", "waiting", "waiting"]);
    drop(worker);
    agent.open();
    let mut worker = world.start().await;
    worker.until_quiet().await.unwrap();
    assert_eq!(states(&world).await, ["done"; 4]);
    assert_eq!(world.transcript("me").await, ["Book."; 4]);
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn a_job_that_fails_and_fails_pauses_itself_and_goes_on_when_resumed() {
    let agent = TestAgent::scripted(|_| {
        let why = "no such model".to_owned();
        Err(AgentError::Permanent { why })
    });
    let channel = TestChannel::keyed();
    let jobs = r#"
        [jobs.look]
        cron                 = "0 * * * *"
        pause_after_failures = 2
        deliver              = "me"
        prompt               = "Look."
    "#;
    let world = world(jobs, &agent, &channel).await;
    let mut worker = world.start().await;
    for hour in 12..16 {
        let at = format!("2026-12-01T{hour}:00:00Z");
        world.run_at(&mut worker, &at).await;
    }
    assert_eq!(agent.asked().len(), 2);
    let id: JobId = "look".parse().unwrap();
    let stored = world.store.jobs(std::slice::from_ref(&id)).await.unwrap();
    let pause = stored[0].state.pause.clone().unwrap();
    assert_eq!(pause.reason, "2 failures in a row");
    let resume = Change::new(id, OwnedEvent::Resumed);
    let resumed = world.decider().apply(&[resume], world.clock.now()).await;
    assert!(resumed.unwrap()[0].is_ok());
    world.run_at(&mut worker, "2026-12-01T16:00:00Z").await;
    assert_eq!(agent.asked().len(), 3);
}

#[tokio::test]
async fn two_hundred_jobs_after_a_night_start_spread_and_what_is_due_now_goes_first() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let missed: String = (0..200)
        .map(|n| {
            format!(
                "[jobs.missed-{n}]\ndaily = \"13:00\"\nprompt = \"missed\"\ndeliver = \"history\"\n"
            )
        })
        .collect();
    let current =
        "[jobs.current]\ndaily = \"01:00\"\nprompt = \"current\"\ndeliver = \"history\"\n";
    let jobs = format!("max_concurrent = 4\n{missed}{current}");
    let world = world(&jobs, &agent, &channel).await;
    drop(world.start().await);
    agent.close();
    world.clock.set("2026-12-02T01:00:00Z");
    let mut worker = world.start().await;
    // Some of the spread are due at once, a full house is under way, and the others wait.
    for _ in 0..60 {
        world.clock.advance(SignedDuration::from_secs(1));
        worker.step().await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(agent.asked().len() <= 4, "no more than may run at once");
    }
    agent.until_asked(4).await;
    let first: Vec<_> = agent.asked().iter().map(last_words).collect();
    assert!(first.contains(&"current".to_owned()), "{first:?}");
    agent.open();
    world.clock.advance(SignedDuration::from_secs(60));
    worker.until_quiet().await.unwrap();
    assert_eq!(agent.asked().len(), 201);
    let fire_at: std::collections::BTreeSet<_> = world
        .runs()
        .await
        .iter()
        .map(|run| run.fire_at.as_second())
        .collect();
    assert!(
        fire_at.len() > 40,
        "spread over a minute: {}",
        fire_at.len()
    );
}

#[tokio::test]
async fn one_long_run_delays_nobody_while_there_is_a_slot_and_people_never() {
    let agent = TestAgent::scripted(|turn| Ok(words(&last_words(turn))));
    let slow = TestAgent::echo();
    let channel = TestChannel::keyed();
    let jobs = r#"
        max_concurrent = 2
        [agents.slow]
        kind = "echo"
        [jobs.long]
        daily   = "12:00"
        timeout = "1h"
        agent   = "slow"
        deliver = "history"
        prompt  = "long"
        [jobs.short]
        cron    = "*/5 12 * * *"
        deliver = "me"
        prompt  = "short"
    "#;
    let world = world(jobs, &agent, &channel)
        .await
        .with_agent("slow", slow.clone());
    let mut worker = world.start().await;
    slow.close();
    for minute in (0..30).step_by(5) {
        world.clock.set(&format!("2026-12-01T12:{minute:02}:00Z"));
        world.say("ops", &format!("hello {minute}")).await;
        let due = minute / 5 + 1;
        for _ in 0..200 {
            worker.step().await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
            let shown = world.transcript("me").await.len();
            // Both what a person said and what was answered.
            if shown == due && world.transcript("ops").await.len() == 2 * due {
                break;
            }
        }
        let shown = world.transcript("me").await.len();
        assert_eq!(shown, due, "the short job is on time at {minute}");
        let spoken = world.transcript("ops").await.len();
        assert_eq!(spoken, 2 * due, "a person is answered at once at {minute}");
    }
    slow.open();
    worker.until_quiet().await.unwrap();
    assert_eq!(states(&world).await, ["done"; 7]);
    world.assert_verified(&channel, &["me", "ops"]).await;
}
