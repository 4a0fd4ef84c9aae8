//! A connector's framing neither reaches a model as words nor a chat as an answer.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/world.rs"]
mod world;

use world::{TestAgent, TestChannel, World, last_words, words};

const JOBS: &str = r#"
timezone = "Europe/Berlin"

[jobs.budget]
daily   = "08:00"
prompt  = "Summarise yesterday's spending."
deliver = "me"
"#;

const MORNING: &str = "2026-12-01T06:59:00Z";
const AT_EIGHT: &str = "2026-12-01T07:00:00Z";
const BLOCK: &str = "Sender (untrusted metadata):\n```json\n{\"name\": \"Ana\"}\n```";

async fn world(agent: &TestAgent, channel: &TestChannel) -> World {
    World::in_my_chat(JOBS, MORNING, agent.clone(), channel.clone()).await
}

fn shown(world: &World, channel: &TestChannel) -> Vec<String> {
    let lines = channel.lines(&world.session("me"));
    lines.into_iter().map(|line| line.text).collect()
}

#[tokio::test]
async fn a_model_is_asked_the_words_alone_and_history_keeps_them() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::blind());
    let world = world(&agent, &channel).await;
    let mut worker = world.start().await;
    world.say("me", &format!("{BLOCK}\n\nHow much?")).await;
    worker.until_quiet().await.unwrap();
    assert_eq!(last_words(&agent.last_asked()), "How much?");
    assert_eq!(world.transcript("me").await, ["How much?", "How much?"]);
    let row = &world.store.recall(&world.session("me"), 9).await.unwrap()[0];
    assert_eq!(row.provenance.sender_display.as_deref(), Some("Ana"));
    assert!(row.framed.is_some());
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn framing_that_a_model_echoes_is_neither_sent_nor_written() {
    let agent = TestAgent::scripted(|_| Ok(words(&format!("{BLOCK}\n\nAll is paid."))));
    let channel = TestChannel::blind();
    let world = world(&agent, &channel).await;
    let mut worker = world.start().await;
    world.say("me", "Is it paid?").await;
    worker.until_quiet().await.unwrap();
    world.run_at(&mut worker, AT_EIGHT).await;
    assert_eq!(shown(&world, &channel), ["All is paid.", "All is paid."]);
    assert_eq!(
        world.transcript("me").await,
        ["Is it paid?", "All is paid.", "All is paid."]
    );
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn an_answer_of_framing_alone_shows_nothing() {
    let agent = TestAgent::scripted(|_| Ok(words(BLOCK)));
    let channel = TestChannel::blind();
    let world = world(&agent, &channel).await;
    let mut worker = world.start().await;
    world.say("me", "Is it paid?").await;
    worker.until_quiet().await.unwrap();
    assert!(shown(&world, &channel).is_empty());
    assert_eq!(world.transcript("me").await, ["Is it paid?"]);
    world.assert_verified(&channel, &["me"]).await;
}
