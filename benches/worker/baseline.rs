//! What the disk and SQLite do without us: rows inserted and updated by one statement a batch, each
//! batch in a transaction of its own with `synchronous = FULL`.

use std::time::Instant;

use sqlx::{
    ConnectOptions,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

const ROWS: usize = 50_000;
const BATCH: usize = 512;

const TABLE: &str = "\
CREATE TABLE t (id INTEGER PRIMARY KEY, job TEXT NOT NULL, state TEXT NOT NULL, at INTEGER NOT NULL)
STRICT";
const INSERT: &str = "\
INSERT INTO t SELECT x.value ->> 'id', x.value ->> 'job', 'active', x.value ->> 'at'
FROM json_each($1) AS x";
const UPDATE: &str = "\
UPDATE t SET state = 'done', at = x.value ->> 'at' FROM json_each($1) AS x
WHERE t.id = x.value ->> 'id'";

#[tokio::main]
pub(crate) async fn measure() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut conn = SqliteConnectOptions::new()
        .filename(folder.path().join("baseline.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .connect()
        .await
        .expect("a database");
    sqlx::query(TABLE)
        .execute(&mut conn)
        .await
        .expect("a table");
    let rows = |batch: usize| {
        let rows = (0..BATCH).map(|row| batch * BATCH + row);
        let rows = rows.map(|id| serde_json::json!({"id": id, "job": "job-1", "at": id}));
        serde_json::Value::from_iter(rows).to_string()
    };
    let begun = Instant::now();
    for batch in 0..ROWS / BATCH {
        for statement in [INSERT, UPDATE] {
            let statement = sqlx::query(statement).bind(rows(batch));
            statement.execute(&mut conn).await.expect("a statement");
        }
    }
    let pairs = (ROWS / BATCH * BATCH) as f64 / begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    for id in 0..200 {
        let statement = sqlx::query("UPDATE t SET at = at + 1 WHERE id = $1").bind(id);
        statement.execute(&mut conn).await.expect("a statement");
    }
    let commit = begun.elapsed().as_secs_f64() / 200.0;
    println!(
        "baseline: {pairs:.0} rows inserted and updated a second in batches of {BATCH}; \
         a commit takes {:.2} ms",
        commit * 1e3
    );
}
