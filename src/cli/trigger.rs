//! `chatcron trigger`: a job, now.

use std::time::Duration;

use crate::{
    cli::{
        Exit, control,
        database::{self, Lock},
        errand::{self, Errand},
        failure::Failure,
        jobs_file, names, plain, print,
        reading::Place,
    },
    clock::{Clock, SystemClock},
    ids::{JobId, RunId, SessionKey},
    message::PartState,
    store::{OutboxRow, RunFilter, RunRow, Store, StoreError, sqlite::OpenMode},
    worker::{JobError, Scope},
};

/// Run a job now, besides its schedule.
///
/// The run does not count against the job's limits and does not change when it next runs. It is
/// refused while a run of the job is active.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The job.
    job: JobId,
    /// Wait for the run and its delivery; where no worker runs, this command does the work.
    #[arg(long)]
    wait: bool,
    /// With --wait: for how long, in seconds; the run goes on without us.
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    patience: u64,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let (database, store) = errand::open(&arguments.place, OpenMode::MustExist).await?;
    let failed = |error| database::failure(&error);
    let holder = Lock::holder(&database).await.map_err(failed)?;
    let is_running = holder.is_some();
    if arguments.wait && !is_running {
        // What this command will need, before anything is written.
        jobs_file::load(&arguments.place.file, SystemClock.now())?;
    }
    let job = arguments.job.as_str();
    names::job(store.as_ref(), job).await?;
    let directory = control::directory(store.as_ref()).await?;
    let triggered = control::control(store.as_ref(), &directory)
        .trigger(job, SystemClock.now())
        .await;
    let run_id = triggered.map_err(|error| not_triggered(job, &error))?;
    if !arguments.wait {
        let job = &arguments.job;
        print(&if is_running {
            format!("run {run_id} of {job} is queued\n")
        } else {
            format!("run {run_id} of {job} is queued; `chatcron run` starts it\n")
        })?;
        return Ok(Exit::Fine);
    }
    let scope = Scope::Run {
        run_id,
        job_id: arguments.job.clone(),
        shown_in: shown_in(store.as_ref(), run_id).await.map_err(failed)?,
    };
    let mut work = Errand::begin(&arguments.place, &database, store.clone(), scope).await?;
    if work.is_left_to_another() {
        eprintln!(
            "run {run_id} of {} is queued; waiting for the worker",
            arguments.job
        );
    }
    let waiting = work.until(async || ended(store.as_ref(), run_id).await);
    let limit = Duration::from_secs(arguments.patience);
    let waited = tokio::time::timeout(limit, waiting).await;
    work.end().await;
    match waited {
        Ok(ended) => {
            let (run, parts) = ended?;
            tell(&run, &parts)
        }
        Err(_elapsed) => Err(Failure::new(
            Exit::DoesNotHold,
            format!("run {run_id} has not ended within {} s", arguments.patience),
        )
        .help(format!(
            "`chatcron runs --run {run_id}` shows how it stands; a running worker goes on with it"
        ))),
    }
}

fn not_triggered(job: &str, error: &JobError) -> Failure {
    if let JobError::Refused { refusal, .. } = error {
        let message = format!("job `{job}` is not triggered: {refusal}");
        return Failure::new(Exit::DoesNotHold, message)
            .help(format!("`chatcron show {job}` shows what it does"));
    }
    control::not_done(error)
}

/// The session in which the run's result shows, if it does.
async fn shown_in(store: &dyn Store, id: RunId) -> Result<Option<SessionKey>, StoreError> {
    let run = run_of(store, id).await?;
    let destination = run.and_then(|run| run.destination);
    Ok(destination.map(|destination| destination.session_key()))
}

async fn run_of(store: &dyn Store, id: RunId) -> Result<Option<RunRow>, StoreError> {
    let filter = RunFilter {
        run_id: Some(id),
        ..RunFilter::default()
    };
    Ok(store.runs(&filter).await?.into_iter().next())
}

/// The run, once it has ended and all its parts are settled.
async fn ended(
    store: &dyn Store,
    id: RunId,
) -> Result<Option<(RunRow, Vec<OutboxRow>)>, StoreError> {
    let Some(run) = run_of(store, id).await? else {
        return Ok(None);
    };
    if !matches!(run.state.as_str(), "done" | "failed" | "cancelled") {
        return Ok(None);
    }
    let parts = store.run_parts(id).await?;
    let settled = parts.iter().all(|part| part.state.is_settled());
    Ok(settled.then_some((run, parts)))
}

fn tell(run: &RunRow, parts: &[OutboxRow]) -> Result<Exit, Failure> {
    let id = run.run_id.map(|id| id.to_string()).unwrap_or_default();
    if run.state != "done" {
        let reason = run.reason.as_deref().unwrap_or("no reason is recorded");
        let error = run.error.as_deref().unwrap_or_default();
        let message = format!("run {id} is {}: {reason}: {error}", run.state);
        return Err(
            Failure::new(Exit::DoesNotHold, message.trim_end_matches(": "))
                .help(format!("`chatcron runs --run {id}` shows its attempts")),
        );
    }
    let delivered = match (run.reason.as_deref(), parts.len()) {
        (Some("silent"), _) => "it had nothing to say".to_owned(),
        (_, 0) => "its result is kept in run history".to_owned(),
        (_, count) => format!("{} of {count} messages shown", run.delivery.confirmed),
    };
    print(&format!("run {id} is done; {delivered}\n"))?;
    for part in parts
        .iter()
        .filter(|part| part.state != PartState::Confirmed)
    {
        let why = part
            .why
            .as_deref()
            .or(part.reason.as_deref())
            .unwrap_or_default();
        let line = format!("part {} is {}: {why}", part.part_id, part.state.as_str());
        print(&format!("{}\n", plain::line(&line)))?;
    }
    let all_shown = usize::try_from(run.delivery.confirmed).is_ok_and(|shown| shown == parts.len());
    Ok(if all_shown {
        Exit::Fine
    } else {
        Exit::DoesNotHold
    })
}
