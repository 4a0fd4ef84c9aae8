//! What the worker does with time, slots, edits and its own helpers.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/world.rs"]
mod world;

use std::{sync::Arc, time::Duration};

use chatcron::{
    clock::{Clock, SystemClock},
    ids::JobId,
    message::PartState,
    policy::OwnedEvent,
    store::{OutboxScope, Store},
    worker::{Change, Scope, Stop, Ticks, Worker, WorkerHandle},
};
use jiff::SignedDuration;
use world::{Does, ME, TestAgent, TestChannel, World, last_words, texts, words};

const NOON: &str = "2026-12-01T12:00:00Z";

fn daily(id: &str, at: &str, more: &str) -> String {
    format!("[jobs.{id}]\ndaily = \"{at}\"\nprompt = \"{id}\"\ndeliver = \"me\"\n{more}\n")
}

fn file(jobs: &[String]) -> String {
    format!(
        "timezone = \"UTC\"\nmax_concurrent = 2\n{}{ME}",
        jobs.concat()
    )
}

async fn world(jobs: &[String], agent: &TestAgent, channel: &TestChannel) -> World {
    World::new(&file(jobs), NOON)
        .await
        .with_agent("main", agent.clone())
        .with_channel("phone", channel.clone())
}

#[tokio::test]
async fn no_more_runs_are_under_way_than_allowed_and_a_full_house_blocks_no_person() {
    let jobs: Vec<_> = ["a", "b", "c", "d"].map(|id| daily(id, "13:00", "")).into();
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let world = world(&jobs, &agent, &channel).await;
    let mut worker = world.start().await;
    agent.close();
    world.clock.set("2026-12-01T13:00:00Z");
    worker.step().await.unwrap();
    agent.until_asked(2).await;
    let states: Vec<_> = world
        .runs()
        .await
        .into_iter()
        .map(|run| run.state)
        .collect();
    assert_eq!(states, ["running", "running", "queued", "queued"]);
    world.say("me", "hello").await;
    worker.step().await.unwrap();
    agent.until_asked(3).await;
    assert_eq!(last_words(&agent.last_asked()), "hello");
    agent.open();
    worker.until_quiet().await.unwrap();
    assert!(world.runs().await.iter().all(|run| run.state == "done"));
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn a_day_of_downtime_is_one_late_start_a_job_spread_over_a_minute() {
    let jobs: Vec<_> = (0..20)
        .map(|n| daily(&format!("j{n}"), "13:00", ""))
        .collect();
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let world = world(&jobs, &agent, &channel).await;
    drop(world.start().await);
    world.clock.set("2026-12-02T12:30:00Z");
    let mut worker = world.start().await;
    worker.until_quiet().await.unwrap();
    let at_once = agent.asked().len();
    assert!(at_once < 10, "{at_once} started at once");
    for _ in 0..60 {
        world.clock.advance(SignedDuration::from_secs(1));
        worker.until_quiet().await.unwrap();
    }
    assert_eq!(agent.asked().len(), 20);
    assert!(
        world
            .runs()
            .await
            .iter()
            .all(|run| run.cause.as_str() == "catch-up")
    );
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn a_removed_job_is_called_off_and_nothing_of_it_is_sent() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let mut world = world(
        &[daily("a", "13:00", ""), daily("b", "13:00", "")],
        &agent,
        &channel,
    )
    .await;
    let mut worker = world.start().await;
    agent.close();
    world.clock.set("2026-12-01T13:00:00Z");
    worker.step().await.unwrap();
    agent.until_asked(2).await;
    world.edit(&file(&[daily("b", "13:00", "")]));
    let change = world.apply().await;
    assert_eq!(change.removed, [JobId::new("a").unwrap()]);
    assert_eq!(change.ended.len(), 1);
    agent.open();
    worker.until_quiet().await.unwrap();
    let outcomes: Vec<_> = world
        .runs()
        .await
        .into_iter()
        .map(|run| (run.job_id, run.state))
        .collect();
    let id = |text: &str| JobId::new(text).unwrap();
    assert_eq!(
        outcomes,
        [
            (id("a"), "cancelled".to_owned()),
            (id("b"), "done".to_owned())
        ]
    );
    assert_eq!(world.transcript("me").await, ["b"]);
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn a_job_that_is_created_again_is_another_one_and_fires_its_slots() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let mut world = world(&[daily("a", "13:00", "")], &agent, &channel).await;
    let mut worker = world.start().await;
    world.run_at(&mut worker, "2026-12-01T13:00:00Z").await;
    drop(worker);
    world.edit(&file(&[]));
    drop(world.start().await);
    world.edit(&file(&[daily("a", "13:00", "")]));
    let mut worker = world.start().await;
    world.run_at(&mut worker, "2026-12-02T13:00:00Z").await;
    assert_eq!(world.transcript("me").await, ["a", "a"]);
}

#[tokio::test]
async fn an_edit_during_a_run_leaves_the_run_its_definition() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let mut world = world(&[daily("a", "13:00", "")], &agent, &channel).await;
    let mut worker = world.start().await;
    agent.close();
    world.clock.set("2026-12-01T13:00:00Z");
    worker.step().await.unwrap();
    agent.until_asked(1).await;
    world.edit(&file(&[
        daily("a", "14:00", "").replace("prompt = \"a\"", "prompt = \"new\"")
    ]));
    world.apply().await;
    agent.open();
    worker.until_quiet().await.unwrap();
    world.run_at(&mut worker, "2026-12-01T14:00:00Z").await;
    assert_eq!(world.transcript("me").await, ["a", "new"]);
}

#[tokio::test]
async fn a_chat_that_moved_is_the_same_chat_at_its_new_address() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::blind());
    let world = world(&[], &agent, &channel).await;
    let mut worker = world.start().await;
    channel.will([Does::Move("-100777")]);
    world.say("me", "hello").await;
    worker.until_quiet().await.unwrap();
    assert_eq!(world.parts().await, ["confirmed"]);
    let moved = chatcron::ids::SessionKey::chat(
        "phone",
        None,
        chatcron::ids::ChatKind::Direct,
        "-100777",
        None,
    );
    assert_eq!(channel.lines(&moved).len(), 1);
    assert_eq!(world.transcript("me").await, ["hello", "hello"]);
}

#[tokio::test]
async fn a_channel_that_asks_everybody_to_wait_is_not_asked_meanwhile() {
    let other = ME
        .replace("[chats.me]", "[chats.you]")
        .replace("5550001", "5550002");
    let jobs = format!("{}{}", file(&[]), other.split("[channels").next().unwrap());
    let (agent, channel) = (TestAgent::echo(), TestChannel::blind());
    let world = World::new(&jobs, NOON)
        .await
        .with_agent("main", agent.clone())
        .with_channel("phone", channel.clone());
    let mut worker = world.start().await;
    channel.will([Does::RefuseEverybody(60)]);
    world.say("me", "one").await;
    worker.until_quiet().await.unwrap();
    world.say("you", "two").await;
    worker.until_quiet().await.unwrap();
    assert_eq!(channel.attempts(), 1);
    world.clock.advance(SignedDuration::from_secs(60));
    worker.until_quiet().await.unwrap();
    assert_eq!(world.parts().await, ["confirmed", "confirmed"]);
    world.assert_verified(&channel, &["me", "you"]).await;
}

#[tokio::test]
async fn a_message_that_is_refused_for_a_day_is_given_up_and_can_be_sent_again_by_hand() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::blind());
    let world = world(&[], &agent, &channel).await;
    let mut worker = world.start().await;
    channel.will(std::iter::repeat_n(Does::Refuse(3600), 25));
    world.say("me", "hello").await;
    for _ in 0..25 {
        worker.until_quiet().await.unwrap();
        world.clock.advance(SignedDuration::from_hours(1));
    }
    let part = world
        .store
        .outbox(OutboxScope::All)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(
        (part.state, part.reason.as_deref()),
        (PartState::Failed, Some("age"))
    );
    assert_eq!(
        world.transcript("me").await,
        ["hello"],
        "the reply was never shown"
    );
    world
        .store
        .retry_part(part.part_id, world.clock.now())
        .await
        .unwrap();
    worker.until_quiet().await.unwrap();
    assert_eq!(world.transcript("me").await, ["hello", "hello"]);
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn an_agent_that_answers_too_late_has_timed_out() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let job = daily("a", "13:00", "timeout = \"5m\"\nretry = { attempts = 1 }");
    let world = world(&[job], &agent, &channel).await;
    let mut worker = world.start().await;
    agent.close();
    world.clock.set("2026-12-01T13:00:00Z");
    worker.step().await.unwrap();
    agent.until_asked(1).await;
    world.clock.set("2026-12-01T13:05:00Z");
    // It is asked to stop, given a moment, and abandoned.
    worker.until_quiet().await.unwrap();
    let run = &world.runs().await[0];
    assert_eq!(
        (run.state.as_str(), run.reason.as_deref()),
        ("failed", Some("timeout"))
    );
    agent.open();
    worker.until_quiet().await.unwrap();
    assert_eq!(channel.attempts(), 0, "its late answer has nowhere to go");
}

#[tokio::test]
async fn a_persons_turn_that_is_not_answered_in_time_has_failed_and_the_next_one_runs() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let world = world(&[], &agent, &channel).await;
    let mut worker = world.start().await;
    agent.close();
    let turn = world.say("me", "hello").await;
    worker.step().await.unwrap();
    agent.until_asked(1).await;
    world.clock.advance(SignedDuration::from_mins(10));
    worker.until_quiet().await.unwrap();
    assert_eq!(
        world.store.turn(turn).await.unwrap().unwrap().state,
        "failed"
    );
    agent.open();
    world.say("me", "again").await;
    worker.until_quiet().await.unwrap();
    assert_eq!(world.transcript("me").await, ["hello", "again", "again"]);
}

#[tokio::test]
async fn an_agent_that_panics_fails_its_run_and_no_other() {
    let agent = TestAgent::scripted(|turn| {
        assert!(last_words(turn) != "a", "as asked");
        Ok(words("fine"))
    });
    let channel = TestChannel::keyed();
    let world = world(
        &[daily("a", "13:00", ""), daily("b", "13:00", "")],
        &agent,
        &channel,
    )
    .await;
    let mut worker = world.start().await;
    world.run_at(&mut worker, "2026-12-01T13:00:00Z").await;
    let runs = world.runs().await;
    assert_eq!(
        (runs[0].state.as_str(), runs[0].reason.as_deref()),
        ("failed", Some("panicked"))
    );
    assert_eq!(runs[1].state, "done");
}

#[tokio::test]
async fn a_job_with_memory_sees_its_earlier_runs_and_what_became_of_its_result() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::blind());
    let world = world(&[daily("a", "13:00", "memory = true")], &agent, &channel).await;
    let mut worker = world.start().await;
    channel.will([Does::Show, Does::Lose]);
    world.run_at(&mut worker, "2026-12-01T13:00:00Z").await;
    assert_eq!(texts(&agent.last_asked().history), [""; 0]);
    world.run_at(&mut worker, "2026-12-02T13:00:00Z").await;
    assert_eq!(texts(&agent.last_asked().history), ["a", "a"]);
    assert_eq!(
        last_words(&agent.last_asked()),
        "Your last result was delivered.\n\na"
    );
    world.run_at(&mut worker, "2026-12-03T13:00:00Z").await;
    assert!(last_words(&agent.last_asked()).starts_with("It is not known whether"));
}

#[tokio::test]
async fn a_context_is_quoted_as_data_once_an_occurrence() {
    let job = daily(
        "a",
        "13:00",
        "context = { chat = \"me\", last = 2 }\nretry = { attempts = 2, backoff = [\"1m\"] }",
    );
    let mut fails = true;
    let agent = TestAgent::scripted(move |turn| {
        if turn.job.is_some() && std::mem::take(&mut fails) {
            return Err(chatcron::agent::AgentError::Transient {
                why: "busy".to_owned(),
            });
        }
        Ok(words("ok"))
    });
    let channel = TestChannel::keyed();
    let world = world(&[job], &agent, &channel).await;
    let mut worker = world.start().await;
    world.say("me", "one\n{\"from\":\"user\"} \"x\"").await;
    worker.until_quiet().await.unwrap();
    world.run_at(&mut worker, "2026-12-01T13:00:00Z").await;
    world.say("me", "later").await;
    worker.until_quiet().await.unwrap();
    world.run_at(&mut worker, "2026-12-01T13:01:00Z").await;
    let asked: Vec<_> = agent
        .asked()
        .into_iter()
        .filter(|turn| turn.job.is_some())
        .collect();
    assert_eq!(asked.len(), 2);
    assert_eq!(
        asked[0].prompt, asked[1].prompt,
        "the snapshot is taken once"
    );
    let quoted = asked[0].prompt[0].content.text();
    let lines: Vec<serde_json::Value> = quoted
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["text"], "one\n{\"from\":\"user\"} \"x\"");
    assert_eq!(
        lines[1],
        serde_json::json!({ "from": "agent", "text": "ok" })
    );
}

#[tokio::test]
async fn max_runs_ends_a_job_and_pause_skips_its_slots() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let jobs = [daily("a", "13:00", "max_runs = 1"), daily("b", "13:00", "")];
    let world = world(&jobs, &agent, &channel).await;
    let mut worker = world.start().await;
    let b = JobId::new("b").unwrap();
    let apply = async |event| {
        let change = [Change::new(b.clone(), event)];
        let answers = world.decider().apply(&change, world.clock.now()).await;
        answers.unwrap().remove(0).unwrap();
    };
    let reason = "holiday".to_owned();
    apply(OwnedEvent::Paused { reason }).await;
    for day in 1..4 {
        world
            .run_at(&mut worker, &format!("2026-12-0{day}T13:00:00Z"))
            .await;
    }
    apply(OwnedEvent::Resumed).await;
    world.run_at(&mut worker, "2026-12-04T13:00:00Z").await;
    assert_eq!(world.transcript("me").await, ["a", "b"]);
    let ranges = world.store.ranges(&Default::default()).await.unwrap();
    assert_eq!((ranges[0].slots, ranges[0].reason.as_str()), (3, "paused"));
}

/// The whole loop on the machine's clock, without the internal ticks: jobs fire all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_housekeeping_jobs_still_fire() {
    for ticks in [Ticks::Off, Ticks::On] {
        let job = "[jobs.tick]\nevery = \"1s\"\nprompt = \"tock\"\ndeliver = \"me\"\n".to_owned();
        let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
        let world = world(&[job], &agent, &channel).await;
        let store: Arc<dyn Store> = world.store.clone();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let worker = Worker::begin(store, clock, world.services(), Scope::All, None)
            .await
            .unwrap();
        worker
            .apply_jobs("jobs.toml", &world.file.jobs, &[])
            .await
            .unwrap();
        let (_handle, requests) = WorkerHandle::new();
        let stop = Stop::default();
        let asked_to_stop = stop.clone();
        let session = world.session("me");
        let watcher = async {
            for _ in 0..400 {
                if channel.lines(&session).len() >= 2 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
            asked_to_stop.drain.cancel();
        };
        let (ended, ()) = tokio::join!(
            worker.run(requests, stop, ticks, Duration::from_secs(5)),
            watcher
        );
        ended.unwrap();
        assert!(channel.lines(&session).len() >= 2, "{ticks:?}");
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_is_shown_and_the_run_says_so() {
    let agent = TestAgent::scripted(|_| {
        let mut reply = words("The first half, and");
        reply.is_cut = true;
        Ok(reply)
    });
    let channel = TestChannel::keyed();
    let world = world(&[daily("a", "13:00", "")], &agent, &channel).await;
    let mut worker = world.start().await;
    world.clock.set("2026-12-01T13:00:00Z");
    worker.until_quiet().await.unwrap();
    let run = world.runs().await.remove(0);
    assert_eq!(run.state, "done");
    let told = world.store.diagnostics(run.run_id.unwrap()).await.unwrap();
    let codes: Vec<_> = told.iter().map(|row| row.code.as_str()).collect();
    assert_eq!(codes, ["cut"]);
    world.assert_verified(&channel, &["me"]).await;
}

/// A result that waits in the lane of a waiting run hides it from nobody, and of two runs due at one
/// instant the job's id decides.
#[tokio::test]
async fn a_run_that_waits_for_a_slot_is_not_overtaken_by_what_is_due() {
    let jobs = r#"
timezone = "UTC"
max_concurrent = 1

[jobs.before]
daily   = "12:58"
prompt  = "before"
deliver = "me"

[jobs.waits]
daily  = "12:59"
prompt = "waits"
chat   = "me"

[jobs.due]
daily   = "13:00"
prompt  = "due"
deliver = "me"

[jobs.z]
daily   = "02:00"
prompt  = "z"
deliver = "history"
"#;
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let world = World::in_my_chat(jobs, "2026-12-01T12:00:00Z", agent.clone(), channel).await;
    let mut worker = world.start().await;
    agent.close();
    world.clock.set("2026-12-01T12:58:00Z");
    worker.step().await.unwrap();
    agent.until_asked(1).await;
    world.clock.set("2026-12-01T12:59:00Z");
    worker.step().await.unwrap();
    world.clock.set("2026-12-01T13:00:00Z");
    let request = world.store.new_request().await.unwrap();
    let trigger = OwnedEvent::ManualTrigger { request };
    let change = Change::new("z".parse().unwrap(), trigger);
    world
        .decider()
        .apply(&[change], world.clock.now())
        .await
        .unwrap();
    agent.open();
    worker.until_quiet().await.unwrap();
    let asked = agent.asked();
    let asked = asked.iter().filter_map(|turn| turn.job.as_ref());
    let asked: Vec<_> = asked.map(JobId::as_str).collect();
    assert_eq!(asked, ["before", "waits", "due", "z"]);
}
