//! What attempts have reported of their effects.

use std::collections::HashSet;

use jiff::Timestamp;

use crate::{
    ids::RunId,
    store::{Conflict, SentBy},
};

use super::{
    connection::{Conn, Pool},
    failure::Fallible,
    rows::{micros, set},
    statement::{Statement, over_numbers, query},
};

const REPORT_OF_RUN: Statement = Statement::common(
    "\
UPDATE attempts SET effects_at = coalesce(effects_at, $3)
FROM runs AS r
WHERE r.run_id = $1 AND r.state = 'running' AND r.epoch = $2
  AND attempts.run_id = r.run_id AND attempts.attempt = r.attempts",
);

const REPORT_OF_TURN: Statement = Statement::common(
    "\
UPDATE turns SET effects_at = coalesce(effects_at, $3)
WHERE turn_id = $1 AND state = 'running' AND epoch = $2",
);

const WITH_EFFECTS: Statement = over_numbers!(
    "\
SELECT r.run_id FROM",
    "\
JOIN runs AS r ON r.run_id = x.id
JOIN attempts AS a ON a.run_id = r.run_id AND a.attempt = r.attempts
WHERE a.effects_at IS NOT NULL OR EXISTS (SELECT 1 FROM outbox AS o
  WHERE o.run_id = r.run_id AND o.attempt = r.attempts AND o.origin = 'message_tool')"
);

/// Records that the attempt under way is about to have effects; the first report stays.
pub(super) async fn report(
    conn: &mut Conn,
    by: SentBy,
    now: Timestamp,
) -> Fallible<Result<(), Conflict>> {
    let (report, id, epoch) = match by {
        SentBy::Run(run, epoch) => (REPORT_OF_RUN, run.0, epoch),
        SentBy::Turn(turn, epoch) => (REPORT_OF_TURN, turn.0, epoch),
    };
    let query = query(report).bind(id).bind(epoch.0).bind(micros(now));
    Ok(match query.execute(&mut *conn).await? {
        0 => Err(Conflict::LeaseLost),
        _ => Ok(()),
    })
}

/// Those of these runs whose last attempt has had effects.
pub(super) async fn runs_with(pool: &Pool, runs: &[RunId]) -> Fallible<HashSet<RunId>> {
    if runs.is_empty() {
        return Ok(HashSet::new());
    }
    let ids: Vec<i64> = runs.iter().map(|run| run.0).collect();
    let found = set(WITH_EFFECTS, &ids)?.fetch_all(pool).await?;
    let id = |row: &super::connection::Row| Ok(RunId(row.try_get(0)?));
    found.iter().map(id).collect()
}
