//! Reported faults of jobs that are edited or run by hand: what was planned stays planned, and what
//! is queued goes where it was going. The list is in `docs/faults.md`.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/world.rs"]
mod world;

use chatcron::{
    clock::Clock, ids::JobId, occurrence::Cause, policy::OwnedEvent, store::OutboxScope,
    worker::Change,
};
use jiff::Timestamp;
use world::{Does, ME, TestAgent, TestChannel, World};

/// A second chat.
const YOU: &str = r#"
[chats.you]
channel = "phone"
to      = "5550002"
agent   = "main"
"#;

fn file(job: &str) -> String {
    format!("timezone = \"UTC\"\n\n[jobs.a]\n{job}\nprompt = \"a\"\n{YOU}{ME}")
}

async fn world(job: &str, now: &str, agent: &TestAgent, channel: &TestChannel) -> World {
    World::new(&file(job), now)
        .await
        .with_agent("main", agent.clone())
        .with_channel("phone", channel.clone())
}

async fn next_wake(world: &World) -> Option<Timestamp> {
    world.store.next_wake().await.unwrap()
}

async fn trigger(world: &World, job: &str) {
    let request = world.store.new_request().await.unwrap();
    let job: JobId = job.parse().unwrap();
    let change = Change::new(job, OwnedEvent::ManualTrigger { request });
    let answers = world.decider().apply(&[change], world.clock.now()).await;
    answers.unwrap().remove(0).unwrap();
}

#[tokio::test]
async fn a_daily_job_that_is_edited_in_the_evening_runs_the_next_morning() {
    let cases = [
        // The slot, the zone, when the job is edited, and when it runs next.
        (
            "06:25",
            "America/New_York",
            "2026-02-07T03:37:00Z",
            "2026-02-07T11:25:00Z",
        ),
        (
            "10:00",
            "Asia/Shanghai",
            "2026-02-05T13:53:45Z",
            "2026-02-06T02:00:00Z",
        ),
    ];
    for (time, zone, edited_at, next) in cases {
        let job = |name: &str| {
            format!(
                "name = \"{name}\"\ndaily = \"{time}\"\ntimezone = \"{zone}\"\ncatch_up = \"none\"\ndeliver = \"me\""
            )
        };
        let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
        let mut world = world(&job("one"), "2026-02-04T00:00:00Z", &agent, &channel).await;
        let mut worker = world.start().await;
        world.run_at(&mut worker, edited_at).await;
        world.edit(&file(&job("two")));
        world.apply().await;
        assert_eq!(
            next_wake(&world).await,
            Some(next.parse().unwrap()),
            "{zone}"
        );
        let before = agent.asked().len();
        world.run_at(&mut worker, next).await;
        assert_eq!(agent.asked().len(), before + 1, "{zone}");
    }
}

#[tokio::test]
async fn a_one_shot_that_is_edited_while_it_runs_keeps_its_new_slot() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let at = |time: &str| format!("at = \"2026-12-01T{time}\"\ndeliver = \"me\"");
    let mut world = world(&at("13:00"), "2026-12-01T12:00:00Z", &agent, &channel).await;
    let mut worker = world.start().await;
    agent.close();
    world.clock.set("2026-12-01T13:00:00Z");
    worker.step().await.unwrap();
    agent.until_asked(1).await;
    world.edit(&file(&at("13:05")));
    world.apply().await;
    agent.open();
    worker.until_quiet().await.unwrap();
    let slot = "2026-12-01T13:05:00Z";
    assert_eq!(next_wake(&world).await, Some(slot.parse().unwrap()));
    drop(worker);
    let mut worker = world.start().await;
    world.run_at(&mut worker, slot).await;
    assert_eq!(agent.asked().len(), 2);
    let runs = world.runs().await;
    assert!(runs.iter().all(|run| run.state == "done"), "{runs:?}");
}

#[tokio::test]
async fn a_run_by_hand_leaves_a_one_shot_its_slot() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let job = "at = \"2026-12-02T09:00\"\ndeliver = \"me\"";
    let world = world(job, "2026-12-01T12:00:00Z", &agent, &channel).await;
    let mut worker = world.start().await;
    trigger(&world, "a").await;
    worker.until_quiet().await.unwrap();
    let slot = "2026-12-02T09:00:00Z";
    assert_eq!(next_wake(&world).await, Some(slot.parse().unwrap()));
    world.run_at(&mut worker, slot).await;
    let causes: Vec<_> = world.runs().await.iter().map(|run| run.cause).collect();
    assert_eq!(causes, [Cause::Manual, Cause::Scheduled]);
    assert_eq!(channel.lines(&world.session("me")).len(), 2);
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn what_is_queued_goes_where_it_was_going_when_its_target_is_edited() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::blind());
    let to = |chat: &str| format!("daily = \"13:00\"\ndeliver = \"{chat}\"");
    let mut world = world(&to("me"), "2026-12-01T12:00:00Z", &agent, &channel).await;
    let mut worker = world.start().await;
    channel.will([Does::Refuse(60)]);
    world.run_at(&mut worker, "2026-12-01T13:00:00Z").await;
    assert_eq!(world.parts().await, ["pending"]);
    world.edit(&file(&to("you")));
    world.apply().await;
    world.run_at(&mut worker, "2026-12-01T13:02:00Z").await;
    assert_eq!(channel.lines(&world.session("me")).len(), 1);
    assert_eq!(world.transcript("me").await, ["a"]);
    assert_eq!(world.transcript("you").await, [""; 0]);
    world.assert_verified(&channel, &["me", "you"]).await;
}

#[tokio::test]
async fn a_result_that_cannot_be_delivered_goes_to_no_other_chat() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::blind());
    let job = "daily = \"13:00\"\ndeliver = \"me\"\nalert = false";
    let world = world(job, "2026-12-01T12:00:00Z", &agent, &channel).await;
    let mut worker = world.start().await;
    world.say("you", "hello").await;
    worker.until_quiet().await.unwrap();
    channel.will([Does::Permanent]);
    world.run_at(&mut worker, "2026-12-01T13:00:00Z").await;
    let sent = world.store.outbox(OutboxScope::All).await.unwrap();
    let last = sent.last().unwrap();
    assert_eq!(
        (last.session_key.clone(), last.state.as_str()),
        (world.session("me"), "failed")
    );
    assert_eq!(
        channel.attempts(),
        2,
        "the person's reply, and one try of the result"
    );
    assert_eq!(channel.lines(&world.session("me")), []);
    assert_eq!(world.transcript("you").await, ["hello", "hello"]);
}
