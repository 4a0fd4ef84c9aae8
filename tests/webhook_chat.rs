//! Chats over a webhook: a bridge of one's own is the channel, and its log is the truth.
#![cfg(all(feature = "cli", feature = "http-client"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/fakes.rs"]
mod fakes;
#[path = "support/process.rs"]
mod process;

use fakes::Fakes;
use process::{Place, until};
use serde_json::{Value, json};

fn jobs(fakes: &Fakes) -> String {
    format!(
        r#"
timezone = "UTC"

[jobs.report]
at      = "2099-01-01T00:00"
prompt  = "The report."
agent   = "main"
deliver = "room"

[chats.room]
channel = "bridge"
account = "second"
to      = "Room-12"
thread  = "7"
kind    = "group"
agent   = "main"

[channels.bridge]
kind          = "webhook"
url           = "{}/messages"
secret_env    = "BRIDGE_SECRET"
allow_private = true

[agents.main]
kind = "echo"
"#,
        fakes.root("webhook")
    )
}

fn verified(place: &Place, fakes: &Fakes) {
    let log = format!("bridge={}", fakes.shown_log().display());
    let report = place.json(&["verify", "--channel-log", &log]);
    assert_eq!(report["holds"], true, "{report}");
}

#[test]
fn results_and_replies_are_history_under_the_ids_that_the_bridge_gave() {
    let fakes = Fakes::start();
    let place = Place::new(&jobs(&fakes)).with_env("BRIDGE_SECRET", "s3cret");
    let worker = place.start();
    place.ok(&["trigger", "report", "--wait"]);
    assert_eq!(place.ok(&["say", "room", "Thanks."]), "Thanks.\n");
    let entries = place.json(&["transcript", "room"])["entries"].clone();
    let told: Vec<(&Value, &Value)> = entries
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (&entry["text"], &entry["channel_message_id"]))
        .collect();
    let (words, first, second) = (json!("Thanks."), json!("m1"), json!("m2"));
    let expected = [
        (&json!("The report."), &first),
        (&words, &Value::Null),
        (&words, &second),
    ];
    assert_eq!(told, expected);
    let posted = &fakes.requests("webhook")[0]["json"]["data"];
    assert_eq!(
        (&posted["chat"], &posted["address"]),
        (&json!("room"), &json!("Room-12"))
    );
    assert_eq!(
        (&posted["account"], &posted["thread"]),
        (&json!("second"), &json!("7"))
    );
    verified(&place, &fakes);
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn an_answer_without_an_id_leaves_a_message_in_doubt_and_the_same_key_settles_it() {
    let fakes = Fakes::start();
    let place = Place::new(&jobs(&fakes)).with_env("BRIDGE_SECRET", "s3cret");
    fakes.order(
        &json!({"fault": {"service": "webhook", "kind": "status", "status": 200,
        "show": true, "body": {"received": true}}}),
    );
    let worker = place.start();
    place.ok(&["trigger", "report"]);
    until("the part is confirmed", || {
        let part = place.json(&["outbox", "--all"])["parts"][0].clone();
        let is_confirmed = part["state"] == "confirmed" && part["channel_message_id"] == "m1";
        is_confirmed.then_some(()).ok_or(part.to_string())
    });
    let requests = fakes.requests("webhook");
    assert_eq!(requests.len(), 2);
    assert_eq!(
        requests[0]["headers"]["webhook-id"],
        requests[1]["headers"]["webhook-id"]
    );
    assert_eq!(requests[0]["body"], requests[1]["body"]);
    assert_eq!(fakes.shown().len(), 1);
    assert!(
        worker.log().contains("without a `message_id`"),
        "{}",
        worker.log()
    );
    verified(&place, &fakes);
    assert_eq!(worker.stop(), Some(0));
}
