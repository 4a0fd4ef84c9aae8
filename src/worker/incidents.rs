//! What a person is told of failures: decided on after the outcomes are committed.

use jiff::Timestamp;

use crate::{
    ids::{JobId, SessionKey},
    message::Origin,
    outbound::alerts::{Alerts, Decided},
    store::StoreError,
};

use super::{BATCH, Happened, Worker};

/// How many batches of signals are decided on before the lanes are looked at.
const BATCHES_A_STEP: usize = 16;

impl Worker {
    /// Decides about what outcomes and deliveries have reported.
    pub(super) async fn report_incidents(&self, now: Timestamp) -> Result<(), StoreError> {
        for _ in 0..BATCHES_A_STEP {
            let signals = self.store.incident_signals(BATCH).await?;
            if signals.is_empty() {
                break;
            }
            let mut ids: Vec<_> = signals.iter().map(|signal| signal.job_id.clone()).collect();
            ids.sort();
            ids.dedup();
            let jobs = self.store.jobs(&ids).await?;
            let known = self.store.incidents(&ids).await?;
            let alerts = Alerts {
                store_id: &self.store_id,
                chats: &self.services.directory.chats,
                channels: &self.services.channels,
                jobs: &jobs,
            };
            let decided = alerts.decide(&signals, known);
            let told = messages_of(&decided);
            let untold = decided.untold;
            match self.store.commit_incidents(decided.commit, now).await? {
                Ok(()) => {
                    for (job_id, origin, session_key) in told {
                        tracing::info!(job = %job_id, chat = %session_key, "a person is told");
                        let what = Happened::Alert {
                            job_id,
                            origin,
                            session_key,
                        };
                        self.events.tell(now, what);
                    }
                    for job in untold {
                        tracing::error!(%job, "it fails, and there is no chat to tell of it");
                    }
                }
                Err(conflict) => {
                    tracing::info!(%conflict, "incidents were decided on already");
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The job, the origin and the chat of each message.
fn messages_of(decided: &Decided) -> Vec<(JobId, Origin, SessionKey)> {
    let messages = decided.commit.alerts.iter();
    let messages = messages.chain(&decided.commit.recoveries);
    let told = messages.filter_map(|message| {
        let job = message.posted_by.as_ref()?.job_id.clone();
        Some((job, message.origin, message.destination.session_key()))
    });
    told.collect()
}
