//! The HTTP API as programs use it, and as nobody should: the real binary over loopback.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

#[path = "http_api/access.rs"]
mod access;
#[path = "http_api/chats.rs"]
mod chats;
#[path = "http_api/client.rs"]
mod client;
#[path = "http_api/document.rs"]
mod document;
#[path = "support/fakes.rs"]
mod fakes;
#[path = "http_api/hostile.rs"]
mod hostile;
#[path = "http_api/jobs.rs"]
mod jobs;
#[path = "http_api/outbound.rs"]
mod outbound;
#[path = "http_api/outbox.rs"]
mod outbox;
#[path = "support/process.rs"]
mod process;
#[path = "http_api/runs.rs"]
mod runs;
