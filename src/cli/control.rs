//! `chatcron pause` and `chatcron resume`.

use crate::{
    cli::{
        Exit, accept_clock, database, failure::Failure, names, plain, print, reading::Place, words,
    },
    clock::{Clock, SystemClock},
    directory::Directory,
    ids::JobId,
    policy::Refusal,
    store::{Store, StoredJob},
    worker::{Control, JobError},
};

/// Why a job is paused, where nothing is said.
const REASON: &str = "paused by hand";

/// Let nothing of a job start until it is resumed.
///
/// A run under way finishes; its retry does not start. Slots that pass are recorded as skipped.
#[derive(Debug, clap::Args)]
pub(super) struct PauseArguments {
    /// The job.
    job: JobId,
    /// Why, for whoever looks [default: "paused by hand"]. Of a job that is paused already it takes
    /// the place of the reason that it has.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Let a paused job run again, from its next slot on.
#[derive(Debug, clap::Args)]
pub(super) struct ResumeArguments {
    /// The job.
    job: JobId,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn pause(arguments: &PauseArguments) -> Result<Exit, Failure> {
    let store = arguments.place.open_to_write().await?;
    let job = &arguments.job;
    let stored = present(store.as_ref(), job).await?;
    let before = stored.state.pause.as_ref().map(|pause| &pause.reason);
    if let (Some(before), None) = (before, &arguments.reason) {
        print(&format!(
            "{job} was paused already: {}\n",
            plain::line(before)
        ))?;
        return Ok(Exit::Fine);
    }
    let reason = arguments.reason.as_deref().unwrap_or(REASON);
    let directory = directory(store.as_ref()).await?;
    let paused = control(store.as_ref(), &directory)
        .pause(job.as_str(), reason, SystemClock.now())
        .await;
    paused.map_err(|error| not_done(&error))?;
    let before = before.map_or_else(String::new, |before| {
        format!(
            ", as it was already; its reason was: {}",
            plain::line(before)
        )
    });
    print(&format!(
        "{job} is paused{before}\n`chatcron resume {job}` lets it run again\n"
    ))?;
    Ok(Exit::Fine)
}

pub(super) async fn resume(arguments: &ResumeArguments) -> Result<Exit, Failure> {
    let store = arguments.place.open_to_write().await?;
    let job = &arguments.job;
    let stored = present(store.as_ref(), job).await?;
    if stored.state.pause.is_none() {
        print(&format!("{job} was not paused\n"))?;
        return Ok(Exit::Fine);
    }
    let directory = directory(store.as_ref()).await?;
    let now = SystemClock.now();
    let resumed = control(store.as_ref(), &directory)
        .resume(job.as_str(), now)
        .await;
    let applied = resumed.map_err(|error| not_done(&error))?;
    let zone = words::zone(&stored.job.schedule.zone);
    let next = match applied.wake_at {
        Some(next) => format!("it runs again, next {}", words::scheduled(next, now, &zone)),
        None if stored.job.enabled => "it has no slot to come".to_owned(),
        None => "it is off all the same: `enabled = false` in the jobs file".to_owned(),
    };
    print(&format!("{job} is no longer paused; {next}\n"))?;
    Ok(Exit::Fine)
}

/// A job that is there; a removed one can be neither paused nor resumed.
async fn present(store: &dyn Store, job: &JobId) -> Result<StoredJob, Failure> {
    let stored = names::job(store, job.as_str()).await?;
    if stored.removed_at.is_some() {
        return Err(not_done(&JobError::UnknownJob {
            found: job.to_string(),
            nearest: None,
        }));
    }
    Ok(stored)
}

/// What is asked of jobs beside a worker, or without one.
pub(super) fn control<'a>(store: &'a dyn Store, directory: &'a Directory) -> Control<'a> {
    Control {
        store,
        directory,
        journal: None,
    }
}

/// The chats of the jobs file that was applied last.
///
/// # Errors
/// Where the store cannot be read.
pub(super) async fn directory(store: &dyn Store) -> Result<Directory, Failure> {
    let chats = store.chats().await;
    let chats = chats.map_err(|error| database::failure(&error))?;
    let chats = chats.into_iter().map(|chat| (chat.name.clone(), chat));
    Ok(Directory {
        chats: chats.collect(),
        ..Directory::default()
    })
}

/// What a person is told when what was asked of a job was not done.
pub(super) fn not_done(error: &JobError) -> Failure {
    match error {
        JobError::Store(error) => database::failure(error),
        JobError::ClockDoubted { by } => accept_clock::not_believed(*by, SystemClock.now()),
        // The command has found it; so it was removed.
        JobError::UnknownJob { .. } => Failure::new(Exit::CannotRead, error.to_string())
            .help("it was removed from the jobs file; its history is kept"),
        JobError::Busy { .. } => Failure::new(Exit::DoesNotHold, error.to_string())
            .help("try again, or pause the job for a moment"),
        JobError::Backfill(_) => Failure::new(Exit::Usage, error.to_string())
            .help("ask for a shorter stretch with --from and --to"),
        JobError::Refused { job_id, refusal } => {
            Failure::new(Exit::DoesNotHold, error.to_string()).help(after_refusal(job_id, *refusal))
        }
        JobError::Exists { .. } => Failure::new(Exit::DoesNotHold, error.to_string())
            .help("`chatcron list` lists the jobs"),
        JobError::DefinedInFile { file, .. } => Failure::new(Exit::DoesNotHold, error.to_string())
            .help(format!("edit {file}, which `chatcron run` reads again")),
        JobError::StaleRevision { .. } => Failure::new(Exit::DoesNotHold, error.to_string())
            .help("look at the job again, and at what has changed"),
        JobError::Invalid(_)
        | JobError::Schedule { .. }
        | JobError::UnknownChat { .. }
        | JobError::UnknownAgent { .. }
        | JobError::NeverRuns { .. } => Failure::new(Exit::DoesNotHold, error.to_string())
            .help("`chatcron check` says what is accepted"),
    }
}

/// What helps where the policy does not follow a request.
pub(super) fn after_refusal(job: &JobId, refusal: Refusal) -> String {
    match refusal {
        Refusal::RunActive => format!("`chatcron runs {job}` says how it stands"),
        Refusal::Disabled => {
            "take `enabled = false` out of its definition in the jobs file".to_owned()
        }
        Refusal::BackfillFull => {
            "wait for their ends, and ask for the rest then, or for a shorter stretch".to_owned()
        }
    }
}
