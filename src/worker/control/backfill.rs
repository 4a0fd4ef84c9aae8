//! Slots of the past, run again.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use crate::{
    ids::JobId,
    occurrence::{Cause, Slot},
    policy::{BACKFILL_MAX, BackfillSlot, FailedSlots, OwnedEvent, Past, Refill, refill},
    schedule::Planner,
    store::{RangeRow, RunFilter, RunRow, Store, StoreError, StoredJob},
    worker::Change,
};

use super::{Control, JobError, ROUNDS};

/// How many slots are looked at.
const LOOKED_AT_MAX: usize = 100_000;

/// A stretch of time of which slots are run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// From when on.
    pub from: Timestamp,
    /// Until when, not part of it.
    pub to: Timestamp,
    /// Whether slots that failed, or were called off, run again too.
    pub failed: FailedSlots,
}

/// A slot of the stretch, and what is done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastSlot {
    /// The slot.
    pub slot: Slot,
    /// Its nominal instant.
    pub nominal: Timestamp,
    /// How it stands, in words.
    pub was: String,
    /// What is done with it.
    pub refill: Refill,
}

/// Why a stretch cannot be run again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackfillError {
    /// It ends where it begins, or before.
    #[error("the stretch from {from} to {to} has no length")]
    Empty {
        /// Where it begins.
        from: Timestamp,
        /// Where it ends.
        to: Timestamp,
    },
    /// It has more slots than are looked at.
    #[error("{} slots of `{job_id}` lie between {from} and {to}, and {LOOKED_AT_MAX} are looked at at most", many(.slots))]
    TooLong {
        /// The job.
        job_id: JobId,
        /// Where it begins.
        from: Timestamp,
        /// Where it ends.
        to: Timestamp,
        /// How many it has, where that can be told.
        slots: Option<u64>,
    },
    /// More slots would run than may.
    #[error("{runs} slots of `{job_id}` would run, and a backfill runs {BACKFILL_MAX} at most")]
    TooMany {
        /// The job.
        job_id: JobId,
        /// How many would run.
        runs: usize,
    },
}

fn many(slots: &Option<u64>) -> String {
    match slots {
        Some(slots) => slots.to_string(),
        None => format!("more than {LOOKED_AT_MAX}"),
    }
}

impl Control<'_> {
    /// Runs slots of the past again, one after another: those that were skipped, and if asked for
    /// those that failed. Their records stay, and asking twice does nothing twice. Returns every
    /// slot of the stretch that has a record, with what is done with it.
    ///
    /// # Errors
    /// [`JobError::Backfill`] where the stretch is empty or too long, and whatever keeps it from
    /// being done.
    pub async fn backfill(
        &self,
        id: &str,
        stretch: Stretch,
        now: Timestamp,
    ) -> Result<Vec<PastSlot>, JobError> {
        for _ in 0..ROUNDS {
            let stored = self.job(id).await?;
            let looked = look(self.store, &stored, stretch).await?;
            if self.run_again(&stored, &looked, now).await? {
                return Ok(looked);
            }
        }
        let job_id = self.job(id).await?.job.id;
        Err(JobError::Busy { job_id })
    }

    /// What a backfill would do.
    ///
    /// # Errors
    /// As [`Control::backfill`].
    pub async fn preview_backfill(
        &self,
        id: &str,
        stretch: Stretch,
    ) -> Result<Vec<PastSlot>, JobError> {
        let stored = self.job(id).await?;
        look(self.store, &stored, stretch).await
    }

    /// Asks for the slots that run again; whether the job was still as it was looked at. If it was
    /// not, another backfill may have asked for the same slots, or one of them has ended.
    async fn run_again(
        &self,
        stored: &StoredJob,
        looked: &[PastSlot],
        now: Timestamp,
    ) -> Result<bool, JobError> {
        let chosen = looked.iter().filter(|slot| slot.refill == Refill::Runs);
        let chosen: Vec<_> = chosen.collect();
        if chosen.is_empty() {
            return Ok(true);
        }
        let request = self.store.new_request().await?;
        let slots = chosen.iter().map(|looked| BackfillSlot {
            request,
            slot: looked.slot.clone(),
            nominal: looked.nominal,
        });
        let event = OwnedEvent::Backfill {
            slots: slots.collect(),
        };
        let job_id = stored.job.id.clone();
        let change = Change::new(job_id, event).if_at(stored.version);
        self.was_changed(change, now).await
    }
}

/// Every slot of the stretch that is accounted for, with its record.
async fn look(
    store: &dyn Store,
    stored: &StoredJob,
    stretch: Stretch,
) -> Result<Vec<PastSlot>, JobError> {
    let Stretch { from, to, failed } = stretch;
    if from >= to {
        return Err(BackfillError::Empty { from, to }.into());
    }
    let job_id = &stored.job.id;
    let planner = Planner::new(&stored.job.schedule, stored.first_seen_at);
    let planner = planner.map_err(|source| JobError::Schedule {
        job_id: job_id.clone(),
        source,
    })?;
    // What has no record yet is the schedule's own.
    let (after, until) = (just_before(from), just_before(to).min(stored.state.cursor));
    let too_long = |slots| BackfillError::TooLong {
        job_id: job_id.clone(),
        from,
        to,
        slots,
    };
    let count = planner.series(after, until).map(|series| series.count);
    let most = u64::try_from(LOOKED_AT_MAX).unwrap_or(u64::MAX);
    if count.is_some_and(|count| count > most) {
        return Err(too_long(count).into());
    }
    let planned: Vec<_> = planner
        .firing_between(after, until)
        .take(LOOKED_AT_MAX + 1)
        .collect();
    if planned.len() > LOOKED_AT_MAX {
        return Err(too_long(None).into());
    }
    let records = Records::load(store, stored, from).await?;
    let looked = planned.iter().map(|planned| {
        let slot = planner.slot(planned);
        let (past, backfilled, was) = records.of(&slot, planned.nominal);
        PastSlot {
            nominal: planned.nominal,
            was,
            refill: refill(past, backfilled, failed),
            slot,
        }
    });
    let looked: Vec<_> = looked.collect();
    let runs = looked.iter().filter(|slot| slot.refill == Refill::Runs);
    let runs = runs.count();
    if runs > BACKFILL_MAX {
        let job_id = job_id.clone();
        return Err(BackfillError::TooMany { job_id, runs }.into());
    }
    Ok(looked)
}

fn just_before(at: Timestamp) -> Timestamp {
    at.checked_sub(SignedDuration::from_micros(1)).unwrap_or(at)
}

/// What the ledger has of a job.
struct Records {
    slots: HashMap<Slot, RunRow>,
    /// The newest backfill of a slot.
    backfills: HashMap<Slot, RunRow>,
    ranges: Vec<RangeRow>,
    /// Slots that wait for a backfill.
    waiting: Vec<Slot>,
}

impl Records {
    async fn load(
        store: &dyn Store,
        stored: &StoredJob,
        from: Timestamp,
    ) -> Result<Self, StoreError> {
        let filter = RunFilter {
            job_id: Some(stored.job.id.clone()),
            since: Some(from),
            ..RunFilter::default()
        };
        let mut records = Self {
            slots: HashMap::new(),
            backfills: HashMap::new(),
            ranges: store.ranges(&filter).await?,
            waiting: stored
                .state
                .backfill
                .iter()
                .map(|slot| slot.slot.clone())
                .collect(),
        };
        // Newest first: the first one of a slot is the one that counts.
        for row in store.runs(&filter).await? {
            let Some(slot) = row.slot.clone() else {
                continue;
            };
            let kind = match row.cause {
                Cause::Backfill => &mut records.backfills,
                Cause::Scheduled | Cause::CatchUp | Cause::Manual => &mut records.slots,
            };
            kind.entry(slot).or_insert(row);
        }
        Ok(records)
    }

    /// How far a slot has come, and its newest backfill; and both in words.
    fn of(&self, slot: &Slot, nominal: Timestamp) -> (Past, Option<Past>, String) {
        let inside =
            |range: &&RangeRow| (range.first_nominal_at..=range.last_nominal_at).contains(&nominal);
        let (past, words) = match self.slots.get(slot) {
            Some(row) => told(row),
            None => match self.ranges.iter().find(inside) {
                Some(range) => (Past::Skipped, format!("skipped: {}", range.reason.as_str())),
                None => (Past::Unknown, String::from("no record")),
            },
        };
        if self.waiting.contains(slot) {
            return (
                past,
                Some(Past::Open),
                format!("{words}; waits for its backfill"),
            );
        }
        match self.backfills.get(slot).map(told) {
            Some((backfilled, again)) => {
                (past, Some(backfilled), format!("{words}; backfill {again}"))
            }
            None => (past, None, words),
        }
    }
}

fn told(row: &RunRow) -> (Past, String) {
    let past = match row.state.as_str() {
        "done" => Past::Done,
        "failed" | "cancelled" => Past::Failed,
        "skipped" => Past::Skipped,
        _ => Past::Open,
    };
    let words = match &row.reason {
        Some(reason) => format!("{}: {reason}", row.state),
        None => row.state.clone(),
    };
    (past, words)
}
