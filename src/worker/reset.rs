//! Resets that were asked for: they pre-empt the lane.

use jiff::Timestamp;

use crate::{
    policy::OwnedEvent,
    store::{AttemptFate, StoreError},
};

use super::{Change, Scope, Worker, dispatch::Told, recover};

impl Worker {
    /// Calls off what runs in each session that shall be reset, lets a send under way be answered,
    /// and raises the generation.
    pub(super) async fn reset_sessions(&mut self, now: Timestamp) -> Result<(), StoreError> {
        for session in self.store.pending_resets().await? {
            let concerns_it = match &self.scope {
                Scope::All => true,
                Scope::Session(own) => *own == session,
                Scope::Run { .. } => false,
            };
            if !concerns_it {
                continue;
            }
            let runs = self.in_flight.abort_session(&session);
            let changes: Vec<_> = runs
                .iter()
                .map(|run| {
                    let event = OwnedEvent::RunCancelled {
                        occurrence: run.occurrence.clone(),
                    };
                    let end = recover::ended(run, AttemptFate::Cancelled);
                    Change::attempt(run.job.id.clone(), event, end)
                })
                .collect();
            let answers = self.apply(&changes, now).await?;
            let all_told = answers.iter().all(|answer| *answer != Told::Again);
            if all_told && !self.in_flight.is_sending(&session) {
                let generation = self.store.reset(&session, now).await?;
                tracing::info!(chat = %session, generation, "reset");
            }
        }
        Ok(())
    }
}
