//! `chatcron list`: the jobs of a database, how they stand, and when each runs next.

use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::json;

use crate::{
    cli::{
        Exit,
        database::{self, Database, Lock},
        failure::Failure,
        incidents, json,
        names::unreadable,
        outcome, plain, print, reading, runtime,
        table::{Cell, Column, Screen, Table, Tone},
        words,
    },
    clock::{Clock, SystemClock},
    directory::Chat,
    store::{Role, Store, WorkerRow},
    view::{self, Listed, Standing, State, accounted_ahead},
};

#[cfg(test)]
mod tests;

/// List the jobs of the database: when each runs, where, how it stands, what came last.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The jobs file beside which the database is.
    #[arg(default_value = "jobs.toml")]
    file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: database::Arguments,
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let now = SystemClock.now();
    let database = arguments.database.database(&arguments.file)?;
    let (jobs, chats, holder, workers) = runtime::block_on(async {
        let store = reading::open(&database).await?;
        let jobs = load(&*store, now).await?;
        let chats = store.chats().await.map_err(unreadable)?;
        let holder = Lock::holder(&database).await.map_err(unreadable)?;
        let workers = match &database {
            Database::File(_) => Vec::new(),
            Database::Server { .. } => store.living_workers().await.map_err(unreadable)?,
        };
        Ok((jobs, chats, holder, workers))
    })?;
    if arguments.json {
        print(&as_json(&jobs, now))?;
        return Ok(Exit::Fine);
    }
    let mut text = render(&jobs, &chats, now, Screen::of_stdout());
    text.push_str(&failing(&jobs, &chats, now));
    text.push_str(&ahead(&jobs, now));
    if holder.is_none() {
        text.push_str("chatcron is not running: `chatcron run` starts it\n");
    } else if let Some(line) = at_work(&workers, now) {
        text.push_str(&line);
    } else if let Some(trouble) = Lock::trouble(&database) {
        let trouble = plain::line(&trouble);
        text.push_str(&format!(
            "chatcron is running, and nothing begins: {trouble}\n"
        ));
    }
    print(&text)?;
    Ok(Exit::Fine)
}

async fn load(store: &dyn Store, now: Timestamp) -> Result<Vec<Listed>, Failure> {
    let jobs = store.all_jobs().await.map_err(unreadable)?;
    view::list(store, jobs, now).await.map_err(unreadable)
}

fn render(jobs: &[Listed], chats: &[Chat], now: Timestamp, screen: Screen) -> String {
    if jobs.is_empty() {
        return String::from(
            "no job in the database; `chatcron run` takes those of the jobs file over\n",
        );
    }
    let mut table = Table::new([
        Column::Left,
        Column::Breaks,
        Column::Breaks,
        Column::Left,
        Column::Breaks,
        Column::Breaks,
    ])
    .head(["job", "when", "where", "state", "next", "last"]);
    for listed in jobs {
        let job = &listed.stored.job;
        let zone = words::zone(&job.schedule.zone);
        let next = match listed.standing.next_at {
            Some(at) => format!(
                "{}, {}",
                words::scheduled(at, now, &zone),
                words::from_now(at, now)
            ),
            None => String::from("-"),
        };
        let last = listed
            .last
            .as_ref()
            .map_or_else(|| "never".into(), |run| outcome::outcome(run, now));
        let chat_of = |name: &_| chats.iter().find(|chat| chat.name == *name);
        table.row([
            Cell::toned(job.id.as_str(), Tone::Strong),
            words::schedule(&job.schedule).into(),
            words::route(&job.mode, chat_of).into(),
            state(&listed.standing, now),
            next.into(),
            last,
        ]);
    }
    table.render(screen)
}

/// The workers that share a database of a server; `None` where none is known to be alive.
fn at_work(workers: &[WorkerRow], now: Timestamp) -> Option<String> {
    let workers: Vec<String> = workers
        .iter()
        .filter(|worker| worker.role == Role::Worker)
        .map(|worker| {
            let since = words::span(worker.started_at.duration_until(now));
            format!("{} (for {since})", worker.id.0)
        })
        .collect();
    match &workers[..] {
        [] => None,
        [one] => Some(format!("at work: worker {one}\n")),
        several => Some(format!("at work: workers {}\n", several.join(", "))),
    }
}

/// Jobs that fail at present, and whether a person knows.
fn failing(jobs: &[Listed], chats: &[Chat], now: Timestamp) -> String {
    let lines = jobs.iter().flat_map(|listed| {
        let job = &listed.stored.job;
        let incidents = listed.incidents.iter();
        incidents.map(move |row| {
            format!(
                "{}: {}\n",
                job.id,
                incidents::line(&listed.stored, row, chats, now)
            )
        })
    });
    lines.collect()
}

/// Jobs whose slots have records ahead of the clock, because that was wrong.
fn ahead(jobs: &[Listed], now: Timestamp) -> String {
    let ahead = jobs.iter().filter_map(|listed| {
        let until = accounted_ahead(&listed.stored, now)?;
        let zone = words::zone(&listed.stored.job.schedule.zone);
        let until = words::moment(until, now, &zone);
        Some(format!(
            "{}: the clock was ahead; slots up to {until} may have records, and those do not come \
             again\n",
            listed.stored.job.id
        ))
    });
    ahead.collect()
}

fn state(standing: &Standing, now: Timestamp) -> Cell {
    let tone = match standing.state {
        State::Running | State::Queued => Tone::Strong,
        State::RetryAt(_) | State::Paused => Tone::Warn,
        State::Ready | State::Disabled | State::Finished | State::Removed => Tone::Usual,
    };
    Cell::toned(words::standing(standing, now), tone)
}

fn as_json(jobs: &[Listed], now: Timestamp) -> String {
    let jobs: Vec<_> = jobs.iter().map(|job| view::Job::new(job, now)).collect();
    json::text(&json!({ "jobs": jobs }))
}
