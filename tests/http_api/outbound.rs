//! A gateway's own messages, and what happens, over the API.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

use serde_json::{Value, json};

use crate::{
    client::{Answer, JOBS, Served, connect},
    process::Place,
};

fn send(served: &Served, key: &str, message: &Value) -> Answer {
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", key),
    ];
    let body = message.to_string();
    served.ask("POST", "/v1/outbound", &headers, body.as_bytes())
}

#[test]
fn the_same_key_is_the_same_message_and_is_shown_once() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let message = json!({
        "chat": "me",
        "text": "It is on its way.",
        "created_at": "2026-11-30T08:00:00Z",
        "origin": "subagent_announcement",
    });
    let first = send(&served, "order-4711", &message).ok(202);
    assert_eq!(first["was_there"], false);
    served.worker.until_printed("[me] main: It is on its way.");
    let part = format!("/v1/outbox/{}", first["parts"][0]["part_id"]);
    let shown = served.until(&part, |part| part["state"] == "confirmed");
    assert_eq!(shown["origin"], "subagent_announcement");
    let again = send(&served, "order-4711", &message).ok(202);
    assert_eq!(again["was_there"], true);
    assert_eq!(again["message_id"], first["message_id"]);
    assert_eq!(again["parts"][0], shown);
    let history = served.get("/v1/chats/me/transcript").ok(200);
    assert_eq!(history["entries"].as_array().unwrap().len(), 1, "{history}");

    let mut other = message.clone();
    other["text"] = json!("Something else.");
    let refused = send(&served, "order-4711", &other);
    refused.problem(422, "key-reused");
    other["chat"] = json!("nobody");
    send(&served, "k", &other).problem(404, "unknown-chat");
    place.ok(&["verify"]);
    assert_eq!(served.worker.stop(), Some(0));
}

#[test]
fn what_is_no_message_is_refused_with_what_is_accepted() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let message = |change: Value| {
        let mut message = json!({
            "chat": "me", "text": "x", "created_at": "2026-11-30T08:00:00Z",
        });
        for (key, value) in change.as_object().unwrap() {
            message[key] = value.clone();
        }
        message
    };
    let without = served.post("/v1/outbound", &message(json!({})));
    let words = without.problem(422, "unprocessable");
    assert!(words.contains("there is no `Idempotency-Key`"), "{words}");
    for (key, change, says) in [
        ("k", json!({ "text": null }), "expected a string"),
        ("k", json!({ "text": " " }), "nothing to show"),
        ("k", json!({ "created_at": "today" }), "is no instant"),
        ("k", json!({ "created_at": null }), "invalid type"),
        ("k", json!({ "origin": "job_result" }), "unknown variant"),
        ("k", json!({ "agent": "no name" }), "is not a name"),
        ("k", json!({ "colour": 1 }), "unknown field"),
    ] {
        let words = send(&served, key, &message(change)).problem(422, "unprocessable");
        assert!(words.contains(says), "{says}: {words}");
    }
    let long = send(&served, &"k".repeat(513), &message(json!({})));
    let words = long.problem(422, "unprocessable");
    assert!(words.contains("513"), "{words}");
    assert_eq!(
        served.get("/v1/outbox?all=true").ok(200)["parts"],
        json!([])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_older_than_what_is_remembered_is_refused() {
    use sqlx::Connection;
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let url = format!("sqlite:{}", place.path("chatcron.db").display());
    let mut other = sqlx::SqliteConnection::connect(&url).await.unwrap();
    // As pruning leaves it: 2026-11-30T00:00:00Z.
    sqlx::query("INSERT INTO facts (name, value) VALUES ('pruned_before', '1795996800000000')")
        .execute(&mut other)
        .await
        .unwrap();
    let mut message = json!({ "chat": "me", "text": "x", "created_at": "2026-11-29T23:59:59Z" });
    let words = send(&served, "k", &message).problem(422, "too-old");
    assert!(words.contains("2026-11-30T00:00:00Z"), "{words}");
    message["created_at"] = json!("2026-11-30T00:00:00Z");
    send(&served, "k", &message).ok(202);
}

/// The next event of this name, with its JSON.
fn next(lines: &mut impl Iterator<Item = std::io::Result<String>>, name: &str) -> Value {
    loop {
        let line = lines.next().expect("the stream goes on").unwrap();
        if line == format!("event: {name}") {
            let data = lines.next().unwrap().unwrap();
            let data = data.strip_prefix("data: ").unwrap();
            return serde_json::from_str(data).unwrap();
        }
    }
}

fn listen(served: &Served) -> TcpStream {
    let mut stream = connect(served.address);
    let head = format!(
        "GET /v1/events HTTP/1.1\r\nhost: {}\r\n\r\n",
        served.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

#[test]
fn what_happens_to_a_run_is_told_as_it_happens() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let mut lines = BufReader::new(listen(&served)).lines();
    let first = lines.next().unwrap().unwrap();
    assert_eq!(first, "HTTP/1.1 200 OK");
    let head: Vec<_> = lines
        .by_ref()
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .collect();
    assert!(
        head.contains(&"content-type: text/event-stream".to_owned()),
        "{head:?}"
    );

    served.post("/v1/jobs/report/trigger", &json!({})).ok(202);
    let started = next(&mut lines, "run_started");
    assert_eq!(started["job_id"], "report");
    assert_eq!(started["cause"], "manual");
    let finished = next(&mut lines, "run_finished");
    assert_eq!(finished["run_id"], started["run_id"]);
    assert_eq!(finished["state"], "done");
    let delivered = next(&mut lines, "delivered");
    assert_eq!(delivered["state"], "confirmed");
    assert_eq!(delivered["run_id"], started["run_id"]);
    served.post("/v1/jobs/report/pause", &json!({})).ok(200);
    let changed = next(&mut lines, "job_changed");
    assert_eq!(
        (&changed["job_id"], &changed["change"]),
        (&json!("report"), &json!("paused"))
    );
    // It ends with the worker.
    served.worker.signal("TERM");
    for line in lines {
        let _ = line.unwrap();
    }
}
