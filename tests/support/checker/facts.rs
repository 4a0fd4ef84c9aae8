//! The database as plain rows.

use std::path::Path;

use serde_json::Value;
use sqlx::{
    Column, ConnectOptions, Connection, Row, SqliteConnection, sqlite::SqliteConnectOptions,
};

#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) jobs: Vec<Job>,
    pub(super) occurrences: Vec<Occurrence>,
    pub(super) ranges: Vec<Range>,
    pub(super) runs: Vec<Run>,
    pub(super) attempts: Vec<Attempt>,
    /// Turns that have not ended.
    pub(super) open_turns: Vec<i64>,
    /// Lanes that somebody holds.
    pub(super) held_lanes: Vec<String>,
    pub(super) parts: Vec<Part>,
    pub(super) rows: Vec<Entry>,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) first_seen_at: i64,
    pub(super) cursor: i64,
    pub(super) is_paused: bool,
    pub(super) wake_at: Option<i64>,
    /// How many runs and slots its state says are under way.
    pub(super) open: usize,
}

#[derive(Debug)]
pub(super) struct Occurrence {
    pub(super) id: i64,
    pub(super) job: String,
    pub(super) is_scheduled: bool,
    pub(super) nominal: i64,
    pub(super) cause: String,
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) accounted_at: i64,
    pub(super) ended_at: Option<i64>,
    pub(super) has_destination: bool,
}

#[derive(Debug)]
pub(super) struct Range {
    pub(super) job: String,
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) slots: i64,
    pub(super) reason: String,
}

#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: i64,
    pub(super) occurrence: i64,
    pub(super) job: String,
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) attempts: i64,
    pub(super) started_at: Option<i64>,
    pub(super) ended_at: Option<i64>,
}

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) run: i64,
    pub(super) number: i64,
    pub(super) started_at: i64,
    pub(super) ended_at: Option<i64>,
    pub(super) result: Option<String>,
}

#[derive(Debug)]
pub(super) struct Part {
    pub(super) id: i64,
    pub(super) message: i64,
    pub(super) number: i64,
    /// How many parts its message has.
    pub(super) of: i64,
    pub(super) chat: String,
    pub(super) origin: String,
    pub(super) run: Option<i64>,
    pub(super) resend: bool,
    pub(super) key: String,
    pub(super) text: Option<String>,
    pub(super) state: String,
    pub(super) channel_message_id: Option<String>,
    /// The codes of what is recorded about it.
    pub(super) codes: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) session: String,
    pub(super) role: String,
    pub(super) visibility: String,
    pub(super) text: String,
    pub(super) channel_message_id: Option<String>,
    pub(super) key: Option<String>,
}

const JOBS: &str =
    "SELECT job_id, first_seen_at, state, wake_at FROM jobs WHERE removed_at IS NULL";
const OCCURRENCES: &str = "\
SELECT occurrence_id, job_id, kind = 'scheduled', nominal_at, cause, state, reason, ended_at,
  destination IS NOT NULL, accounted_at FROM occurrences ORDER BY occurrence_id";
const RANGES: &str = "\
SELECT job_id, first_nominal_at, last_nominal_at, slots, reason FROM occurrence_ranges";
const RUNS: &str = "\
SELECT run_id, occurrence_id, job_id, state, reason, attempts, started_at, ended_at FROM runs";
const ATTEMPTS: &str = "\
SELECT run_id, attempt, started_at, ended_at, result FROM attempts ORDER BY run_id, attempt";
const OPEN_TURNS: &str = "SELECT turn_id FROM turns WHERE state IN ('waiting', 'running')";
const HELD_LANES: &str = "SELECT session_key FROM lanes WHERE holder IS NOT NULL";
const PARTS: &str = "\
SELECT p.part_id, p.message_id, p.part, m.parts, p.session_key, m.origin, m.run_id,
  m.on_unknown = 'resend', p.idempotency_key, p.text, p.state, p.channel_message_id,
  (SELECT group_concat(d.code) FROM diagnostics AS d WHERE d.part_id = p.part_id)
FROM outbox_parts AS p JOIN outbox AS m ON m.message_id = p.message_id
ORDER BY p.message_id, p.part";
const ROWS: &str = "\
SELECT s.session_key, e.role, e.visibility, e.message, e.channel_message_id, e.idempotency_key
FROM ctx_session_entries AS e JOIN ctx_sessions AS s ON s.session_id = e.session_id
ORDER BY s.session_key, s.generation, e.seq";
const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";

async fn open(database: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(database);
    options.connect().await.unwrap()
}

async fn rows<T>(
    conn: &mut SqliteConnection,
    sql: &'static str,
    read: impl Fn(&sqlx::sqlite::SqliteRow) -> T,
) -> Vec<T> {
    let rows = sqlx::query(sql).fetch_all(conn).await.unwrap();
    rows.iter().map(read).collect()
}

pub(super) async fn load(database: &Path) -> Facts {
    let mut conn = open(database).await;
    let conn = &mut conn;
    Facts {
        jobs: rows(conn, JOBS, job).await,
        occurrences: rows(conn, OCCURRENCES, |row| Occurrence {
            id: row.get(0),
            job: row.get(1),
            is_scheduled: row.get(2),
            nominal: row.get(3),
            cause: row.get(4),
            state: row.get(5),
            reason: row.get(6),
            ended_at: row.get(7),
            has_destination: row.get(8),
            accounted_at: row.get(9),
        })
        .await,
        ranges: rows(conn, RANGES, |row| Range {
            job: row.get(0),
            first: row.get(1),
            last: row.get(2),
            slots: row.get(3),
            reason: row.get(4),
        })
        .await,
        runs: rows(conn, RUNS, |row| Run {
            id: row.get(0),
            occurrence: row.get(1),
            job: row.get(2),
            state: row.get(3),
            reason: row.get(4),
            attempts: row.get(5),
            started_at: row.get(6),
            ended_at: row.get(7),
        })
        .await,
        attempts: rows(conn, ATTEMPTS, |row| Attempt {
            run: row.get(0),
            number: row.get(1),
            started_at: row.get(2),
            ended_at: row.get(3),
            result: row.get(4),
        })
        .await,
        open_turns: rows(conn, OPEN_TURNS, |row| row.get(0)).await,
        held_lanes: rows(conn, HELD_LANES, |row| row.get(0)).await,
        parts: rows(conn, PARTS, part).await,
        rows: rows(conn, ROWS, |row| Entry {
            session: row.get(0),
            role: row.get(1),
            visibility: row.get::<Option<String>, _>(2).unwrap_or_default(),
            text: row.get(3),
            channel_message_id: row.get(4),
            key: row.get(5),
        })
        .await,
    }
}

fn job(row: &sqlx::sqlite::SqliteRow) -> Job {
    let state: Value = serde_json::from_str(row.get(2)).unwrap();
    let cursor: jiff::Timestamp = state["cursor"].as_str().unwrap().parse().unwrap();
    let count = |name: &str| state[name].as_array().map_or(0, Vec::len);
    Job {
        id: row.get(0),
        first_seen_at: row.get(1),
        cursor: cursor.as_microsecond(),
        is_paused: !state["pause"].is_null(),
        wake_at: row.get(3),
        open: count("active") + count("waiting"),
    }
}

fn part(row: &sqlx::sqlite::SqliteRow) -> Part {
    let codes: Option<String> = row.get(12);
    Part {
        id: row.get(0),
        message: row.get(1),
        number: row.get(2),
        of: row.get(3),
        chat: row.get(4),
        origin: row.get(5),
        run: row.get(6),
        resend: row.get(7),
        key: row.get(8),
        text: row.get(9),
        state: row.get(10),
        channel_message_id: row.get(11),
        codes: codes
            .map(|codes| codes.split(',').map(str::to_owned).collect())
            .unwrap_or_default(),
    }
}

/// The whole content of a database, without what a start of a worker must write: who works since
/// when, and the numbers it has taken.
pub(crate) async fn dump(database: &Path) -> String {
    let mut conn = open(database).await;
    let tables = rows(&mut conn, TABLES, |row| row.get::<String, _>(0)).await;
    let mut dump = String::new();
    for table in tables {
        if matches!(table.as_str(), "workers" | "id_counters") || table.starts_with('_') {
            continue;
        }
        let told = if table == "facts" {
            "WHERE name <> 'clock_seen_at'"
        } else {
            ""
        };
        let sql = format!("SELECT * FROM \"{table}\" {told} ORDER BY 1, 2");
        let sql = sqlx::AssertSqlSafe(sql);
        for row in sqlx::query(sql).fetch_all(&mut conn).await.unwrap() {
            dump.push_str(&table);
            for column in row.columns() {
                let value = row.try_get_unchecked::<Option<String>, _>(column.ordinal());
                // Lanes are freed and versions raised by what changes nothing.
                dump.push_str(&format!(" {}={:?}", column.name(), value.ok().flatten()));
            }
            dump.push('\n');
        }
    }
    conn.close().await.unwrap();
    dump
}
