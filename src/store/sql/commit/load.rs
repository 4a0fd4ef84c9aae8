//! What a batch of decisions touches, read by a few statements whatever its size.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::{
    occurrence::{OccurrenceRef, Slot},
    policy::Effect,
    store::{
        JobCommit,
        sql::{
            connection::{Conn, Row},
            failure::Fallible,
            rows::{At, micros, rows_for},
            statement::{Statement, over_numbers, over_rows, over_texts},
        },
    },
};

const JOBS: Statement = over_texts!(
    "\
SELECT j.job_id, j.incarnation, j.revision, j.version, j.source, j.digest, j.first_seen_at, j.wake_at,
  j.removed_at
FROM",
    "JOIN jobs AS j ON j.job_id = x.id"
);

const OCCURRENCES: Statement = over_rows!(
    [n bigint, job_id text, request_id bigint, slot text]
    "WITH x AS (SELECT * FROM",
    "\
)
SELECT x.n, o.occurrence_id, o.incarnation, o.state, o.lane,
  r.run_id, r.state AS run_state, r.epoch
FROM x JOIN jobs AS j ON j.job_id = x.job_id
JOIN occurrences AS o ON o.job_id = j.job_id AND o.incarnation = j.incarnation
  AND o.slot = x.slot AND o.kind = 'scheduled'
LEFT JOIN runs AS r ON r.occurrence_id = o.occurrence_id
WHERE x.request_id IS NULL
UNION ALL
SELECT x.n, o.occurrence_id, j.incarnation, o.state, o.lane, r.run_id, r.state, r.epoch
FROM x JOIN jobs AS j ON j.job_id = x.job_id
JOIN occurrences AS o ON o.job_id = x.job_id AND o.request_id = x.request_id
  AND coalesce(o.slot, '') = coalesce(x.slot, '') AND o.kind <> 'scheduled'
LEFT JOIN runs AS r ON r.occurrence_id = o.occurrence_id
WHERE x.request_id IS NOT NULL"
);

const RUNS: Statement = over_numbers!(
    "SELECT r.run_id, r.state, r.epoch FROM",
    "JOIN runs AS r ON r.run_id = x.id"
);

// Ranges do not overlap, so only the last one that begins before the probe ends can meet it. Its
// last slot may have been moved past it by new zone data, and is known by its name.
const RANGES: Statement = over_rows!(
    [item bigint, effect bigint, job_id text, slot text, first bigint, last bigint]
    "\
SELECT x.item, x.effect, j.incarnation
FROM",
    "\
JOIN jobs AS j ON j.job_id = x.job_id
JOIN occurrence_ranges AS r ON r.job_id = j.job_id AND r.incarnation = j.incarnation
  AND r.first_nominal_at = (SELECT max(m.first_nominal_at) FROM occurrence_ranges AS m
    WHERE m.job_id = j.job_id AND m.incarnation = j.incarnation
      AND m.first_nominal_at <= x.last)
WHERE r.last_nominal_at >= x.first OR r.last_slot = x.slot"
);

const ROWS_INSIDE: Statement = over_rows!(
    [item bigint, effect bigint, job_id text, first bigint, last bigint]
    "\
SELECT x.item, x.effect, j.incarnation, o.slot
FROM",
    "\
JOIN jobs AS j ON j.job_id = x.job_id
JOIN occurrences AS o ON o.occurrence_id = (SELECT i.occurrence_id FROM occurrences AS i
  WHERE i.job_id = j.job_id AND i.incarnation = j.incarnation AND i.kind = 'scheduled'
    AND i.nominal_at >= x.first AND i.nominal_at <= x.last
  ORDER BY i.nominal_at, i.occurrence_id LIMIT 1)"
);

/// A job's row, as far as a decision needs it.
#[derive(Debug, Clone)]
pub(super) struct JobRow {
    pub(super) incarnation: i64,
    pub(super) revision: i64,
    pub(super) version: i64,
    pub(super) source: String,
    pub(super) digest: String,
    pub(super) first_seen_at: i64,
    pub(super) wake_at: Option<i64>,
    pub(super) removed_at: Option<i64>,
}

/// An occurrence's row with its run.
#[derive(Debug, Clone)]
pub(super) struct OccurrenceRow {
    pub(super) id: i64,
    pub(super) incarnation: i64,
    pub(super) state: String,
    pub(super) lane: String,
    pub(super) run: Option<RunRow>,
}

/// A run's row.
#[derive(Debug, Clone)]
pub(super) struct RunRow {
    pub(super) id: i64,
    pub(super) state: String,
    pub(super) epoch: i64,
}

/// An effect of the batch: which item, which of its effects.
type EffectAt = (usize, usize);

/// Everything that a batch touches.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    jobs: HashMap<String, JobRow>,
    occurrences: HashMap<(String, OccurrenceRef), OccurrenceRow>,
    runs: HashMap<i64, RunRow>,
    inside_range: HashSet<(EffectAt, i64)>,
    rows_inside: HashMap<(EffectAt, i64), Slot>,
}

#[derive(Serialize)]
struct OccurrenceProbe<'b> {
    n: usize,
    job_id: &'b str,
    request_id: Option<i64>,
    slot: Option<&'b str>,
}

#[derive(Serialize)]
struct Stretch<'b> {
    item: usize,
    effect: usize,
    job_id: &'b str,
    /// The first slot.
    slot: &'b str,
    first: i64,
    last: i64,
    is_range: bool,
}

impl Loaded {
    pub(super) async fn load(conn: &mut Conn, items: &[At<JobCommit>]) -> Fallible<Self> {
        let mut loaded = Self::default();
        loaded.load_jobs(conn, items).await?;
        loaded.load_occurrences(conn, items).await?;
        loaded.load_runs(conn, items).await?;
        loaded.load_stretches(conn, items).await?;
        Ok(loaded)
    }

    pub(super) fn job(&self, id: &str) -> Option<&JobRow> {
        self.jobs.get(id)
    }

    pub(super) fn run(&self, id: i64) -> Option<&RunRow> {
        self.runs.get(&id)
    }

    pub(super) fn occurrence(
        &self,
        job_id: &str,
        incarnation: i64,
        occurrence: &OccurrenceRef,
    ) -> Option<&OccurrenceRow> {
        self.occurrences
            .get(&(job_id.to_owned(), occurrence.clone()))
            .filter(|row| row.incarnation == incarnation)
    }

    /// Whether the stretch of this effect meets a stored range of this incarnation.
    pub(super) fn meets_range(&self, at: EffectAt, incarnation: i64) -> bool {
        self.inside_range.contains(&(at, incarnation))
    }

    /// The first slot with a row inside the range of this effect.
    pub(super) fn row_inside(&self, at: EffectAt, incarnation: i64) -> Option<&Slot> {
        self.rows_inside.get(&(at, incarnation))
    }

    async fn load_jobs(&mut self, conn: &mut Conn, items: &[At<JobCommit>]) -> Fallible<()> {
        let ids: HashSet<&str> = items.iter().map(|item| item.item.job_id.as_str()).collect();
        let ids: Vec<&str> = ids.into_iter().collect();
        for row in rows_for(conn, JOBS, &ids).await? {
            let job = JobRow {
                incarnation: row.try_get("incarnation")?,
                revision: row.try_get("revision")?,
                version: row.try_get("version")?,
                source: row.try_get("source")?,
                digest: row.try_get("digest")?,
                first_seen_at: row.try_get("first_seen_at")?,
                wake_at: row.try_get("wake_at")?,
                removed_at: row.try_get("removed_at")?,
            };
            self.jobs.insert(row.try_get("job_id")?, job);
        }
        Ok(())
    }

    async fn load_occurrences(&mut self, conn: &mut Conn, items: &[At<JobCommit>]) -> Fallible<()> {
        let mut keys: Vec<(String, OccurrenceRef)> = Vec::new();
        for item in items {
            let touched = item.item.effects.iter().filter_map(touched);
            let job_id = item.item.job_id.as_str();
            keys.extend(touched.map(|occurrence| (job_id.to_owned(), occurrence)));
        }
        let probes: Vec<_> = keys.iter().enumerate().map(occurrence_probe).collect();
        for row in rows_for(conn, OCCURRENCES, &probes).await? {
            let run_id: Option<i64> = row.try_get("run_id")?;
            let run = match run_id {
                None => None,
                Some(id) => Some(RunRow {
                    id,
                    state: row.try_get("run_state")?,
                    epoch: row.try_get("epoch")?,
                }),
            };
            let occurrence = OccurrenceRow {
                id: row.try_get("occurrence_id")?,
                incarnation: row.try_get("incarnation")?,
                state: row.try_get("state")?,
                lane: row.try_get("lane")?,
                run,
            };
            if let Some(run) = &occurrence.run {
                self.runs.insert(run.id, run.clone());
            }
            let n: i64 = row.try_get("n")?;
            if let Some(key) = usize::try_from(n).ok().and_then(|n| keys.get(n)) {
                self.occurrences.insert(key.clone(), occurrence);
            }
        }
        Ok(())
    }

    async fn load_runs(&mut self, conn: &mut Conn, items: &[At<JobCommit>]) -> Fallible<()> {
        let ends = items
            .iter()
            .filter_map(|item| item.item.attempt_end.as_ref());
        let ids = ends.map(|end| end.run_id.0);
        // Nearly all of them were loaded with their occurrences.
        let ids: Vec<i64> = ids.filter(|id| !self.runs.contains_key(id)).collect();
        for row in rows_for(conn, RUNS, &ids).await? {
            let run = RunRow {
                id: row.try_get("run_id")?,
                state: row.try_get("state")?,
                epoch: row.try_get("epoch")?,
            };
            self.runs.insert(run.id, run);
        }
        Ok(())
    }

    async fn load_stretches(&mut self, conn: &mut Conn, items: &[At<JobCommit>]) -> Fallible<()> {
        let mut stretches = Vec::new();
        for (item, commit) in items.iter().enumerate() {
            let job_id = commit.item.job_id.as_str();
            let effects = commit.item.effects.iter().enumerate();
            stretches.extend(effects.filter_map(|(effect, what)| {
                let (slot, first, last, is_range) = stretch(what)?;
                Some(Stretch {
                    item,
                    effect,
                    job_id,
                    slot: slot.as_str(),
                    first,
                    last,
                    is_range,
                })
            }));
        }
        for row in rows_for(conn, RANGES, &stretches).await? {
            self.inside_range.insert(effect_at(&row)?);
        }
        stretches.retain(|stretch| stretch.is_range);
        for row in rows_for(conn, ROWS_INSIDE, &stretches).await? {
            let slot: String = row.try_get("slot")?;
            self.rows_inside
                .insert(effect_at(&row)?, Slot::from_text(slot));
        }
        Ok(())
    }
}

fn effect_at(row: &Row) -> Fallible<(EffectAt, i64)> {
    let item: i64 = row.try_get("item")?;
    let effect: i64 = row.try_get("effect")?;
    let at = (
        usize::try_from(item).unwrap_or(usize::MAX),
        usize::try_from(effect).unwrap_or(usize::MAX),
    );
    Ok((at, row.try_get("incarnation")?))
}

fn occurrence_probe(
    (n, (job_id, occurrence)): (usize, &(String, OccurrenceRef)),
) -> OccurrenceProbe<'_> {
    let (request_id, slot) = match occurrence {
        OccurrenceRef::Scheduled(slot) => (None, Some(slot.as_str())),
        OccurrenceRef::Manual(request) => (Some(request.0), None),
        OccurrenceRef::Backfill(request, slot) => (Some(request.0), Some(slot.as_str())),
    };
    OccurrenceProbe {
        n,
        job_id,
        request_id,
        slot,
    }
}

/// The occurrence whose row an effect reads or makes.
fn touched(effect: &Effect) -> Option<OccurrenceRef> {
    match effect {
        Effect::Wait { waiting, .. } => Some(OccurrenceRef::Scheduled(waiting.slot.clone())),
        Effect::Start { occurrence, .. }
        | Effect::Requeue { occurrence }
        | Effect::Backoff { occurrence, .. }
        | Effect::End { occurrence, .. } => Some(occurrence.clone()),
        Effect::Skip(range) if range.count == 1 => {
            Some(OccurrenceRef::Scheduled(range.first.clone()))
        }
        Effect::Skip(_) => None,
    }
}

/// The stretch of nominal instants for which an effect makes a record.
fn stretch(effect: &Effect) -> Option<(&Slot, i64, i64, bool)> {
    match effect {
        Effect::Wait { waiting, .. } => {
            let nominal = micros(waiting.nominal);
            Some((&waiting.slot, nominal, nominal, false))
        }
        Effect::Start {
            occurrence: OccurrenceRef::Scheduled(slot),
            nominal,
            ..
        } => Some((slot, micros(*nominal), micros(*nominal), false)),
        Effect::Skip(range) => Some((
            &range.first,
            micros(range.first_nominal),
            micros(range.last_nominal),
            range.count > 1,
        )),
        Effect::Start { .. }
        | Effect::Requeue { .. }
        | Effect::Backoff { .. }
        | Effect::End { .. } => None,
    }
}
