//! Telegram and an OpenAI-compatible model, over loopback HTTP, with fakes in another process.
#![cfg(all(feature = "sqlite", feature = "http-client"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/fakes.rs"]
mod fakes;
#[path = "support/world.rs"]
mod world;

use chatcron::{
    agent::openai::OpenAi,
    channel::{log, telegram::Telegram},
    directory::ModelEndpoint,
    outbound::verify::{Evidence, ShownLine, verify},
    store::WindowOf,
};
use fakes::{Fakes, TOKEN};
use serde_json::{Value, json};
use world::World;

const JOBS: &str = r#"
timezone = "Europe/Berlin"

[jobs.budget]
name    = "Budget"
daily   = "08:00"
prompt  = "Summarise yesterday's spending."
deliver = "me"

[jobs.check-in]
daily  = "08:30"
chat   = "me"
prompt = "Ask how the day went."

[chats.me]
channel = "telegram"
to      = "5550001"
agent   = "main"

[channels.telegram]
kind      = "telegram"
token_env = "TOKEN"

[agents.main]
kind  = "openai"
model = "m1"
base_url = "http://127.0.0.1:1/v1"
"#;

async fn world(fakes: &Fakes) -> World {
    let endpoint = ModelEndpoint {
        model: "m1".to_owned(),
        base_url: format!("{}/v1", fakes.root("openai")),
        api_key: None,
        max_tokens: None,
        temperature: None,
    };
    let agent = OpenAi::new(endpoint, None, Some("Be brief.")).unwrap();
    let channel = Telegram::new(TOKEN.to_owned().into(), &fakes.root("telegram")).unwrap();
    World::new(JOBS, "2026-11-30T06:59:00Z")
        .await
        .with_agent("main", agent)
        .with_channel("telegram", channel)
}

fn reply(fakes: &Fakes, text: &str) {
    fakes.order(&json!({"reply": {"service": "openai", "text": text}}));
}

/// The messages of the last request to the model.
fn last_request(fakes: &Fakes) -> Vec<Value> {
    let request = fakes.requests("openai").pop().unwrap();
    request["json"]["messages"].as_array().unwrap().clone()
}

/// Compares the transcript with the fake's own log.
async fn assert_verified(world: &World, fakes: &Fakes) {
    let session_key = world.session("me");
    let lines = log::read(&fakes.shown_log()).unwrap();
    let shown = lines.into_iter().map(|line| ShownLine {
        message_id: line.message_id,
        key: line.key.map(|key| key.as_str().to_owned()),
        text: line.text,
    });
    let report = verify(&[Evidence {
        rows: world
            .store
            .transcript(&session_key, WindowOf::Shown)
            .await
            .unwrap(),
        parts: world.store.shown_parts(&session_key).await.unwrap(),
        log: Some(shown.collect()),
        session_key,
    }]);
    assert!(report.holds(), "{:#?}", report.findings);
}

#[tokio::test]
async fn a_person_who_answers_a_delivered_message_is_understood() {
    let fakes = Fakes::start();
    let world = world(&fakes).await;
    let mut worker = world.start().await;
    reply(&fakes, "Yesterday: 41.20 EUR on groceries.");
    world.run_at(&mut worker, "2026-11-30T07:00:00Z").await;
    reply(&fakes, "How was your day?");
    world.run_at(&mut worker, "2026-11-30T07:30:00Z").await;
    reply(&fakes, "Done: it runs on weekdays only.");
    world.say("me", "stop the first one on weekends").await;
    worker.until_quiet().await.unwrap();

    let messages = last_request(&fakes);
    let with = |words: &str| {
        let holds = |message: &&Value| message["content"].as_str().unwrap_or("").contains(words);
        messages.iter().filter(holds).collect::<Vec<_>>()
    };
    let delivered = with("41.20 EUR");
    assert_eq!(delivered.len(), 1, "{messages:#?}");
    assert_eq!(delivered[0]["role"], "assistant");
    let note = with(r#"<posted-by job="budget" name="Budget" at="#);
    assert_eq!((note.len(), &note[0]["role"]), (1, &json!("user")));
    assert_eq!(with("How was your day?").len(), 1);
    assert_eq!(
        with("Ask how the day went").len(),
        0,
        "nobody saw the prompt"
    );
    assert_eq!(
        messages.last().unwrap()["content"],
        "stop the first one on weekends"
    );
    assert_eq!(
        world.transcript("me").await,
        [
            "Yesterday: 41.20 EUR on groceries.",
            "How was your day?",
            "stop the first one on weekends",
            "Done: it runs on weekdays only.",
        ]
    );
    assert_verified(&world, &fakes).await;
}

#[tokio::test]
async fn a_rate_limit_is_obeyed_and_no_failure() {
    let fakes = Fakes::start();
    let world = world(&fakes).await;
    let mut worker = world.start().await;
    fakes.order(&json!({"fault": {"service": "telegram", "kind": "status", "status": 429, "retry_after": 7}}));
    reply(&fakes, "The budget.");
    world.run_at(&mut worker, "2026-11-30T07:00:00Z").await;
    assert_eq!(world.parts().await, ["pending"]);
    world.run_at(&mut worker, "2026-11-30T07:00:06Z").await;
    assert_eq!(fakes.shown().len(), 0);
    world.run_at(&mut worker, "2026-11-30T07:00:07Z").await;
    assert_eq!(world.parts().await, ["confirmed"]);
    assert_verified(&world, &fakes).await;
}

#[tokio::test]
async fn an_overloaded_model_is_tried_again_and_a_wrong_request_is_not() {
    let fakes = Fakes::start();
    let world = world(&fakes).await;
    let mut worker = world.start().await;
    fakes.order(&json!({"fault": {"service": "openai", "kind": "status", "status": 503}}));
    reply(&fakes, "The budget.");
    world.run_at(&mut worker, "2026-11-30T07:00:00Z").await;
    assert_eq!(world.runs().await[0].state, "backoff");
    world.run_at(&mut worker, "2026-11-30T07:00:30Z").await;
    assert_eq!(world.runs().await[0].state, "done");
    fakes.order(&json!({"fault": {"service": "openai", "kind": "status", "status": 400}}));
    world.run_at(&mut worker, "2026-11-30T07:30:00Z").await;
    let run = world.runs().await[1].clone();
    assert_eq!(
        (run.state.as_str(), run.reason.as_deref()),
        ("failed", Some("permanent"))
    );
    assert!(
        !run.error.unwrap().contains("Ask how the day went"),
        "no prompt in an error"
    );
}
