//! `chatcron run`: the worker, for a person with a jobs file.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::task::JoinSet;

use crate::{
    cli::{
        Exit, database,
        failure::Failure,
        jobs_file,
        logs::{self, LogFormat},
        plan, reload, signals,
        wiring::{self, Terminal},
    },
    clock::{Clock, SystemClock},
    config::JobsFile,
    store::{
        Store, StoreError,
        sqlite::{Holder, OpenMode, WorkerLock},
    },
    worker::{Journal, Scope, Stop, Ticks, Worker, WorkerHandle},
};

/// How long runs may go on after the first Ctrl-C.
const GRACE: Duration = Duration::from_secs(30);

/// How often the lock is tried again that a command holds.
const LOCK_AGAIN: Duration = Duration::from_millis(200);

/// Run the jobs of a file, until stopped.
///
/// Ctrl-C or SIGTERM lets what runs finish (30 s at most) and ends with 0; a second one leaves it
/// for the next start and ends with 130. SIGHUP, or saving the file, reads it again.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The jobs file.
    #[arg(default_value = "jobs.toml")]
    file: PathBuf,
    #[command(flatten)]
    database: database::Arguments,
    /// How the log is written, to stderr.
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
    /// Append every decision with its inputs to this file, for `chatcron recheck`.
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
}

pub(super) async fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    logs::start(arguments.log_format);
    let place = Place::of(arguments)?;
    let read_at = jobs_file::modified_at(&place.file);
    let loaded = jobs_file::load(&place.file, SystemClock.now())?;
    logs::tell_problems(place.log_format, &place.file, &loaded);
    let Some(file) = loaded.file else {
        return Ok(Exit::DoesNotHold);
    };
    let journal = arguments.journal.as_deref().map(open_journal).transpose()?;
    let lock = lock(&place.database).await?;
    let store = Arc::new(database::open(&place.database, OpenMode::CreateIfMissing).await?);
    let start = Start {
        place: &place,
        file: &file,
        read_at,
        journal,
    };
    let outcome = work(start, store.clone()).await;
    store.close().await;
    drop(lock);
    outcome
}

/// Where everything is.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The jobs file.
    pub(super) file: PathBuf,
    /// Its folder.
    pub(super) folder: PathBuf,
    /// The name under which its jobs are stored.
    pub(super) source: String,
    /// The database.
    pub(super) database: PathBuf,
    /// How the log is written.
    pub(super) log_format: LogFormat,
}

impl Place {
    fn of(arguments: &Arguments) -> Result<Self, Failure> {
        Ok(Self {
            database: arguments.database.path(&arguments.file)?,
            folder: jobs_file::folder(&arguments.file),
            source: jobs_file::source(&arguments.file),
            file: arguments.file.clone(),
            log_format: arguments.log_format,
        })
    }
}

/// Takes the worker's lock. A command with an errand of its own holds it for as long as that takes;
/// another worker holds it for good.
async fn lock(database: &Path) -> Result<WorkerLock, Failure> {
    let mut has_told = false;
    loop {
        match WorkerLock::acquire(database, Holder::Worker) {
            Ok(lock) => return Ok(lock),
            Err(StoreError::Held { .. }) if WorkerLock::holder(database) == Holder::Errand => {
                if !has_told {
                    tracing::info!("waiting for a command that is at work, such as `chatcron say`");
                }
                has_told = true;
                tokio::time::sleep(LOCK_AGAIN).await;
            }
            Err(error) => return Err(database::failure(&error)),
        }
    }
}

fn open_journal(path: &Path) -> Result<Arc<Journal>, Failure> {
    let journal = Journal::open(path).map_err(|error| {
        let message = format!("cannot write the journal {}: {error}", path.display());
        Failure::new(Exit::CannotRead, message).help("name a file that can be written")
    })?;
    Ok(Arc::new(journal))
}

/// What the worker starts from.
struct Start<'a> {
    place: &'a Place,
    file: &'a JobsFile,
    read_at: Option<SystemTime>,
    journal: Option<Arc<Journal>>,
}

async fn work(start: Start<'_>, store: Arc<dyn Store>) -> Result<Exit, Failure> {
    let Start {
        place,
        file,
        read_at,
        journal,
    } = start;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let wired = wiring::wire(file, &place.folder, &place.database, Terminal::Stdout);
    for what in &wired.left_out {
        tracing::error!("{what}");
    }
    let failed = |error| database::failure(&error);
    let worker = Worker::begin(store.clone(), clock, wired.services, Scope::All, journal)
        .await
        .map_err(failed)?;
    let bad = jobs_file::bad_ids(file);
    let change = worker
        .apply_jobs(&place.source, &file.jobs, &bad)
        .await
        .map_err(failed)?;
    plan::tell_start(place, file);
    plan::tell_change(file, &change);

    let stop = Stop::default();
    let (handle, requests) = WorkerHandle::new();
    let mut beside = JoinSet::new();
    beside.spawn(signals::listen(stop.clone()));
    beside.spawn(reload::watch(
        place.clone(),
        file.prompt_files.clone(),
        read_at,
        handle,
    ));
    let ended = worker.run(requests, stop.clone(), Ticks::On, GRACE).await;
    beside.shutdown().await;
    ended.map_err(|error| Failure::new(Exit::CannotRead, format!("{error:#}")))?;
    plan::tell_stop(store.as_ref()).await.map_err(failed)?;
    Ok(if stop.now.is_cancelled() {
        Exit::Interrupted
    } else {
        Exit::Fine
    })
}
