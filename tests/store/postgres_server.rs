//! What only a database of a server can do: be older than a column, newer, unreachable, taken away
//! in the middle of something, or shared.

use std::{collections::BTreeSet, time::Duration};

use chatcron::{
    ids::{SessionKey, TurnId},
    message::Origin,
    store::{
        RunFilter, Store, StoreError, TurnResult, WindowOf, postgres::PostgresStore,
        sqlite::OpenMode,
    },
    transcript::{Content, Visibility},
};
use sqlx::{Connection, PgConnection, Row, SqliteConnection};

use crate::{Database, PostgresDatabase, SqliteFile, cluster::Cluster, fixture::*};

/// The database of a test on the shared server, and a connection of the test's own.
macro_rules! database_or_skip {
    () => {{
        let Some(server) = Cluster::shared() else {
            return;
        };
        let database = PostgresDatabase::on(server).await;
        let conn = PgConnection::connect(&database.url).await.unwrap();
        (database, conn)
    }};
}

async fn execute(conn: &mut PgConnection, sql: &'static str) {
    sqlx::raw_sql(sql).execute(conn).await.unwrap();
}

async fn number(conn: &mut PgConnection, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(conn).await.unwrap()
}

/// Ends every session of chatcron in this database, as a restart or a firewall does.
async fn end_sessions(conn: &mut PgConnection) {
    let ended = number(
        conn,
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'chatcron%'",
    )
    .await;
    assert!(ended > 0, "there was a session to end");
}

/// Asks again until the connection is made again, as a worker does.
async fn until_it_works<T, E, F: Future<Output = Result<T, E>>>(ask: impl Fn() -> F) -> T {
    for _ in 0..100 {
        if let Ok(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it does not work again");
}

#[tokio::test]
async fn both_databases_have_the_same_tables_and_columns() {
    let (database, mut conn) = database_or_skip!();
    database.open().await.close().await;
    let rows = sqlx::query(
        "SELECT table_name::text, column_name::text FROM information_schema.columns
         WHERE table_schema = current_schema() AND table_name NOT LIKE '%sqlx%'",
    )
    .fetch_all(&mut conn)
    .await
    .unwrap();
    let on_postgres: BTreeSet<(String, String)> =
        rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let file = SqliteFile::new();
    file.open().await.close().await;
    let url = format!("sqlite:{}", file.path().display());
    let mut conn = SqliteConnection::connect(&url).await.unwrap();
    let rows = sqlx::query(
        "SELECT t.name, c.name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c
         WHERE t.type = 'table' AND t.name NOT LIKE '%sqlx%' AND t.name NOT LIKE 'sqlite_%'",
    )
    .fetch_all(&mut conn)
    .await
    .unwrap();
    let on_sqlite: BTreeSet<(String, String)> =
        rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let difference: Vec<_> = on_postgres.symmetric_difference(&on_sqlite).collect();
    assert!(difference.is_empty(), "{difference:?}");
    assert!(on_sqlite.len() > 100);
}

#[tokio::test]
async fn a_gateways_older_tables_are_adopted_with_every_row() {
    let (database, mut conn) = database_or_skip!();
    execute(
        &mut conn,
        "CREATE TABLE ctx_sessions (session_id TEXT PRIMARY KEY, session_key TEXT NOT NULL, theirs TEXT);
         CREATE TABLE ctx_session_entries (id SERIAL PRIMARY KEY, session_id TEXT NOT NULL, seq INTEGER NOT NULL,
           role TEXT NOT NULL, message TEXT NOT NULL, entry_type TEXT, raw_entry JSON, raw_line BYTEA,
           created_at TIMESTAMPTZ NOT NULL);
         CREATE TABLE ctx_turns (id SERIAL PRIMARY KEY, session_id TEXT NOT NULL, turn_idx INTEGER NOT NULL);
         INSERT INTO ctx_sessions VALUES ('b', 'telegram:direct:1', 'y'), ('a', 'telegram:direct:1', 'x');
         INSERT INTO ctx_session_entries (session_id, seq, role, message, raw_entry, created_at) VALUES
           ('a', 1, 'user', 'before the reset', '{ \"message\" : \"framed\" }', '2024-01-01 10:00:00+00'),
           ('b', 1, 'user', 'hello', NULL, '2024-01-02 11:00:00+01'),
           ('b', 7, 'assistant', 'hi', NULL, '2024-01-02 10:00:01.5+00');
         INSERT INTO ctx_turns (session_id, turn_idx) VALUES ('b', 1);",
    )
    .await;
    database.open().await.close().await;
    let bench = Bench::on(&database).await;
    let key = session("1");
    assert_eq!(bench.recalled(&key).await, ["hello", "hi"]);
    let all = bench.store.transcript(&key, WindowOf::All).await.unwrap();
    assert_eq!(texts(&all), ["before the reset", "hello", "hi"]);
    assert_eq!((all[0].generation, all[2].generation), (0, 1));
    assert_eq!(all[1].created_at, "2024-01-02T10:00:00Z".parse().unwrap());
    assert_eq!(all[0].framed, Some(Content::Text("framed".to_owned())));
    let is_legacy = |row: &chatcron::transcript::Entry| row.provenance.trigger_source.is_none();
    assert!(all.iter().all(is_legacy));
    assert!(all.iter().all(|row| row.visibility == Visibility::Visible));
    let message = inbound("1", "new", None);
    let turn = bench.store.request_turn(message, at(1)).await.unwrap();
    bench.claim_turn(&key, turn, 2).await;
    assert_eq!(bench.recalled(&key).await, ["hello", "hi", "new"]);
    let turns = "SELECT max(turn_idx)::bigint FROM ctx_turns";
    assert_eq!(number(&mut conn, turns).await, 2);
    let theirs = "SELECT count(theirs) FROM ctx_sessions";
    assert_eq!(number(&mut conn, theirs).await, 2);
    // Whoever else writes there goes on behind our rows.
    execute(
        &mut conn,
        "INSERT INTO ctx_session_entries (session_id, seq, role, message, created_at)
         VALUES ('a', 2, 'user', 'theirs', now())",
    )
    .await;
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let (database, mut conn) = database_or_skip!();
    database.open().await.close().await;
    execute(
        &mut conn,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'later', true, '', 0)",
    )
    .await;
    for mode in [
        OpenMode::CreateIfMissing,
        OpenMode::MustExist,
        OpenMode::ReadOnly,
    ] {
        let error = PostgresStore::open(&database.address(), mode)
            .await
            .unwrap_err();
        assert!(
            matches!(error, StoreError::Newer { found: 9999, .. }),
            "{error}"
        );
        assert!(
            error.to_string().contains(database.address().name()),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_database_without_our_tables_is_made_by_the_worker_alone() {
    let (database, mut conn) = database_or_skip!();
    for mode in [OpenMode::MustExist, OpenMode::ReadOnly] {
        let error = PostgresStore::open(&database.address(), mode)
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::Unapplied { .. }), "{error}");
    }
    let tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'";
    assert_eq!(number(&mut conn, tables).await, 0);
    let nowhere = database.url.replace("/test", "/nowhere");
    let error = PostgresStore::open(&nowhere.parse().unwrap(), OpenMode::CreateIfMissing).await;
    let cause = std::error::Error::source(&error.unwrap_err())
        .unwrap()
        .to_string();
    assert!(cause.contains("does not exist"), "{cause}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_that_open_an_older_database_at_once_all_get_it() {
    let (database, mut conn) = database_or_skip!();
    execute(
        &mut conn,
        "CREATE TABLE ctx_sessions (session_id TEXT PRIMARY KEY, session_key TEXT NOT NULL);
         INSERT INTO ctx_sessions VALUES ('a', 'telegram:direct:1'), ('b', 'telegram:direct:1')",
    )
    .await;
    let mut opening = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let address = database.address();
        opening
            .spawn(async move { PostgresStore::open(&address, OpenMode::CreateIfMissing).await });
    }
    for store in opening.join_all().await {
        store.unwrap().new_request().await.unwrap();
    }
    let generations = "SELECT sum(generation)::bigint FROM ctx_sessions";
    assert_eq!(number(&mut conn, generations).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_was_interrupted_is_completed_by_the_next_start() {
    let (database, mut conn) = database_or_skip!();
    execute(
        &mut conn,
        "CREATE TABLE ctx_turns (id SERIAL PRIMARY KEY, session_id TEXT NOT NULL, turn_idx INTEGER NOT NULL);
         INSERT INTO ctx_turns (session_id, turn_idx) VALUES ('a', 1)",
    )
    .await;
    // The migration comes as far as this table, and waits.
    execute(
        &mut conn,
        "BEGIN; LOCK TABLE ctx_turns IN ACCESS SHARE MODE",
    )
    .await;
    let address = database.address();
    let opening =
        tokio::spawn(async move { PostgresStore::open(&address, OpenMode::CreateIfMissing).await });
    let mut other = PgConnection::connect(&database.url).await.unwrap();
    let waits = "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    for _ in 0..200 {
        if number(&mut other, waits).await > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    end_sessions(&mut other).await;
    assert!(opening.await.unwrap().is_err());
    let jobs = "SELECT count(*) FROM information_schema.tables WHERE table_name = 'jobs'";
    assert_eq!(
        number(&mut other, jobs).await,
        0,
        "it left nothing by halves"
    );
    execute(&mut conn, "COMMIT").await;
    let store = database.open().await;
    store
        .request_turn(inbound("1", "hi", None), at(1))
        .await
        .unwrap();
    assert_eq!(
        number(&mut other, "SELECT count(*) FROM ctx_turns").await,
        1
    );
}

#[tokio::test]
async fn a_users_row_keeps_what_came_in_the_databases_own_types() {
    let (database, mut conn) = database_or_skip!();
    let store = database.open().await;
    let odd = "{\"message\":\"\\ud800 \\u0000 \u{2028}\",\n  \"a\" : 1e400 }";
    let message = chatcron::store::InboundMessage {
        raw_entry: Some(odd.to_owned()),
        ..inbound("1", "one\0", Some("m1"))
    };
    store.request_turn(message, at(0)).await.unwrap();
    let row = sqlx::query(
        "SELECT raw_entry::text, raw_line, created_at::text, is_automated, shown_at = created_at AS shown,
           pg_typeof(raw_entry)::text AS json FROM ctx_session_entries",
    )
    .fetch_one(&mut conn)
    .await
    .unwrap();
    assert_eq!(row.get::<String, _>("raw_entry"), odd);
    assert_eq!(row.get::<Vec<u8>, _>("raw_line"), [0, 159, 146, 150]);
    assert_eq!(row.get::<String, _>("created_at"), "2027-01-15 08:00:00+00");
    assert_eq!(row.get::<String, _>("json"), "json");
    assert!(!row.get::<bool, _>("is_automated") && row.get::<bool, _>("shown"));
    let all = store
        .transcript(&session("1"), WindowOf::All)
        .await
        .unwrap();
    assert_eq!(texts(&all), ["one\0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_goes_on_after_its_sessions_were_ended() {
    let (database, mut conn) = database_or_skip!();
    let bench = Bench::with_job(&database).await;
    bench.store.change_token().await.unwrap();
    let run = bench.started("s1", 60).await;
    end_sessions(&mut conn).await;
    let store = &bench.store;
    let runs = until_it_works(async || store.runs(&RunFilter::default()).await).await;
    assert_eq!(runs[0].run_id, Some(run));
    // Nothing was under way, so that the first write does not even fail.
    let message = inbound("1", "hi", Some("m1"));
    let turn = store.request_turn(message, at(70)).await.unwrap();
    let before = until_it_works(async || store.change_token().await).await;
    let other = database.open().await;
    other.new_request().await.unwrap();
    assert_ne!(store.change_token().await.unwrap(), before);
    let rows = store
        .transcript(&session("1"), WindowOf::All)
        .await
        .unwrap();
    assert_eq!(rows.len(), 1);
    assert!(store.turn(turn).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_a_crash_of_the_server() {
    let Some(server) = Cluster::start() else {
        return;
    };
    let database = PostgresDatabase::on(&server).await;
    let store = database.open().await;
    let mut answered = Vec::new();
    for n in 0..20 {
        let message = inbound("1", "hi", None);
        answered.push(store.request_turn(message, at(n)).await.unwrap());
    }
    server.restart();
    let found = until_it_works(async || store.turn(answered[19]).await).await;
    assert!(found.is_some());
    until_it_works(async || store.new_request().await).await;
    for turn in answered {
        assert!(
            store.turn(turn).await.unwrap().is_some(),
            "{turn:?} was promised"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_was_lost_is_asked_after() {
    let Some(server) = Cluster::start() else {
        return;
    };
    let database = PostgresDatabase::on(&server).await;
    let store = std::sync::Arc::new(database.open().await);
    // Commits wait, after they are done, for a standby that never answers.
    let mut conn = server.connect("postgres").await;
    let alter = "ALTER SYSTEM SET synchronous_standby_names = 'nobody'";
    sqlx::query(alter).execute(&mut conn).await.unwrap();
    sqlx::query("SELECT pg_reload_conf()")
        .execute(&mut conn)
        .await
        .unwrap();
    let asked = store.clone();
    let answer =
        tokio::spawn(async move { asked.request_turn(inbound("1", "hi", None), at(1)).await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    for _ in 0..200 {
        if number(&mut conn, waits).await > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let alter = "ALTER SYSTEM RESET synchronous_standby_names";
    sqlx::query(alter).execute(&mut conn).await.unwrap();
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    assert_eq!(number(&mut conn, end).await, 1);
    sqlx::query("SELECT pg_reload_conf()")
        .execute(&mut conn)
        .await
        .unwrap();
    let turn = answer.await.unwrap().unwrap();
    assert_eq!(turn, TurnId(1), "it was committed once, and said so");
    let key = session("1");
    let rows = store.transcript(&key, WindowOf::All).await.unwrap();
    assert_eq!(rows.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_was_ended_leaves_nothing_and_says_so() {
    let (database, mut conn) = database_or_skip!();
    let store = std::sync::Arc::new(database.open().await);
    execute(&mut conn, "BEGIN; LOCK TABLE turns IN EXCLUSIVE MODE").await;
    let asked = store.clone();
    let answer =
        tokio::spawn(async move { asked.request_turn(inbound("1", "hi", None), at(1)).await });
    let mut other = PgConnection::connect(&database.url).await.unwrap();
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let mut ended = 0;
    for _ in 0..200 {
        ended += number(&mut other, end).await;
        if ended > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let error = answer.await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    execute(&mut conn, "COMMIT").await;
    assert_eq!(
        number(&mut conn, "SELECT count(*) FROM ctx_session_entries").await,
        0
    );
    until_it_works(async || store.new_request().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_who_keeps_the_writers_lock_is_told_of() {
    let (database, mut conn) = database_or_skip!();
    let store = database.open().await;
    let lock = "BEGIN; SELECT pg_advisory_xact_lock(1667657580, hashtext(current_schema()))";
    execute(&mut conn, lock).await;
    let error = store.new_request().await.unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error}");
    execute(&mut conn, "ROLLBACK").await;
    store.new_request().await.unwrap();
}

#[tokio::test]
async fn a_store_opened_for_reading_writes_nothing() {
    let (database, mut conn) = database_or_skip!();
    let bench = Bench::with_job(&database).await;
    let address = database.address();
    let store = PostgresStore::open(&address, OpenMode::ReadOnly)
        .await
        .unwrap();
    assert_eq!(store.all_jobs().await.unwrap().len(), 1);
    let error = store.new_request().await.unwrap_err();
    assert!(error.to_string().contains("for reading only"), "{error}");
    bench.create("other").await;
    assert_eq!(store.all_jobs().await.unwrap().len(), 2);
    assert_eq!(number(&mut conn, "SELECT count(*) FROM jobs").await, 2);
}

#[tokio::test]
async fn a_row_that_cannot_be_ours_is_named() {
    let (database, mut conn) = database_or_skip!();
    let bench = Bench::with_job(&database).await;
    execute(&mut conn, "UPDATE jobs SET source = 'the moon'").await;
    let error = bench.store.all_jobs().await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }));
    let words = error.to_string();
    assert!(
        words.contains("jobs budget: `source` holds `the moon`"),
        "{words}"
    );
}

/// Rows that contradict each other, in words that both databases understand.
const CONTRADICTIONS: [&str; 6] = [
    "UPDATE runs SET attempts = 3, ended_at = 5",
    "UPDATE occurrences SET state = 'done' WHERE occurrence_id = 1",
    "INSERT INTO lanes (session_key, epoch, holder) VALUES ('x', 1, 'run:99')",
    "UPDATE outbox SET parts = 5, run_id = 77, job_id = 'nobody'",
    "UPDATE outbox_parts SET settled_at = 5",
    "UPDATE occurrences SET incarnation = 9 WHERE occurrence_id = 2",
];

#[tokio::test]
async fn an_audit_finds_the_same_on_both_databases() {
    let (database, mut conn) = database_or_skip!();
    let file = SqliteFile::new();
    let on_postgres = ledger_to_break(&database).await;
    let on_sqlite = ledger_to_break(&file).await;
    let url = format!("sqlite:{}", file.path().display());
    let mut other = SqliteConnection::connect(&url).await.unwrap();
    for sql in CONTRADICTIONS {
        execute(&mut conn, sql).await;
        sqlx::raw_sql(sql).execute(&mut other).await.unwrap();
        let found = findings(&on_postgres.store).await;
        assert_eq!(found, findings(&on_sqlite.store).await, "{sql}");
        assert!(found.len() > 2, "{found:?}");
    }
    let filter = RunFilter {
        states: vec!["failed".to_owned(), "queued".to_owned()],
        ..RunFilter::default()
    };
    let listed = on_postgres.store.runs(&filter).await.unwrap();
    assert_eq!(listed, on_sqlite.store.runs(&filter).await.unwrap());
    assert!(!listed.is_empty());
    assert!(on_postgres.store.ranges(&filter).await.unwrap().is_empty());
}

async fn findings(store: &impl Store) -> BTreeSet<String> {
    let report = store.audit(None).await.unwrap();
    let words = |finding: &chatcron::audit::Finding| format!("{:?} {}", finding.kind, finding.what);
    report.findings.iter().map(words).collect()
}

async fn ledger_to_break<D: Database>(database: &D) -> Bench<D::Store> {
    let bench = Bench::with_job(database).await;
    bench.started("s1", 60).await;
    let result = message("m1", Origin::JobResult, destination("1"), &["one", "two"]);
    bench.enqueued("s2", result, 120).await;
    bench
}

const LAST_USER_MESSAGE: &str = "
SELECT *
FROM ctx_session_entries
WHERE session_id = $1
  AND role = 'user'
  AND entry_type = 'message'
  AND (trigger_source = 'user' OR trigger_source IS NULL)
ORDER BY seq DESC
LIMIT 1;";

const HEARTBEATS: &str = "
SELECT COUNT(*) AS heartbeat_count
FROM ctx_session_entries
WHERE session_id = $1
  AND trigger_source = 'heartbeat';";

/// The example of SQLite in PostgreSQL's words, with a day before the story's.
const RECENTLY_AUTOMATED: &str = "
SELECT DISTINCT session_id, trigger_source, MAX(created_at) AS last_automated
FROM ctx_session_entries
WHERE is_automated
  AND created_at >= $1::timestamptz - interval '1 day'
GROUP BY session_id, trigger_source
ORDER BY session_id;";

fn heartbeat() -> SessionKey {
    SessionKey::from_stored("telegram:direct:1:heartbeat")
}

async fn a_person_two_heartbeats_and_a_job(bench: &Bench<PostgresStore>) {
    let asked = inbound("1", "How much?", Some("m1"));
    let turn = bench.store.request_turn(asked, at(1)).await.unwrap();
    let turn = bench.claim_turn(&session("1"), turn, 2).await;
    bench
        .finish_turn(&turn, TurnResult::Done, None, 3)
        .await
        .unwrap();
    // Their gateway does not say what they are.
    for second in [4, 6] {
        let beat = chatcron::store::InboundMessage {
            session_key: heartbeat(),
            trigger_source: None,
            ..inbound("1", "beat", None)
        };
        let turn = bench.store.request_turn(beat, at(second)).await.unwrap();
        let turn = bench.claim_turn(&heartbeat(), turn, second).await;
        assert!(turn.trigger.is_automated(), "its key says so");
        bench
            .finish_turn(&turn, TurnResult::Done, None, second)
            .await
            .unwrap();
    }
    // The chat shows a job's result last.
    let result = message("m1", Origin::JobResult, destination("1"), &["42 euros"]);
    let parts = bench.enqueued("s1", result, 60).await;
    bench.send(&parts[0], receipt("7"), 61).await;
}

#[tokio::test]
async fn a_gateways_queries_find_who_began_each_turn() {
    let (database, mut conn) = database_or_skip!();
    let bench = Bench::with_job(&database).await;
    a_person_two_heartbeats_and_a_job(&bench).await;
    let mut ids = Vec::new();
    for key in [session("1"), heartbeat()] {
        let sql = "SELECT session_id FROM ctx_sessions WHERE session_key = $1";
        let id = sqlx::query_scalar::<_, String>(sql).bind(key.as_str());
        ids.push(id.fetch_one(&mut conn).await.unwrap());
    }
    let last = sqlx::query(LAST_USER_MESSAGE)
        .bind(&ids[0])
        .fetch_one(&mut conn)
        .await
        .unwrap();
    assert_eq!(last.get::<String, _>("message"), "How much?");
    let none = sqlx::query(LAST_USER_MESSAGE).bind(&ids[1]);
    assert!(none.fetch_optional(&mut conn).await.unwrap().is_none());
    for (id, beats) in ids.iter().zip([0, 2]) {
        let found = sqlx::query_scalar::<_, i64>(HEARTBEATS).bind(id);
        assert_eq!(found.fetch_one(&mut conn).await.unwrap(), beats);
    }
    let rows = sqlx::query(RECENTLY_AUTOMATED)
        .bind(at(99).to_string())
        .fetch_all(&mut conn)
        .await;
    let rows = rows.unwrap();
    let mut found: Vec<(String, String)> =
        rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    found.sort();
    let mut expected = [
        (ids[0].clone(), "cron".to_owned()),
        (ids[1].clone(), "heartbeat".to_owned()),
    ];
    expected.sort();
    assert_eq!(found, expected);
    let later = sqlx::query(RECENTLY_AUTOMATED).bind(at(100_000).to_string());
    assert!(later.fetch_all(&mut conn).await.unwrap().is_empty());
    assert_eq!(number(&mut conn, "SELECT count(*) FROM ctx_turns").await, 1);
    assert_eq!(
        bench.recalled(&session("1")).await,
        ["How much?", "42 euros"]
    );
    assert!(bench.recalled(&heartbeat()).await.is_empty());
    let plan = "SET enable_seqscan = off";
    execute(&mut conn, plan).await;
    let plan = "EXPLAIN SELECT count(*) FROM ctx_session_entries WHERE trigger_source = 'cron'";
    let plan: Vec<String> = sqlx::query_scalar(plan).fetch_all(&mut conn).await.unwrap();
    let plan = plan.join(" ");
    assert!(
        plan.contains("idx_ctx_session_entries_trigger_source"),
        "{plan}"
    );
}
