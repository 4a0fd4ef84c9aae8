//! Forgetting: what is older than the retention says, a bounded number of rows at a time.
//!
//! Candidates are looked for beside the writer, which then deletes by id. Rows that a chat showed
//! or may have shown, receipts and their keys, and ranges are never candidates.

use jiff::{SignedDuration, Timestamp};

use crate::directory::Retention;

use super::{
    connection::{Conn, Pool},
    failure::Fallible,
    rows::{micros, text_instant},
    statement::{Statement, over_numbers, over_texts, query, query_scalar},
};

/// How many rows of a kind go at most in one call.
const MOST: i64 = 1000;

const OLD_RUNS: Statement = Statement::common(
    "\
SELECT r.run_id FROM runs AS r
WHERE r.ended_at IS NOT NULL AND r.ended_at < $1
  AND NOT EXISTS (SELECT 1 FROM outbox AS o JOIN outbox_parts AS p ON p.message_id = o.message_id
    WHERE o.run_id = r.run_id AND p.state IN ('pending', 'sending'))
ORDER BY r.ended_at LIMIT $2",
);

const OLD_SLOTS: Statement = Statement::common(
    "\
SELECT o.occurrence_id FROM occurrences AS o
WHERE o.ended_at < $1
  AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.occurrence_id = o.occurrence_id)
ORDER BY o.occurrence_id LIMIT $2",
);

// A cooldown may be longer than the retention, so the newest alert of each cause is remembered.
const OLD_INCIDENTS: Statement = Statement::common(
    "\
SELECT i.incident_id FROM incidents AS i
WHERE i.over_at IS NOT NULL AND i.over_at < $1
  AND NOT EXISTS (SELECT 1 FROM jobs AS j
    WHERE j.job_id = i.job_id AND j.incarnation = i.incarnation AND j.removed_at IS NULL
      AND i.alerted_at = (SELECT max(k.alerted_at) FROM incidents AS k WHERE k.job_id = i.job_id
        AND k.incarnation = i.incarnation AND k.cause = i.cause AND k.alerted_at IS NOT NULL))
  AND NOT EXISTS (SELECT 1 FROM outbox AS o JOIN outbox_parts AS p ON p.message_id = o.message_id
    WHERE o.producer = i.producer AND o.origin IN ('failure_alert', 'recovery')
      AND p.state IN ('pending', 'sending'))
ORDER BY i.over_at LIMIT $2",
);

// What programs have sent and no chat can have shown. A request that comes again after that is
// refused by its age.
const OLD_SENDS: Statement = Statement::common(
    "\
SELECT o.message_id FROM outbox AS o
WHERE o.run_id IS NULL AND o.turn_id IS NULL AND o.enqueued_at < $1
  AND o.origin IN ('message_tool', 'subagent_announcement', 'gateway')
  AND NOT EXISTS (SELECT 1 FROM outbox_parts AS p WHERE p.message_id = o.message_id
    AND (p.state NOT IN ('failed', 'cancelled') OR p.settled_at >= $1))
ORDER BY o.enqueued_at LIMIT $2",
);

const OLD_ENTRIES: Statement = Statement::of(
    "\
SELECT CAST(e.id AS BIGINT) FROM ctx_sessions AS s JOIN ctx_session_entries AS e ON e.session_id = s.session_id
WHERE s.session_key >= 'cron:' AND s.session_key < 'cron;'
  AND e.visibility IN ('internal', 'interior') AND e.created_at < $1
LIMIT $2",
    "\
SELECT CAST(e.id AS BIGINT) FROM ctx_sessions AS s JOIN ctx_session_entries AS e ON e.session_id = s.session_id
WHERE s.session_key LIKE 'cron:%'
  AND e.visibility IN ('internal', 'interior') AND e.created_at < CAST($1 AS TIMESTAMPTZ)
LIMIT $2",
);

macro_rules! old_one_shots {
    ($at:literal) => {
        concat!(
            "\
SELECT j.job_id FROM jobs AS j JOIN definitions AS d ON d.digest = j.digest
WHERE j.removed_at IS NULL AND ",
            $at,
            " IS NOT NULL
  AND (SELECT max(o.ended_at) FROM occurrences AS o
    WHERE o.job_id = j.job_id AND o.incarnation = j.incarnation AND o.kind = 'scheduled') < $1
  AND NOT EXISTS (SELECT 1 FROM occurrences AS o
    WHERE o.job_id = j.job_id AND o.incarnation = j.incarnation AND o.ended_at IS NULL)
LIMIT $2"
        )
    };
}

const OLD_ONE_SHOTS: Statement = Statement::of(
    old_one_shots!("json_extract(d.definition, '$.schedule.when.at')"),
    old_one_shots!("d.definition::json #> '{schedule,when,at}'"),
);

// A message goes as a whole, and only if no part of it can have been shown.
const FORGET_PARTS: Statement = over_numbers!(
    "\
DELETE FROM outbox_parts WHERE message_id IN (
  SELECT o.message_id FROM",
    "\
JOIN outbox AS o ON o.run_id = x.id
  WHERE NOT EXISTS (SELECT 1 FROM outbox_parts AS q
    WHERE q.message_id = o.message_id AND q.state NOT IN ('failed', 'cancelled')))"
);
const FORGET_MESSAGES: Statement = over_numbers!(
    "DELETE FROM outbox WHERE run_id IN (SELECT x.id FROM",
    "\
)
  AND NOT EXISTS (SELECT 1 FROM outbox_parts AS q WHERE q.message_id = outbox.message_id)"
);
// The messages of incidents, likewise.
const FORGET_ALERT_PARTS: Statement = over_numbers!(
    "\
DELETE FROM outbox_parts WHERE message_id IN (
  SELECT o.message_id FROM",
    "\
JOIN incidents AS i ON i.incident_id = x.id
  JOIN outbox AS o ON o.producer = i.producer AND o.origin IN ('failure_alert', 'recovery')
  WHERE NOT EXISTS (SELECT 1 FROM outbox_parts AS q
    WHERE q.message_id = o.message_id AND q.state NOT IN ('failed', 'cancelled')))"
);
const FORGET_ALERTS: Statement = over_numbers!(
    "\
DELETE FROM outbox WHERE origin IN ('failure_alert', 'recovery') AND producer IN (
  SELECT i.producer FROM",
    "\
JOIN incidents AS i ON i.incident_id = x.id)
  AND NOT EXISTS (SELECT 1 FROM outbox_parts AS q WHERE q.message_id = outbox.message_id)"
);
const FORGET_SENT_PARTS: Statement = over_numbers!(
    "DELETE FROM outbox_parts WHERE message_id IN (SELECT x.id FROM",
    ") AND state IN ('failed', 'cancelled')"
);
const FORGET_SENDS: Statement = over_numbers!(
    "DELETE FROM outbox WHERE message_id IN (SELECT x.id FROM",
    "\
)
  AND NOT EXISTS (SELECT 1 FROM outbox_parts AS q WHERE q.message_id = outbox.message_id)"
);
const FORGET_INCIDENTS: Statement = over_numbers!(
    "DELETE FROM incidents WHERE incident_id IN (SELECT x.id FROM",
    ") AND over_at IS NOT NULL"
);
// What is known of a part stays with the part: `verify` tells declared differences by it.
const FORGET_DIAGNOSTICS: Statement = over_numbers!(
    "\
DELETE FROM diagnostics
WHERE part_id IS NULL AND run_id IN (SELECT x.id FROM",
    ")"
);
const OCCURRENCES_OF: Statement = over_numbers!(
    "SELECT r.occurrence_id FROM",
    "JOIN runs AS r ON r.run_id = x.id"
);
// Runs that overlap have lanes of their own.
const FORGET_LANES: Statement = over_numbers!(
    "\
DELETE FROM lanes WHERE holder IS NULL AND session_key IN (
  SELECT r.lane FROM",
    "\
JOIN runs AS r ON r.run_id = x.id
  WHERE r.lane LIKE 'cron:%:run:%')"
);
const FORGET_RUNS: Statement =
    over_numbers!("DELETE FROM runs WHERE run_id IN (SELECT x.id FROM", ")");
const FORGET_OCCURRENCES: Statement = over_numbers!(
    "DELETE FROM occurrences WHERE occurrence_id IN (SELECT x.id FROM",
    ")"
);
const FORGET_ENTRIES: Statement = over_numbers!(
    "DELETE FROM ctx_session_entries WHERE id IN (SELECT x.id FROM",
    "\
)
  AND visibility IN ('internal', 'interior')"
);
const REMOVE_JOBS: Statement = over_texts!(
    "\
UPDATE jobs SET removed_at = $2, wake_at = NULL, version = version + 1
WHERE removed_at IS NULL AND job_id IN (SELECT x.id FROM",
    "\
)
  AND NOT EXISTS (SELECT 1 FROM occurrences AS o WHERE o.job_id = jobs.job_id
    AND o.incarnation = jobs.incarnation AND o.ended_at IS NULL)"
);
const MARK: Statement = Statement::common(
    "\
INSERT INTO facts (name, value) VALUES ('pruned_before', $1)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
WHERE CAST(facts.value AS BIGINT) < CAST(excluded.value AS BIGINT)",
);

/// What may be forgotten.
#[derive(Debug)]
pub(super) struct Candidates {
    runs: Vec<i64>,
    slots: Vec<i64>,
    incidents: Vec<i64>,
    sends: Vec<i64>,
    entries: Vec<i64>,
    one_shots: Vec<String>,
    runs_before: i64,
}

pub(super) async fn look(
    pool: &Pool,
    retention: &Retention,
    now: Timestamp,
) -> Fallible<Candidates> {
    let runs_before = micros(before(now, retention.runs));
    let entries_before = text_instant(before(now, retention.job_sessions));
    let one_shots_before = micros(before(now, retention.one_shots));
    Ok(Candidates {
        runs: query_scalar(OLD_RUNS)
            .bind(runs_before)
            .bind(MOST)
            .fetch_all(pool)
            .await?,
        slots: query_scalar(OLD_SLOTS)
            .bind(runs_before)
            .bind(MOST)
            .fetch_all(pool)
            .await?,
        incidents: query_scalar(OLD_INCIDENTS)
            .bind(runs_before)
            .bind(MOST)
            .fetch_all(pool)
            .await?,
        sends: query_scalar(OLD_SENDS)
            .bind(runs_before)
            .bind(MOST)
            .fetch_all(pool)
            .await?,
        entries: query_scalar(OLD_ENTRIES)
            .bind(entries_before)
            .bind(MOST)
            .fetch_all(pool)
            .await?,
        one_shots: query_scalar(OLD_ONE_SHOTS)
            .bind(one_shots_before)
            .bind(MOST)
            .fetch_all(pool)
            .await?,
        runs_before,
    })
}

fn before(now: Timestamp, kept: SignedDuration) -> Timestamp {
    now.saturating_sub(kept).unwrap_or(Timestamp::MIN)
}

/// Deletes the candidates; returns how many rows went.
pub(super) async fn forget(conn: &mut Conn, found: Candidates, now: Timestamp) -> Fallible<u64> {
    let mut gone = 0;
    let runs = serde_json::to_string(&found.runs)?;
    let mut occurrences: Vec<i64> = query_scalar(OCCURRENCES_OF)
        .bind(&runs)
        .fetch_all(&mut *conn)
        .await?;
    occurrences.extend(found.slots);
    let occurrences = serde_json::to_string(&occurrences)?;
    let incidents = serde_json::to_string(&found.incidents)?;
    let sends = serde_json::to_string(&found.sends)?;
    let entries = serde_json::to_string(&found.entries)?;
    for (sql, ids) in [
        (FORGET_PARTS, &runs),
        (FORGET_MESSAGES, &runs),
        (FORGET_DIAGNOSTICS, &runs),
        (FORGET_LANES, &runs),
        (FORGET_RUNS, &runs),
        (FORGET_OCCURRENCES, &occurrences),
        (FORGET_ALERT_PARTS, &incidents),
        (FORGET_ALERTS, &incidents),
        (FORGET_INCIDENTS, &incidents),
        (FORGET_SENT_PARTS, &sends),
        (FORGET_SENDS, &sends),
        (FORGET_ENTRIES, &entries),
    ] {
        let done = query(sql).bind(ids).execute(&mut *conn).await?;
        gone += done;
    }
    let removal = query(REMOVE_JOBS)
        .bind(serde_json::to_string(&found.one_shots)?)
        .bind(micros(now));
    gone += removal.execute(&mut *conn).await?;
    if gone > 0 {
        let mark = query(MARK).bind(found.runs_before.to_string());
        mark.execute(&mut *conn).await?;
    }
    Ok(gone)
}
