//! `chatcron show`: everything about one job.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    cli::{
        Exit,
        failure::Failure,
        incidents, json,
        names::{self, unreadable},
        next::preview::Start,
        print,
        reading::Place,
        runtime, standing,
        standing::Standing,
        table::Screen,
        words,
    },
    clock::{Clock, SystemClock},
    directory::Chat,
    ids::RunId,
    job::{Job, Mode, Policies},
    store::{DiagnosticRow, IncidentRow, RangeRow, RunFilter, RunRow, Store, StoredJob},
};

mod text;

#[cfg(test)]
mod tests;

/// How many of a job's newest runs are shown.
const RUNS_SHOWN: u32 = 5;
/// How many of its next times.
const TIMES_SHOWN: usize = 3;

/// Show everything about one job: what it is, how it stands, what comes, and what came.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The job's id.
    job: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// What is known of a job.
#[derive(Debug)]
struct Shown {
    stored: StoredJob,
    chats: Vec<Chat>,
    standing: Standing,
    times: Vec<Start>,
    runs: Vec<RunRow>,
    skipped: Vec<RangeRow>,
    incidents: Vec<IncidentRow>,
    diagnostics: Vec<(RunId, DiagnosticRow)>,
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let now = SystemClock.now();
    let shown = runtime::block_on(async {
        let store = arguments.place.open().await?;
        load(&*store, &arguments.job, now).await
    })?;
    print(&if arguments.json {
        as_json(&shown)
    } else {
        text::render(&shown, now, Screen::of_stdout())
    })?;
    Ok(Exit::Fine)
}

async fn load(store: &dyn Store, id: &str, now: Timestamp) -> Result<Shown, Failure> {
    let stored = names::job(store, id).await?;
    let filter = RunFilter {
        job_id: Some(stored.job.id.clone()),
        limit: Some(RUNS_SHOWN),
        ..RunFilter::default()
    };
    let runs = store.runs(&filter).await.map_err(unreadable)?;
    let mut diagnostics = Vec::new();
    for run in runs.iter().filter_map(|run| run.run_id) {
        let rows = store.diagnostics(run).await.map_err(unreadable)?;
        diagnostics.extend(rows.into_iter().map(|row| (run, row)));
    }
    Ok(Shown {
        chats: store.chats().await.map_err(unreadable)?,
        skipped: store.ranges(&filter).await.map_err(unreadable)?,
        incidents: incidents::of_job(&incidents::load(store).await?, &stored.job.id),
        standing: Standing::of(&stored, &runs, now),
        times: standing::upcoming(&stored, now, TIMES_SHOWN),
        runs,
        diagnostics,
        stored,
    })
}

fn as_json(shown: &Shown) -> String {
    let stored = &shown.stored;
    let job = &stored.job;
    let zone = words::zone(&job.schedule.zone);
    let times: Vec<Value> = shown
        .times
        .iter()
        .map(|start| {
            json!({
                "at": words::with_offset(start.at, &zone),
                "nominal_at": words::with_offset(start.nominal, &zone),
                "slot": start.slot,
                "note": start.note,
            })
        })
        .collect();
    let diagnostics: Vec<Value> = shown
        .diagnostics
        .iter()
        .map(|(run, row)| {
            let mut object = json::diagnostic(row);
            object["run_id"] = json!(run);
            object
        })
        .collect();
    let (agent, memory, context) = work(job);
    json::text(&json!({
        "id": job.id,
        "name": job.display_name(),
        "enabled": job.enabled,
        "schedule": words::schedule(&job.schedule),
        "tz": job.schedule.zone,
        "mode": json::mode(&job.mode),
        "target": json::target(&job.mode),
        "agent": agent,
        "memory": memory,
        "context": context,
        "prompt": job.prompt,
        "policies": policies(&job.policies),
        "source": stored.source.to_stored(),
        "revision": stored.revision,
        "incarnation": stored.incarnation,
        "first_seen_at": stored.first_seen_at,
        "removed_at": stored.removed_at,
        "state": shown.standing.state.word(),
        "paused": shown.standing.paused(),
        "started_runs": stored.state.started_runs,
        "failure_streak": stored.state.failure_streak,
        "incidents": shown.incidents.iter().map(incidents::json).collect::<Vec<_>>(),
        "next_at": shown.standing.next_at,
        "times": times,
        "runs": shown.runs.iter().map(json::run).collect::<Vec<_>>(),
        "skipped": shown.skipped.iter().map(json::range).collect::<Vec<_>>(),
        "diagnostics": diagnostics,
    }))
}

fn work(job: &Job) -> (Value, Value, Value) {
    match &job.mode {
        Mode::InChat { agent, .. } => (json!(agent), Value::Null, Value::Null),
        Mode::Background {
            agent,
            memory,
            context,
            ..
        } => (json!(agent), json!(memory), json!(context)),
    }
}

fn policies(policies: &Policies) -> Value {
    let millis = |span: SignedDuration| u64::try_from(span.as_millis()).unwrap_or_default();
    let backoff: Vec<u64> = policies.retry.backoff.iter().copied().map(millis).collect();
    json!({
        "catch_up": policies.catch_up,
        "catch_up_window_ms": policies.catch_up_window.map(millis),
        "catch_up_spread_ms": millis(policies.catch_up_spread),
        "overlap": policies.overlap,
        "retry_attempts": policies.retry.attempts,
        "retry_backoff_ms": backoff,
        "timeout_ms": millis(policies.timeout),
        "on_interrupt": policies.on_interrupt,
        "max_runs": policies.max_runs,
        "on_unknown": policies.on_unknown,
        "retry_after_effects": policies.retry_after_effects,
    })
}
