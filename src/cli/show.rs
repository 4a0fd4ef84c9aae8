//! `chatcron show`: everything about one job.

use jiff::Timestamp;

use crate::{
    cli::{
        Exit,
        failure::Failure,
        json,
        names::{self, unreadable},
        print,
        reading::Place,
        runtime,
        table::Screen,
    },
    clock::{Clock, SystemClock},
    store::Store,
    view::{self, JobDetail, Shown},
};

mod text;

#[cfg(test)]
mod tests;

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
    view::show(store, stored, now).await.map_err(unreadable)
}

fn as_json(shown: &Shown) -> String {
    json::text(&JobDetail::from(shown))
}
