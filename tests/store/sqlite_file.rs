//! What only a database file can do: be missing, broken, newer, in use, or older than a column.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use chatcron::{
    ids::SessionKey,
    store::{
        RunFilter, Store, StoreError, WindowOf,
        sqlite::{Holder, OpenMode, SqliteStore, WorkerLock},
    },
    transcript::{Content, Visibility},
};
use sqlx::{ConnectOptions, Row, SqliteConnection, sqlite::SqliteConnectOptions};

use crate::{Database, SqliteFile, bench::begin, fixture::*};

async fn raw(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true);
    options.connect().await.unwrap()
}

async fn execute(path: &Path, sql: &'static str) {
    let mut conn = raw(path).await;
    sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
}

async fn number(path: &Path, sql: &'static str) -> i64 {
    let mut conn = raw(path).await;
    sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap()
}

fn names(error: &StoreError, path: &Path) -> bool {
    error.to_string().contains(&path.display().to_string())
}

async fn refused(path: &Path, mode: OpenMode) -> StoreError {
    SqliteStore::open(path, mode).await.unwrap_err()
}

#[tokio::test]
async fn a_missing_database_is_named_and_not_made() {
    let file = SqliteFile::new();
    for mode in [OpenMode::MustExist, OpenMode::ReadOnly] {
        let error = refused(&file.path(), mode).await;
        assert!(matches!(error, StoreError::Unavailable { .. }) && names(&error, &file.path()));
    }
    assert!(!file.path().exists());
    let nowhere = file.path().join("nowhere/chatcron.db");
    let error = refused(&nowhere, OpenMode::CreateIfMissing).await;
    assert!(names(&error, &nowhere), "{error}");
}

#[tokio::test]
async fn a_file_that_is_no_database_stays_as_it_was() {
    let file = SqliteFile::new();
    let content = "this is not a database, and it is longer than a header ".repeat(40);
    std::fs::write(file.path(), &content).unwrap();
    let error = refused(&file.path(), OpenMode::CreateIfMissing).await;
    assert!(matches!(error, StoreError::Unavailable { .. }) && names(&error, &file.path()));
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), content);
    let beside = std::fs::read_dir(file.path().parent().unwrap()).unwrap();
    assert_eq!(beside.count(), 1, "nothing was written beside it");
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_stays_as_it_was() {
    let file = SqliteFile::new();
    file.open().await.close().await;
    execute(
        &file.path(),
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'later', true, x'00', 0); PRAGMA wal_checkpoint(TRUNCATE);",
    )
    .await;
    let before = std::fs::read(file.path()).unwrap();
    for mode in [
        OpenMode::CreateIfMissing,
        OpenMode::MustExist,
        OpenMode::ReadOnly,
    ] {
        let error = refused(&file.path(), mode).await;
        assert!(
            matches!(error, StoreError::Newer { found: 9999, .. }),
            "{error}"
        );
        assert!(names(&error, &file.path()));
    }
    assert_eq!(std::fs::read(file.path()).unwrap(), before);
}

#[tokio::test]
async fn a_database_that_another_program_keeps_locked_is_named() {
    let file = SqliteFile::new();
    execute(&file.path(), "CREATE TABLE theirs (x); ").await;
    let mut theirs = raw(&file.path()).await;
    let lock = "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; INSERT INTO theirs VALUES (1);";
    sqlx::raw_sql(lock).execute(&mut theirs).await.unwrap();
    let error = refused(&file.path(), OpenMode::MustExist).await;
    assert!(matches!(error, StoreError::Busy { .. }) && names(&error, &file.path()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_that_create_one_database_at_once_both_get_it() {
    let file = SqliteFile::new();
    let mut opening = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let path = file.path();
        opening.spawn(async move { SqliteStore::open(&path, OpenMode::CreateIfMissing).await });
    }
    for store in opening.join_all().await {
        store.unwrap().new_request().await.unwrap();
    }
    let migrations = "SELECT count(*) FROM _sqlx_migrations";
    assert!(number(&file.path(), migrations).await >= 1);
}

#[tokio::test]
async fn a_store_opened_for_reading_writes_nothing() {
    let file = SqliteFile::new();
    let bench = Bench::with_job(&file).await;
    let store = SqliteStore::open(&file.path(), OpenMode::ReadOnly)
        .await
        .unwrap();
    assert_eq!(store.all_jobs().await.unwrap().len(), 1);
    let error = store.new_request().await.unwrap_err();
    assert!(names(&error, &file.path()), "{error}");
    bench.create("other").await;
    assert_eq!(store.all_jobs().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let file = SqliteFile::new();
    let store = file.open().await;
    store.new_request().await.unwrap();
    store.close().await;
    store.close().await;
    let error = store.new_request().await.unwrap_err();
    assert!(error.to_string().contains("is closed"), "{error}");
    assert!(store.all_jobs().await.is_err());
    let wal = file.path().with_extension("db-wal");
    assert!(!wal.exists(), "the last one to leave tidies up");
}

#[tokio::test]
async fn a_statement_that_fails_undoes_its_transaction_and_work_goes_on() {
    let file = SqliteFile::new();
    let bench = Bench::with_job(&file).await;
    execute(
        &file.path(),
        "CREATE TRIGGER refuse BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'disk on fire'); END;",
    )
    .await;
    let commit = bench.decision("budget", vec![start("s1", 60)]).await;
    let error = bench.store.commit(vec![commit], at(60)).await.unwrap_err();
    assert!(names(&error, &file.path()));
    let source = std::error::Error::source(&error).unwrap();
    assert!(source.to_string().contains("disk on fire"), "{source}");
    assert_eq!(bench.stored("budget").await.version, 1);
    let left = bench.store.runs(&RunFilter::default()).await.unwrap();
    assert!(left.is_empty());
    execute(&file.path(), "DROP TRIGGER refuse").await;
    bench.started("s1", 60).await;
}

#[tokio::test]
async fn a_row_that_cannot_be_ours_is_named() {
    let file = SqliteFile::new();
    let bench = Bench::with_job(&file).await;
    execute(&file.path(), "UPDATE jobs SET source = 'the moon'").await;
    let error = bench.store.all_jobs().await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }));
    let words = error.to_string();
    assert!(
        words.contains("jobs budget: `source` holds `the moon`"),
        "{words}"
    );
    execute(
        &file.path(),
        "UPDATE jobs SET source = 'file:x', state = '{}'",
    )
    .await;
    let words = bench.store.all_jobs().await.unwrap_err().to_string();
    assert!(words.contains("jobs budget: `state`"), "{words}");
}

#[tokio::test]
async fn rows_older_than_their_columns_are_read_as_a_persons() {
    let file = SqliteFile::new();
    let store = file.open().await;
    execute(
        &file.path(),
        "INSERT INTO ctx_sessions VALUES ('old-1', 'telegram:direct:1', NULL, 0, 9, '2024-01-01 00:00:00');
         INSERT INTO ctx_session_entries (session_id, seq, role, message, created_at, trigger_source) VALUES
           ('old-1', 1, 'user', 'one', '2024-01-01 10:00:00', NULL),
           ('old-1', 2, 'assistant', 'two', '2024-01-01T10:00:01Z', 'user'),
           ('old-1', 3, 'assistant', 'heartbeat', '2024-01-01 10:00:02.5', 'heartbeat'),
           ('old-1', 4, 'user', '[{\"type\":\"text\",\"text\":\"four\"}]', '2024-01-01 10:00:03', NULL),
           ('old-1', 5, 'user', '[1, 2]', '2024-01-01 10:00:03', NULL);",
    )
    .await;
    let key = SessionKey::from_stored("telegram:direct:1");
    let rows = store.recall(&key, 9).await.unwrap();
    assert_eq!(texts(&rows), ["one", "two", "four", "[1, 2]"]);
    assert!(rows.iter().all(|row| row.visibility == Visibility::Visible));
    assert!(matches!(rows[2].content, Content::Blocks(_)));
    assert_eq!(rows[0].created_at, "2024-01-01T10:00:00Z".parse().unwrap());
    let all = store.transcript(&key, WindowOf::All).await.unwrap();
    assert_eq!(all[2].visibility, Visibility::Internal);
    let turn = store.request_turn(inbound("1", "new", None), at(1)).await;
    turn.unwrap();
    let all = store.transcript(&key, WindowOf::All).await.unwrap();
    assert_eq!((all.len(), all[5].seq, all[5].generation), (6, 9, 0));
}

#[tokio::test]
async fn a_gateways_older_tables_are_adopted_with_every_row() {
    let file = SqliteFile::new();
    execute(
        &file.path(),
        "CREATE TABLE ctx_sessions (session_id TEXT PRIMARY KEY, session_key TEXT NOT NULL, theirs TEXT);
         CREATE TABLE ctx_session_entries (id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, seq INTEGER NOT NULL,
           role TEXT NOT NULL, message TEXT NOT NULL, entry_type TEXT, raw_entry TEXT, raw_line BLOB,
           created_at TEXT NOT NULL);
         CREATE TABLE ctx_turns (id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, turn_idx INTEGER NOT NULL);
         INSERT INTO ctx_sessions VALUES ('a', 'telegram:direct:1', 'x'), ('b', 'telegram:direct:1', 'y');
         INSERT INTO ctx_session_entries (session_id, seq, role, message, created_at) VALUES
           ('a', 1, 'user', 'before the reset', '2024-01-01 10:00:00'),
           ('b', 1, 'user', 'hello', '2024-01-02 10:00:00'),
           ('b', 7, 'assistant', 'hi', '2024-01-02 10:00:01');
         INSERT INTO ctx_turns (session_id, turn_idx) VALUES ('b', 1);",
    )
    .await;
    file.open().await.close().await;
    let bench = Bench::on(&file).await;
    let key = session("1");
    assert_eq!(bench.recalled(&key).await, ["hello", "hi"]);
    let all = bench.store.transcript(&key, WindowOf::All).await.unwrap();
    assert_eq!(texts(&all), ["before the reset", "hello", "hi"]);
    assert_eq!((all[0].generation, all[2].generation), (0, 1));
    assert!(
        all.iter()
            .all(|row| row.provenance.trigger_source.is_none())
    );
    let turn = bench
        .store
        .request_turn(inbound("1", "new", None), at(1))
        .await
        .unwrap();
    bench.claim_turn(&key, turn, 2).await;
    assert_eq!(bench.recalled(&key).await, ["hello", "hi", "new"]);
    assert_eq!(
        number(&file.path(), "SELECT max(turn_idx) FROM ctx_turns").await,
        2
    );
    assert_eq!(
        number(&file.path(), "SELECT count(theirs) FROM ctx_sessions").await,
        2
    );
}

#[tokio::test]
async fn a_users_row_keeps_what_came_and_counts_once() {
    let file = SqliteFile::new();
    let bench = Bench::on(&file).await;
    let key = session("1");
    for (n, words) in ["one", "two"].into_iter().enumerate() {
        let seconds = i64::try_from(n).unwrap();
        let turn = bench
            .store
            .request_turn(inbound("1", words, None), at(seconds))
            .await
            .unwrap();
        bench.claim_turn(&key, turn, seconds).await;
        begin(&bench.store, "2026a", seconds).await;
        let claimed = bench.claim_turn(&key, turn, seconds).await;
        let done = chatcron::store::TurnResult::Done;
        bench
            .finish_turn(&claimed, done, None, seconds)
            .await
            .unwrap();
    }
    let mut conn = raw(&file.path()).await;
    let turns = "SELECT turn_idx FROM ctx_turns ORDER BY turn_idx";
    let counted: Vec<i64> = sqlx::query_scalar(turns)
        .fetch_all(&mut conn)
        .await
        .unwrap();
    assert_eq!(counted, [1, 2]);
    let row = sqlx::query("SELECT * FROM ctx_session_entries ORDER BY id LIMIT 1")
        .fetch_one(&mut conn)
        .await
        .unwrap();
    assert_eq!(row.get::<Vec<u8>, _>("raw_line"), [0, 159, 146, 150]);
    assert_eq!(
        row.get::<String, _>("raw_entry"),
        "{\"message\":\"framed\"}"
    );
    assert_eq!(
        row.get::<String, _>("created_at"),
        "2027-01-15 08:00:00.000"
    );
    assert_eq!(row.get::<String, _>("session_id"), "telegram:direct:1@1");
    assert_eq!(row.get::<i64, _>("is_automated"), 0);
}

#[tokio::test]
async fn the_original_of_a_message_is_kept_byte_for_byte() {
    let file = SqliteFile::new();
    let store = file.open().await;
    let framed = "Sender (untrusted metadata):\n```json\n{\"name\": \"Bea\"}\n```\n\nhi";
    let list = format!("{{ \"message\" : [{}0] }}", "0, ".repeat(100_000));
    let odd = "{\"message\":\"\\ud800 \\u0000 \u{2028}\",\n  \"a\" : 1e400 }";
    let no_json = String::from_utf8_lossy(&[b'{', 0, 1, b'"']).into_owned();
    let table = [
        (Some(list.clone()), None, Some(list), None),
        (Some(odd.to_owned()), None, Some(odd.to_owned()), None),
        (Some(no_json), None, None, Some(vec![b'{', 0, 1, b'"'])),
        (
            Some("x".to_owned()),
            Some(vec![255, 0]),
            None,
            Some(vec![255, 0]),
        ),
        (None, Some(vec![255, 0]), None, Some(vec![255, 0])),
    ];
    for (raw_entry, raw_line, kept_entry, kept_line) in table {
        let message = chatcron::store::InboundMessage {
            raw_entry,
            raw_line,
            ..inbound("1", framed, None)
        };
        store.request_turn(message, at(1)).await.unwrap();
        let mut conn = raw(&file.path()).await;
        let row = sqlx::query("SELECT * FROM ctx_session_entries ORDER BY id DESC LIMIT 1")
            .fetch_one(&mut conn)
            .await
            .unwrap();
        assert_eq!(row.get::<String, _>("message"), "hi");
        assert!(row.get::<Option<String>, _>("raw_entry") == kept_entry);
        assert_eq!(row.get::<Option<Vec<u8>>, _>("raw_line"), kept_line);
    }
    let note = "SELECT count(*) FROM diagnostics WHERE code = 'unclosed-framing'";
    assert_eq!(number(&file.path(), note).await, 0);
    let open = "Sender (untrusted metadata):\n```json\n{}";
    let turn = store.request_turn(inbound("1", open, None), at(2)).await;
    turn.unwrap();
    assert_eq!(number(&file.path(), note).await, 1, "it is told");
}

#[test]
fn a_worker_lock_is_held_by_one() {
    let file = SqliteFile::new();
    assert!(!WorkerLock::is_held(&file.path()).unwrap());
    let lock = WorkerLock::acquire(&file.path(), Holder::Worker).unwrap();
    assert!(WorkerLock::is_held(&file.path()).unwrap());
    let second = WorkerLock::acquire(&file.path(), Holder::Worker).unwrap_err();
    assert!(matches!(&second, StoreError::Held { .. }) && names(&second, &file.path()));
    drop(lock);
    assert!(!WorkerLock::is_held(&file.path()).unwrap());
    WorkerLock::acquire(&file.path(), Holder::Worker).unwrap();
}

const CHILD: &str = "CHATCRON_TEST_DATABASE";

/// Not a fact: the process that `what_was_answered_survives_the_death_of_its_process` kills.
#[tokio::test]
#[ignore = "is started by another test"]
async fn child_that_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let _lock = WorkerLock::acquire(Path::new(&path), Holder::Worker).unwrap();
    let store = SqliteStore::open(Path::new(&path), OpenMode::MustExist)
        .await
        .unwrap();
    for n in 0.. {
        let turn = store.request_turn(inbound("1", "hi", None), at(n)).await;
        println!("answered {}", turn.unwrap().0);
    }
}

#[tokio::test]
async fn what_was_answered_survives_the_death_of_its_process() {
    let file = SqliteFile::new();
    file.open().await.close().await;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture"])
        .arg("sqlite_file::child_that_writes_until_it_is_killed")
        .env(CHILD, file.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let answers = lines
        .map(Result::unwrap)
        .filter_map(|line| line.split_once("answered ")?.1.parse::<i64>().ok());
    let answered: Vec<i64> = answers.take(50).collect();
    assert!(WorkerLock::is_held(&file.path()).unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        !WorkerLock::is_held(&file.path()).unwrap(),
        "the lock died with it"
    );
    let store = file.open().await;
    for turn in answered {
        let found = store.turn(chatcron::ids::TurnId(turn)).await.unwrap();
        assert!(found.is_some(), "turn {turn} was promised");
    }
    let check = "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'";
    assert_eq!(number(&file.path(), check).await, 0);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_is_told_of_commits_through_a_link_too() {
    let database = SqliteFile::new();
    let other = database.open().await;
    let link = database.path().with_file_name("link.db");
    std::os::unix::fs::symlink(database.path(), &link).unwrap();
    let mode = OpenMode::MustExist;
    let store = SqliteStore::open(&link, mode).await.unwrap();
    let long = std::time::Duration::from_secs(600);
    let waiting = tokio::spawn(async move { store.await_change(long).await });
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    other.see_clock(at(1)).await.unwrap();
    let soon = std::time::Duration::from_secs(60);
    tokio::time::timeout(soon, waiting).await.unwrap().unwrap();
}
