//! What tasks report, committed by the loop; together, where several have finished.

use std::mem;

use jiff::Timestamp;
use tokio::task::{self, JoinError};

use crate::{
    measure,
    occurrence::FailReason,
    policy::{AttemptResult, Effects, OwnedEvent, outbox::Transition},
    store::{
        ClaimedPart, ClaimedRun, ClaimedTurn, PartSettlement, StoreError, TurnEnd, TurnResult,
    },
};

use super::{
    BATCH, Change, Happened, Worker, dispatch::Told, execute::RunDone, recover::effects_in,
};

/// What a task reports.
#[derive(Clone)]
pub(super) enum Completion {
    Run(Box<ClaimedRun>, Box<RunDone>),
    Turn(Box<ClaimedTurn>, Box<TurnEnd>),
    Part(Box<ClaimedPart>, Box<PartSettlement>),
}

/// A task that has ended.
pub(super) type Joined = Result<(task::Id, Completion), JoinError>;

impl Worker {
    /// Waits for one task, and commits what it and others that have finished report.
    pub(super) async fn absorb_finished(&mut self) -> Result<(), StoreError> {
        match self.tasks.join_next_with_id().await {
            Some(joined) => self.absorb_joined(joined).await,
            None => Ok(()),
        }
    }

    /// Commits what this task and others that have finished report.
    pub(super) async fn absorb_joined(&mut self, joined: Joined) -> Result<(), StoreError> {
        self.keep(joined);
        self.keep_finished();
        self.absorb_unsaved(self.clock.now()).await
    }

    /// Takes the reports of tasks that have finished, as far as one batch goes; returns how many.
    pub(super) fn keep_finished(&mut self) -> usize {
        let before = self.unsaved.len();
        while self.unsaved.len() < BATCH {
            match self.tasks.try_join_next_with_id() {
                Some(joined) => self.keep(joined),
                None => break,
            }
        }
        self.unsaved.len() - before
    }

    fn keep(&mut self, joined: Joined) {
        match joined {
            Ok((task, completion)) => {
                self.in_flight.has_reported(task);
                self.unsaved.push(completion);
            }
            // Panics of agents and channels are caught around their calls; this one is ours.
            Err(error) => {
                tracing::error!(%error, "a task of the worker ended without a report");
                self.in_flight.lost(error.id());
            }
        }
    }

    /// Commits what tasks have reported. What the store does not take is kept for the next time:
    /// then each report on its own, so that one which can never be saved keeps no other.
    pub(super) async fn absorb_unsaved(&mut self, now: Timestamp) -> Result<(), StoreError> {
        if !self.believes(now).await? {
            return Ok(());
        }
        let reports = mem::take(&mut self.unsaved);
        let size = if self.is_struggling { 1 } else { BATCH };
        let mut failure = None;
        for batch in reports.chunks(size) {
            if let Err(error) = self.save(batch, now).await {
                failure = Some(error);
                // Everything is fenced: what was written is refused when it comes again.
                self.unsaved.extend_from_slice(batch);
            }
        }
        self.is_struggling = failure.is_some();
        failure.map_or(Ok(()), Err)
    }

    async fn save(&mut self, reports: &[Completion], now: Timestamp) -> Result<(), StoreError> {
        let mut runs = Vec::new();
        let mut turns = Vec::new();
        let mut parts = Vec::new();
        for report in reports {
            match report {
                Completion::Run(run, done) => runs.push((run.as_ref(), done.as_ref())),
                Completion::Turn(turn, end) => turns.push((turn.as_ref(), end.as_ref())),
                Completion::Part(part, settlement) => {
                    parts.push((part.as_ref(), settlement.as_ref()));
                }
            }
        }
        self.save_parts(&parts, now).await?;
        self.save_turns(&turns, now).await?;
        self.save_runs(&runs, now).await
    }

    async fn save_parts(
        &mut self,
        parts: &[(&ClaimedPart, &PartSettlement)],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let settlements = parts.iter().map(|(_, settlement)| *settlement).cloned();
        let answers = self.store.settle_parts(settlements.collect(), now).await?;
        for ((part, settlement), answer) in parts.iter().zip(answers) {
            self.in_flight.end_part(part.part_id, part.epoch);
            match answer {
                Ok(()) => {
                    measure::part(&settlement.transition);
                    tell_part(part, settlement);
                    let why = settlement.why.as_ref();
                    let what = Happened::delivered(part, &settlement.transition, why);
                    self.events.tell(now, what);
                }
                Err(conflict) => {
                    tracing::info!(part = part.part_id.0, %conflict, "a late answer was not needed");
                }
            }
        }
        Ok(())
    }

    async fn save_turns(
        &mut self,
        turns: &[(&ClaimedTurn, &TurnEnd)],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let ends = turns.iter().map(|(_, end)| *end).cloned();
        let answers = self.store.finish_turns(ends.collect(), now).await?;
        for ((turn, end), answer) in turns.iter().zip(answers) {
            self.in_flight.end_turn(turn.turn_id, turn.epoch);
            let saved = answer.clone().map(|()| end.result.clone());
            self.runners.saved(turn.turn_id, saved);
            if answer.is_ok() {
                let what = Happened::turn_finished(turn.turn_id, &turn.session_key, &end.result);
                self.events.tell(now, what);
                measure::turn(&end.result);
            }
            let (chat, turn) = (&turn.session_key, turn.turn_id.0);
            match (answer, &end.result) {
                (Ok(()), TurnResult::Done) => tracing::info!(%chat, turn, "turn done"),
                (Ok(()), TurnResult::Requeued) => tracing::info!(%chat, turn, "turn waits again"),
                (Ok(()), TurnResult::Failed { error }) => {
                    tracing::warn!(%chat, turn, error, "turn failed");
                }
                (Err(conflict), _) => {
                    tracing::info!(%chat, turn, %conflict, "a late answer was refused");
                }
            }
        }
        Ok(())
    }

    async fn save_runs(
        &mut self,
        runs: &[(&ClaimedRun, &RunDone)],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        // Most runs do not fail, and then it does not matter.
        let failed = runs.iter().filter(|(_, done)| done.has_failed());
        let effects = self.effects_of(failed.map(|(run, _)| *run)).await?;
        let changes: Vec<_> = runs
            .iter()
            .map(|(run, done)| {
                let event = what_happened(run, done, effects_in(&effects, run));
                Change::attempt(run.job.id.clone(), event, done.end.clone())
            })
            .collect();
        let read = runs.iter().filter_map(|(run, _)| run.stored_job.clone());
        let answers = self.apply_to(read.collect(), &changes, now).await?;
        for ((run, done), answer) in runs.iter().zip(answers) {
            if answer == Told::Again {
                let (run, done) = (ClaimedRun::clone(run), RunDone::clone(done));
                let report = Completion::Run(Box::new(run), Box::new(done));
                self.unsaved.push(report);
                continue;
            }
            let span = self.in_flight.end_run(run.run_id, run.epoch);
            if matches!(answer, Told::Applied | Told::Ended) {
                span.in_scope(|| tell_run(done, answer));
            }
        }
        Ok(())
    }
}

/// What the end of an attempt means to its job. One that was called off because the worker stops
/// is a lost lease: the next worker goes on with it at once, as after a crash.
fn what_happened(run: &ClaimedRun, done: &RunDone, effects: Effects) -> OwnedEvent {
    let occurrence = run.occurrence.clone();
    let attempts_made = run.attempt;
    let policies = run.job.policies.clone();
    match done.result {
        AttemptResult::Failed(FailReason::Interrupted) => OwnedEvent::LeaseLost {
            occurrence,
            attempts_made,
            effects,
            policies,
        },
        result @ (AttemptResult::Done | AttemptResult::Silent | AttemptResult::Failed(_)) => {
            OwnedEvent::AttemptFinished {
                occurrence,
                result,
                attempts_made,
                effects,
                policies,
            }
        }
    }
}

fn tell_run(done: &RunDone, answer: Told) {
    match done.result {
        AttemptResult::Done => tracing::info!("done"),
        AttemptResult::Silent => tracing::info!("done, silent"),
        AttemptResult::Failed(reason) => {
            let error = done.end.error.as_deref().unwrap_or_default();
            let reason = reason.as_str();
            if answer == Told::Ended {
                tracing::warn!(reason, error, "the run has failed");
            } else {
                tracing::warn!(reason, error, "attempt failed; it is tried again");
            }
        }
    }
}

fn tell_part(part: &ClaimedPart, settlement: &PartSettlement) {
    let (to, id) = (&part.session_key, part.part_id.0);
    let why = settlement.why.as_deref().unwrap_or_default();
    match &settlement.transition {
        Transition::Confirm(receipt) => {
            tracing::info!(%to, part = id, message_id = receipt.message_id, "shown");
        }
        Transition::TryAgain { at, .. } => {
            let at = at.strftime("%Y-%m-%dT%H:%M:%SZ");
            tracing::warn!(%to, part = id, %at, why, "not sent yet");
        }
        Transition::Unknown => {
            tracing::warn!(%to, part = id, why, "it is not known whether this was shown");
        }
        Transition::Fail { reason, .. } => {
            tracing::error!(%to, part = id, reason = reason.as_str(), why, "could not be sent");
        }
        Transition::Readdress { .. } => tracing::info!(%to, part = id, "the chat has moved"),
    }
}
