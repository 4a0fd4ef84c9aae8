//! `chatcron run`: the worker, for a person with a jobs file.

mod listen;
mod lock;
pub(super) mod service_manager;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use tokio::task::JoinSet;

use crate::{
    cli::{
        Exit,
        accept_clock::{self, Accepted},
        database::{self, Database, Lock},
        failure::Failure,
        jobs_file,
        logs::{self, LogFormat},
        plan, reload, signals,
    },
    clock::{Clock, SystemClock},
    config::JobsFile,
    http::Listen,
    store::{Store, sqlite::OpenMode},
    wiring::{self, Terminal},
    worker::{Journal, Scope, Stop, Ticks, Worker, WorkerHandle},
};

use lock::Beside;

/// How long runs may go on after the first Ctrl-C.
const GRACE: Duration = Duration::from_secs(30);

/// How often a jobs file with nothing in it is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

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
    /// Where another worker runs, wait for its end and take over, instead of sharing the work
    /// (PostgreSQL) or refusing (SQLite, which has one worker).
    #[arg(long)]
    standby: bool,
    /// For how long a worker of a PostgreSQL database may be silent before the others take over from
    /// it, in seconds. A message gets no longer than that to be sent.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 45,
        value_parser = clap::value_parser!(u64).range(3..=3600),
    )]
    lease: u64,
    /// Serve the HTTP API on this address. One that is not of this machine's loopback requires a
    /// token in CHATCRON_TOKEN; where one is set, every request needs it.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Confirm that the machine's clock is right, where it is more than a day ahead of what the
    /// database knows.
    #[arg(long)]
    accept_clock: bool,
}

pub(super) async fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    logs::start(arguments.log_format);
    let place = Place::of(arguments)?;
    let asked = arguments.listen.map(listen::asked).transpose()?;
    let stop = Stop::default();
    let mut beside = JoinSet::new();
    beside.spawn(signals::listen(stop.clone()));
    let mut read = match Read::of(&place, &stop).await? {
        Ok(read) => read,
        Err(exit) => return Ok(exit),
    };
    let journal = arguments.journal.as_deref().map(open_journal).transpose()?;
    let policy = if arguments.standby {
        Beside::StandBy
    } else {
        Beside::Join
    };
    let taking = lock::take(&place.database, policy, &stop.drain);
    let Some(taken) = service_manager::waiting("standing by", taking).await? else {
        return Ok(Exit::Fine);
    };
    if taken.has_waited {
        // It may have been edited meanwhile.
        match Read::of(&place, &stop).await? {
            Ok(again) => read = again,
            Err(exit) => return Ok(exit),
        }
    }
    let lock = Arc::new(taken.lock);
    let opened = database::open(&place.database, OpenMode::CreateIfMissing).await?;
    let store = opened.store();
    let accepted = if arguments.accept_clock {
        Accepted::Yes
    } else {
        Accepted::No
    };
    let believing = accept_clock::until_believed(&*store, accepted, &stop.drain);
    if !service_manager::waiting("the clock is not believed", believing).await? {
        opened.close().await;
        return Ok(Exit::Fine);
    }
    let start = Start {
        place: &place,
        read: &read,
        journal,
        stop,
        lock: lock.clone(),
        asked,
    };
    let outcome = work(start, store).await;
    beside.shutdown().await;
    opened.close().await;
    drop(lock);
    outcome
}

/// The jobs file, as it was at one moment.
struct Read {
    file: JobsFile,
    at: Option<SystemTime>,
}

impl Read {
    /// Reads it and tells what is wrong with it; how to end, where it is no TOML, or where somebody
    /// wants that. A file with nothing in it is waited for.
    async fn of(place: &Place, stop: &Stop) -> Result<Result<Self, Exit>, Failure> {
        let reading = Self::unless_blank(place, stop);
        service_manager::waiting("the jobs file is empty", reading).await
    }

    async fn unless_blank(place: &Place, stop: &Stop) -> Result<Result<Self, Exit>, Failure> {
        let mut told_of = None;
        loop {
            let at = jobs_file::modified_at(&place.file);
            let loaded = jobs_file::load(&place.file, SystemClock.now())?;
            let is_old = told_of == Some(at) && loaded.source.trim().is_empty();
            if !is_old && !plan::is_blank(place, &loaded) {
                logs::tell_problems(place.log_format, &place.file, &loaded);
                let read = loaded.file.map(|file| Self { file, at });
                return Ok(read.ok_or(Exit::DoesNotHold));
            }
            told_of = Some(at);
            tokio::select! {
                () = stop.drain.cancelled() => return Ok(Err(Exit::Fine)),
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }
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
    pub(super) database: Database,
    /// How the log is written.
    pub(super) log_format: LogFormat,
}

impl Place {
    fn of(arguments: &Arguments) -> Result<Self, Failure> {
        let mut database = arguments.database.database(&arguments.file)?;
        if let Database::Server { address, .. } = &mut database {
            let lease = Duration::from_secs(arguments.lease);
            *address = address.clone().with_lease(lease);
        }
        Ok(Self {
            database,
            folder: jobs_file::folder(&arguments.file),
            source: jobs_file::source(&arguments.file),
            file: arguments.file.clone(),
            log_format: arguments.log_format,
        })
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
    read: &'a Read,
    journal: Option<Arc<Journal>>,
    stop: Stop,
    lock: Arc<Lock>,
    /// Where the HTTP API shall be, if anywhere.
    asked: Option<Listen>,
}

async fn work(start: Start<'_>, store: Arc<dyn Store>) -> Result<Exit, Failure> {
    let Start {
        place,
        read,
        journal,
        stop,
        lock,
        asked,
    } = start;
    let file = &read.file;
    // A recorder sees what is counted from the beginning.
    let bound = listen::bind(asked).await?;
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
    let edited_at = read.at.and_then(|at| Timestamp::try_from(at).ok());
    let change = worker
        .apply_jobs_edited_at(&place.source, &file.jobs, &bad, edited_at)
        .await
        .map_err(failed)?;
    let (handle, requests) = WorkerHandle::new();
    let context = worker.context(handle.clone(), stop.drain.clone());
    let serving = listen::Serving::begin(bound, context);
    plan::tell_start(place, file);
    plan::tell_change(file, &change);
    service_manager::is_ready("running");

    let mut beside = JoinSet::new();
    beside.spawn(reload::watch(
        place.clone(),
        file.prompt_files.clone(),
        read.at,
        handle,
    ));
    beside.spawn(service_manager::tell_life(worker.watch_pulse()));
    beside.spawn(service_manager::tell_trouble(worker.watch_trouble()));
    beside.spawn(lock::tell_trouble(lock, worker.watch_trouble()));
    let ended = worker.run(requests, stop.clone(), Ticks::On, GRACE).await;
    serving.end().await;
    beside.shutdown().await;
    ended.map_err(|error| Failure::new(Exit::CannotRead, format!("{error:#}")))?;
    plan::tell_stop(store.as_ref()).await.map_err(failed)?;
    Ok(if stop.now.is_cancelled() {
        Exit::Interrupted
    } else {
        Exit::Fine
    })
}
