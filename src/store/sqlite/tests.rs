//! That the hot selects are answered by indexes, and that every statement can be prepared.

use std::path::Path;

use sqlx::{AssertSqlSafe, Row, SqlitePool, sqlite::SqlitePoolOptions};

use super::{jobs, lanes, migrate, open, readings, resolution};

async fn database(directory: &Path) -> SqlitePool {
    let path = directory.join("plans.db");
    migrate::prepare(&path, open::OpenMode::CreateIfMissing)
        .await
        .unwrap();
    SqlitePoolOptions::new()
        .connect_with(open::writing(&path))
        .await
        .unwrap()
}

async fn plan(pool: &SqlitePool, sql: &'static str) -> Vec<String> {
    let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
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
