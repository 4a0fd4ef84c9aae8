//! Workers: their leases, and what one finds left by one that died.
//!
//! A worker is alive while its row says neither that it has stopped nor that its lease is over.
//! Whoever finds one dead marks it as stopped and takes what it held, in one transaction; a lease
//! that is over and was not taken over is renewed as if it were not.

use std::{collections::HashSet, time::Duration};

use jiff::Timestamp;

use crate::{
    policy::{ON_TIME, clock::is_set_back},
    store::{BegunWorker, ClaimedRun, Interrupted, NewWorker, Renewal, Role, WorkerId, WorkerRow},
};

use super::{
    claim::{CLAIMED_PARTS, CLAIMED_RUNS, claimed_part, claimed_run},
    connection::{Conn, Pool, Row, Target},
    failure::Fallible,
    ids::{Ids, Kind},
    lanes::{part_holder, run_holder, turn_holder},
    resolution,
    rows::{Columns, micros, rows_for, set, write_rows},
    statement::{Statement, by_clock, over_numbers, over_texts, query, query_scalar},
    stretches,
};

/// A turn is tried once more after its process died, and not again; one that had effects is not, and
/// a program that runs its own gets it handed back.
const TURN_ATTEMPTS: i64 = 2;

const REGISTER: Statement = by_clock!(
    "\
INSERT INTO workers (worker_id, started_at, version, zone_data, role, zone_release, lease, lease_until)
VALUES ($1, $2, $3, $4, $5, $6, $7, ",
    " + $7)"
);

// One without a lease holds a lock instead, and whoever begins has that now.
const BURY: Statement = by_clock!(
    "\
UPDATE workers SET stopped_at = $2
WHERE stopped_at IS NULL AND worker_id <> $1 AND (lease IS NULL OR lease_until <= ",
    ") RETURNING worker_id"
);

const RENEW: Statement = by_clock!(
    "UPDATE workers SET lease_until = ",
    " + lease WHERE worker_id = $1 AND stopped_at IS NULL RETURNING lease"
);

const UNSTOPPED: Statement = by_clock!(
    "\
SELECT worker_id, started_at, version, zone_data, role, zone_release, lease_until - ",
    " AS time_left FROM workers WHERE stopped_at IS NULL ORDER BY worker_id"
);

const IS_UNSTOPPED: Statement =
    Statement::common("SELECT worker_id FROM workers WHERE worker_id = $1 AND stopped_at IS NULL");

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

/// What belongs to no living worker.
macro_rules! orphaned {
    ($before:expr, $table:literal, $after:literal) => {
        concat!(
            $before,
            " NOT EXISTS (SELECT 1 FROM workers AS w WHERE w.worker_id = ",
            $table,
            ".worker_id AND w.stopped_at IS NULL)",
            $after
        )
    };
}

const TAKE_RUNS: Statement = Statement::common(orphaned!(
    "UPDATE runs SET worker_id = $1, epoch = $2 WHERE state = 'running' AND",
    "runs",
    " RETURNING run_id"
));

// A part without a lease is between two tries: nobody was sending it.
macro_rules! in_flight {
    ($index:literal) => {
        orphaned!(
            concat!(
                "UPDATE outbox_parts",
                $index,
                " SET worker_id = $1, epoch = $2
WHERE state IN ('pending', 'sending') AND state = 'sending' AND epoch IS NOT NULL AND"
            ),
            "outbox_parts",
            " RETURNING part_id"
        )
    };
}

const TAKE_PARTS: Statement = Statement::of(
    in_flight!(" INDEXED BY idx_outbox_parts_open"),
    in_flight!(""),
);

const FAIL_TURNS: Statement = Statement::common(orphaned!(
    "\
UPDATE turns SET state = 'failed', epoch = epoch + 1, ended_at = $2,
  error = CASE WHEN attempts >= $1 THEN 'interrupted twice' ELSE 'interrupted after effects' END
WHERE state = 'running' AND (attempts >= $1 OR effects_at IS NOT NULL AND runner IS NULL) AND",
    "turns",
    ""
));

const REQUEUE_TURNS: Statement = Statement::common(orphaned!(
    "UPDATE turns SET state = 'waiting', epoch = epoch + 1 WHERE state = 'running' AND",
    "turns",
    ""
));

const FREE_LANES: Statement = Statement::common(orphaned!(
    "\
UPDATE lanes SET holder = NULL, worker_id = NULL, taken_at = NULL WHERE holder IS NOT NULL AND",
    "lanes",
    ""
));

const FREE_JOBS: Statement = over_numbers!(
    "UPDATE jobs SET claimed_until = NULL WHERE claimed_by IN (SELECT x.id FROM",
    ")"
);

const UNBEGUN: Statement = Statement::common(
    "\
SELECT r.run_id FROM runs AS r JOIN occurrences AS o ON o.occurrence_id = r.occurrence_id
WHERE r.state = 'queued' AND r.attempts = 0 AND r.due_at < $1 AND o.kind = 'scheduled'
ORDER BY r.run_id",
);

const RUNNING_RUNS: Statement =
    Statement::common("SELECT count(*) AS runs FROM runs WHERE state = 'running'");

const RUNS_OF: Statement = Statement::common(
    "SELECT run_id AS id FROM runs WHERE state = 'running' AND worker_id = $1 ORDER BY run_id",
);

const TURNS_OF: Statement = Statement::common(
    "SELECT turn_id AS id FROM turns WHERE state = 'running' AND worker_id = $1 ORDER BY turn_id",
);

const PARTS_OF: Statement = Statement::common(
    "\
SELECT part_id AS id FROM outbox_parts WHERE state IN ('pending', 'sending') AND state = 'sending'
  AND epoch IS NOT NULL AND worker_id = $1 ORDER BY part_id",
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
UPDATE turns SET state = 'failed', epoch = epoch + 1, ended_at = $3,
  error = CASE WHEN attempts >= $2 THEN 'interrupted twice' ELSE 'interrupted after effects' END
WHERE state = 'running' AND (attempts >= $2 OR effects_at IS NOT NULL AND runner IS NULL)
  AND turn_id IN (SELECT x.id FROM",
    ")"
);

const REQUEUE_TURNS_NAMED: Statement = over_numbers!(
    "\
UPDATE turns SET state = 'waiting', epoch = epoch + 1
WHERE state = 'running' AND turn_id IN (SELECT x.id FROM",
    ")"
);

// What it leaves others find as that of a worker whose lease is over.
const STOP: Statement = Statement::common(
    "\
UPDATE workers SET lease_until = CASE WHEN lease IS NULL THEN NULL ELSE 0 END,
  stopped_at = CASE WHEN lease IS NOT NULL AND (
      EXISTS (SELECT 1 FROM runs AS r WHERE r.state = 'running' AND r.worker_id = $1)
      OR EXISTS (SELECT 1 FROM turns AS t WHERE t.state = 'running' AND t.worker_id = $1)
      OR EXISTS (SELECT 1 FROM lanes AS l WHERE l.holder IS NOT NULL AND l.worker_id = $1))
    THEN NULL ELSE $2 END
WHERE worker_id = $1 AND stopped_at IS NULL",
);

/// Registers a worker with a lease, or with none where it has the database for itself.
pub(super) async fn begin(
    conn: &mut Conn,
    worker: &NewWorker,
    lease: Option<Duration>,
    now: Timestamp,
) -> Fallible<BegunWorker> {
    let id = Ids::take_one(conn, Kind::Worker).await?;
    query(REGISTER)
        .bind(id)
        .bind(micros(now))
        .bind(env!("CARGO_PKG_VERSION"))
        .bind(&worker.zone_data)
        .bind(worker.role.as_str())
        .bind(worker.zone_release.clone())
        .bind(lease.map(lease_micros))
        .execute(&mut *conn)
        .await?;
    let interrupted = take_over(conn, WorkerId(id), now).await?;
    let unstopped = unstopped(&mut *conn).await?.into_iter();
    let others = unstopped.map(|(worker, _)| worker);
    let others: Vec<_> = others.filter(|other| other.id.0 != id).collect();
    // Whoever has older data than another that is at work has nothing to teach.
    if !has_older_zone_data(worker.zone_release.as_deref(), &others) {
        follow_clock_and_zones(conn, &worker.zone_data, now).await?;
    }
    see_clock(conn, now).await?;
    let is_first = others.iter().all(|other| other.role != Role::Worker);
    let unbegun = if is_first && worker.role == Role::Worker {
        unbegun(conn, now).await?
    } else {
        Vec::new()
    };
    Ok(BegunWorker {
        id: WorkerId(id),
        lease,
        interrupted,
        unbegun,
        others,
    })
}

/// Has every job looked at where it was planned by another clock, or by other zone data.
async fn follow_clock_and_zones(conn: &mut Conn, zone_data: &str, now: Timestamp) -> Fallible<()> {
    let known: Option<String> = query_scalar(ZONE_DATA).fetch_optional(&mut *conn).await?;
    let newest = instant(&query(NEWEST).fetch_one(&mut *conn).await?)?;
    let is_set_back = newest.is_some_and(|newest| is_set_back(newest, now));
    if is_set_back || known.is_some_and(|known| known != zone_data) {
        look_again(conn, now).await?;
    }
    stretches::follow_zone_data(conn, now).await?;
    let fact = query(RECORD_ZONE_DATA).bind(zone_data);
    fact.execute(&mut *conn).await?;
    Ok(())
}

fn has_older_zone_data(own: Option<&str>, others: &[WorkerRow]) -> bool {
    let newest = others
        .iter()
        .filter_map(|other| other.zone_release.as_deref());
    own.is_some_and(|own| newest.max().is_some_and(|newest| own < newest))
}

fn lease_micros(lease: Duration) -> i64 {
    i64::try_from(lease.as_micros()).unwrap_or(i64::MAX)
}

fn in_micros(time: i64) -> Duration {
    Duration::from_micros(u64::try_from(time).unwrap_or(0))
}

/// Runs that were queued and had not begun when the last worker died, and are late for that.
async fn unbegun(conn: &mut Conn, now: Timestamp) -> Fallible<Vec<ClaimedRun>> {
    let late = now.saturating_sub(ON_TIME).unwrap_or(now);
    let ids = query_scalar(UNBEGUN).bind(micros(late));
    let ids: Vec<i64> = ids.fetch_all(&mut *conn).await?;
    let runs = rows_for(conn, CLAIMED_RUNS, &ids).await?;
    runs.iter().map(claimed_run).collect()
}

/// All workers that have not stopped, and how long the lease of each lasts, if it has one.
async fn unstopped(on: impl Target) -> Fallible<Vec<(WorkerRow, Option<i64>)>> {
    let rows = query(UNSTOPPED).fetch_all(on).await?;
    let workers = rows.iter().map(|row| {
        let row = Columns::of(row, "workers", "worker_id");
        let worker = WorkerRow {
            id: WorkerId(row.get("worker_id")?),
            role: row.word("role", Role::from_stored)?,
            started_at: row.instant("started_at")?,
            version: row.get("version")?,
            zone_data: row.get("zone_data")?,
            zone_release: row.get("zone_release")?,
        };
        Ok((worker, row.get("time_left")?))
    });
    workers.collect()
}

pub(super) async fn living(pool: &Pool) -> Fallible<Vec<WorkerRow>> {
    let workers = unstopped(pool).await?.into_iter();
    let alive = workers.filter(|(_, left)| left.is_none_or(|left| left > 0));
    Ok(alive.map(|(worker, _)| worker).collect())
}

/// Renews a lease, outside of the turns of those who write.
pub(super) async fn renew(pool: &Pool, worker: WorkerId) -> Fallible<Option<Renewal>> {
    let lease = query_scalar(RENEW).bind(worker.0).fetch_optional(pool);
    let lease: Option<Option<i64>> = lease.await?;
    let Some(lease) = lease else { return Ok(None) };
    let mut renewal = Renewal {
        lasts: lease.map_or(Duration::MAX, in_micros),
        others: Vec::new(),
        next_over: None,
    };
    for (other, left) in unstopped(pool).await? {
        if other.id == worker {
            continue;
        }
        let left = in_micros(left.unwrap_or(0));
        renewal.next_over = Some(renewal.next_over.map_or(left, |next| next.min(left)));
        if !left.is_zero() {
            renewal.others.push(other);
        }
    }
    Ok(Some(renewal))
}

/// Renews a lease in the transaction of a claim; whether it is held still.
pub(super) async fn hold(conn: &mut Conn, worker: WorkerId) -> Fallible<bool> {
    let held = query(RENEW).bind(worker.0).fetch_optional(&mut *conn);
    Ok(held.await?.is_some())
}

pub(super) async fn running_runs(on: impl Target) -> Fallible<usize> {
    let row = query(RUNNING_RUNS).fetch_one(on).await?;
    let runs = Columns::of(&row, "runs", "runs").count("runs")?;
    Ok(usize::try_from(runs).unwrap_or(usize::MAX))
}

/// Marks dead workers as stopped, and gives this one what they held.
pub(super) async fn take_over(
    conn: &mut Conn,
    worker: WorkerId,
    now: Timestamp,
) -> Fallible<Interrupted> {
    let own = query(IS_UNSTOPPED).bind(worker.0);
    if own.fetch_optional(&mut *conn).await?.is_none() {
        // It is dead itself: what it took nobody would look for.
        return Ok(Interrupted::default());
    }
    let dead = query_scalar(BURY).bind(worker.0).bind(micros(now));
    let dead: Vec<i64> = dead.fetch_all(&mut *conn).await?;
    let epoch = Ids::take_one(conn, Kind::Epoch).await?;
    let taken = |statement| query_scalar(statement).bind(worker.0).bind(epoch);
    let mut runs: Vec<i64> = taken(TAKE_RUNS).fetch_all(&mut *conn).await?;
    let mut parts: Vec<i64> = taken(TAKE_PARTS).fetch_all(&mut *conn).await?;
    runs.sort_unstable();
    parts.sort_unstable();
    let failed = query(FAIL_TURNS).bind(TURN_ATTEMPTS).bind(micros(now));
    failed.execute(&mut *conn).await?;
    query(REQUEUE_TURNS).execute(&mut *conn).await?;
    query(FREE_LANES).execute(&mut *conn).await?;
    write_rows(conn, FREE_JOBS, &dead).await?;
    resolution::apply_in_free_lanes(conn, now).await?;
    Ok(Interrupted {
        dead: dead.into_iter().map(WorkerId).collect(),
        ..claimed(conn, &runs, &parts).await?
    })
}

async fn claimed(conn: &mut Conn, runs: &[i64], parts: &[i64]) -> Fallible<Interrupted> {
    let runs = rows_for(conn, CLAIMED_RUNS, runs).await?;
    let parts = rows_for(conn, CLAIMED_PARTS, parts).await?;
    Ok(Interrupted {
        dead: Vec::new(),
        runs: runs.iter().map(claimed_run).collect::<Fallible<_>>()?,
        parts: parts.iter().map(claimed_part).collect::<Fallible<_>>()?,
    })
}

/// Takes back what a living worker holds and does not work on.
pub(super) async fn reclaim(
    conn: &mut Conn,
    worker: WorkerId,
    at_work: &HashSet<String>,
    now: Timestamp,
) -> Fallible<Interrupted> {
    let held = query(HELD).bind(worker.0).fetch_all(&mut *conn).await?;
    let mut lanes = Vec::new();
    for row in &held {
        let row = Columns::of(row, "lanes", "session_key");
        if !at_work.contains(&row.get::<String>("holder")?) {
            lanes.push(row.get::<String>("session_key")?);
        }
    }
    let runs = idle(conn, RUNS_OF, worker, |id| {
        !at_work.contains(&run_holder(id))
    })
    .await?;
    let turns = idle(conn, TURNS_OF, worker, |id| {
        !at_work.contains(&turn_holder(id))
    })
    .await?;
    let parts = idle(conn, PARTS_OF, worker, |id| {
        !at_work.contains(&part_holder(id))
    })
    .await?;
    let interrupted = claimed(conn, &runs, &parts).await?;
    if !turns.is_empty() {
        let failed = set::<i64>(FAIL_TURNS_NAMED, &turns)?
            .bind(TURN_ATTEMPTS)
            .bind(micros(now));
        failed.execute(&mut *conn).await?;
    }
    write_rows(conn, REQUEUE_TURNS_NAMED, &turns).await?;
    write_rows(conn, FREE_LANES_NAMED, &lanes).await?;
    if !lanes.is_empty() {
        resolution::apply_in_free_lanes(conn, now).await?;
    }
    Ok(interrupted)
}

async fn idle(
    conn: &mut Conn,
    statement: Statement,
    worker: WorkerId,
    is_idle: impl Fn(i64) -> bool,
) -> Fallible<Vec<i64>> {
    let ids: Vec<i64> = query_scalar(statement)
        .bind(worker.0)
        .fetch_all(&mut *conn)
        .await?;
    Ok(ids.into_iter().filter(|id| is_idle(*id)).collect())
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
