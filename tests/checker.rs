//! The checker itself: a sound history passes, and each broken one is rejected by the invariant
//! that it breaks.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/checker.rs"]
mod checker;

use std::{collections::BTreeMap, path::PathBuf};

use checker::{Call, JobRule, Line, Rules, Slots, Violation};
use sqlx::{
    ConnectOptions, Connection,
    sqlite::{SqliteConnectOptions, SqliteSynchronous},
};
use tokio::sync::OnceCell;

/// Two jobs that ran once each, one of them after a failed attempt, and a person's turn. The
/// result of the first has two parts; the result of the other is in doubt.
const SOUND: &str = r#"
INSERT INTO definitions VALUES ('d', '{}');
INSERT INTO jobs (job_id, incarnation, revision, version, source, digest, first_seen_at, state, wake_at, removed_at) VALUES
  ('one', 1, 1, 9, 'file:jobs.toml', 'd', 0, '{"cursor":"1970-01-01T00:00:10Z","active":[],"waiting":[],"pause":null}', 20000000, NULL),
  ('two', 1, 1, 9, 'file:jobs.toml', 'd', 0, '{"cursor":"1970-01-01T00:00:10Z","active":[],"waiting":[],"pause":null}', 20000000, NULL);
INSERT INTO occurrences (occurrence_id, job_id, incarnation, kind, slot, nominal_at, fire_at, cause,
  digest, lane, destination, state, reason, accounted_at, ended_at) VALUES
  (1, 'one', 1, 'scheduled', 's10', 10000000, 10000000, 'scheduled', 'd', 'job:one', '{}', 'done', NULL, 10000000, 10000400),
  (2, 'two', 1, 'scheduled', 's10', 10000000, 10000000, 'scheduled', 'd', 'job:two', '{}', 'done', NULL, 10000000, 10000600);
INSERT INTO occurrence_ranges VALUES
  ('one', 1, 1000000, 9000000, 's1', 's9', 9, 'missed', 10000000),
  ('two', 1, 1000000, 9000000, 's1', 's9', 9, 'missed', 10000000);
INSERT INTO runs (run_id, occurrence_id, job_id, lane, cause, state, reason, due_at, attempts, started_at, ended_at) VALUES
  (1, 1, 'one', 'job:one', 'scheduled', 'done', NULL, 10000000, 2, 10000000, 10000400),
  (2, 2, 'two', 'job:two', 'scheduled', 'done', NULL, 10000000, 1, 10000500, 10000600);
INSERT INTO attempts (run_id, attempt, started_at, ended_at, result, error) VALUES
  (1, 1, 10000000, 10000100, 'failed:transient', 'no'),
  (1, 2, 10000200, 10000400, 'done', NULL),
  (2, 1, 10000500, 10000600, 'done', NULL);
INSERT INTO turns (turn_id, session_key, source, text, state, entry_id, requested_at) VALUES
  (1, 'phone:direct:1', 'say', 'hello', 'done', 1, 1);
INSERT INTO lanes VALUES ('phone:direct:1', 5, NULL, NULL, NULL);
INSERT INTO outbox (message_id, producer, origin, ordinal, session_key, destination, agent, speaker,
  run_id, turn_id, on_unknown, parts, enqueued_at) VALUES
  (1, 'p1', 'job_result', 0, 'phone:direct:1', '{}', 'main', 'one', 1, NULL, 'hold', 2, 1),
  (2, 'p2', 'job_result', 0, 'phone:direct:1', '{}', 'main', 'two', 2, NULL, 'hold', 1, 2),
  (3, 'p3', 'turn_reply', 0, 'phone:direct:1', '{}', 'main', 'main', NULL, 1, 'hold', 1, 3);
INSERT INTO outbox_parts (part_id, message_id, part, session_key, begun, idempotency_key, text, state,
  next_attempt_at, channel_message_id) VALUES
  (1, 1, 1, 'phone:direct:1', 0, 'k1', 'a', 'confirmed', 0, '1'),
  (2, 1, 2, 'phone:direct:1', 0, 'k2', 'b', 'confirmed', 0, '2'),
  (3, 2, 1, 'phone:direct:1', 0, 'k3', 'c', 'unknown', 0, NULL),
  (4, 3, 1, 'phone:direct:1', 0, 'k4', 'd', 'confirmed', 0, '4');
INSERT INTO diagnostics (part_id, level, code, message, recorded_at) VALUES (3, 'warn', 'unknown', '?', 1);
INSERT INTO ctx_sessions (session_id, session_key, generation, created_at) VALUES ('g', 'phone:direct:1', 0, '');
INSERT INTO ctx_session_entries (id, session_id, seq, role, message, content_kind, created_at, visibility, channel_message_id, idempotency_key) VALUES
  (1, 'g', 1, 'user', 'hello', 'text', '', 'visible', NULL, NULL),
  (2, 'g', 2, 'assistant', 'a', 'text', '', 'visible', '1', 'k1'),
  (3, 'g', 3, 'assistant', 'b', 'text', '', 'visible', '2', 'k2'),
  (4, 'g', 4, 'assistant', 'd', 'text', '', 'visible', '4', 'k4');
"#;

/// The database of the sound history, made once.
static MADE: OnceCell<Vec<u8>> = OnceCell::const_new();

/// A history, to be broken.
struct History {
    folder: tempfile::TempDir,
    rules: Rules,
    lines: Vec<Line>,
    calls: Vec<Call>,
}

fn line(key: &str, message_id: &str, text: &str) -> Line {
    Line {
        chat: "phone:direct:1".to_owned(),
        message_id: message_id.to_owned(),
        key: Some(key.to_owned()),
        text: text.to_owned(),
    }
}

fn call(job: &str, key: &str, at: i64) -> Call {
    Call {
        job: Some(job.to_owned()),
        key: Some(key.to_owned()),
        at: Some(at),
    }
}

impl History {
    async fn sound() -> Self {
        let rule = JobRule {
            slots: Slots::Every(1_000_000),
            attempts: 2,
            window: 1_000_000,
            goes_on: true,
            overlaps: false,
        };
        let history = Self {
            folder: tempfile::tempdir().unwrap(),
            rules: Rules {
                jobs: ["one", "two"]
                    .map(|id| (id.to_owned(), rule.clone()))
                    .into(),
                blind: vec!["phone:".to_owned()],
                max_concurrent: 1,
            },
            lines: vec![
                line("k1", "1", "a"),
                line("k2", "2", "b"),
                line("k3", "3", "c"),
                line("k4", "4", "d"),
            ],
            calls: vec![
                call("one", "o1", 10_000_050),
                call("one", "o1", 10_000_250),
                call("two", "o2", 10_000_550),
            ],
        };
        let made = MADE.get_or_init(|| async {
            for schema in migrations() {
                history.change(&schema).await;
            }
            history.change(SOUND).await;
            std::fs::read(history.database()).unwrap()
        });
        std::fs::write(history.database(), made.await).unwrap();
        history
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("chatcron.db")
    }

    async fn change(&self, sql: &str) {
        let options = SqliteConnectOptions::new()
            .filename(self.database())
            .create_if_missing(true)
            .synchronous(SqliteSynchronous::Off);
        let mut conn = options.connect().await.unwrap();
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
    }

    async fn check(&self) -> Vec<Violation> {
        checker::check(&self.database(), &self.rules, &self.lines, &self.calls).await
    }
}

/// The schema as it is released, in order.
fn migrations() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/sqlite");
    let files: BTreeMap<_, _> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap())
        .map(|file| {
            (
                file.file_name(),
                std::fs::read_to_string(file.path()).unwrap(),
            )
        })
        .collect();
    files.into_values().collect()
}

/// The invariants that a history breaks when its database is changed so.
async fn broken_by(sql: &str) -> Vec<&'static str> {
    let history = History::sound().await;
    history.change(sql).await;
    kinds(&history.check().await)
}

fn kinds(violations: &[Violation]) -> Vec<&'static str> {
    let mut kinds: Vec<_> = violations.iter().map(|found| found.invariant).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Changes of the database, and the invariant that each breaks.
const BREAKS: &[(&str, &str)] = &[
    // A slot without a record, with two, without an end, and without a reason.
    ("DELETE FROM occurrence_ranges WHERE job_id = 'one'", "I1"),
    (
        "UPDATE occurrence_ranges SET slots = 8 WHERE job_id = 'one'",
        "I1",
    ),
    (
        "UPDATE occurrence_ranges SET last_nominal_at = 10000000, slots = 10",
        "I1",
    ),
    (
        "UPDATE occurrences SET nominal_at = 10000001 WHERE occurrence_id = 1",
        "I1",
    ),
    (
        "UPDATE occurrences SET state = 'active' WHERE occurrence_id = 1",
        "I1",
    ),
    (
        "UPDATE occurrences SET state = 'failed' WHERE occurrence_id = 1",
        "I1",
    ),
    ("UPDATE runs SET state = 'cancelled' WHERE run_id = 2", "I1"),
    ("DELETE FROM attempts; DELETE FROM runs", "I1"),
    // More attempts than are allowed, an attempt that never ended, one before its slot, and
    // one after its window.
    (
        "UPDATE runs SET attempts = 3 WHERE run_id = 1; INSERT INTO attempts (run_id, attempt, started_at, ended_at, result, error) VALUES (1, 3, 10000400, 10000400, 'done', NULL)",
        "I2",
    ),
    ("UPDATE runs SET attempts = 1 WHERE run_id = 1", "I2"),
    ("UPDATE attempts SET ended_at = NULL WHERE run_id = 2", "I2"),
    (
        "UPDATE attempts SET started_at = 9999999 WHERE run_id = 1 AND attempt = 1",
        "I2",
    ),
    (
        "UPDATE occurrences SET accounted_at = 11000001 WHERE occurrence_id = 2",
        "I2",
    ),
    // Shown and called off, shown and never sent, confirmed and not shown.
    (
        "UPDATE outbox_parts SET state = 'cancelled' WHERE part_id = 1",
        "I3",
    ),
    (
        "UPDATE outbox_parts SET idempotency_key = 'k9' WHERE part_id = 3",
        "I3",
    ),
    (
        "UPDATE outbox_parts SET session_key = 'phone:direct:2' WHERE part_id = 3",
        "I3",
    ),
    ("DELETE FROM diagnostics", "I3"),
    ("UPDATE outbox SET parts = 3 WHERE message_id = 1", "I3"),
    (
        "DELETE FROM outbox_parts WHERE message_id = 2; DELETE FROM outbox WHERE message_id = 2",
        "I3",
    ),
    // Missing in history, there twice, altered, in another order, or seen before it was shown.
    ("DELETE FROM ctx_session_entries WHERE id = 2", "I4"),
    (
        "INSERT INTO ctx_session_entries (id, session_id, seq, role, message, created_at, visibility, idempotency_key) VALUES (9, 'g', 9, 'assistant', 'a', '', 'visible', 'k1')",
        "I4",
    ),
    (
        "UPDATE ctx_session_entries SET message = 'A' WHERE id = 2",
        "I4",
    ),
    ("UPDATE ctx_session_entries SET seq = 9 WHERE id = 2", "I4"),
    (
        "UPDATE ctx_session_entries SET visibility = 'pending' WHERE id = 2",
        "I4",
    ),
    (
        "INSERT INTO ctx_session_entries (id, session_id, seq, role, message, created_at, visibility, idempotency_key) VALUES (9, 'g', 9, 'assistant', 'c', '', 'visible', 'k3')",
        "I4",
    ),
    // Two runs of one job at once, and two runs where one is allowed.
    (
        "UPDATE runs SET job_id = 'one', started_at = 10000300 WHERE run_id = 2",
        "I6",
    ),
    (
        "UPDATE attempts SET started_at = 10000300 WHERE run_id = 2",
        "I6",
    ),
    // Something is left to do.
    ("UPDATE runs SET state = 'backoff' WHERE run_id = 2", "I7"),
    (
        "UPDATE outbox_parts SET state = 'sending' WHERE part_id = 3",
        "I7",
    ),
    ("UPDATE turns SET state = 'waiting'", "I7"),
    ("UPDATE lanes SET holder = 'part:1'", "I7"),
    ("UPDATE jobs SET wake_at = NULL WHERE job_id = 'two'", "I7"),
    (
        "UPDATE jobs SET state = json_set(state, '$.waiting', json('[1]')) WHERE job_id = 'two'",
        "I7",
    ),
];

#[tokio::test]
async fn a_sound_history_passes() {
    let found = History::sound().await.check().await;
    assert!(found.is_empty(), "{found:#?}");
}

#[tokio::test]
async fn a_history_whose_database_was_changed_is_rejected() {
    for (sql, invariant) in BREAKS {
        let found = broken_by(sql).await;
        assert!(found.contains(invariant), "{sql}: {found:?}");
    }
}

#[tokio::test]
async fn a_history_whose_chat_showed_something_else_is_rejected() {
    type Break = fn(&mut Vec<Line>);
    let cases: [(Break, &str); 6] = [
        (|lines| drop(lines.remove(0)), "I3"),
        (|lines| lines.push(line("k1", "5", "a")), "I3"),
        (|lines| lines.push(line("k3", "5", "c")), "I3"),
        (|lines| lines.push(line("nobody", "5", "e")), "I3"),
        (|lines| lines[0].text = "A".to_owned(), "I4"),
        (|lines| lines[3].message_id = "44".to_owned(), "I4"),
    ];
    for (break_it, invariant) in cases {
        let mut history = History::sound().await;
        break_it(&mut history.lines);
        let found = kinds(&history.check().await);
        assert!(found.contains(&invariant), "{:?}: {found:?}", history.lines);
    }
}

#[tokio::test]
async fn a_message_that_was_torn_apart_or_shown_backwards_is_rejected() {
    for order in [[0, 2, 1, 3], [1, 0, 2, 3]] {
        let mut history = History::sound().await;
        history.lines = order.map(|index| history.lines[index].clone()).to_vec();
        assert!(kinds(&history.check().await).contains(&"I5"));
    }
}

#[tokio::test]
async fn an_agent_that_was_asked_too_often_or_outside_of_an_attempt_is_noticed() {
    let calls = [
        call("one", "o1", 10_000_300),
        call("two", "o2", 10_000_050),
        call("two", "o3", 10_000_550),
        call("three", "o9", 10_000_550),
    ];
    for call in calls {
        let mut history = History::sound().await;
        history.calls.push(call.clone());
        assert_eq!(kinds(&history.check().await), ["I2"], "{call:?}");
    }
}

#[tokio::test]
async fn a_dump_tells_of_every_change_but_of_who_works() {
    let history = History::sound().await;
    let before = checker::dump(&history.database()).await;
    history
        .change("INSERT INTO workers (worker_id, started_at, stopped_at, version, zone_data) VALUES (1, 1, NULL, '', '')")
        .await;
    assert_eq!(checker::dump(&history.database()).await, before, "I9");
    history
        .change("UPDATE jobs SET version = 10 WHERE job_id = 'one'")
        .await;
    assert_ne!(checker::dump(&history.database()).await, before, "I9");
}
