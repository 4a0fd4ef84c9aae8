//! A gateway's own session tables, made before our columns existed: they get what is missing and
//! keep every row.
//!
//! SQLite has no `ADD COLUMN IF NOT EXISTS`, so this looks first, which a plain migration cannot.

use sqlx::{AssertSqlSafe, Sqlite, SqlitePool, Transaction};

const COLUMNS_OF: &str = "SELECT name FROM pragma_table_info($1)";

/// What each table needs, apart from the columns that every version of it has had.
const NEEDED: &[(&str, &[(&str, &str)])] = &[
    (
        "ctx_sessions",
        &[
            ("agent_id", "TEXT"),
            ("generation", "INTEGER NOT NULL DEFAULT 0"),
            ("next_seq", "INTEGER NOT NULL DEFAULT 1"),
            ("created_at", "TEXT NOT NULL DEFAULT ''"),
        ],
    ),
    (
        "ctx_session_entries",
        &[
            ("entry_type", "TEXT NOT NULL DEFAULT 'message'"),
            ("content_kind", "TEXT"),
            ("raw_entry", "TEXT"),
            ("raw_line", "BLOB"),
            ("created_at", "TEXT NOT NULL DEFAULT '1970-01-01 00:00:00'"),
            ("trigger_source", "TEXT"),
            ("is_automated", "INTEGER"),
            ("sender_display", "TEXT"),
            ("sender_id_raw", "TEXT"),
            ("visibility", "TEXT"),
            ("chat_key", "TEXT"),
            ("channel_message_id", "TEXT"),
            ("shown_at", "TEXT"),
            ("origin", "TEXT"),
            ("posted_by_job", "TEXT"),
            ("posting_note", "TEXT"),
            ("turn_id", "INTEGER"),
            ("run_id", "INTEGER"),
            ("attempt", "INTEGER"),
            ("idempotency_key", "TEXT"),
        ],
    ),
    (
        "ctx_turns",
        &[
            ("turn_id", "INTEGER"),
            ("created_at", "TEXT NOT NULL DEFAULT ''"),
        ],
    ),
];

// Sessions of one key are its generations, in the order in which they were made.
const NUMBER_GENERATIONS: &str = "\
UPDATE ctx_sessions SET generation = (SELECT count(*) FROM ctx_sessions AS o
  WHERE o.session_key = ctx_sessions.session_key AND o.rowid < ctx_sessions.rowid)";

const CONTINUE_SEQ: &str = "\
UPDATE ctx_sessions SET next_seq = 1 + coalesce((SELECT max(e.seq) FROM ctx_session_entries AS e
  WHERE e.session_id = ctx_sessions.session_id), 0)";

/// Adds the columns that are missing; does nothing where the tables are not there, or are whole.
pub(super) async fn adopt(pool: &SqlitePool) -> Result<(), sqlx::Error> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    let mut added = Vec::new();
    for (table, needed) in NEEDED {
        let present: Vec<String> = sqlx::query_scalar(COLUMNS_OF)
            .bind(*table)
            .fetch_all(&mut *tx)
            .await?;
        if present.is_empty() {
            continue;
        }
        for (column, declared) in *needed {
            if !present.iter().any(|name| name == column) {
                add(&mut tx, table, column, declared).await?;
                added.push((*table, *column));
            }
        }
    }
    if added.contains(&("ctx_sessions", "generation")) {
        sqlx::query(NUMBER_GENERATIONS).execute(&mut *tx).await?;
    }
    if added.contains(&("ctx_sessions", "next_seq")) {
        sqlx::query(CONTINUE_SEQ).execute(&mut *tx).await?;
    }
    tx.commit().await
}

async fn add(
    tx: &mut Transaction<'_, Sqlite>,
    table: &str,
    column: &str,
    declared: &str,
) -> Result<(), sqlx::Error> {
    // Names cannot be bound; all three are constants of this file.
    let sql = format!("ALTER TABLE {table} ADD COLUMN {column} {declared}");
    sqlx::query(AssertSqlSafe(sql)).execute(&mut **tx).await?;
    Ok(())
}
