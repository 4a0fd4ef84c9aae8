//! Resets that were asked for: they pre-empt the lane.

use jiff::Timestamp;

use crate::{
    ids::SessionKey,
    policy::OwnedEvent,
    store::{AttemptFate, ClaimedRun, StoreError, UnderWay},
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
            let own = self.in_flight.abort_session(&session);
            let under_way = self.under_way(&session, own).await?;
            let changes: Vec<_> = under_way
                .runs
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
            if all_told
                && !under_way.is_sending
                && let Some(generation) = self.store.reset(&session, now).await?
            {
                tracing::info!(chat = %session, generation, "reset");
            }
        }
        Ok(())
    }

    /// What is under way in a session: of this worker's, which it knows by itself, and where others
    /// share the database of theirs. Their attempts notice by their epochs.
    async fn under_way(
        &self,
        session: &SessionKey,
        own: Vec<ClaimedRun>,
    ) -> Result<UnderWay, StoreError> {
        if self.lease.is_shared() {
            return self.store.under_way(session).await;
        }
        Ok(UnderWay {
            runs: own,
            is_sending: self.in_flight.is_sending(session),
        })
    }
}
