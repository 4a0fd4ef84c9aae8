//! Work that a command hands to the running worker, or does itself where none runs.

use std::{sync::Arc, time::Duration};

use crate::{
    cli::{
        Colour, Exit, accept_clock,
        database::{self, Database, Lock},
        failure::Failure,
        jobs_file,
        reading::{self, Place},
        report,
    },
    clock::{Clock, SystemClock},
    config::JobsFile,
    store::{
        Store, StoreError,
        sqlite::{Holder, OpenMode},
    },
    wiring::{self, Terminal},
    worker::{Scope, Worker},
};

/// How often a command looks whether the worker has done it.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How many looks pass before a command tries again to be the worker: the one that it waits for may
/// have stopped, or may have had an errand of its own.
const LOOKS_A_TRY: u32 = 10;

/// Work for the running worker, or for this command where none runs.
pub(super) struct Errand<'a> {
    pub(super) place: &'a Place,
    pub(super) database: &'a Database,
    pub(super) store: Arc<dyn Store>,
    pub(super) scope: Scope,
    terminal: Terminal,
    own: Option<Own>,
}

/// A worker of this command's own.
struct Own {
    worker: Worker,
    /// Held for as long as it works.
    _lock: Lock,
}

impl<'a> Errand<'a> {
    /// An errand; where no worker runs, this command is one for `scope`.
    ///
    /// # Errors
    /// Where the command must do it itself, and cannot.
    pub(super) async fn begin(
        place: &'a Place,
        database: &'a Database,
        store: Arc<dyn Store>,
        scope: Scope,
    ) -> Result<Self, Failure> {
        Self::begin_in(place, database, store, scope, Terminal::Stderr).await
    }

    /// The same, with another terminal for what console channels show meanwhile.
    ///
    /// # Errors
    /// As [`Errand::begin`].
    pub(super) async fn begin_in(
        place: &'a Place,
        database: &'a Database,
        store: Arc<dyn Store>,
        scope: Scope,
        terminal: Terminal,
    ) -> Result<Self, Failure> {
        let mut errand = Self {
            place,
            database,
            store,
            scope,
            terminal,
            own: None,
        };
        errand.try_to_work().await?;
        Ok(errand)
    }

    /// Whether a worker runs that does it.
    pub(super) fn is_left_to_another(&self) -> bool {
        self.own.is_none()
    }

    /// Lets the work be done until `look` has an answer.
    ///
    /// # Errors
    /// Where the store fails, or the command must do it itself, and cannot.
    pub(super) async fn until<T>(
        &mut self,
        look: impl AsyncFn() -> Result<Option<T>, StoreError>,
    ) -> Result<T, Failure> {
        let mut looks = 0;
        loop {
            if let Some(found) = look().await.map_err(|error| database::failure(&error))? {
                return Ok(found);
            }
            match &mut self.own {
                Some(own) => {
                    let quiet = own.worker.until_quiet().await;
                    quiet.map_err(|error| database::failure(&error))?;
                }
                None if looks % LOOKS_A_TRY == LOOKS_A_TRY - 1 => self.try_to_work().await?,
                None => {}
            }
            looks += 1;
            // What is left waits for somebody else, or for its time.
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Ends in order what this command began, so that nobody waits for its lease, and others go on
    /// with what it has not finished.
    pub(super) async fn end(&mut self) {
        if let Some(own) = self.own.take()
            && let Err(error) = own.worker.end().await
        {
            tracing::debug!(%error, "the errand's worker did not end in order");
        }
    }

    /// Becomes a worker, unless one runs.
    async fn try_to_work(&mut self) -> Result<(), Failure> {
        let failed = |error: StoreError| database::failure(&error);
        let lock = match Lock::acquire(self.database, Holder::Errand).await {
            Ok(lock) => lock,
            Err(StoreError::Held { .. }) => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        let file = self.jobs_file()?;
        let folder = jobs_file::folder(&self.place.file);
        let wired = wiring::wire(&file, &folder, self.database, self.terminal);
        for what in &wired.left_out {
            eprintln!("warning: {what}");
        }
        let clock = Arc::new(SystemClock);
        accept_clock::must_be_believed(self.store.as_ref(), clock.now()).await?;
        let chats = wired.services.directory.chats.values().cloned().collect();
        self.store
            .set_chats(chats, clock.now())
            .await
            .map_err(failed)?;
        let (store, scope) = (self.store.clone(), self.scope.clone());
        let worker = Worker::begin(store, clock, wired.services, scope, None)
            .await
            .map_err(failed)?;
        self.own = Some(Own {
            worker,
            _lock: lock,
        });
        Ok(())
    }

    fn jobs_file(&self) -> Result<JobsFile, Failure> {
        let loaded = jobs_file::load(&self.place.file, SystemClock.now())?;
        if let Some(file) = loaded.file {
            return Ok(file);
        }
        let name = self.place.file.display().to_string();
        eprint!("{}", report::text(&name, &loaded, Colour::of_stderr()));
        Err(Failure::new(
            Exit::DoesNotHold,
            "no worker runs, and the jobs file is not TOML",
        )
        .help(format!(
            "correct it: `chatcron check {name}` says what and where"
        )))
    }
}

/// The database of a command, opened.
pub(super) async fn open(
    place: &Place,
    mode: OpenMode,
) -> Result<(Database, Arc<dyn Store>), Failure> {
    let database = place.database()?;
    if mode == OpenMode::MustExist || !place.file.exists() {
        reading::must_exist(&database)?;
    }
    let store = database::open(&database, mode).await?.store();
    Ok((database, store))
}
