//! What a worker that died left unfinished.

use jiff::Timestamp;

use crate::{
    policy::OwnedEvent,
    store::{AttemptEnd, AttemptFate, ClaimedRun, Interrupted, StoreError},
};

use super::{Change, Worker};

impl Worker {
    /// Decides what becomes of interrupted runs, and of parts whose answer nobody heard.
    pub(super) async fn recover(
        &mut self,
        interrupted: Interrupted,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let settlements: Vec<_> = interrupted
            .parts
            .iter()
            .map(|part| self.writer.recover(part))
            .collect();
        if !settlements.is_empty() {
            tracing::info!(
                parts = settlements.len(),
                "settling what was being sent when the last worker stopped"
            );
            self.store.settle_parts(settlements, now).await?;
        }
        if interrupted.runs.is_empty() {
            return Ok(());
        }
        tracing::info!(
            runs = interrupted.runs.len(),
            "deciding about interrupted runs"
        );
        let changes: Vec<_> = interrupted.runs.iter().map(lease_lost).collect();
        self.apply(&changes, now).await?;
        Ok(())
    }
}

fn lease_lost(run: &ClaimedRun) -> Change {
    let event = OwnedEvent::LeaseLost {
        occurrence: run.occurrence.clone(),
        attempts_made: run.attempt,
        policies: run.job.policies.clone(),
    };
    Change::attempt(
        run.job.id.clone(),
        event,
        ended(run, AttemptFate::Interrupted),
    )
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
