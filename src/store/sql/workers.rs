//! Workers: what one that starts finds left by one that died.

use std::collections::HashSet;

use jiff::Timestamp;

use crate::{
    policy::clock::is_set_back,
    store::{Interrupted, WorkerId},
};

use super::{
    claim::{CLAIMED_PARTS, CLAIMED_RUNS, claimed_part, claimed_run},
    connection::{Conn, Pool, Row},
    failure::Fallible,
    ids::{Ids, Kind},
    resolution,
    rows::{Columns, micros, rows_for, set, write_rows},
    statement::{Statement, over_numbers, over_texts, query, query_scalar},
    stretches,
};

/// A turn is tried once more after its process died, and not again.
const TURN_ATTEMPTS: i64 = 2;

const REGISTER: Statement = Statement::common(
    "\
INSERT INTO workers (worker_id, started_at, version, zone_data) VALUES ($1, $2, $3, $4)",
);

const RECORD_ZONE_DATA: Statement = Statement::common(
    "\
INSERT INTO facts (name, value) VALUES ('zone_data', $1)
ON CONFLICT (name) DO UPDATE SET value = excluded.value",
);

const ZONE_DATA: Statement = Statement::common("SELECT value FROM facts WHERE name = 'zone_data'");

const SEE_CLOCK: Statement = Statement::common(
    "\
INSERT INTO facts (name, value) VALUES ('clock_seen_at', $1)
ON CONFLICT (name) DO UPDATE SET value = excluded.value",
);

// A database in which nobody has recorded it yet tells it by what it has.
const CLOCK_SEEN: Statement = Statement::common(
    "\
SELECT coalesce(
  (SELECT CAST(value AS BIGINT) FROM facts WHERE name = 'clock_seen_at'),
  (SELECT max(w.at) FROM (SELECT max(started_at) AS at FROM workers
    UNION ALL SELECT max(stopped_at) FROM workers) AS w)) AS at",
);

// When something was last recorded: no cursor is ahead of that.
const NEWEST: Statement = Statement::common(
    "\
SELECT max(n.at) AS at FROM (
  SELECT CAST(value AS BIGINT) AS at FROM facts WHERE name = 'clock_seen_at'
  UNION ALL SELECT o.at FROM
    (SELECT accounted_at AS at FROM occurrences ORDER BY occurrence_id DESC LIMIT 1) AS o
  UNION ALL SELECT max(recorded_at) FROM occurrence_ranges
  UNION ALL SELECT max(begun_at) FROM plan_stretches) AS n",
);

// What was derived with other zone data, or by a clock that was ahead, is derived anew, by a
// decision that finds nothing due.
const LOOK_AGAIN: Statement = Statement::common(
    "\
UPDATE jobs SET wake_at = CASE WHEN wake_at < $1 THEN wake_at ELSE $1 END
WHERE wake_at IS NOT NULL AND removed_at IS NULL",
);

const RUNNING: Statement =
    Statement::common("SELECT run_id FROM runs WHERE state = 'running' ORDER BY run_id");

// A part without a lease is between two tries: nobody was sending it.
macro_rules! in_flight {
    ($index:literal) => {
        concat!(
            "\
SELECT part_id FROM outbox_parts",
            $index,
            "
WHERE state IN ('pending', 'sending') AND state = 'sending' AND epoch IS NOT NULL ORDER BY part_id"
        )
    };
}

const IN_FLIGHT: Statement = Statement::of(
    in_flight!(" INDEXED BY idx_outbox_parts_open"),
    in_flight!(""),
);

const FAIL_TURNS: Statement = Statement::common(
    "\
UPDATE turns SET state = 'failed', epoch = epoch + 1, ended_at = $2, error = 'interrupted twice'
WHERE state = 'running' AND attempts >= $1",
);

const REQUEUE_TURNS: Statement = Statement::common(
    "UPDATE turns SET state = 'waiting', epoch = epoch + 1 WHERE state = 'running'",
);

const FREE_LANES: Statement = Statement::common(
    "\
UPDATE lanes SET holder = NULL, worker_id = NULL, taken_at = NULL WHERE holder IS NOT NULL",
);

const HELD: Statement = Statement::common(
    "\
SELECT session_key, holder FROM lanes WHERE worker_id = $1 AND holder IS NOT NULL",
);

const FREE_LANES_NAMED: Statement = over_texts!(
    "\
UPDATE lanes SET holder = NULL, worker_id = NULL, taken_at = NULL
WHERE session_key IN (SELECT x.id FROM",
    ")"
);

const FAIL_TURNS_NAMED: Statement = over_numbers!(
    "\
UPDATE turns SET state = 'failed', epoch = epoch + 1, ended_at = $3, error = 'interrupted twice'
WHERE state = 'running' AND attempts >= $2 AND turn_id IN (SELECT x.id FROM",
    ")"
);

const REQUEUE_TURNS_NAMED: Statement = over_numbers!(
    "\
UPDATE turns SET state = 'waiting', epoch = epoch + 1
WHERE state = 'running' AND turn_id IN (SELECT x.id FROM",
    ")"
);

const STOP: Statement =
    Statement::common("UPDATE workers SET stopped_at = $2 WHERE worker_id = $1");

pub(super) async fn begin(
    conn: &mut Conn,
    zone_data: &str,
    now: Timestamp,
) -> Fallible<(WorkerId, Interrupted)> {
    let id = Ids::take_one(conn, Kind::Worker).await?;
    query(REGISTER)
        .bind(id)
        .bind(micros(now))
        .bind(env!("CARGO_PKG_VERSION"))
        .bind(zone_data)
        .execute(&mut *conn)
        .await?;
    let known: Option<String> = query_scalar(ZONE_DATA).fetch_optional(&mut *conn).await?;
    let newest = instant(&query(NEWEST).fetch_one(&mut *conn).await?)?;
    let is_set_back = newest.is_some_and(|newest| is_set_back(newest, now));
    if is_set_back || known.is_some_and(|known| known != zone_data) {
        look_again(conn, now).await?;
    }
    see_clock(conn, now).await?;
    stretches::follow_zone_data(conn, now).await?;
    let fact = query(RECORD_ZONE_DATA).bind(zone_data);
    fact.execute(&mut *conn).await?;
    let interrupted = interrupted(conn).await?;
    let failed = query(FAIL_TURNS).bind(TURN_ATTEMPTS).bind(micros(now));
    failed.execute(&mut *conn).await?;
    query(REQUEUE_TURNS).execute(&mut *conn).await?;
    query(FREE_LANES).execute(&mut *conn).await?;
    resolution::apply_in_free_lanes(conn, now).await?;
    Ok((WorkerId(id), interrupted))
}

async fn interrupted(conn: &mut Conn) -> Fallible<Interrupted> {
    let runs: Vec<i64> = query_scalar(RUNNING).fetch_all(&mut *conn).await?;
    let parts: Vec<i64> = query_scalar(IN_FLIGHT).fetch_all(&mut *conn).await?;
    claimed(conn, &runs, &parts).await
}

async fn claimed(conn: &mut Conn, runs: &[i64], parts: &[i64]) -> Fallible<Interrupted> {
    let runs = rows_for(conn, CLAIMED_RUNS, runs).await?;
    let parts = rows_for(conn, CLAIMED_PARTS, parts).await?;
    Ok(Interrupted {
        runs: runs.iter().map(claimed_run).collect::<Fallible<_>>()?,
        parts: parts.iter().map(claimed_part).collect::<Fallible<_>>()?,
    })
}

/// Takes back the lanes that a living worker holds and does not work in.
pub(super) async fn reclaim(
    conn: &mut Conn,
    worker: WorkerId,
    at_work: &HashSet<String>,
    now: Timestamp,
) -> Fallible<Interrupted> {
    let held = query(HELD).bind(worker.0).fetch_all(&mut *conn).await?;
    let (mut lanes, mut runs, mut turns, mut parts) = (vec![], vec![], vec![], vec![]);
    for row in &held {
        let row = Columns::of(row, "lanes", "session_key");
        let (lane, holder): (String, String) = (row.get("session_key")?, row.get("holder")?);
        if at_work.contains(&holder) {
            continue;
        }
        lanes.push(lane);
        match holder.split_once(':').map(|(kind, id)| (kind, id.parse())) {
            Some(("run", Ok(id))) => runs.push(id),
            Some(("turn", Ok(id))) => turns.push(id),
            Some(("part", Ok(id))) => parts.push(id),
            Some(_) | None => {}
        }
    }
    if lanes.is_empty() {
        return Ok(Interrupted::default());
    }
    let interrupted = claimed(conn, &runs, &parts).await?;
    let failed = set::<i64>(FAIL_TURNS_NAMED, &turns)?
        .bind(TURN_ATTEMPTS)
        .bind(micros(now));
    failed.execute(&mut *conn).await?;
    write_rows(conn, REQUEUE_TURNS_NAMED, &turns).await?;
    write_rows(conn, FREE_LANES_NAMED, &lanes).await?;
    resolution::apply_in_free_lanes(conn, now).await?;
    Ok(interrupted)
}

pub(super) async fn end(conn: &mut Conn, worker: WorkerId, now: Timestamp) -> Fallible<()> {
    let query = query(STOP).bind(worker.0).bind(micros(now));
    query.execute(&mut *conn).await?;
    see_clock(conn, now).await
}

pub(super) async fn clock_seen(pool: &Pool) -> Fallible<Option<Timestamp>> {
    instant(&query(CLOCK_SEEN).fetch_one(pool).await?)
}

fn instant(row: &Row) -> Fallible<Option<Timestamp>> {
    Columns::of(row, "facts", "at").instant_or_none("at")
}

pub(super) async fn see_clock(conn: &mut Conn, now: Timestamp) -> Fallible<()> {
    let fact = query(SEE_CLOCK).bind(micros(now).to_string());
    fact.execute(&mut *conn).await?;
    Ok(())
}

pub(super) async fn look_again(conn: &mut Conn, now: Timestamp) -> Fallible<()> {
    let query = query(LOOK_AGAIN).bind(micros(now));
    query.execute(&mut *conn).await?;
    Ok(())
}
