//! What a person should know about a run, a turn or a part.

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    ids::RunId,
    store::{Diagnostic, DiagnosticRow, Level},
};

use super::{
    connection::{Conn, Pool},
    failure::Fallible,
    rows::{Columns, micros, write_rows},
    statement::{Statement, over_rows, query},
};

const INSERT: Statement = over_rows!(
    [
        run_id bigint, turn_id bigint, part_id bigint, level text, code text, message text,
        recorded_at bigint,
    ]
    "\
INSERT INTO diagnostics (run_id, turn_id, part_id, level, code, message, recorded_at)
SELECT x.run_id, x.turn_id, x.part_id, x.level, x.code, x.message, x.recorded_at
FROM",
    ""
);

const OF_RUN: Statement = Statement::common(
    "\
SELECT diagnostic_id, level, code, message, recorded_at FROM diagnostics
WHERE run_id = $1 ORDER BY diagnostic_id",
);

#[derive(Debug, Serialize)]
struct NewDiagnostic {
    run_id: Option<i64>,
    turn_id: Option<i64>,
    part_id: Option<i64>,
    level: &'static str,
    code: &'static str,
    message: String,
    recorded_at: i64,
}

/// The diagnostics that one transaction records.
#[derive(Debug, Default)]
pub(super) struct Notes {
    rows: Vec<NewDiagnostic>,
}

impl Notes {
    pub(super) fn add(&mut self, diagnostic: Diagnostic, now: Timestamp) {
        self.rows.push(NewDiagnostic {
            run_id: diagnostic.run_id.map(|id| id.0),
            turn_id: diagnostic.turn_id.map(|id| id.0),
            part_id: diagnostic.part_id.map(|id| id.0),
            level: match diagnostic.level {
                Level::Info => "info",
                Level::Warn => "warn",
            },
            code: diagnostic.code,
            message: diagnostic.message,
            recorded_at: micros(now),
        });
    }

    pub(super) async fn write(self, conn: &mut Conn) -> Fallible<()> {
        write_rows(conn, INSERT, &self.rows).await
    }
}

pub(super) async fn of_run(pool: &Pool, run: RunId) -> Fallible<Vec<DiagnosticRow>> {
    let rows = query(OF_RUN).bind(run.0).fetch_all(pool).await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        let row = Columns::of(row, "diagnostics", "diagnostic_id");
        found.push(DiagnosticRow {
            level: row.word("level", |word| match word {
                "info" => Some(Level::Info),
                "warn" => Some(Level::Warn),
                _ => None,
            })?,
            code: row.get("code")?,
            message: row.get("message")?,
            recorded_at: row.instant("recorded_at")?,
        });
    }
    Ok(found)
}
