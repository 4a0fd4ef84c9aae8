//! That the hot selects are answered by indexes, and that every statement can be prepared.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use sqlx::{AssertSqlSafe, Row, SqlitePool, sqlite::SqlitePoolOptions};

use crate::store::sql::{jobs, lanes, readings, resolution, statement::Statement};

use super::{OpenMode, migrate, open};

async fn database(directory: &Path) -> SqlitePool {
    let path = directory.join("plans.db");
    migrate::prepare(&path, OpenMode::CreateIfMissing)
        .await
        .unwrap();
    SqlitePoolOptions::new()
        .connect_with(open::making(&path))
        .await
        .unwrap()
}

async fn plan(pool: &SqlitePool, statement: Statement) -> Vec<String> {
    let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", statement.sqlite()));
    let rows = sqlx::query(explain).fetch_all(pool).await.unwrap();
    rows.iter().map(|row| row.get("detail")).collect()
}

fn steps_without_index(plan: &[String], tables: &[&str]) -> Vec<String> {
    let scans = |step: &&String| {
        let names_table = tables.iter().any(|table| {
            step.split_whitespace().nth(1) == Some(table) || step.contains(&format!(" {table} "))
        });
        step.starts_with("SCAN") && names_table && !step.contains("INDEX")
    };
    plan.iter().filter(scans).cloned().collect()
}

#[tokio::test]
async fn hot_selects_use_their_indexes() {
    let directory = tempfile::tempdir().unwrap();
    let pool = database(directory.path()).await;
    let due = plan(&pool, jobs::DUE).await;
    assert!(
        due.iter().any(|step| step.contains("idx_jobs_wake_at")),
        "{due:#?}"
    );
    assert!(
        !due.iter().any(|step| step.contains("TEMP B-TREE")),
        "{due:#?}"
    );
    let recall = plan(&pool, readings::RECALL).await;
    assert!(
        recall
            .iter()
            .any(|step| step.contains("idx_ctx_session_entries_seq")),
        "{recall:#?}"
    );
    assert!(
        !recall.iter().any(|step| step.contains("TEMP B-TREE")),
        "{recall:#?}"
    );
    let waiting = plan(&pool, resolution::WAITING).await;
    assert_eq!(
        steps_without_index(&waiting, &["p"]),
        Vec::<String>::new(),
        "{waiting:#?}"
    );
    let next = plan(&pool, lanes::NEXT_INSTANT).await;
    let by_due = |step: &&String| step.contains("INDEX idx_runs_next (<expr>=? AND due_at>?)");
    assert_eq!(next.iter().filter(by_due).count(), 2, "{next:#?}");
    let queues = plan(&pool, lanes::QUEUES).await;
    for index in [
        "idx_outbox_parts_open",
        "idx_turns_waiting",
        "idx_runs_queued",
    ] {
        let by_lane = format!("USING COVERING INDEX {index} (");
        let head = format!("USING INDEX {index} (");
        let found = |step: &String| step.contains(&by_lane) || step.contains(&head);
        assert!(queues.iter().any(found), "{index}: {queues:#?}");
    }
    // A deep queue is not sorted to find its front.
    let fronts = ["idx_runs_next", "idx_outbox_parts_next"];
    for index in fronts {
        let found = |step: &String| step.contains(index);
        assert!(queues.iter().any(found), "{index}: {queues:#?}");
    }
    let tables = [
        "q",
        "u",
        "s",
        "outbox_parts",
        "turns",
        "runs",
        "p",
        "o",
        "t",
        "r",
    ];
    assert_eq!(
        steps_without_index(&queues, &tables),
        Vec::<String>::new(),
        "{queues:#?}"
    );
}

/// Chats of so many shown entries each.
const FILL: &str = "\
INSERT INTO ctx_sessions (session_id, session_key, generation, next_seq, created_at)
SELECT 'chat-' || x.value, 'chat-' || x.value, 1, x.value + 1, '2026-01-01 00:00:00'
FROM json_each('[1000, 10000, 100000]') AS x;
INSERT INTO ctx_session_entries (session_id, seq, role, message, content_kind, created_at, visibility)
SELECT s.session_id, n.value, iif(n.value % 2, 'user', 'assistant'), 'message ' || n.value, 'text',
  '2026-01-01 00:00:00', 'visible'
FROM ctx_sessions AS s JOIN generate_series_to_100000 AS n ON n.value < s.next_seq";

/// SQLite's own count of the steps that a reading of the last entries takes.
async fn steps(pool: &SqlitePool, session: &str, limit: i64) -> (u64, usize) {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let mut conn = pool.acquire().await.unwrap();
    conn.lock_handle()
        .await
        .unwrap()
        .set_progress_handler(1, move || {
            counted.fetch_add(1, Ordering::Relaxed);
            true
        });
    let rows = sqlx::query(AssertSqlSafe(readings::RECALL.sqlite()))
        .bind(session)
        .bind(limit)
        .fetch_all(&mut *conn)
        .await
        .unwrap();
    conn.lock_handle().await.unwrap().remove_progress_handler();
    (count.load(Ordering::Relaxed), rows.len())
}

#[tokio::test]
async fn the_last_entries_of_a_session_take_the_same_steps_however_long_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let pool = database(directory.path()).await;
    let series = "CREATE VIEW generate_series_to_100000 AS WITH RECURSIVE n(value) AS \
                  (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 100000) SELECT value FROM n";
    sqlx::raw_sql(series).execute(&pool).await.unwrap();
    sqlx::raw_sql(FILL).execute(&pool).await.unwrap();
    let (short, rows) = steps(&pool, "chat-1000", 400).await;
    assert_eq!(rows, 400);
    let (long, rows) = steps(&pool, "chat-100000", 400).await;
    assert_eq!(rows, 400);
    assert_eq!(short, long);
    // Twice the entries are twice the steps, and not those of the session.
    let (twice, rows) = steps(&pool, "chat-100000", 800).await;
    assert_eq!(rows, 800);
    assert!(twice < long * 21 / 10, "{long} for 400, {twice} for 800");
}
