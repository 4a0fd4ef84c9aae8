//! One decision, planned in memory against what was loaded: every change of it, or the conflict.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::{
    ids::RunId,
    occurrence::{Cause, OccurrenceKind, OccurrenceRef, Outcome, Slot},
    policy::{Effect, SkippedRange},
    store::{
        AttemptEnd, AttemptFate, Conflict, JobCommit, Target, Written,
        sqlite::{
            failure::Fallible,
            ids::{Ids, Kind},
            rows::micros,
        },
    },
};

use super::{
    load::{JobRow, Loaded},
    tables::{
        AttemptChange, Change, DefinitionRow, JobChange, NewOccurrence, NewRange, NewRun,
        OccurrenceChange, Release, RunChange,
    },
};

/// What one item writes and says, or why it does not.
type Planned = Result<(Change, Written), Conflict>;

/// Plans one item. `index` is its place in the batch.
pub(super) fn plan(
    loaded: &Loaded,
    index: usize,
    item: &JobCommit,
    now: Timestamp,
    ids: &mut Ids,
) -> Fallible<Planned> {
    let (change, job) = match target(loaded, item, now)? {
        Ok(found) => found,
        Err(conflict) => return Ok(Err(conflict)),
    };
    let mut draft = Draft {
        loaded,
        item,
        now: micros(now),
        job,
        ids,
        touched: HashMap::new(),
        change,
        written: Written::default(),
    };
    if let Some(end) = &item.attempt_end
        && let Err(conflict) = fence(loaded, end)
    {
        return Ok(Err(conflict));
    }
    for (effect, what) in item.effects.iter().enumerate() {
        if let Err(conflict) = draft.apply((index, effect), what)? {
            return Ok(Err(conflict));
        }
    }
    Ok(draft.finish())
}

/// The job's new row; the incarnation and digest that the effects belong to.
fn target(
    loaded: &Loaded,
    item: &JobCommit,
    now: Timestamp,
) -> Fallible<Result<(Change, JobRow), Conflict>> {
    let stored = loaded.job(item.job_id.as_str());
    let mut change = Change::default();
    let (present, after) = match &item.target {
        Target::Create {
            job,
            source,
            first_seen_at,
        } => {
            if stored.is_some_and(|row| row.removed_at.is_none()) {
                return Ok(Err(Conflict::StaleVersion));
            }
            let definition = DefinitionRow::of(job)?;
            let row = JobRow {
                incarnation: stored.map_or(1, |row| row.incarnation + 1),
                revision: 1,
                // Versions go on over incarnations, so that a decision about the old job is stale.
                version: stored.map_or(1, |row| row.version + 1),
                source: source.to_stored(),
                digest: definition.digest.clone(),
                first_seen_at: micros(*first_seen_at),
                removed_at: None,
            };
            change.definitions.push(definition);
            (row.clone(), row)
        }
        Target::Keep { version }
        | Target::Redefine { version, .. }
        | Target::Remove { version } => {
            let Some(present) = stored else {
                return Ok(Err(Conflict::Missing));
            };
            if present.version != *version {
                return Ok(Err(Conflict::StaleVersion));
            }
            let mut after = present.clone();
            after.version += 1;
            (present.clone(), after)
        }
    };
    let mut after = after;
    match &item.target {
        Target::Create { .. } | Target::Keep { .. } => {}
        Target::Redefine { job, source, .. } => {
            let definition = DefinitionRow::of(job)?;
            after.digest.clone_from(&definition.digest);
            after.source = source.to_stored();
            after.revision += 1;
            change.definitions.push(definition);
        }
        Target::Remove { .. } => {
            after.removed_at = Some(micros(now));
            change.removed.push(item.job_id.as_str().to_owned());
        }
    }
    change.jobs.push(JobChange::new(item, after)?);
    Ok(Ok((change, present)))
}

/// The attempt's lease must be held still.
fn fence(loaded: &Loaded, end: &AttemptEnd) -> Result<(), Conflict> {
    let run = loaded.run(end.run_id.0).ok_or(Conflict::Missing)?;
    if run.state == "running" && run.epoch == end.epoch.0 {
        Ok(())
    } else {
        Err(Conflict::LeaseLost)
    }
}

/// An occurrence that the item touches, as it will be.
struct Touched {
    id: i64,
    state: String,
    ended: Option<Outcome>,
    lane: String,
    new: Option<NewOccurrence>,
    run: Option<TouchedRun>,
}

struct TouchedRun {
    id: i64,
    was: String,
    epoch: i64,
    new: bool,
    changed: bool,
    state: &'static str,
    due_at: Option<i64>,
    cause: Cause,
}

struct Draft<'a> {
    loaded: &'a Loaded,
    item: &'a JobCommit,
    now: i64,
    job: JobRow,
    ids: &'a mut Ids,
    touched: HashMap<OccurrenceRef, Touched>,
    change: Change,
    written: Written,
}

impl Draft<'_> {
    fn apply(&mut self, at: (usize, usize), effect: &Effect) -> Fallible<Result<(), Conflict>> {
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
        let lane = self.item.route.lane.as_str().to_owned();
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

    fn finish(mut self) -> Planned {
        let mut decided = self.item.attempt_end.is_none();
        for (_, touched) in std::mem::take(&mut self.touched) {
            if let Some(run) = &touched.run {
                let is_the_attempts = self
                    .item
                    .attempt_end
                    .as_ref()
                    .is_some_and(|end| end.run_id.0 == run.id);
                decided |= is_the_attempts && run.changed;
                self.finish_run(run, &touched);
            }
            let (reason, ended_at) = match touched.ended {
                Some(outcome) => (outcome.reason(), Some(self.now)),
                None => (None, None),
            };
            match touched.new {
                Some(row) => self.change.new_occurrences.push(NewOccurrence {
                    state: stored_state(&touched.state),
                    reason,
                    ended_at,
                    ..row
                }),
                None => self.change.occurrences.push(OccurrenceChange {
                    occurrence_id: touched.id,
                    state: touched.state,
                    reason,
                    ended_at,
                }),
            }
        }
        if decided {
            Ok((self.change, self.written))
        } else {
            Err(Conflict::Undecided)
        }
    }

    fn finish_run(&mut self, run: &TouchedRun, touched: &Touched) {
        let ended_at = touched.ended.map(|_| self.now);
        let reason = touched.ended.and_then(Outcome::reason);
        if run.new {
            self.change.new_runs.push(NewRun {
                run_id: run.id,
                occurrence_id: touched.id,
                job_id: self.item.job_id.as_str().to_owned(),
                lane: touched.lane.clone(),
                cause: run.cause.as_str(),
                state: run.state,
                reason,
                due_at: run.due_at.unwrap_or(self.now),
                ended_at,
            });
            return;
        }
        if !run.changed {
            return;
        }
        let end = self
            .item
            .attempt_end
            .as_ref()
            .filter(|end| end.run_id.0 == run.id);
        let was_running = run.was == "running";
        self.change.runs.push(RunChange {
            run_id: run.id,
            state: run.state,
            reason,
            due_at: run.due_at,
            ended_at,
            // Whoever still works under the old lease finds it lost.
            epoch: if was_running {
                run.epoch + 1
            } else {
                run.epoch
            },
            attempt_ended: end.is_some(),
            error: end.and_then(|end| end.error.clone()),
            output: end.and_then(|end| end.output.clone()),
            usage: end
                .and_then(|end| end.usage)
                .and_then(|usage| serde_json::to_string(&usage).ok()),
        });
        if was_running {
            self.change
                .releases
                .push(Release::run(&touched.lane, run.id));
            self.change.attempts.push(AttemptChange {
                run_id: run.id,
                ended_at: self.now,
                result: match (end, touched.ended) {
                    (Some(end), _) => end.result,
                    (None, Some(_)) => AttemptFate::Cancelled,
                    (None, None) => AttemptFate::Interrupted,
                }
                .to_stored(),
                error: end.and_then(|end| end.error.clone()),
            });
        }
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
        OccurrenceRef::Manual(_) => {
            debug_assert_eq!(occurrence.kind(), OccurrenceKind::Manual);
            Conflict::StaleVersion
        }
    }
}

fn stored_state(state: &str) -> &'static str {
    ["waiting", "active", "done", "failed", "cancelled"]
        .into_iter()
        .find(|known| *known == state)
        .unwrap_or("skipped")
}
