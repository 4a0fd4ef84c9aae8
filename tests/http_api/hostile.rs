//! What no well-meaning program does: it is refused or bounded, and the service is unharmed.

use std::{
    io::{Read, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    client::{JOBS, Served, connect, read},
    process::Place,
};

const JSON: (&str, &str) = ("content-type", "application/json");

/// The most memory that the worker has had, in bytes.
fn memory_peak(served: &Served) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.worker.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kib * 1024
}

#[test]
fn a_body_of_a_gigabyte_is_refused_before_it_is_there() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    served.say("me", "warm");
    let before = memory_peak(&served);
    let head = |length: &str| {
        format!(
            "POST /v1/chats/me/messages HTTP/1.1\r\nhost: {}\r\n\
             content-type: application/json\r\n{length}\r\n\r\n",
            served.address
        )
    };
    // One that says how much will come is refused before any of it has come.
    let mut stream = connect(served.address);
    let announced = head("content-length: 1073741824");
    stream.write_all(announced.as_bytes()).unwrap();
    let words = read(&mut stream).problem(413, "too-large");
    assert!(words.contains("at most 1048576 bytes"), "{words}");
    // One that does not is cut off soon after the limit.
    let mut stream = connect(served.address);
    stream
        .write_all(head("transfer-encoding: chunked").as_bytes())
        .unwrap();
    let chunk = [
        format!("{:x}\r\n", 64 * 1024).into_bytes(),
        vec![b'['; 64 * 1024],
        b"\r\n".to_vec(),
    ];
    let chunk = chunk.concat();
    let mut sent: u64 = 0;
    while sent < 1 << 30 && stream.write_all(&chunk).is_ok() {
        sent += 64 * 1024;
    }
    assert!(sent < 64 << 20, "{sent} bytes were taken");
    let grown = memory_peak(&served) - before;
    assert!(grown < 32 << 20, "{grown} bytes more");
    assert_eq!(served.say("me", "still here")["reply"], "still here");
}

#[test]
fn a_thousand_idle_connections_keep_nobody_out_and_are_closed() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let begun = Instant::now();
    let mut idle: Vec<TcpStream> = Vec::new();
    for n in 0..1000 {
        let mut stream = TcpStream::connect(served.address).unwrap();
        // Some say nothing, and some begin and do not go on.
        if n % 2 == 0 {
            let _ = stream.write_all(b"GET /v1/jobs HTTP/1.1\r\nhost: local");
        }
        idle.push(stream);
    }
    for n in 0..20 {
        let asked = Instant::now();
        assert_eq!(served.say("me", &format!("hello {n}"))["state"], "done");
        assert!(
            asked.elapsed() < Duration::from_secs(10),
            "{:?}",
            asked.elapsed()
        );
    }
    // Each is closed within the time that a request may take to begin.
    for stream in &mut idle {
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let mut end = Vec::new();
        let closed = stream.read_to_end(&mut end);
        let is_closed = match &closed {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        };
        assert!(is_closed, "{closed:?}");
    }
    assert!(
        begun.elapsed() < Duration::from_secs(40),
        "{:?}",
        begun.elapsed()
    );
    served.get("/readyz").ok(200);
    assert_eq!(served.worker.stop(), Some(0));
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let mut stream = connect(served.address);
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
         content-length: 100\r\n\r\n{{",
        served.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    let asked = Instant::now();
    read(&mut stream).problem(408, "too-slow");
    assert!(
        asked.elapsed() < Duration::from_secs(20),
        "{:?}",
        asked.elapsed()
    );
}

#[test]
fn an_instant_that_cannot_be_read_is_told_with_one_that_can() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let backfill = json!({ "from": "yesterday", "to": "2026-12-01T07:00:00Z" });
    let own = json!({ "chat": "me", "text": "x", "created_at": "noon" });
    let keyed = ("idempotency-key", "k");
    for answer in [
        served.post("/v1/jobs/report/backfill", &backfill),
        served.get("/v1/runs?since=yesterday"),
        served.ask(
            "POST",
            "/v1/outbound",
            &[JSON, keyed],
            own.to_string().as_bytes(),
        ),
    ] {
        let words = answer.problem(422, "unprocessable");
        assert!(words.contains("such as `2026-12-01T07:00:00Z`"), "{words}");
    }
    for path in ["/healthz", "/readyz"] {
        let wrong = served.post(path, &json!({}));
        wrong.problem(405, "method-not-allowed");
        assert!(wrong.header("allow").unwrap().contains("GET"));
    }
}

#[test]
fn hostile_json_is_refused_and_harms_nothing() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let post = |body: &[u8]| served.ask("POST", "/v1/chats/me/messages", &[JSON], body);
    let deep = format!("{{\"raw_entry\": {}", "[".repeat(200_000));
    let unknown = format!(
        "{{\"texts\": {}1{}}}",
        "[".repeat(200_000),
        "]".repeat(200_000)
    );
    let words = post(unknown.as_bytes()).problem(422, "unprocessable");
    assert!(words.contains("unknown field"), "{words}");
    for (body, says) in [
        (deep.as_bytes(), "EOF"),
        (b"{\"text\": \"\xff\xfe\"}", "not JSON"),
        (b"{\"text\": \"\\ud800\"}", "not JSON"),
        (b"{\"wait_ms\": 1e400}", "out of range"),
        (b"{\"text\": \"a\0b\"}", "control character"),
        (b"{\"text\": \"x\"", "EOF"),
        (b"\0", "not JSON"),
        (b" ", "EOF"),
    ] {
        let words = post(body).problem(400, "bad-request");
        assert!(words.contains(says), "{words}");
    }
    for (body, says) in [
        (json!([]), "not an object"),
        (json!({ "text": 7 }), "expected a string"),
        (json!({ "text": "x", "wait_ms": -1 }), "invalid value"),
        (json!({ "text": "x", "wait_ms": 1e300 }), "invalid type"),
        (
            json!({ "text": "x", "wait_ms": u64::MAX }),
            "`wait_ms` is at most",
        ),
        (
            json!({ "text": "x", "textt": "y" }),
            "unknown field `textt`",
        ),
    ] {
        let words = post(body.to_string().as_bytes()).problem(422, "unprocessable");
        assert!(words.contains(says), "{words}");
    }
    post(b"{\"text\": \"x\", \"text\": \"y\"}").problem(422, "unprocessable");
    assert_eq!(
        served.get("/v1/chats/me/transcript?all=true").ok(200)["entries"],
        json!([])
    );
    // What is JSON is taken as it is, NUL and all.
    let nul =
        json!({ "text": "a\u{0}b", "raw_entry": { "\u{0}": "\u{0}" }, "message_id": "\u{0}" });
    let turn = served.post("/v1/chats/me/messages", &nul).ok(200);
    assert_eq!(turn["state"], "done", "{turn}");
    let huge = json!({ "text": "ü".repeat(200_000), "sender_display": "x".repeat(100_000) });
    let turn = served.post("/v1/chats/me/messages", &huge).ok(200);
    assert_eq!(turn["state"], "done");
    place.ok(&["verify"]);
    assert_eq!(served.worker.stop(), Some(0));
}

#[test]
fn what_is_no_http_ends_its_own_connection_only() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(200_000));
    let many = "GET / HTTP/1.1\r\n".to_owned() + &"a: b\r\n".repeat(20_000);
    for words in [
        "\x16\x03\x01\x02\x00\x01\x00",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "POST /v1/jobs HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        &long,
        &many,
    ] {
        let mut stream = connect(served.address);
        let _ = stream.write_all(words.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let refused = answer.is_empty() || answer.starts_with("HTTP/1.1 4");
        assert!(refused, "{words:.40}: {answer}");
    }
    served.get("/v1/jobs").ok(200);
}

#[test]
fn what_is_refused_before_it_is_a_request_is_told_as_a_problem() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let fields = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(200));
    let path = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(65_535));
    for (words, status, code) in [
        ("\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, "bad-request"),
        (&fields, 431, "head-too-large"),
        (&path, 414, "path-too-long"),
    ] {
        let mut stream = connect(served.address);
        let _ = stream.write_all(words.as_bytes());
        let answer = read(&mut stream);
        answer.problem(status, code);
        assert_eq!(answer.header("connection").as_deref(), Some("close"));
    }
    served.get("/v1/jobs").ok(200);
}

#[test]
fn more_than_is_worked_on_at_once_is_answered_all_the_same() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let address = served.address;
    let asking: Vec<_> = (0..150)
        .map(|n| {
            thread::spawn(move || {
                let body = json!({ "text": format!("hello {n}"), "wait_ms": 30_000 }).to_string();
                let path = "/v1/chats/me/messages";
                crate::client::ask(address, "POST", path, &[JSON], body.as_bytes())
            })
        })
        .collect();
    let mut busy = 0;
    for asked in asking {
        let answer = asked.join().unwrap();
        match answer.status {
            200 | 202 => {}
            _ => {
                answer.problem(503, "busy");
                assert_eq!(answer.header("retry-after").as_deref(), Some("1"));
                busy += 1;
            }
        }
    }
    assert!(busy < 150, "some are answered");
    served.get("/v1/jobs").ok(200);
    assert_eq!(served.worker.stop(), Some(0));
}
