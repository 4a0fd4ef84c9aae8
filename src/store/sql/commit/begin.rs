//! First attempts that begin in the commit which starts their runs.
//!
//! The common case of an idle lane needs no look at queues and no second transaction: the run is
//! written as it would be after a claim, and its index entries once.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::{
    ids::Epoch,
    store::{
        BegunRun, Conflict, WorkerId, Written,
        sql::{
            claim::Taken,
            connection::Conn,
            failure::Fallible,
            ids::{Ids, Kind},
            lanes::run_holder,
            rows::{Columns, rows_for},
            statement::{Statement, over_texts},
        },
    },
};

use super::tables::Changes;

// Whatever waits in a lane is for the policy to put in order.
const BUSY: Statement = over_texts!(
    "SELECT x.id FROM",
    "\
WHERE EXISTS (SELECT 1 FROM lanes AS l WHERE l.session_key = x.id AND l.holder IS NOT NULL)
  OR EXISTS (SELECT 1 FROM outbox_parts AS q
    WHERE q.session_key = x.id AND q.state IN ('pending', 'sending'))
  OR EXISTS (SELECT 1 FROM turns AS u WHERE u.session_key = x.id AND u.state = 'waiting')
  OR EXISTS (SELECT 1 FROM runs AS r WHERE r.lane = x.id AND r.state = 'queued')"
);

/// A run that may begin in the commit that starts it.
#[derive(Debug)]
pub(super) struct BeginCandidate {
    /// Which item of the batch starts it.
    pub(super) item: usize,
    pub(super) worker: WorkerId,
    pub(super) now: i64,
    /// The run, without an epoch as yet.
    pub(super) run: BegunRun,
}

/// Takes the free ones among the lanes of new runs, before the runs are written. Lanes that the batch
/// gives back count as taken: what ends there may be tried again first.
pub(super) async fn begin(
    conn: &mut Conn,
    changes: &mut Changes,
    ids: &mut Ids,
    results: &mut [Result<Written, Conflict>],
) -> Fallible<Vec<Taken>> {
    let mut taken = Vec::new();
    let candidates = std::mem::take(&mut changes.begin_candidates);
    if candidates.is_empty() || conn.is_shared() {
        return Ok(taken);
    }
    let busy = busy_lanes(conn, changes, &candidates).await?;
    let places: HashMap<i64, usize> = changes
        .new_runs
        .iter()
        .map(|run| run.run_id)
        .zip(0..)
        .collect();
    for candidate in candidates {
        let BeginCandidate {
            item,
            worker,
            now,
            mut run,
        } = candidate;
        let row = places
            .get(&run.run_id.0)
            .map(|place| &mut changes.new_runs[*place]);
        let (Some(row), Some(Ok(written))) = (row, results.get_mut(item)) else {
            continue;
        };
        if busy.contains(row.lane.as_str()) {
            continue;
        }
        let epoch = ids.next(Kind::Epoch);
        row.begin(epoch, worker.0, now);
        taken.push(Taken {
            session_key: row.lane.clone(),
            holder: run_holder(row.run_id),
            id: row.run_id,
            epoch,
            worker_id: worker.0,
            attempt: 1,
            now,
        });
        run.epoch = Epoch(epoch);
        written.begun.push(run);
    }
    Ok(taken)
}

/// Lanes in which something else is, or is about to be.
async fn busy_lanes(
    conn: &mut Conn,
    changes: &Changes,
    candidates: &[BeginCandidate],
) -> Fallible<HashSet<String>> {
    let lanes: BTreeSet<&str> = candidates.iter().map(|of| of.run.lane.as_str()).collect();
    let lanes: Vec<&str> = lanes.into_iter().collect();
    let rows = rows_for(conn, BUSY, &lanes).await?;
    let found = rows
        .iter()
        .map(|row| Columns::of(row, "lanes", "id").get("id"));
    let mut busy = found.collect::<Fallible<HashSet<String>>>()?;
    busy.extend(changes.releases.iter().map(|of| of.lane().to_owned()));
    let mut seen = HashSet::new();
    for run in &changes.new_runs {
        if !seen.insert(run.lane.as_str()) {
            busy.insert(run.lane.clone());
        }
    }
    Ok(busy)
}
