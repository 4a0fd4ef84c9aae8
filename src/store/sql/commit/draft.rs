//! The effects of one decision, followed in memory one after the other.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::{
    ids::{OccurrenceId, RunId},
    occurrence::{Cause, OccurrenceRef, Outcome, Slot},
    policy::{Effect, SkippedRange},
    store::{
        Conflict, JobCommit, Written,
        sql::{
            failure::Fallible,
            ids::{Ids, Kind},
            rows::micros,
        },
    },
};

use super::{
    load::{JobRow, Loaded},
    tables::{Change, NewOccurrence, NewRange},
};

/// An occurrence that the item touches, as it will be.
pub(super) struct Touched {
    pub(super) id: i64,
    pub(super) state: String,
    pub(super) ended: Option<Outcome>,
    pub(super) lane: String,
    pub(super) new: Option<NewOccurrence>,
    pub(super) run: Option<TouchedRun>,
}

pub(super) struct TouchedRun {
    pub(super) id: i64,
    pub(super) was: String,
    pub(super) epoch: i64,
    pub(super) new: bool,
    pub(super) changed: bool,
    pub(super) state: &'static str,
    pub(super) due_at: Option<i64>,
    pub(super) cause: Cause,
}

pub(super) struct Draft<'a> {
    pub(super) loaded: &'a Loaded,
    /// The item's place in the batch.
    pub(super) index: usize,
    pub(super) item: &'a JobCommit,
    pub(super) now: i64,
    pub(super) job: JobRow,
    pub(super) ids: &'a mut Ids,
    pub(super) touched: HashMap<OccurrenceRef, Touched>,
    pub(super) change: Change,
    pub(super) written: Written,
}

impl Draft<'_> {
    /// Follows one effect; `at` is its place in the batch.
    pub(super) fn apply(
        &mut self,
        at: (usize, usize),
        effect: &Effect,
    ) -> Fallible<Result<(), Conflict>> {
        match effect {
            Effect::Wait { waiting, merged } => {
                let new = Record {
                    occurrence: &OccurrenceRef::Scheduled(waiting.slot.clone()),
                    nominal: waiting.nominal,
                    fire_at: waiting.fire_at,
                    cause: waiting.cause,
                    merged,
                    state: "waiting",
                };
                self.record(at, &new)
            }
            Effect::Start {
                occurrence,
                nominal,
                fire_at,
                cause,
                merged,
            } => {
                let new = Record {
                    occurrence,
                    nominal: *nominal,
                    fire_at: *fire_at,
                    cause: *cause,
                    merged,
                    state: "active",
                };
                self.start(at, &new)
            }
            Effect::Requeue { occurrence } => Ok(self.move_run(occurrence, "queued", self.now)),
            Effect::Backoff { occurrence, until } => {
                Ok(self.move_run(occurrence, "backoff", micros(*until)))
            }
            Effect::End {
                occurrence,
                outcome,
            } => Ok(self.end(occurrence, *outcome)),
            Effect::Skip(range) => self.skip(at, range),
        }
    }

    /// The occurrence as the item has left it so far.
    fn touch(&mut self, occurrence: &OccurrenceRef) -> Option<&mut Touched> {
        if !self.touched.contains_key(occurrence) {
            let job_id = self.item.job_id.as_str();
            let row = self
                .loaded
                .occurrence(job_id, self.job.incarnation, occurrence)?;
            let run = row.run.as_ref().map(|run| TouchedRun {
                id: run.id,
                was: run.state.clone(),
                epoch: run.epoch,
                new: false,
                changed: false,
                state: "",
                due_at: None,
                cause: Cause::Scheduled,
            });
            let touched = Touched {
                id: row.id,
                state: row.state.clone(),
                ended: None,
                lane: row.lane.clone(),
                new: None,
                run,
            };
            self.touched.insert(occurrence.clone(), touched);
        }
        self.touched.get_mut(occurrence)
    }

    /// Makes the record of an occurrence that has none.
    fn record(&mut self, at: (usize, usize), new: &Record<'_>) -> Fallible<Result<(), Conflict>> {
        let accounted = self.touch(new.occurrence).is_some()
            || self.loaded.meets_range(at, self.job.incarnation);
        if accounted {
            return Ok(Err(conflict_of(new.occurrence)));
        }
        let id = self.ids.next(Kind::Occurrence);
        let route = &self.item.route;
        let lane = if route.lane_per_run {
            route.lane.of_run(OccurrenceId(id)).as_str().to_owned()
        } else {
            route.lane.as_str().to_owned()
        };
        let (request_id, slot) = match new.occurrence {
            OccurrenceRef::Scheduled(slot) => (None, Some(slot)),
            OccurrenceRef::Manual(request) => (Some(request.0), None),
            OccurrenceRef::Backfill(request, slot) => (Some(request.0), Some(slot)),
        };
        let destination = self.item.route.destination.as_ref();
        let merged = (!new.merged.is_empty()).then_some(new.merged);
        let row = NewOccurrence {
            occurrence_id: id,
            job_id: self.item.job_id.as_str().to_owned(),
            incarnation: self.job.incarnation,
            kind: new.occurrence.kind().as_str(),
            request_id,
            slot: slot.map(|slot| slot.as_str().to_owned()),
            nominal_at: micros(new.nominal),
            fire_at: micros(new.fire_at),
            merged: merged.map(serde_json::to_string).transpose()?,
            cause: new.cause.as_str(),
            digest: self.job.digest.clone(),
            lane: lane.clone(),
            destination: destination.map(serde_json::to_string).transpose()?,
            state: new.state,
            reason: None,
            accounted_at: self.now,
            ended_at: None,
        };
        let touched = Touched {
            id,
            state: new.state.to_owned(),
            ended: None,
            lane,
            new: Some(row),
            run: None,
        };
        self.touched.insert(new.occurrence.clone(), touched);
        Ok(Ok(()))
    }

    fn start(&mut self, at: (usize, usize), new: &Record<'_>) -> Fallible<Result<(), Conflict>> {
        match self.touch(new.occurrence).map(|known| known.state.clone()) {
            None => {
                if let Err(conflict) = self.record(at, new)? {
                    return Ok(Err(conflict));
                }
            }
            Some(state) if state == "waiting" => {}
            Some(_) => return Ok(Err(conflict_of(new.occurrence))),
        }
        let run_id = self.ids.next(Kind::Run);
        if let Some(touched) = self.touched.get_mut(new.occurrence) {
            "active".clone_into(&mut touched.state);
            touched.run = Some(TouchedRun {
                id: run_id,
                was: "queued".to_owned(),
                epoch: 0,
                new: true,
                changed: false,
                state: "queued",
                due_at: Some(micros(new.fire_at)),
                cause: new.cause,
            });
        }
        self.written
            .started
            .push((new.occurrence.clone(), RunId(run_id)));
        Ok(Ok(()))
    }

    fn move_run(
        &mut self,
        occurrence: &OccurrenceRef,
        state: &'static str,
        due_at: i64,
    ) -> Result<(), Conflict> {
        let active = self
            .touch(occurrence)
            .filter(|touched| touched.state == "active");
        let run = active.and_then(|touched| touched.run.as_mut());
        let run = run.ok_or(Conflict::Missing)?;
        run.state = state;
        run.due_at = Some(due_at);
        run.changed = true;
        Ok(())
    }

    fn end(&mut self, occurrence: &OccurrenceRef, outcome: Outcome) -> Result<(), Conflict> {
        let open = self
            .touch(occurrence)
            .filter(|touched| matches!(touched.state.as_str(), "waiting" | "active"));
        let touched = open.ok_or(Conflict::Missing)?;
        outcome.state().clone_into(&mut touched.state);
        touched.ended = Some(outcome);
        if let Some(run) = &mut touched.run {
            // A run that exists was called off, even where its slot counts as skipped.
            run.state = match outcome {
                Outcome::Skipped(_) => Outcome::Cancelled.state(),
                Outcome::Done | Outcome::Silent | Outcome::Failed(_) | Outcome::Cancelled => {
                    outcome.state()
                }
            };
            run.changed = true;
            let id = RunId(run.id);
            self.written.ended.push(id);
            self.written.outcomes.push(outcome);
        }
        Ok(())
    }

    fn skip(&mut self, at: (usize, usize), range: &SkippedRange) -> Fallible<Result<(), Conflict>> {
        if range.count == 1 {
            let occurrence = OccurrenceRef::Scheduled(range.first.clone());
            let new = Record {
                occurrence: &occurrence,
                nominal: range.first_nominal,
                fire_at: range.first_nominal,
                cause: Cause::Scheduled,
                merged: &[],
                state: "waiting",
            };
            let recorded = self.record(at, &new)?;
            return Ok(
                recorded.and_then(|()| self.end(&occurrence, Outcome::Skipped(range.reason)))
            );
        }
        let inside = self.loaded.row_inside(at, self.job.incarnation);
        let accounted = inside.or_else(|| {
            let meets = self.loaded.meets_range(at, self.job.incarnation);
            meets.then_some(&range.first)
        });
        if let Some(slot) = accounted {
            return Ok(Err(Conflict::SlotAccounted { slot: slot.clone() }));
        }
        self.change.ranges.push(NewRange {
            job_id: self.item.job_id.as_str().to_owned(),
            incarnation: self.job.incarnation,
            first_nominal_at: micros(range.first_nominal),
            last_nominal_at: micros(range.last_nominal),
            first_slot: range.first.as_str().to_owned(),
            last_slot: range.last.as_str().to_owned(),
            slots: range.count,
            reason: range.reason.as_str(),
            recorded_at: self.now,
        });
        Ok(Ok(()))
    }
}

/// A record about to be made.
struct Record<'e> {
    occurrence: &'e OccurrenceRef,
    nominal: Timestamp,
    fire_at: Timestamp,
    cause: Cause,
    merged: &'e [Slot],
    state: &'static str,
}

/// A second record of an occurrence. Requests are numbered by the store, so only a stale caller can
/// ask for one twice.
fn conflict_of(occurrence: &OccurrenceRef) -> Conflict {
    match occurrence {
        OccurrenceRef::Scheduled(slot) | OccurrenceRef::Backfill(_, slot) => {
            Conflict::SlotAccounted { slot: slot.clone() }
        }
        OccurrenceRef::Manual(_) => Conflict::StaleVersion,
    }
}
