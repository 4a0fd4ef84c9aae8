//! Work that a command hands to the running worker, or does itself where none runs.

use std::{path::Path, sync::Arc, time::Duration};

use crate::{
    cli::{
        Colour, Exit, database,
        failure::Failure,
        jobs_file,
        reading::Place,
        report,
        wiring::{self, Terminal},
    },
    clock::{Clock, SystemClock},
    store::{
        Store, StoreError,
        sqlite::{OpenMode, WorkerLock},
    },
    worker::{Scope, Worker},
};

/// How often a command looks whether the worker has done it.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Who does the work.
pub(super) enum Doer {
    /// A worker that runs.
    Other,
    /// This command, which holds the worker's lock meanwhile.
    Own {
        /// The worker for the errand.
        worker: Box<Worker>,
        /// Held for as long as it works.
        _lock: WorkerLock,
    },
}

/// Finds out who does the work; where no worker runs, becomes one for `scope`.
pub(super) async fn doer(
    place: &Place,
    database: &Path,
    store: Arc<dyn Store>,
    scope: Scope,
) -> Result<Doer, Failure> {
    let failed = |error: &StoreError| database::failure(error);
    let lock = match WorkerLock::acquire(database) {
        Ok(lock) => lock,
        Err(StoreError::Held { .. }) => return Ok(Doer::Other),
        Err(error) => return Err(failed(&error)),
    };
    let loaded = jobs_file::load(&place.file, SystemClock.now())?;
    let Some(file) = loaded.file else {
        let name = place.file.display().to_string();
        eprint!("{}", report::text(&name, &loaded, Colour::of_stderr()));
        return Err(Failure::new(
            Exit::DoesNotHold,
            "no worker runs, and the jobs file is not TOML",
        ));
    };
    let folder = jobs_file::folder(&place.file);
    let wired = wiring::wire(&file, &folder, database, Terminal::Stderr);
    for what in &wired.left_out {
        eprintln!("warning: {what}");
    }
    let chats = wired.services.directory.chats.values().cloned().collect();
    let clock = Arc::new(SystemClock);
    store
        .set_chats(chats, clock.now())
        .await
        .map_err(|error| failed(&error))?;
    let worker = Worker::begin(store, clock, wired.services, scope, None)
        .await
        .map_err(|error| failed(&error))?;
    Ok(Doer::Own {
        worker: Box::new(worker),
        _lock: lock,
    })
}

impl Doer {
    /// Lets the work be done until `look` has an answer.
    pub(super) async fn until<T>(
        &mut self,
        look: impl AsyncFn() -> Result<Option<T>, StoreError>,
    ) -> Result<T, Failure> {
        let failed = |error| database::failure(&error);
        loop {
            if let Some(found) = look().await.map_err(failed)? {
                return Ok(found);
            }
            match self {
                Self::Other => tokio::time::sleep(LOOK_AGAIN).await,
                Self::Own { worker, .. } => {
                    worker.until_quiet().await.map_err(failed)?;
                    // What is left waits for its time: a retry, or a channel that asked for it.
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            }
        }
    }
}

/// The database of a command, opened.
pub(super) async fn open(
    place: &Place,
    mode: OpenMode,
) -> Result<(std::path::PathBuf, Arc<dyn Store>), Failure> {
    let path = place.database()?;
    let store = database::open(&path, mode).await?;
    Ok((path, Arc::new(store)))
}
