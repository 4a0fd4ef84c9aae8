//! The worker's own fixed ticks, driven by tokio-cron-scheduler.
//!
//! A handful of internal crons in UTC, known at build time; their bodies only leave a note for the
//! worker's loop. Users' jobs are not driven by it, and nothing depends on it: the loop finds due
//! work by its own sleep. `docs/dependencies.md` says why.

use tokio::sync::mpsc;
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};

/// What is to be done now and then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chore {
    /// Look at the outbox and at everything else that may be due.
    Sweep,
    /// Take back lanes that nobody works in.
    Reap,
    /// Delete what is older than the retention says.
    Prune,
}

/// Each chore with its cron, seconds first. The seconds are apart, so that they do not meet.
const CHORES: [(Chore, &str); 3] = [
    (Chore::Sweep, "5 * * * * *"),
    (Chore::Reap, "35 * * * * *"),
    (Chore::Prune, "50 17 * * * *"),
];

/// Why housekeeping could not begin.
#[derive(Debug, thiserror::Error)]
#[error("housekeeping cannot begin")]
pub struct HousekeepingError {
    #[source]
    source: JobSchedulerError,
}

/// The running ticks, until they are stopped.
pub(super) struct Housekeeping {
    scheduler: JobScheduler,
}

impl Housekeeping {
    /// Starts the ticks; each leaves its chore in `notes`, unless that is full: the chore that is
    /// in it already will do.
    pub(super) async fn start(notes: mpsc::Sender<Chore>) -> Result<Self, HousekeepingError> {
        let source = |source| HousekeepingError { source };
        let scheduler = JobScheduler::new().await.map_err(source)?;
        for (chore, cron) in CHORES {
            let notes = notes.clone();
            let job = Job::new_async(cron, move |_, _| {
                let notes = notes.clone();
                Box::pin(async move {
                    // A full queue holds this chore already.
                    let _ = notes.try_send(chore);
                })
            });
            scheduler.add(job.map_err(source)?).await.map_err(source)?;
        }
        scheduler.start().await.map_err(source)?;
        Ok(Self { scheduler })
    }

    /// Stops the ticks.
    pub(super) async fn stop(mut self) {
        if let Err(error) = self.scheduler.shutdown().await {
            tracing::debug!(%error, "housekeeping did not stop in order");
        }
    }
}
