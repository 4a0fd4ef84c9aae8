//! Runs, attempts and skipped stretches, as they are listed; the snapshot of a run.

use crate::{
    ids::{JobId, OccurrenceId, RunId},
    occurrence::{Cause, SkipReason, Slot},
    store::{AttemptRow, RangeRow, RunFilter, RunRow},
};

use super::{
    connection::{Conn, Pool, Row},
    failure::{Failure, Fallible},
    rows::{Columns, micros},
    statement::{Statement, query, query_scalar},
};

macro_rules! runs {
    ($tail:literal) => {
        concat!(
            "SELECT o.occurrence_id, o.job_id, o.slot, o.nominal_at, o.fire_at, o.cause AS slot_cause, \
             o.destination, r.run_id, r.cause AS run_cause, coalesce(r.state, o.state) AS state, \
             o.state AS outcome, coalesce(r.reason, o.reason) AS reason, coalesce(r.attempts, 0) AS attempts, \
             r.started_at, coalesce(r.ended_at, o.ended_at) AS ended_at, \
             CASE WHEN r.state IN ('queued', 'backoff') THEN r.due_at END AS due_at, r.error, r.output, \
             r.usage, \
             (SELECT '{\"confirmed\":' || count(CASE WHEN p.state = 'confirmed' THEN 1 END) \
                || ',\"unknown\":' || count(CASE WHEN p.state = 'unknown' THEN 1 END) \
                || ',\"failed\":' || count(CASE WHEN p.state = 'failed' THEN 1 END) \
                || ',\"cancelled\":' || count(CASE WHEN p.state = 'cancelled' AND p.reason <> 'said-already' THEN 1 END) \
                || ',\"open\":' || count(CASE WHEN p.state IN ('pending', 'sending') THEN 1 END) \
                || '}' \
              FROM outbox AS m JOIN outbox_parts AS p ON p.message_id = m.message_id \
              WHERE m.run_id = r.run_id) AS delivery, \
             (SELECT count(*) FROM diagnostics AS d \
              WHERE d.run_id = r.run_id AND d.level = 'warn') AS warnings ",
            $tail
        )
    };
}

// `$1` is the earliest nominal instant; `$2` how many; `$3` whose, or NULL for all; `$5` which
// states and `$6` which reasons of a skipped slot, as JSON, or NULL for all; `$7` and `$8` the place
// behind which it begins.
const OF_ALL: Statement = Statement::common(runs!(
    "FROM occurrences AS o LEFT JOIN runs AS r ON r.occurrence_id = o.occurrence_id \
     WHERE o.nominal_at >= $1 \
       AND ($5 IS NULL OR $5 LIKE '%\"' || coalesce(r.state, o.state) || '\"%') \
       AND ($6 IS NULL OR o.state = 'skipped' AND $6 LIKE '%\"' || o.reason || '\"%') \
       AND o.occurrence_id < $7 \
     ORDER BY o.occurrence_id DESC LIMIT $2"
));
const OF_JOB: Statement = Statement::common(runs!(
    "FROM occurrences AS o LEFT JOIN runs AS r ON r.occurrence_id = o.occurrence_id \
     WHERE o.job_id = $3 AND o.nominal_at >= $1 \
       AND ($5 IS NULL OR $5 LIKE '%\"' || coalesce(r.state, o.state) || '\"%') \
       AND ($6 IS NULL OR o.state = 'skipped' AND $6 LIKE '%\"' || o.reason || '\"%') \
       AND (o.nominal_at, o.occurrence_id) < ($8, $7) \
     ORDER BY o.nominal_at DESC, o.occurrence_id DESC LIMIT $2"
));
const ONE: Statement = Statement::common(runs!(
    "FROM runs AS r JOIN occurrences AS o ON o.occurrence_id = r.occurrence_id \
     WHERE r.run_id = $4 AND o.nominal_at >= $1 AND ($3 IS NULL OR o.job_id = $3) \
     LIMIT $2"
));

const ATTEMPTS: Statement = Statement::common(
    "\
SELECT run_id, attempt, started_at, ended_at, result, error, effects_at FROM attempts
WHERE run_id = $1 ORDER BY attempt",
);

const RANGES: Statement = Statement::common(
    "\
SELECT job_id, first_nominal_at, last_nominal_at, first_slot, last_slot, slots, reason
FROM occurrence_ranges
WHERE ($3 IS NULL OR job_id = $3) AND last_nominal_at >= $1
  AND ($4 IS NULL OR $4 LIKE '%\"skipped\"%')
  AND ($5 IS NULL OR $5 LIKE '%\"' || reason || '\"%')
  AND (first_nominal_at < $6 OR first_nominal_at = $6 AND job_id > $7)
ORDER BY first_nominal_at DESC, job_id LIMIT $2",
);

const KEEP_CONTEXT: Statement = Statement::common(
    "\
UPDATE runs SET context = coalesce(context, $2) WHERE run_id = $1 RETURNING context",
);

/// Every skipped slot of a job is listed with its runs.
pub(super) async fn list(pool: &Pool, filter: &RunFilter) -> Fallible<Vec<RunRow>> {
    let sql = match (filter.run_id, &filter.job_id) {
        (Some(_), _) => ONE,
        (None, Some(_)) => OF_JOB,
        (None, None) => OF_ALL,
    };
    let before = filter.before;
    let query = query(sql)
        .bind(filter.since.map_or(i64::MIN, micros))
        .bind(most(filter))
        .bind(filter.job_id.as_ref().map(JobId::as_str))
        .bind(filter.run_id.map(|id| id.0))
        .bind(chosen(&filter.states)?)
        .bind(chosen(&filter.skipped_as)?)
        .bind(before.map_or(i64::MAX, |before| before.occurrence_id.0))
        .bind(before.map_or(i64::MAX, |before| micros(before.nominal_at)));
    query.fetch_all(pool).await?.iter().map(run_row).collect()
}

/// What is chosen, as JSON; `None` for everything.
fn chosen<T: serde::Serialize>(words: &[T]) -> Fallible<Option<String>> {
    let some = (!words.is_empty()).then(|| serde_json::to_string(words));
    Ok(some.transpose()?)
}

fn most(filter: &RunFilter) -> i64 {
    filter.limit.map_or(i64::MAX, i64::from)
}

fn run_row(row: &Row) -> Fallible<RunRow> {
    let row = Columns::of(row, "occurrences", "occurrence_id");
    let run_id: Option<i64> = row.get("run_id")?;
    let cause = if run_id.is_some() {
        "run_cause"
    } else {
        "slot_cause"
    };
    let slot: Option<String> = row.get("slot")?;
    Ok(RunRow {
        occurrence_id: OccurrenceId(row.get("occurrence_id")?),
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

pub(super) async fn attempts(pool: &Pool, run: RunId) -> Fallible<Vec<AttemptRow>> {
    let rows = query(ATTEMPTS).bind(run.0).fetch_all(pool).await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        let row = Columns::of(row, "attempts", "run_id");
        found.push(AttemptRow {
            attempt: row.count("attempt")?,
            started_at: row.instant("started_at")?,
            ended_at: row.instant_or_none("ended_at")?,
            result: row.get("result")?,
            error: row.get("error")?,
            effects_at: row.instant_or_none("effects_at")?,
        });
    }
    Ok(found)
}

pub(super) async fn ranges(pool: &Pool, filter: &RunFilter) -> Fallible<Vec<RangeRow>> {
    let before = filter.ranges_before.as_ref();
    let rows = query(RANGES)
        .bind(filter.since.map_or(i64::MIN, micros))
        .bind(most(filter))
        .bind(filter.job_id.as_ref().map(JobId::as_str))
        .bind(chosen(&filter.states)?)
        .bind(chosen(&filter.skipped_as)?)
        .bind(before.map_or(i64::MAX, |before| micros(before.first_nominal_at)))
        .bind(before.map_or("", |before| before.job_id.as_str()))
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
pub(super) async fn keep_context(conn: &mut Conn, run: RunId, snapshot: &str) -> Fallible<String> {
    let kept: Option<String> = query_scalar(KEEP_CONTEXT)
        .bind(run.0)
        .bind(snapshot)
        .fetch_optional(&mut *conn)
        .await?;
    kept.ok_or_else(|| Failure::corrupt("runs", run, "run_id", "nothing: there is no such run"))
}
