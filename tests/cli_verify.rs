//! `verify` can fail: every change of the channel's own log and of a row is told by its kind.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/process.rs"]
mod process;

use std::fs;

use process::{Place, lines, told};
use sqlx::Connection;

const JOBS: &str = r#"
timezone = "UTC"

[jobs.report]
at      = "2099-01-01T00:00"
deliver = "me"
prompt  = "The report."

[chats.me]
channel = "terminal"
agent   = "main"

[channels.terminal]
kind = "console"
log  = "terminal.jsonl"

[agents.main]
kind = "echo"
"#;

/// A chat that showed three messages.
fn shown() -> Place {
    let place = Place::new(JOBS);
    for text in ["one", "two", "three"] {
        place.ok(&["say", "me", text]);
    }
    let verified = place.ok(&["verify"]);
    assert!(verified.contains("3 agree, 3 by `say`"), "{verified}");
    assert!(!verified.contains("info"), "{verified}");
    place
}

/// What `verify` finds, which must be something.
fn kinds(place: &Place) -> Vec<String> {
    let output = place.run(&["verify", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["holds"], false);
    let findings = report["chats"][0]["findings"].as_array().unwrap();
    let kinds = findings
        .iter()
        .map(|finding| finding["kind"].as_str().unwrap().to_owned());
    kinds.filter(|kind| kind != "info").collect()
}

#[test]
fn a_line_of_the_log_that_is_altered_dropped_doubled_or_moved_is_told() {
    type Change = fn(&mut Vec<String>);
    let table: [(&str, Change); 4] = [
        ("altered", |lines| {
            lines[1] = lines[1].replace("\"two\"", "\"zwei\"")
        }),
        ("extra", |lines| drop(lines.remove(1))),
        ("duplicated", |lines| lines.push(lines[1].clone())),
        ("reordered", |lines| lines.swap(0, 2)),
    ];
    for (kind, change) in table {
        let place = shown();
        let log = place.path("terminal.jsonl");
        let mut changed = lines(&log);
        change(&mut changed);
        fs::write(&log, changed.join("\n") + "\n").unwrap();
        let found = kinds(&place);
        assert!(found.iter().all(|other| other == kind), "{kind}: {found:?}");
    }
}

#[tokio::test]
async fn a_row_of_the_transcript_that_is_altered_dropped_doubled_or_moved_is_told() {
    const SENT: &str = "role = 'assistant' AND visibility = 'visible'";
    let table = [
        (
            "altered",
            format!(
                "UPDATE ctx_session_entries SET message = 'zwei' WHERE message = 'two' AND {SENT}"
            ),
        ),
        (
            "missing",
            format!("DELETE FROM ctx_session_entries WHERE message = 'two' AND {SENT}"),
        ),
        (
            "extra",
            format!(
                "INSERT INTO ctx_session_entries (session_id, seq, role, message, content_kind, created_at, \
                 visibility, idempotency_key, origin) SELECT session_id, 99, role, message, content_kind, \
                 created_at, visibility, idempotency_key, origin FROM ctx_session_entries WHERE message = 'two' AND {SENT}"
            ),
        ),
        (
            "reordered",
            format!("UPDATE ctx_session_entries SET seq = 99 WHERE message = 'one' AND {SENT}"),
        ),
    ];
    for (kind, change) in table {
        let place = shown();
        let url = format!("sqlite:{}", place.path("chatcron.db").display());
        let mut database = sqlx::SqliteConnection::connect(&url).await.unwrap();
        let changed = sqlx::query(sqlx::AssertSqlSafe(change))
            .execute(&mut database)
            .await
            .unwrap();
        assert_eq!(changed.rows_affected(), 1, "{kind}");
        let found = kinds(&place);
        assert!(
            !found.is_empty() && found.iter().all(|other| other == kind),
            "{kind}: {found:?}"
        );
    }
}

#[test]
fn a_new_database_beside_an_old_log_sends_under_keys_of_its_own() {
    let place = shown();
    for name in ["chatcron.db", "chatcron.db-wal", "chatcron.db-shm"] {
        // Only the database itself is always there.
        let _ = fs::remove_file(place.path(name));
    }
    place.ok(&["say", "me", "again"]);
    let log = lines(&place.path("terminal.jsonl"));
    assert_eq!(log.len(), 4, "{log:#?}");
    assert!(log[3].contains("\"again\""));
}
