//! A database that a gateway made before the provenance columns: it opens, and nothing is lost.

use std::{path::Path, process::Command, time::Duration};

use chatcron::{
    directory::ReplayMode,
    ids::SessionKey,
    replay::{self, Family},
    store::{
        Store, WindowOf,
        sqlite::{OpenMode, SqliteStore},
    },
    transcript::{Role, Visibility},
};
use sqlx::{AssertSqlSafe, ConnectOptions, Row, SqliteConnection, sqlite::SqliteConnectOptions};

use crate::{Database, SqliteFile, fixture::*};

const OLD: &str = include_str!("../fixtures/databases/before-provenance.sql");
/// Enough rows that bringing it up to date takes a while.
const MANY: &str = "\
INSERT INTO ctx_session_entries (session_id, seq, role, message, created_at)
WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 60099)
SELECT 's-2', i, iif(i % 2, 'user', 'assistant'), 'message ' || i, '2026-01-07 10:00:00' FROM n";

async fn raw(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true);
    options.connect().await.unwrap()
}

async fn execute(path: &Path, sql: impl Into<String>) {
    let mut conn = raw(path).await;
    let sql = AssertSqlSafe(sql.into());
    sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
}

/// Every row, in the columns that an old database has.
async fn old_rows(path: &Path) -> Vec<String> {
    let sql = "SELECT json_array(id, session_id, seq, role, message, entry_type, raw_entry, \
               hex(raw_line), created_at, model) AS row FROM ctx_session_entries ORDER BY id";
    let mut conn = raw(path).await;
    let rows = sqlx::query(sql).fetch_all(&mut conn).await.unwrap();
    rows.iter().map(|row| row.get("row")).collect()
}

async fn old_file() -> SqliteFile {
    let file = SqliteFile::new();
    execute(&file.path(), OLD).await;
    file
}

#[tokio::test]
async fn an_old_database_opens_with_every_row_and_no_row_is_automated() {
    let file = old_file().await;
    let before = old_rows(&file.path()).await;
    for _ in 0..2 {
        file.open().await.close().await;
        assert_eq!(old_rows(&file.path()).await, before);
    }
    let mut conn = raw(&file.path()).await;
    let sql = "SELECT count(*) FROM ctx_session_entries WHERE trigger_source IS NULL \
               AND is_automated IS NULL AND sender_display IS NULL AND sender_id_raw IS NULL";
    let unset: i64 = sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap();
    assert_eq!(usize::try_from(unset).unwrap(), before.len());
    // A gateway's own column and index are still there.
    let label = "SELECT label FROM ctx_sessions WHERE session_id = 's-2'";
    let label: String = sqlx::query_scalar(label)
        .fetch_one(&mut conn)
        .await
        .unwrap();
    assert_eq!(label, "after the reset");
    let theirs = "SELECT count(*) FROM sqlite_schema WHERE name = 'their_own'";
    let theirs: i64 = sqlx::query_scalar(theirs)
        .fetch_one(&mut conn)
        .await
        .unwrap();
    assert_eq!(theirs, 1);
}

#[tokio::test]
async fn a_row_without_provenance_counts_as_a_persons() {
    let file = old_file().await;
    let bench = Bench::on(&file).await;
    let key = session("1");
    let rows = bench.store.recall(&key, 9).await.unwrap();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row.visibility == Visibility::Visible));
    let counts = bench.store.turn_counts().await.unwrap();
    let of_chat = counts.iter().find(|count| count.session_key == key);
    assert_eq!(
        of_chat.map(|count| count.turns),
        Some(2),
        "over its generations"
    );
    // New turns go on counting where the old ones ended.
    let turn = bench
        .begin_turn(&key, inbound("1", "new", None), 1, 2)
        .await;
    let sql = "SELECT turn_idx FROM ctx_turns WHERE turn_id = ?";
    let mut conn = raw(&file.path()).await;
    let index: i64 = sqlx::query_scalar(sql)
        .bind(turn.turn_id.0)
        .fetch_one(&mut conn)
        .await
        .unwrap();
    assert_eq!(index, 2);
    let rows = bench.store.transcript(&key, WindowOf::Shown).await.unwrap();
    assert_eq!(
        rows.last().map(|row| row.seq),
        Some(7),
        "after the last one"
    );
}

#[tokio::test]
async fn framing_in_old_rows_is_replayed_as_it_was_or_as_words() {
    let file = old_file().await;
    let store = file.open().await;
    let key = SessionKey::from_stored("telegram:direct:1");
    let rows = store.recall(&key, 9).await.unwrap();
    for family in Family::ALL {
        let first = |mode| {
            let messages = replay::project(&rows, &[], family, mode);
            assert_eq!(messages[0].role, Role::User);
            replay::to_json(&messages, family)[0].to_string()
        };
        let clean = first(ReplayMode::Clean);
        assert!(clean.contains("Is the rent paid?"), "{clean}");
        assert!(!clean.contains("untrusted"), "{family:?}: {clean}");
        let framed = first(ReplayMode::Framed);
        assert!(framed.contains("Conversation info (untrusted metadata):"));
    }
}

#[tokio::test]
async fn what_a_dead_process_left_of_the_new_columns_is_completed() {
    for added in [
        "ALTER TABLE ctx_session_entries ADD COLUMN trigger_source TEXT;",
        "ALTER TABLE ctx_session_entries ADD COLUMN is_automated INTEGER;
         ALTER TABLE ctx_sessions ADD COLUMN agent_id TEXT;",
        "ALTER TABLE ctx_turns ADD COLUMN turn_id INTEGER;",
    ] {
        let file = old_file().await;
        execute(&file.path(), added).await;
        let before = old_rows(&file.path()).await;
        let store = file.open().await;
        let key = SessionKey::from_stored("telegram:direct:1");
        assert_eq!(store.recall(&key, 9).await.unwrap().len(), 4, "{added}");
        assert_eq!(old_rows(&file.path()).await, before, "{added}");
    }
}

const CHILD: &str = "CHATCRON_TEST_OLD_DATABASE";

/// Not a fact: the process that other tests start, and some of them kill.
#[tokio::test]
#[ignore = "is started by another test"]
async fn child_that_opens_an_old_database() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let mode = OpenMode::MustExist;
    let store = SqliteStore::open(Path::new(&path), mode).await.unwrap();
    store.all_jobs().await.unwrap();
}

fn open_in_another_process(path: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--quiet"])
        .arg("old_database::child_that_opens_an_old_database")
        .env(CHILD, path)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn processes_that_open_an_old_database_at_once_take_turns() {
    let file = old_file().await;
    execute(&file.path(), MANY).await;
    let before = old_rows(&file.path()).await;
    let children: Vec<_> = (0..3)
        .map(|_| open_in_another_process(&file.path()))
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(old_rows(&file.path()).await, before);
}

#[tokio::test]
async fn a_process_that_dies_while_it_brings_a_database_up_to_date_loses_nothing() {
    let original = old_file().await;
    execute(&original.path(), MANY).await;
    let before = old_rows(&original.path()).await;
    let key = SessionKey::from_stored("telegram:direct:1");
    // From before it begins until after it has ended, on slow machines and fast ones.
    for delay_ms in [5, 15, 30, 60, 120, 250] {
        let file = SqliteFile::new();
        std::fs::copy(original.path(), file.path()).unwrap();
        let mut child = open_in_another_process(&file.path());
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        let store = file.open().await;
        let last = store.recall(&key, 1).await.unwrap();
        assert_eq!(texts(&last), ["message 60099"], "after {delay_ms} ms");
        store.close().await;
        assert_eq!(old_rows(&file.path()).await, before, "after {delay_ms} ms");
        let check = "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'";
        let mut conn = raw(&file.path()).await;
        let bad: i64 = sqlx::query_scalar(check)
            .fetch_one(&mut conn)
            .await
            .unwrap();
        assert_eq!(bad, 0);
    }
}
