//! Lanes: what waits in the free ones, and giving them back.

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    ids::{JobId, MessageId, PartId, RunId, SessionKey, TurnId},
    occurrence::Cause,
    policy::{DeliveryHead, LaneQueue, RunHead, TurnHead},
    store::LaneLimits,
};

use super::{
    connection::{Conn, Pool},
    failure::Fallible,
    rows::{Columns, limit, micros, write_rows},
    statement::{Statement, over_rows, query, query_scalar},
};

const RELEASE: Statement = over_rows!(
    [session_key text, holder text, epoch bigint]
    "\
UPDATE lanes SET holder = NULL, worker_id = NULL, taken_at = NULL
FROM",
    "\
WHERE lanes.session_key = x.session_key AND lanes.holder = x.holder
  AND lanes.epoch = coalesce(x.epoch, lanes.epoch)"
);

// Lanes are found by what can be done in them, so that neither a thousand chats whose channel is
// down nor a thousand queued runs hide a lane that could go on. A run whose lane has other work is
// found with that work.
macro_rules! queues {
    ($least:literal) => {
        concat!(
            "\
WITH deliveries (lane) AS (
  SELECT p.session_key FROM outbox_parts AS p
  WHERE p.state IN ('pending', 'sending') AND p.resolution IS NULL AND p.next_attempt_at <= $1
    AND NOT EXISTS (SELECT 1 FROM outbox_parts AS q
      WHERE q.session_key = p.session_key AND q.state IN ('pending', 'sending')
        AND q.resolution IS NULL
        AND (q.begun > p.begun OR q.begun = p.begun AND (q.message_id, q.part) < (p.message_id, p.part)))
    AND NOT EXISTS (SELECT 1 FROM lanes AS l
      WHERE l.session_key = p.session_key AND l.holder IS NOT NULL)
  ORDER BY p.message_id, p.part LIMIT $2
),
turning (lane) AS (
  SELECT u.session_key FROM turns AS u
  WHERE u.state = 'waiting' AND NOT EXISTS (SELECT 1 FROM lanes AS l
      WHERE l.session_key = u.session_key AND l.holder IS NOT NULL)
  GROUP BY u.session_key ORDER BY min(u.requested_at), u.session_key LIMIT $2
),
running (lane) AS (
  SELECT s.lane FROM runs AS s
  WHERE s.state = 'queued' AND s.due_at <= $1
    AND NOT EXISTS (SELECT 1 FROM lanes AS l WHERE l.session_key = s.lane AND l.holder IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM outbox_parts AS q
      WHERE q.session_key = s.lane AND q.state IN ('pending', 'sending') AND q.resolution IS NULL)
    AND NOT EXISTS (SELECT 1 FROM turns AS u
      WHERE u.session_key = s.lane AND u.state = 'waiting')
    AND NOT EXISTS (SELECT 1 FROM runs AS h WHERE h.lane = s.lane AND h.state = 'queued'
      AND (h.due_at, h.job_id) < (s.due_at, s.job_id))
  ORDER BY (s.cause = 'catch-up'), s.due_at, s.job_id LIMIT $3
),
free (lane) AS (
  SELECT lane FROM deliveries UNION SELECT lane FROM turning UNION SELECT lane FROM running
)
SELECT f.lane, p.message_id, p.part_id, p.next_attempt_at, p.begun, o.enqueued_at,
  t.turn_id, t.requested_at, r.run_id, r.job_id, r.due_at, r.cause
FROM free AS f
LEFT JOIN outbox_parts AS p ON p.part_id = (
  SELECT q.part_id FROM outbox_parts AS q
  WHERE q.session_key = f.lane AND q.state IN ('pending', 'sending') AND q.resolution IS NULL
  ORDER BY q.begun DESC, q.message_id, q.part LIMIT 1)
LEFT JOIN outbox AS o ON o.message_id = p.message_id
LEFT JOIN turns AS t ON t.turn_id = (
  SELECT u.turn_id FROM turns AS u WHERE u.session_key = f.lane AND u.state = 'waiting'
  ORDER BY u.turn_id LIMIT 1)
LEFT JOIN runs AS r ON r.run_id = (
  SELECT s.run_id FROM runs AS s WHERE s.lane = f.lane AND s.state = 'queued' AND s.due_at <= $1
  ORDER BY s.due_at, s.job_id LIMIT 1)
ORDER BY ",
            $least,
            "(coalesce(o.enqueued_at, $1), coalesce(t.requested_at, $1), coalesce(r.due_at, $1)), f.lane"
        )
    };
}

pub(in crate::store) const QUEUES: Statement = Statement::of(queues!("min"), queues!("least"));

const WAITING_RUN: Statement = Statement::common(
    "SELECT EXISTS (SELECT 1 FROM runs WHERE state = 'queued' AND due_at <= $1) AS waits",
);

// In the order of `idx_runs_next`, of which only the first entry is read.
pub(in crate::store) const NEXT_INSTANT: Statement = Statement::common(
    "\
SELECT min(at) AS at FROM (
  SELECT min(next_attempt_at) AS at FROM outbox_parts
  WHERE state IN ('pending', 'sending') AND resolution IS NULL AND next_attempt_at > $1
  UNION ALL
  SELECT min(due_at) FROM runs
  WHERE state = 'queued' AND (cause = 'catch-up') = FALSE AND due_at > $1
  UNION ALL
  SELECT min(due_at) FROM runs
  WHERE state = 'queued' AND (cause = 'catch-up') = TRUE AND due_at > $1
) AS instants",
);

/// A lane that is given back, if it is still held so.
#[derive(Debug, Serialize)]
pub(super) struct Release {
    session_key: String,
    holder: String,
    epoch: Option<i64>,
}

impl Release {
    pub(super) fn lane(&self) -> &str {
        &self.session_key
    }

    /// A run is fenced by its own row.
    pub(super) fn run(lane: &str, run_id: i64) -> Self {
        Self {
            session_key: lane.to_owned(),
            holder: run_holder(run_id),
            epoch: None,
        }
    }

    pub(super) fn turn(session_key: &str, turn_id: i64) -> Self {
        Self {
            session_key: session_key.to_owned(),
            holder: turn_holder(turn_id),
            epoch: None,
        }
    }

    pub(super) fn part(session_key: &str, part_id: i64, epoch: i64) -> Self {
        Self {
            session_key: session_key.to_owned(),
            holder: part_holder(part_id),
            epoch: Some(epoch),
        }
    }
}

pub(super) fn run_holder(id: i64) -> String {
    format!("run:{id}")
}

pub(super) fn turn_holder(id: i64) -> String {
    format!("turn:{id}")
}

pub(super) fn part_holder(id: i64) -> String {
    format!("part:{id}")
}

/// Gives lanes back. The caller then applies the evidence that waited for it.
pub(super) async fn release(conn: &mut Conn, releases: &[Release]) -> Fallible<()> {
    write_rows(conn, RELEASE, releases).await
}

pub(super) async fn queues(
    pool: &Pool,
    now: Timestamp,
    most: LaneLimits,
) -> Fallible<Vec<LaneQueue>> {
    let rows = query(QUEUES)
        .bind(micros(now))
        .bind(limit(most.others))
        .bind(limit(most.runs))
        .fetch_all(pool)
        .await?;
    let mut queues = Vec::with_capacity(rows.len());
    for row in &rows {
        let row = Columns::of(row, "lanes", "lane");
        let key: String = row.get("lane")?;
        queues.push(LaneQueue {
            session_key: SessionKey::from_stored(key),
            delivery: delivery_head(&row)?,
            turn: turn_head(&row)?,
            run: run_head(&row)?,
        });
    }
    Ok(queues)
}

fn delivery_head(row: &Columns<'_>) -> Fallible<Option<DeliveryHead>> {
    let Some(part_id) = row.get::<Option<i64>>("part_id")? else {
        return Ok(None);
    };
    Ok(Some(DeliveryHead {
        message_id: MessageId(row.get("message_id")?),
        part_id: PartId(part_id),
        next_attempt_at: row.instant("next_attempt_at")?,
        enqueued_at: row.instant("enqueued_at")?,
        first: row.get("begun")?,
    }))
}

fn turn_head(row: &Columns<'_>) -> Fallible<Option<TurnHead>> {
    let Some(turn_id) = row.get::<Option<i64>>("turn_id")? else {
        return Ok(None);
    };
    Ok(Some(TurnHead {
        turn_id: TurnId(turn_id),
        requested_at: row.instant("requested_at")?,
    }))
}

fn run_head(row: &Columns<'_>) -> Fallible<Option<RunHead>> {
    let Some(run_id) = row.get::<Option<i64>>("run_id")? else {
        return Ok(None);
    };
    Ok(Some(RunHead {
        run_id: RunId(run_id),
        job_id: row.word("job_id", |id| JobId::new(id).ok())?,
        due_at: row.instant("due_at")?,
        cause: row.word("cause", Cause::from_stored)?,
    }))
}

pub(super) async fn has_waiting_run(pool: &Pool, now: Timestamp) -> Fallible<bool> {
    let waits = query_scalar(WAITING_RUN).bind(micros(now));
    Ok(waits.fetch_one(pool).await?)
}

pub(super) async fn next_instant(pool: &Pool, now: Timestamp) -> Fallible<Option<Timestamp>> {
    let row = query(NEXT_INSTANT)
        .bind(micros(now))
        .fetch_one(pool)
        .await?;
    Columns::of(&row, "lanes", "at").instant_or_none("at")
}
