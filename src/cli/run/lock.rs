//! Becoming a worker of a database: at once, or as a hot standby of those that run.

use std::{io, path::Path, sync::Arc, thread, time::Duration};

use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    cli::{
        Exit,
        database::{self, Database, Lock},
        failure::Failure,
    },
    store::{
        StoreError,
        sqlite::{Holder, WorkerLock},
    },
};

/// How often the lock is tried again that a command holds.
const LOCK_AGAIN: Duration = Duration::from_millis(200);

/// How often a standby asks a server whether a worker is alive.
const SERVER_AGAIN: Duration = Duration::from_secs(1);

/// What to do where another worker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    /// Share the work, where the database is a server's; else refuse.
    Join,
    /// Wait for its end, and take over at once.
    StandBy,
}

/// The lock, and whether it was waited for.
pub(super) struct Taken {
    pub(super) lock: Lock,
    pub(super) has_waited: bool,
}

/// Takes the worker's lock; `None` where it is asked to stop first. A command with an errand of its
/// own holds it for as long as that takes; another worker holds it for good.
///
/// # Errors
/// Where another worker runs and is not waited for, and where the lock file cannot be used.
pub(super) async fn take(
    database: &Database,
    beside: Beside,
    stop: &CancellationToken,
) -> Result<Option<Taken>, Failure> {
    let mut has_waited = false;
    // A server's worker needs no lock, so a standby looks before it takes it.
    if beside == Beside::StandBy && matches!(database, Database::Server { .. }) {
        let holder = Lock::holder(database).await;
        if holder.map_err(|error| database::failure(&error))? == Some(Holder::Worker) {
            return stand_by(database, stop).await;
        }
    }
    loop {
        match Lock::acquire(database, Holder::Worker).await {
            Ok(lock) => return Ok(Some(Taken { lock, has_waited })),
            Err(StoreError::Held { .. }) if is_errand(database).await? => {
                if !has_waited {
                    tracing::info!("waiting for a command that is at work, such as `chatcron say`");
                }
                has_waited = true;
                tokio::select! {
                    () = stop.cancelled() => return Ok(None),
                    () = tokio::time::sleep(LOCK_AGAIN) => {}
                }
            }
            Err(StoreError::Held { .. }) if beside == Beside::StandBy => {
                return stand_by(database, stop).await;
            }
            Err(error) => return Err(database::failure(&error)),
        }
    }
}

/// Whether the lock's holder will soon be gone.
async fn is_errand(database: &Database) -> Result<bool, Failure> {
    let holder = Lock::holder(database).await;
    let holder = holder.map_err(|error| database::failure(&error))?;
    // Where nobody has it any more it is tried again at once.
    Ok(holder != Some(Holder::Worker))
}

/// Waits until the lock can be had.
async fn stand_by(database: &Database, stop: &CancellationToken) -> Result<Option<Taken>, Failure> {
    tracing::info!(
        database = %database,
        "standing by: another chatcron is running, and this one takes over when it ends"
    );
    let lock = match database {
        Database::File(path) => stand_by_file(path, stop).await?,
        Database::Server { .. } => stand_by_server(database, stop).await?,
    };
    if lock.is_some() {
        tracing::info!("taking over: the one before has ended");
    } else {
        tracing::info!("no longer standing by");
    }
    Ok(lock.map(|lock| Taken {
        lock,
        has_waited: true,
    }))
}

/// Asks a server again and again whether a worker is alive.
async fn stand_by_server(
    database: &Database,
    stop: &CancellationToken,
) -> Result<Option<Lock>, Failure> {
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(None),
            () = tokio::time::sleep(SERVER_AGAIN) => {}
        }
        match Lock::holder(database).await {
            // A server that is away is what a standby waits for too.
            Ok(Some(Holder::Worker)) | Err(StoreError::Unavailable { .. }) => {}
            Ok(Some(Holder::Errand) | None) => return Ok(Some(Lock::Shared)),
            Err(error) => return Err(database::failure(&error)),
        }
    }
}

/// Waits in the system's own queue for the lock, so that it is had the moment its holder ends,
/// however that ends. The wait cannot be called off: its thread ends with the process.
async fn stand_by_file(database: &Path, stop: &CancellationToken) -> Result<Option<Lock>, Failure> {
    let (had, waiting) = oneshot::channel();
    let path = database.to_owned();
    let waiter = thread::Builder::new().name("standby".to_owned());
    let spawned = waiter.spawn(move || {
        // Nobody listens any more where it was asked to stop; then the lock is dropped again.
        let _ = had.send(WorkerLock::wait(&path, Holder::Worker));
    });
    spawned.map_err(|error| cannot_wait(&error))?;
    tokio::select! {
        () = stop.cancelled() => Ok(None),
        had = waiting => {
            let lock = had.map_err(|_| cannot_wait(&io::Error::other("its thread has ended")))?;
            let lock = lock.map_err(|error| database::failure(&error))?;
            Ok(Some(Lock::File(lock)))
        }
    }
}

/// Says in the lock's file what keeps the worker from working, as it comes and goes, for whoever
/// asks how it stands.
pub(super) async fn tell_trouble(lock: Arc<Lock>, mut trouble: watch::Receiver<Option<String>>) {
    loop {
        let told = lock.tell(trouble.borrow_and_update().as_deref());
        if let Err(error) = told {
            tracing::debug!(%error, "the lock's file cannot be written");
        }
        if trouble.changed().await.is_err() {
            return;
        }
    }
}

fn cannot_wait(error: &io::Error) -> Failure {
    Failure::new(Exit::CannotRead, format!("cannot stand by: {error}"))
        .help("see that the database, and the lock beside it, can be written")
}
