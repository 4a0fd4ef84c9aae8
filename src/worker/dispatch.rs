//! Jobs that are due: asked in the order (fire instant, job id), committed together.

use jiff::Timestamp;

use crate::{policy::OwnedEvent, store::StoreError};

use super::{BATCH, Change, ChangeError, Worker};

impl Worker {
    /// Decides about every job whose wake-up has come.
    pub(super) async fn dispatch_due(&mut self, now: Timestamp) -> Result<(), StoreError> {
        loop {
            let due = self.store.due_jobs(now, BATCH).await?;
            let is_last = due.len() < BATCH;
            let changes: Vec<_> = due
                .into_iter()
                .map(|stored| Change::new(stored.job.id, OwnedEvent::WakeUp))
                .collect();
            self.apply(&changes, now).await?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Applies changes, and aborts the attempts whose runs they ended. Returns the places of those
    /// for which others were too fast; what happened to these jobs has yet to be told.
    pub(super) async fn apply(
        &mut self,
        changes: &[Change],
        now: Timestamp,
    ) -> Result<Vec<usize>, StoreError> {
        let chats = &self.services.directory.chats;
        let answers = self.decider(chats).apply(changes, now).await?;
        let mut again = Vec::new();
        for (index, (change, answer)) in changes.iter().zip(answers).enumerate() {
            let job = &change.job_id;
            match answer {
                Ok(applied) => {
                    for run_id in applied.written.ended {
                        self.in_flight.abort_run(run_id);
                    }
                    for (reason, slots) in applied.skipped {
                        tracing::info!(%job, slots, reason = reason.as_str(), "skipped");
                    }
                }
                Err(ChangeError::Busy { .. }) => again.push(index),
                Err(ChangeError::LeaseLost) => {
                    tracing::info!(%job, "a late outcome was refused: its run has ended");
                }
                Err(error @ (ChangeError::NoSuchJob { .. } | ChangeError::Unplannable { .. })) => {
                    tracing::error!(%job, %error, "an event had no effect");
                }
            }
        }
        Ok(again)
    }
}
