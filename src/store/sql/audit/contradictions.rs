//! Rows of different tables that contradict each other, each found by one statement.

use jiff::Timestamp;

use crate::{
    audit::{Finding, FindingKind},
    ids::JobId,
    store::sql::{
        connection::Conn,
        failure::Fallible,
        rows::micros,
        statement::{Statement, query},
    },
};

/// How many findings of one statement are told.
const MOST: usize = 100;

/// Statements that select `job_id` and `what`; `$1` is the job, or NULL for all, and `$2` the
/// instant before which rows may have been pruned.
const STATEMENTS: [(FindingKind, Statement); 17] = [
    (FindingKind::Orphan, UNKNOWN_JOB),
    (FindingKind::Orphan, RANGE_OF_UNKNOWN_JOB),
    (FindingKind::Orphan, RUN_WITHOUT_OCCURRENCE),
    (FindingKind::Orphan, ATTEMPT_WITHOUT_RUN),
    (FindingKind::Orphan, PART_WITHOUT_MESSAGE),
    (FindingKind::Orphan, MESSAGE_WITHOUT_RUN),
    (FindingKind::Double, SLOT_TWICE),
    (FindingKind::Contradiction, OCCURRENCE_WITHOUT_RUN),
    (FindingKind::Contradiction, OCCURRENCE_AND_RUN),
    (FindingKind::Contradiction, RUN_AND_ITS_END),
    (FindingKind::Contradiction, RUN_AND_ATTEMPTS),
    (FindingKind::Contradiction, OPEN_ATTEMPTS),
    (FindingKind::Contradiction, RUN_WITHOUT_LANE),
    (FindingKind::Contradiction, LANE_WITHOUT_HOLDER),
    (FindingKind::Contradiction, REQUEST_AND_ITS_END),
    (FindingKind::Contradiction, PARTS_OF_A_MESSAGE),
    (FindingKind::Contradiction, PART_AND_ITS_END),
];

const UNKNOWN_JOB: Statement = Statement::common("\
SELECT o.job_id, 'occurrence ' || o.occurrence_id || ' is of ' ||
  CASE WHEN j.job_id IS NULL THEN 'no job' ELSE 'incarnation ' || o.incarnation || ', and the job has ' || j.incarnation END AS what
FROM occurrences AS o LEFT JOIN jobs AS j ON j.job_id = o.job_id
WHERE (j.job_id IS NULL OR o.incarnation > j.incarnation) AND ($1 IS NULL OR o.job_id = $1)");

const RANGE_OF_UNKNOWN_JOB: Statement = Statement::common("\
SELECT r.job_id, 'the range from ' || r.first_slot || ' is of ' ||
  CASE WHEN j.job_id IS NULL THEN 'no job' ELSE 'incarnation ' || r.incarnation || ', and the job has ' || j.incarnation END AS what
FROM occurrence_ranges AS r LEFT JOIN jobs AS j ON j.job_id = r.job_id
WHERE (j.job_id IS NULL OR r.incarnation > j.incarnation) AND ($1 IS NULL OR r.job_id = $1)");

const RUN_WITHOUT_OCCURRENCE: Statement = Statement::common("\
SELECT r.job_id, 'run ' || r.run_id || ' is of ' ||
  CASE WHEN o.occurrence_id IS NULL THEN 'no occurrence' ELSE 'an occurrence of job ' || o.job_id END AS what
FROM runs AS r LEFT JOIN occurrences AS o ON o.occurrence_id = r.occurrence_id
WHERE (o.occurrence_id IS NULL OR o.job_id <> r.job_id) AND ($1 IS NULL OR r.job_id = $1)");

const ATTEMPT_WITHOUT_RUN: Statement = Statement::common("\
SELECT NULL AS job_id, 'attempt ' || a.attempt || ' is of run ' || a.run_id || ', which is not there' AS what
FROM attempts AS a LEFT JOIN runs AS r ON r.run_id = a.run_id
WHERE r.run_id IS NULL AND $1 IS NULL");

const PART_WITHOUT_MESSAGE: Statement = Statement::common("\
SELECT NULL AS job_id, 'part ' || p.part_id || ' is of message ' || p.message_id || ', which is not there' AS what
FROM outbox_parts AS p LEFT JOIN outbox AS o ON o.message_id = p.message_id
WHERE o.message_id IS NULL AND $1 IS NULL");

// A message that was shown outlives its run.
const MESSAGE_WITHOUT_RUN: Statement = Statement::common(
    "\
SELECT o.job_id, 'message ' || o.message_id || ' is of run ' || o.run_id || ', which is ' ||
  CASE WHEN r.run_id IS NULL THEN 'not there' ELSE 'one of job ' || r.job_id END AS what
FROM outbox AS o LEFT JOIN runs AS r ON r.run_id = o.run_id
WHERE o.run_id IS NOT NULL AND ($1 IS NULL OR o.job_id = $1)
  AND (r.job_id <> o.job_id OR r.run_id IS NULL AND ($2 IS NULL OR o.enqueued_at >= $2))",
);

const SLOT_TWICE: Statement = Statement::common("\
SELECT job_id, 'slot ' || coalesce(min(slot), 'of a request') || ' has ' || count(*) || ' rows: occurrences ' ||
  string_agg(CAST(occurrence_id AS TEXT), ', ') AS what
FROM occurrences WHERE ($1 IS NULL OR job_id = $1)
GROUP BY job_id, CASE WHEN kind = 'scheduled' THEN incarnation ELSE -1 END, coalesce(request_id, -1), coalesce(slot, '')
HAVING count(*) > 1");

const OCCURRENCE_WITHOUT_RUN: Statement = Statement::common("\
SELECT o.job_id, 'occurrence ' || o.occurrence_id || ' is ' || o.state || ', and has no run' AS what
FROM occurrences AS o LEFT JOIN runs AS r ON r.occurrence_id = o.occurrence_id
WHERE o.state IN ('active', 'done', 'failed') AND r.run_id IS NULL AND ($1 IS NULL OR o.job_id = $1)");

// A run that was called off may belong to a slot that counts as skipped.
const OCCURRENCE_AND_RUN: Statement = Statement::common("\
SELECT o.job_id, 'occurrence ' || o.occurrence_id || ' is ' || o.state || ', and its run ' || r.run_id ||
  ' is ' || r.state AS what
FROM occurrences AS o JOIN runs AS r ON r.occurrence_id = o.occurrence_id
WHERE ($1 IS NULL OR o.job_id = $1) AND NOT CASE o.state
  WHEN 'active' THEN r.state IN ('queued', 'running', 'backoff')
  WHEN 'skipped' THEN r.state = 'cancelled'
  ELSE r.state = o.state END");

const RUN_AND_ITS_END: Statement = Statement::common(
    "\
SELECT job_id, 'run ' || run_id || ' is ' || state ||
  CASE WHEN ended_at IS NULL THEN ', and has no end' ELSE ', and has ended' END AS what
FROM runs WHERE ($1 IS NULL OR job_id = $1)
  AND (state IN ('done', 'failed', 'cancelled')) <> (ended_at IS NOT NULL)",
);

const RUN_AND_ATTEMPTS: Statement = Statement::common("\
SELECT r.job_id, 'run ' || r.run_id || ' counts ' || r.attempts || ' attempts, and has ' ||
  count(a.attempt) || CASE WHEN count(a.attempt) > 0 THEN ', up to number ' || max(a.attempt) ELSE '' END AS what
FROM runs AS r LEFT JOIN attempts AS a ON a.run_id = r.run_id
WHERE ($1 IS NULL OR r.job_id = $1)
GROUP BY r.run_id HAVING count(a.attempt) <> r.attempts OR coalesce(max(a.attempt), 0) <> r.attempts");

const OPEN_ATTEMPTS: Statement = Statement::common(
    "\
SELECT r.job_id, 'run ' || r.run_id || ' is ' || r.state || ', and ' ||
  (SELECT count(*) FROM attempts AS a WHERE a.run_id = r.run_id AND a.ended_at IS NULL) ||
  ' of its attempts are under way' AS what
FROM runs AS r WHERE ($1 IS NULL OR r.job_id = $1)
  AND (SELECT count(*) FROM attempts AS a WHERE a.run_id = r.run_id AND a.ended_at IS NULL)
    <> CASE WHEN r.state = 'running' THEN 1 ELSE 0 END",
);

const RUN_WITHOUT_LANE: Statement = Statement::common("\
SELECT r.job_id, 'run ' || r.run_id || ' is running, and does not hold lane ' || r.lane AS what
FROM runs AS r LEFT JOIN lanes AS l ON l.session_key = r.lane
WHERE r.state = 'running' AND ($1 IS NULL OR r.job_id = $1) AND l.holder IS DISTINCT FROM 'run:' || r.run_id");

const LANE_WITHOUT_HOLDER: Statement = Statement::common("\
SELECT NULL AS job_id, 'lane ' || l.session_key || ' is held by ' || l.holder || ', which is not under way' AS what
FROM lanes AS l WHERE $1 IS NULL AND l.holder IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM runs AS r
    WHERE l.holder = 'run:' || r.run_id AND r.state = 'running' AND r.lane = l.session_key)
  AND NOT EXISTS (SELECT 1 FROM turns AS t
    WHERE l.holder = 'turn:' || t.turn_id AND t.state = 'running' AND t.session_key = l.session_key)
  AND NOT EXISTS (SELECT 1 FROM outbox_parts AS p
    WHERE l.holder = 'part:' || p.part_id AND p.state = 'sending' AND p.session_key = l.session_key)");

// Scheduled rows are held against the plan, and their words with them.
const REQUEST_AND_ITS_END: Statement = Statement::common(
    "\
SELECT job_id, 'occurrence ' || occurrence_id || ' is ' || state ||
  CASE WHEN ended_at IS NULL THEN ', and has no end' ELSE ', and has ended' END AS what
FROM occurrences WHERE kind <> 'scheduled' AND ($1 IS NULL OR job_id = $1)
  AND (state IN ('waiting', 'active')) <> (ended_at IS NULL)",
);

const PARTS_OF_A_MESSAGE: Statement = Statement::common(
    "\
SELECT o.job_id, 'message ' || o.message_id || ' has ' || o.parts || ' parts, and ' ||
  count(p.part_id) || ' are there' AS what
FROM outbox AS o LEFT JOIN outbox_parts AS p ON p.message_id = o.message_id
WHERE ($1 IS NULL OR o.job_id = $1)
GROUP BY o.message_id HAVING count(p.part_id) <> o.parts",
);

const PART_AND_ITS_END: Statement = Statement::common(
    "\
SELECT o.job_id, 'part ' || p.part_id || ' is ' || p.state ||
  CASE WHEN p.settled_at IS NULL THEN ', and was never settled' ELSE ', and was settled' END AS what
FROM outbox_parts AS p JOIN outbox AS o ON o.message_id = p.message_id
WHERE ($1 IS NULL OR o.job_id = $1)
  AND (p.state IN ('pending', 'sending')) <> (p.settled_at IS NULL)",
);

/// Everything that one of the statements finds.
pub(super) async fn find(
    conn: &mut Conn,
    job: Option<&JobId>,
    pruned_before: Option<Timestamp>,
) -> Fallible<Vec<Finding>> {
    let mut findings = Vec::new();
    for (kind, sql) in STATEMENTS {
        let rows = query(sql)
            .bind(job.map(JobId::as_str))
            .bind(pruned_before.map(micros))
            .fetch_all(&mut *conn)
            .await?;
        for row in rows.iter().take(MOST) {
            let job: Option<String> = row.try_get("job_id")?;
            findings.push(Finding {
                job: job.and_then(|id| JobId::new(id).ok()),
                kind,
                what: row.try_get("what")?,
            });
        }
        if rows.len() > MOST {
            findings.push(Finding {
                job: None,
                kind,
                what: format!("and {} more like the last one", rows.len() - MOST),
            });
        }
    }
    Ok(findings)
}
