//! What a worker that died left unfinished.

use std::collections::HashSet;

use jiff::Timestamp;

use crate::{
    ids::RunId,
    policy::{Effects, OwnedEvent},
    store::{AttemptEnd, AttemptFate, ClaimedRun, StoreError},
};

use super::{Change, Worker, dispatch::Told, life::jobs_of};

impl Worker {
    /// Decides what becomes of interrupted runs, and of parts whose answer nobody heard. What
    /// cannot be committed now is kept, and done before anything else.
    pub(super) async fn recover(&mut self, now: Timestamp) -> Result<(), StoreError> {
        if let Some(part) = self.interrupted.parts.first() {
            tracing::info!(
                parts = self.interrupted.parts.len(),
                first = part.part_id.0,
                "settling what was being sent when a worker stopped"
            );
            let parts = self.interrupted.parts.iter();
            let settlements = parts.map(|part| self.writer.recover(part)).collect();
            self.store.settle_parts(settlements, now).await?;
            self.interrupted.parts.clear();
        }
        self.recover_unbegun(now).await?;
        if self.interrupted.runs.is_empty() {
            return Ok(());
        }
        tracing::info!(
            runs = self.interrupted.runs.len(),
            jobs = jobs_of(&self.interrupted.runs),
            "deciding about interrupted runs"
        );
        let effects = self.effects_of(self.interrupted.runs.iter()).await?;
        let changes: Vec<_> = self
            .interrupted
            .runs
            .iter()
            .map(|run| lease_lost(run, effects_in(&effects, run)))
            .collect();
        let answers = self.apply(&changes, now).await?;
        let mut answers = answers.into_iter();
        let is_to_be_told = |_: &ClaimedRun| answers.next() == Some(Told::Again);
        self.interrupted.runs.retain(is_to_be_told);
        Ok(())
    }

    /// Has the policy look at runs that waited for their first attempt while no worker was alive: a
    /// slot that has come meanwhile may go before one that would begin too late.
    async fn recover_unbegun(&mut self, now: Timestamp) -> Result<(), StoreError> {
        if self.unbegun.is_empty() {
            return Ok(());
        }
        let changes: Vec<_> = self.unbegun.iter().map(not_begun).collect();
        let answers = self.apply(&changes, now).await?;
        let mut answers = answers.into_iter();
        self.unbegun.retain(|_| answers.next() == Some(Told::Again));
        Ok(())
    }

    /// Which of these runs' attempts have had effects. Asked when they are over: nothing more is
    /// reported of them then.
    pub(super) async fn effects_of(
        &self,
        runs: impl Iterator<Item = &ClaimedRun>,
    ) -> Result<HashSet<RunId>, StoreError> {
        let ids: Vec<_> = runs.map(|run| run.run_id).collect();
        self.store.runs_with_effects(&ids).await
    }
}

fn not_begun(run: &ClaimedRun) -> Change {
    let event = OwnedEvent::LeaseLost {
        occurrence: run.occurrence.clone(),
        attempts_made: 0,
        effects: Effects::None,
        policies: run.job.policies.clone(),
    };
    Change::new(run.job.id.clone(), event)
}

fn lease_lost(run: &ClaimedRun, effects: Effects) -> Change {
    let event = OwnedEvent::LeaseLost {
        occurrence: run.occurrence.clone(),
        attempts_made: run.attempt,
        effects,
        policies: run.job.policies.clone(),
    };
    Change::attempt(
        run.job.id.clone(),
        event,
        ended(run, AttemptFate::Interrupted),
    )
}

/// Whether the last attempt of a run is among those that have had effects.
pub(super) fn effects_in(reported: &HashSet<RunId>, run: &ClaimedRun) -> Effects {
    if reported.contains(&run.run_id) {
        Effects::Reported
    } else {
        Effects::None
    }
}

/// The end of an attempt that has nothing to report.
pub(super) fn ended(run: &ClaimedRun, fate: AttemptFate) -> AttemptEnd {
    AttemptEnd {
        run_id: run.run_id,
        epoch: run.epoch,
        attempt: run.attempt,
        result: fate,
        error: None,
        output: None,
        usage: None,
        entries: Vec::new(),
        message: None,
        diagnostics: Vec::new(),
    }
}
