//! Runs, attempts and skipped stretches, as they are listed; the snapshot of a run.

use sqlx::{SqliteConnection, SqlitePool, sqlite::SqliteRow};

use crate::{
    ids::{JobId, RunId},
    occurrence::{Cause, SkipReason, Slot},
    store::{AttemptRow, RangeRow, RunFilter, RunRow},
};

use super::{
    failure::{Failure, Fallible},
    rows::{Columns, micros},
};

macro_rules! runs {
    ($tail:literal) => {
        concat!(
            "SELECT o.occurrence_id, o.job_id, o.slot, o.nominal_at, o.fire_at, o.cause AS slot_cause, \
             o.destination, r.run_id, r.cause AS run_cause, ifnull(r.state, o.state) AS state, \
             o.state AS outcome, ifnull(r.reason, o.reason) AS reason, ifnull(r.attempts, 0) AS attempts, \
             r.started_at, ifnull(r.ended_at, o.ended_at) AS ended_at, \
             iif(r.state IN ('queued', 'backoff'), r.due_at, NULL) AS due_at, r.error, r.output, \
             r.usage, \
             (SELECT json_object( \
                'confirmed', ifnull(sum(p.state = 'confirmed'), 0), \
                'unknown', ifnull(sum(p.state = 'unknown'), 0), \
                'failed', ifnull(sum(p.state = 'failed'), 0), \
                'cancelled', ifnull(sum(p.state = 'cancelled'), 0), \
                'open', ifnull(sum(p.state IN ('pending', 'sending')), 0)) \
              FROM outbox AS m JOIN outbox_parts AS p ON p.message_id = m.message_id \
              WHERE m.run_id = r.run_id) AS delivery, \
             (SELECT count(*) FROM diagnostics AS d \
              WHERE d.run_id = r.run_id AND d.level = 'warn') AS warnings ",
            $tail
        )
    };
}

// `$1` is the earliest nominal instant, or NULL; `$2` how many, -1 for all; `$3` whose; `$5` which
// states and `$6` which reasons of a skipped slot, as JSON, or NULL for all.
const OF_ALL: &str = runs!(
    "FROM occurrences AS o LEFT JOIN runs AS r ON r.occurrence_id = o.occurrence_id \
     WHERE ($1 IS NULL OR o.nominal_at >= $1) \
       AND ($5 IS NULL OR ifnull(r.state, o.state) IN (SELECT x.value FROM json_each($5) AS x)) \
       AND ($6 IS NULL OR o.state = 'skipped' AND o.reason IN (SELECT x.value FROM json_each($6) AS x)) \
     ORDER BY o.occurrence_id DESC LIMIT $2"
);
const OF_JOB: &str = runs!(
    "FROM occurrences AS o LEFT JOIN runs AS r ON r.occurrence_id = o.occurrence_id \
     WHERE o.job_id = $3 AND o.nominal_at >= ifnull($1, -9223372036854775808) \
       AND ($5 IS NULL OR ifnull(r.state, o.state) IN (SELECT x.value FROM json_each($5) AS x)) \
       AND ($6 IS NULL OR o.state = 'skipped' AND o.reason IN (SELECT x.value FROM json_each($6) AS x)) \
     ORDER BY o.nominal_at DESC, o.occurrence_id DESC LIMIT $2"
);
const ONE: &str = runs!(
    "FROM runs AS r JOIN occurrences AS o ON o.occurrence_id = r.occurrence_id \
     WHERE r.run_id = $4 AND ($1 IS NULL OR o.nominal_at >= $1) AND ($3 IS NULL OR o.job_id = $3) \
     LIMIT $2"
);

const ATTEMPTS: &str = "\
SELECT run_id, attempt, started_at, ended_at, result, error FROM attempts
WHERE run_id = $1 ORDER BY attempt";

const RANGES: &str = "\
SELECT job_id, first_nominal_at, last_nominal_at, first_slot, last_slot, slots, reason
FROM occurrence_ranges
WHERE ($3 IS NULL OR job_id = $3) AND ($1 IS NULL OR last_nominal_at >= $1)
  AND ($4 IS NULL OR 'skipped' IN (SELECT x.value FROM json_each($4) AS x))
  AND ($5 IS NULL OR reason IN (SELECT x.value FROM json_each($5) AS x))
ORDER BY first_nominal_at DESC, job_id LIMIT $2";

const KEEP_CONTEXT: &str = "\
UPDATE runs SET context = coalesce(context, $2) WHERE run_id = $1 RETURNING context";

/// Every skipped slot of a job is listed with its runs.
pub(super) async fn list(pool: &SqlitePool, filter: &RunFilter) -> Fallible<Vec<RunRow>> {
    let sql = match (filter.run_id, &filter.job_id) {
        (Some(_), _) => ONE,
        (None, Some(_)) => OF_JOB,
        (None, None) => OF_ALL,
    };
    let query = sqlx::query(sql)
        .bind(filter.since.map(micros))
        .bind(most(filter))
        .bind(filter.job_id.as_ref().map(JobId::as_str))
        .bind(filter.run_id.map(|id| id.0))
        .bind(chosen(&filter.states)?)
        .bind(chosen(&filter.skipped_as)?);
    query.fetch_all(pool).await?.iter().map(run_row).collect()
}

/// What is chosen, as JSON; `None` for everything.
fn chosen<T: serde::Serialize>(words: &[T]) -> Fallible<Option<String>> {
    let some = (!words.is_empty()).then(|| serde_json::to_string(words));
    Ok(some.transpose()?)
}

fn most(filter: &RunFilter) -> i64 {
    filter.limit.map_or(-1, i64::from)
}

fn run_row(row: &SqliteRow) -> Fallible<RunRow> {
    let row = Columns::of(row, "occurrences", "occurrence_id");
    let run_id: Option<i64> = row.get("run_id")?;
    let cause = if run_id.is_some() {
        "run_cause"
    } else {
        "slot_cause"
    };
    let slot: Option<String> = row.get("slot")?;
    Ok(RunRow {
        run_id: run_id.map(RunId),
        job_id: row.word("job_id", |id| JobId::new(id).ok())?,
        slot: slot.map(Slot::from_text),
        nominal_at: row.instant("nominal_at")?,
        fire_at: row.instant("fire_at")?,
        cause: row.word(cause, Cause::from_stored)?,
        state: row.get("state")?,
        reason: row.get("reason")?,
        attempts: row.count("attempts")?,
        started_at: row.instant_or_none("started_at")?,
        ended_at: row.instant_or_none("ended_at")?,
        due_at: row.instant_or_none("due_at")?,
        error: row.get("error")?,
        output: row.get("output")?,
        usage: row.json_or_none("usage")?,
        destination: row.json_or_none("destination")?,
        delivery: row.json("delivery")?,
        warnings: row.count("warnings")?,
    })
}

pub(super) async fn attempts(pool: &SqlitePool, run: RunId) -> Fallible<Vec<AttemptRow>> {
    let rows = sqlx::query(ATTEMPTS).bind(run.0).fetch_all(pool).await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        let row = Columns::of(row, "attempts", "run_id");
        found.push(AttemptRow {
            attempt: row.count("attempt")?,
            started_at: row.instant("started_at")?,
            ended_at: row.instant_or_none("ended_at")?,
            result: row.get("result")?,
            error: row.get("error")?,
        });
    }
    Ok(found)
}

pub(super) async fn ranges(pool: &SqlitePool, filter: &RunFilter) -> Fallible<Vec<RangeRow>> {
    let rows = sqlx::query(RANGES)
        .bind(filter.since.map(micros))
        .bind(most(filter))
        .bind(filter.job_id.as_ref().map(JobId::as_str))
        .bind(chosen(&filter.states)?)
        .bind(chosen(&filter.skipped_as)?)
        .fetch_all(pool)
        .await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        let row = Columns::of(row, "occurrence_ranges", "job_id");
        let slots: i64 = row.get("slots")?;
        found.push(RangeRow {
            job_id: row.word("job_id", |id| JobId::new(id).ok())?,
            first_slot: Slot::from_text(row.get::<String>("first_slot")?),
            last_slot: Slot::from_text(row.get::<String>("last_slot")?),
            first_nominal_at: row.instant("first_nominal_at")?,
            last_nominal_at: row.instant("last_nominal_at")?,
            slots: u64::try_from(slots).map_err(|_| row.bad("slots", slots))?,
            reason: row.word("reason", SkipReason::from_stored)?,
        });
    }
    Ok(found)
}

/// Keeps the first snapshot of a run.
pub(super) async fn keep_context(
    conn: &mut SqliteConnection,
    run: RunId,
    snapshot: &str,
) -> Fallible<String> {
    let kept: Option<String> = sqlx::query_scalar(KEEP_CONTEXT)
        .bind(run.0)
        .bind(snapshot)
        .fetch_optional(&mut *conn)
        .await?;
    kept.ok_or_else(|| Failure::corrupt("runs", run, "run_id", "nothing: there is no such run"))
}
