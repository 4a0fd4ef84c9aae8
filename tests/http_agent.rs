//! A server of one's own as an agent: a whole run over real HTTP, and what it says of effects.
#![cfg(all(feature = "sqlite", feature = "http-client"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/fakes.rs"]
mod fakes;
#[path = "support/world.rs"]
mod world;

use chatcron::{agent::http::Http, directory::HttpAgent, worker::Worker};
use fakes::Fakes;
use serde_json::{Value, json};
use world::{TestChannel, World};

const NOON: &str = "2026-12-01T12:00:00Z";
const SLOT: &str = "2026-12-01T13:00:00Z";

const JOBS: &str = r#"
timezone = "UTC"

[jobs.order]
daily   = "13:00"
prompt  = "Order milk."
deliver = "me"
"#;

#[derive(Clone, Copy)]
enum Effects {
    AsTheServerSays,
    Always,
}

async fn world(fakes: &Fakes, effects: Effects) -> (World, TestChannel) {
    let settings = HttpAgent {
        url: format!("{}/reply?for=me", fakes.root("agent")),
        token: None,
        has_effects: matches!(effects, Effects::Always),
    };
    let token = Some("s3cret".to_owned().into());
    let agent = Http::new(&settings, token, Some("Be brief.".to_owned())).unwrap();
    let channel = TestChannel::keyed();
    let world = World::in_my_chat(JOBS, NOON, agent, channel.clone()).await;
    (world, channel)
}

/// Lets everything come due that may, up to half an hour after the slot.
async fn half_an_hour(world: &World, worker: &mut Worker) {
    world.run_at(worker, SLOT).await;
    for minute in 1..30 {
        let at = format!("2026-12-01T13:{minute:02}:30Z");
        world.run_at(worker, &at).await;
    }
}

/// The only run: its state, its reason, and how many attempts it had.
async fn ended(world: &World) -> (String, String, u32) {
    let run = world.runs().await.remove(0);
    (run.state, run.reason.unwrap_or_default(), run.attempts)
}

fn as_ended(state: &str, reason: &str, attempts: u32) -> (String, String, u32) {
    (state.to_owned(), reason.to_owned(), attempts)
}

fn fails(fakes: &Fakes, status: u16, body: Value) {
    fakes.order(&json!({"fault": {"service": "agent", "kind": "status",
        "status": status, "times": 9, "body": body}}));
}

#[tokio::test]
async fn a_server_is_posted_the_turn_and_its_answer_is_shown() {
    let fakes = Fakes::start();
    let (world, channel) = world(&fakes, Effects::AsTheServerSays).await;
    let mut worker = world.start().await;
    fakes.order(&json!({"reply": {"service": "agent", "text": "Milk is ordered."}}));
    world.run_at(&mut worker, SLOT).await;
    world.say("me", "And bread?").await;
    worker.until_quiet().await.unwrap();
    let shown = ["Milk is ordered.", "And bread?", "And bread?"];
    assert_eq!(world.transcript("me").await, shown);
    world.assert_verified(&channel, &["me"]).await;

    let requests = fakes.requests("agent");
    assert_eq!(requests.len(), 2);
    let [of_job, of_person] = [&requests[0], &requests[1]];
    assert_eq!(of_job["headers"]["authorization"], "Bearer s3cret");
    let asked = &of_job["json"];
    assert_eq!(
        (&asked["agent"], &asked["session"]),
        (&json!("main"), &json!("cron:order"))
    );
    assert_eq!(
        (&asked["job"], &asked["trigger"]),
        (&json!("order"), &json!("cron"))
    );
    assert_eq!(
        asked["messages"],
        json!([{"role": "user", "content": "Order milk."}])
    );
    let asked = &of_person["json"];
    assert_eq!(asked["session"], "phone:direct:5550001");
    assert_eq!(
        (&asked["job"], &asked["trigger"]),
        (&Value::Null, &json!("user"))
    );
    let said = asked["messages"].as_array().unwrap();
    let note = said[0]["content"].as_str().unwrap();
    assert!(note.starts_with("<posted-by job=\"order\""), "{note}");
    assert_eq!(said[1]["content"], "Milk is ordered.");
    assert_eq!(said[2]["content"], "And bread?");
    assert_ne!(of_job["json"]["key"], of_person["json"]["key"]);
}

#[tokio::test]
async fn attempts_without_effects_are_repeated_under_one_key() {
    let fakes = Fakes::start();
    let (world, _) = world(&fakes, Effects::AsTheServerSays).await;
    let mut worker = world.start().await;
    fails(&fakes, 503, json!({"error": {"type": "overloaded"}}));
    half_an_hour(&world, &mut worker).await;
    assert_eq!(ended(&world).await, as_ended("failed", "transient", 3));
    let requests = fakes.requests("agent");
    let keys: Vec<_> = requests.iter().map(|asked| &asked["json"]["key"]).collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.windows(2).all(|pair| pair[0] == pair[1]), "{keys:?}");
    let error = world.runs().await[0].error.clone().unwrap();
    assert_eq!(error, "the agent's server answered 503 (overloaded)");
}

#[tokio::test]
async fn a_failure_that_says_it_had_effects_is_not_repeated() {
    let table = [
        (503, json!({"effects": true}), "after-effects", 1),
        // Words are missing, and that will be so again.
        (200, json!({"effects": true}), "permanent", 1),
        (503, json!({"effects": false}), "transient", 3),
        (503, json!({"effects": "true"}), "transient", 3),
    ];
    for (status, body, reason, attempts) in table {
        let fakes = Fakes::start();
        let (world, _) = world(&fakes, Effects::AsTheServerSays).await;
        let mut worker = world.start().await;
        fails(&fakes, status, body.clone());
        half_an_hour(&world, &mut worker).await;
        let expected = as_ended("failed", reason, attempts);
        assert_eq!(ended(&world).await, expected, "{status} {body}");
    }
}

#[tokio::test]
async fn an_agent_that_always_has_effects_is_asked_once_also_where_its_answer_is_lost() {
    let fakes = Fakes::start();
    let (world, _) = world(&fakes, Effects::Always).await;
    let mut worker = world.start().await;
    fakes.order(&json!({"fault": {"service": "agent", "kind": "reset", "times": 9}}));
    half_an_hour(&world, &mut worker).await;
    assert_eq!(ended(&world).await, as_ended("failed", "after-effects", 1));
    assert_eq!(fakes.requests("agent").len(), 1);
    let run_id = world.runs().await[0].run_id.unwrap();
    let attempts = world.store.attempts(run_id).await.unwrap();
    assert_eq!(attempts[0].effects_at, Some(SLOT.parse().unwrap()));
}
