//! The changes of a decision, once all of its effects have been followed.

use jiff::Timestamp;

use crate::{
    ids::{Epoch, OccurrenceId, RunId, SessionKey},
    occurrence::{OccurrenceRef, Outcome},
    policy::goes_last,
    store::{AttemptFate, BegunRun, Conflict, sql::lanes::Release},
};

use super::{
    begin::BeginCandidate,
    draft::{Draft, Touched, TouchedRun},
    plan::Planned,
    tables::{AttemptChange, NewOccurrence, NewRun, OccurrenceChange, RunChange},
};

impl Draft<'_> {
    /// Every change, or the conflict of an attempt about which nothing was decided.
    pub(super) fn finish(mut self) -> Planned {
        let mut decided = self.item.attempt_end.is_none();
        for (occurrence, touched) in std::mem::take(&mut self.touched) {
            if let Some(run) = &touched.run {
                self.propose_begin(run, &occurrence, &touched);
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

    /// Has a run begin with the commit that starts it, if that is wanted. A catch-up goes
    /// after all others.
    fn propose_begin(&mut self, run: &TouchedRun, occurrence: &OccurrenceRef, touched: &Touched) {
        let due = run.new && run.due_at.is_some_and(|due| due <= self.now);
        let begins_at_once = due && !goes_last(run.cause) && touched.ended.is_none();
        let (Some(worker), Some(row), true) = (self.item.begin, &touched.new, begins_at_once)
        else {
            return;
        };
        let Ok(nominal_at) = Timestamp::from_microsecond(row.nominal_at) else {
            return;
        };
        self.change.begin_candidates.push(BeginCandidate {
            item: self.index,
            worker,
            now: self.now,
            run: BegunRun {
                run_id: RunId(run.id),
                epoch: Epoch(0),
                occurrence: occurrence.clone(),
                occurrence_id: OccurrenceId(touched.id),
                incarnation: row.incarnation,
                nominal_at,
                cause: run.cause,
                lane: SessionKey::from_stored(touched.lane.clone()),
                destination: self.item.route.destination.clone(),
            },
        });
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
                attempts: 0,
                epoch: 0,
                worker_id: None,
                started_at: None,
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

fn stored_state(state: &str) -> &'static str {
    ["waiting", "active", "done", "failed", "cancelled"]
        .into_iter()
        .find(|known| *known == state)
        .unwrap_or("skipped")
}
