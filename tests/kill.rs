//! `kill -9` between a channel's acceptance and its answer, on a real process.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/fakes.rs"]
mod fakes;
#[path = "support/process.rs"]
mod process;

use std::{fs::File, thread, time::Duration};

use fakes::{Fakes, TOKEN};
use process::{Place, lines, until};
use serde_json::{Value, json};

/// One job that never comes due by itself, delivered to `destination`.
fn jobs(destination: &str, fakes: &Fakes) -> String {
    format!(
        r#"
timezone = "UTC"

[jobs.report]
at      = "2099-01-01T00:00"
prompt  = "The report."
agent   = "main"
deliver = {destination}

[chats.me]
channel = "telegram"
to      = "5550001"
agent   = "main"

[chats.here]
channel = "terminal"
agent   = "main"

[channels.telegram]
kind      = "telegram"
token_env = "TOKEN"
api_root  = "{}"

[channels.terminal]
kind = "console"
log  = "terminal.jsonl"

[agents.main]
kind = "echo"
"#,
        fakes.root("telegram")
    )
}

/// The only part there is.
fn part(place: &Place) -> Value {
    place.json(&["outbox", "--all"])["parts"][0].clone()
}

fn until_state(place: &Place, state: &str) {
    until(&format!("the part is {state}"), || {
        let found = part(place);
        if found["state"] == state {
            Ok(())
        } else {
            Err(found.to_string())
        }
    });
}

#[test]
fn on_telegram_one_copy_is_shown_the_part_is_unknown_and_nothing_is_sent_again() {
    let fakes = Fakes::start();
    let place = Place::new(&jobs("\"me\"", &fakes)).with_env("TOKEN", TOKEN);
    fakes.order(&json!({"fault": {"service": "telegram", "kind": "hang", "show": true}}));
    let worker = place.start();
    place.ok(&["trigger", "report"]);
    until("the chat shows it", || match fakes.shown().len() {
        1 => Ok(()),
        _ => Err(worker.log()),
    });
    worker.kill();

    let worker = place.start();
    until_state(&place, "unknown");
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(fakes.requests("telegram").len(), 1, "nothing is sent again");
    assert_eq!(fakes.shown().len(), 1);
    let run = place.json(&["runs", "--run", "1"]);
    let warned = run["diagnostics"].as_array().unwrap();
    assert!(
        warned
            .iter()
            .any(|told| told["level"] == "warn" && told["code"] == "unknown"),
        "{run}"
    );
    let log = format!("telegram={}", fakes.shown_log().display());
    place.ok(&["verify", "--channel-log", &log]);
    assert_eq!(place.json(&["transcript", "me"])["entries"], json!([]));
    place.ok(&["outbox", "resolve", "1", "--shown"]);
    assert_eq!(
        place.json(&["transcript", "me"])["entries"][0]["text"],
        "The report."
    );
    place.ok(&["verify", "--channel-log", &log]);
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn on_a_webhook_one_message_is_confirmed_after_the_restart_under_the_same_key() {
    let fakes = Fakes::start();
    let hook = format!("{}/hook", fakes.root("webhook"));
    let destination = format!(r#"{{ webhook = "{hook}", allow_private = true }}"#);
    let place = Place::new(&jobs(&destination, &fakes)).with_env("TOKEN", TOKEN);
    fakes.order(&json!({"fault": {"service": "webhook", "kind": "hang", "show": true}}));
    let worker = place.start();
    place.ok(&["trigger", "report"]);
    until("the receiver has it", || {
        match fakes.requests("webhook").len() {
            1 => Ok(()),
            _ => Err(worker.log()),
        }
    });
    worker.kill();

    let worker = place.start();
    until_state(&place, "confirmed");
    let requests = fakes.requests("webhook");
    assert_eq!(requests.len(), 2);
    assert_eq!(
        requests[0]["headers"]["webhook-id"],
        requests[1]["headers"]["webhook-id"]
    );
    assert_eq!(requests[0]["body"], requests[1]["body"]);
    assert_eq!(fakes.shown().len(), 1, "the receiver knows the key");
    assert_eq!(worker.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_console_one_line_is_confirmed_after_the_restart_under_the_same_key() {
    use sqlx::Connection;
    let fakes = Fakes::start();
    let place = Place::new(&jobs("\"here\"", &fakes)).with_env("TOKEN", TOKEN);
    let worker = place.start();
    let log = place.path("terminal.jsonl");
    // The line cannot be written yet: the part is marked as being sent, and waits.
    let held = File::create(&log).unwrap();
    held.lock().unwrap();
    place.ok(&["trigger", "report"]);
    until_state(&place, "sending");
    // The confirmation cannot be committed: the database is being written by somebody else.
    let url = format!("sqlite:{}", place.path("chatcron.db").display());
    let mut writing = sqlx::SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut writing)
        .await
        .unwrap();
    held.unlock().unwrap();
    until("the line is in the log", || match lines(&log).len() {
        1 => Ok(()),
        _ => Err(worker.log()),
    });
    worker.kill();
    sqlx::query("ROLLBACK").execute(&mut writing).await.unwrap();
    assert_eq!(part(&place)["state"], "sending");

    let worker = place.start();
    until_state(&place, "confirmed");
    assert_eq!(lines(&log).len(), 1);
    place.ok(&["verify"]);
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn a_run_whose_process_dies_is_tried_again_and_a_job_that_kills_it_is_given_up() {
    let fakes = Fakes::start();
    let killer = jobs("\"here\"", &fakes).replace(
        "kind = \"echo\"",
        // The agent's parent is the worker.
        "kind = \"command\"\nargv = [\"sh\", \"-c\", \"kill -9 $PPID\"]",
    );
    let place = Place::new(&killer).with_env("TOKEN", TOKEN);
    let worker = place.start();
    place.ok(&["trigger", "report"]);
    drop_when_dead(worker);
    for _ in 0..2 {
        drop_when_dead(place.start_unready());
    }
    let worker = place.start();
    worker.until_logged("jobs=\"report\"");
    worker.until_logged("taking over from what did not stop in order workers=\"3\" runs=1");
    let run = until("the run has ended", || {
        let run = place.json(&["runs", "--run", "1"]);
        if run["run"]["state"] == "failed" {
            Ok(run)
        } else {
            Err(run.to_string())
        }
    });
    assert_eq!(
        (&run["run"]["reason"], &run["run"]["attempts"]),
        (&json!("interrupted"), &json!(3))
    );
    assert_eq!(worker.stop(), Some(0));
}

fn drop_when_dead(worker: process::Worker) {
    until("the worker dies", || {
        let alive = worker.is_alive();
        if alive { Err(worker.log()) } else { Ok(()) }
    });
}
