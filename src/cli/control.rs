//! `chatcron pause` and `chatcron resume`.

use std::collections::BTreeMap;

use crate::{
    cli::{Exit, accept_clock, database, failure::Failure, names, print, reading::Place, words},
    clock::{Clock, SystemClock},
    directory::Chat,
    ids::{ChatName, JobId},
    policy::OwnedEvent,
    store::Store,
    worker::{Applied, Change, ChangeError, Decider},
};

/// Let nothing of a job start until it is resumed.
///
/// A run under way finishes; its retry does not start. Slots that pass are recorded as skipped.
#[derive(Debug, clap::Args)]
pub(super) struct PauseArguments {
    /// The job.
    job: JobId,
    /// Why, for whoever looks.
    #[arg(long, default_value = "paused by hand")]
    reason: String,
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
    change(
        store.as_ref(),
        job,
        OwnedEvent::Paused {
            reason: arguments.reason.clone(),
        },
    )
    .await?;
    print(&format!(
        "{job} is paused; `chatcron resume {job}` lets it run again\n"
    ))?;
    Ok(Exit::Fine)
}

pub(super) async fn resume(arguments: &ResumeArguments) -> Result<Exit, Failure> {
    let store = arguments.place.open_to_write().await?;
    let stored = names::job(store.as_ref(), arguments.job.as_str()).await?;
    let job = &arguments.job;
    if stored.state.pause.is_none() {
        print(&format!("{job} was not paused\n"))?;
        return Ok(Exit::Fine);
    }
    let applied = change(store.as_ref(), job, OwnedEvent::Resumed).await?;
    let zone = words::zone(&stored.job.schedule.zone);
    let now = SystemClock.now();
    let next = match applied.wake_at {
        Some(next) => format!("it runs again, next {}", words::scheduled(next, now, &zone)),
        None if stored.job.enabled => "it has no slot to come".to_owned(),
        None => "it is off all the same: `enabled = false` in the jobs file".to_owned(),
    };
    print(&format!("{job} is no longer paused; {next}\n"))?;
    Ok(Exit::Fine)
}

/// Decides and commits one change, beside a worker or without one.
pub(super) async fn change(
    store: &dyn Store,
    job: &JobId,
    event: OwnedEvent,
) -> Result<Applied, Failure> {
    names::job(store, job.as_str()).await?;
    match apply(store, Change::new(job.clone(), event)).await? {
        Ok(applied) => Ok(applied),
        Err(error @ ChangeError::NoSuchJob { .. }) => {
            Err(Failure::new(Exit::CannotRead, error.to_string())
                .help("it was removed from the jobs file; its history is kept"))
        }
        Err(error) => Err(Failure::new(Exit::DoesNotHold, error.to_string())),
    }
}

/// The same, for a caller that has its own answer to an error of the change.
pub(super) async fn apply(
    store: &dyn Store,
    change: Change,
) -> Result<Result<Applied, ChangeError>, Failure> {
    let failed = |error| database::failure(&error);
    accept_clock::must_be_believed(store, SystemClock.now()).await?;
    let chats: BTreeMap<ChatName, Chat> = store
        .chats()
        .await
        .map_err(failed)?
        .into_iter()
        .map(|chat| (chat.name.clone(), chat))
        .collect();
    let job_id = change.job_id.clone();
    let decider = Decider {
        store,
        chats: &chats,
        journal: None,
    };
    let answers = decider
        .apply(&[change], SystemClock.now())
        .await
        .map_err(failed)?;
    let answer = answers.into_iter().next();
    Ok(answer.unwrap_or(Err(ChangeError::Busy { job_id })))
}
