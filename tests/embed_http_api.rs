//! A program that embeds the library and serves its HTTP API in one line.

#![cfg(feature = "http-api")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use chatcron::{AccessError, Listen, ServeError};
use tokio::net::TcpListener;

#[path = "embed/place.rs"]
mod place;

use place::Place;

const TOKEN: &str = "a-token-that-nobody-guesses";
const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);
const JOB: &str = r#"{"id":"budget","creator":"ada","definition":
    {"daily":"08:00","deliver":"me","agent":"main","prompt":"How much is left?"}}"#;

/// The status and the rest of an answer.
fn ask(address: SocketAddr, request: &str, token: Option<&str>, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let limit = Some(Duration::from_secs(20));
    stream.set_read_timeout(limit).unwrap();
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
    let head = format!(
        "{request} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{}content-type: \
         application/json\r\ncontent-length: {}\r\n\r\n{body}",
        token.unwrap_or_default(),
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

/// Whether the address can be taken again, soon.
async fn is_freed(address: SocketAddr) -> bool {
    for _ in 0..400 {
        if TcpListener::bind(address).await.is_ok() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_created_over_http_runs_and_nobody_asks_without_the_token() {
    let place = Place::new().await;
    let chatcron = place.build().await;
    let mut worker = chatcron.start().await.unwrap();
    let listen = Listen::on(LOOPBACK).with_token(TOKEN);
    let address = worker.serve(listen).await.unwrap();
    for wrong in [None, Some("another-token-than-that")] {
        let (status, answer) = ask(address, "GET /v1/jobs", wrong, "");
        assert_eq!(status, 401, "{answer}");
    }
    let (status, answer) = ask(address, "POST /v1/jobs", Some(TOKEN), JOB);
    assert_eq!(status, 201, "{answer}");
    let trigger = "POST /v1/jobs/budget/trigger";
    let (status, answer) = ask(address, trigger, Some(TOKEN), "{}");
    assert!((200..300).contains(&status), "{answer}");
    place.until_shown("me", &["How much is left?"]).await;
    assert!(chatcron.jobs().get("budget").await.is_ok());
    let (status, answer) = ask(address, "GET /metrics", Some(TOKEN), "");
    assert_eq!(status, 200, "{answer}");
    worker.shutdown().await;
    assert!(is_freed(address).await, "shutdown frees the address");
    place.assert_verified(&chatcron).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_of_one_process_serve_beside_each_other_and_dropping_one_frees_its_address() {
    let (one, two) = (Place::new().await, Place::new().await);
    let (first, second) = (one.build().await, two.build().await);
    let mut worker = first.start().await.unwrap();
    let mut other = second.start().await.unwrap();
    let own = TcpListener::bind(SocketAddr::from(LOOPBACK)).await.unwrap();
    let address = worker.serve(Listen::from_listener(own)).await.unwrap();
    let others = other.serve(Listen::on(LOOPBACK)).await.unwrap();
    for address in [address, others] {
        for path in ["GET /readyz", "GET /metrics"] {
            let (status, answer) = ask(address, path, None, "");
            assert_eq!(status, 200, "{answer}");
        }
    }
    drop(worker);
    assert!(is_freed(address).await, "dropping frees the address");
    let (status, answer) = ask(others, "GET /readyz", None, "");
    assert_eq!(status, 200, "{answer}");
    // The same program serves again.
    let mut again = first.start().await.unwrap();
    let address = again.serve(Listen::on(address)).await.unwrap();
    assert_eq!(ask(address, "GET /readyz", None, "").0, 200);
    again.shutdown().await;
    other.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_other_machines_reach_needs_a_token() {
    let place = Place::new().await;
    let chatcron = place.build().await;
    let mut worker = chatcron.start().await.unwrap();
    let everywhere = ([0, 0, 0, 0], 0);
    let open = worker.serve(Listen::on(everywhere)).await.unwrap_err();
    assert!(
        matches!(open, ServeError::Access(AccessError::NoToken { .. })),
        "{open}"
    );
    let short = Listen::on(everywhere).with_token("short");
    let short = worker.serve(short).await.unwrap_err();
    assert!(
        matches!(
            short,
            ServeError::Access(AccessError::ShortToken { found: 5, .. })
        ),
        "{short}"
    );
    let unsendable = Listen::on(LOOPBACK).with_token("m\u{fc}sli-m\u{fc}sli-m\u{fc}sli");
    let unsendable = worker.serve(unsendable).await.unwrap_err();
    assert!(
        matches!(
            unsendable,
            ServeError::Access(AccessError::UnsendableToken { found: 'ü' })
        ),
        "{unsendable}"
    );
    let taken = TcpListener::bind(SocketAddr::from(LOOPBACK)).await.unwrap();
    let there = Listen::on(taken.local_addr().unwrap());
    let refused = worker.serve(there).await.unwrap_err();
    assert!(matches!(refused, ServeError::Bind { .. }), "{refused}");
    worker.shutdown().await;
}
