//! `chatcron transcript`: what a chat showed, in order, and who said it.

use jiff::Timestamp;

use crate::{
    cli::{
        Exit,
        failure::Failure,
        json,
        names::{self, Session, unreadable},
        print,
        reading::Place,
        runtime,
        table::Screen,
        words,
    },
    clock::{Clock, SystemClock},
    replay::Family,
    store::WindowOf,
    transcript::Entry,
    view,
};

mod request;
mod text;

#[cfg(test)]
mod tests;

/// Show what a chat showed, oldest first.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The chat's name, or a session key such as telegram:direct:5550001 or cron:JOB.
    chat: String,
    /// What the chat did not show too: tool calls, replies not yet sent or not delivered, and what
    /// jobs said to themselves.
    #[arg(long)]
    all: bool,
    /// Only the last N.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print what the chat's agent would be sent with the next message: the history as a request to
    /// this family of providers.
    #[arg(long = "as", value_name = "FAMILY", conflicts_with_all = ["all", "last", "json"],
          value_parser = request::families())]
    family: Option<Family>,
    #[command(flatten)]
    place: Place,
}

/// A transcript, and how its times are told.
#[derive(Debug)]
struct Transcript {
    session: Session,
    entries: Vec<Entry>,
    zone: String,
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let now: Timestamp = SystemClock.now();
    if let Some(family) = arguments.family {
        let request = runtime::block_on(request::load(&arguments.place, &arguments.chat, family))?;
        print(&json::text(&request))?;
        return Ok(Exit::Fine);
    }
    let transcript = runtime::block_on(load(arguments))?;
    print(&if arguments.json {
        as_json(&transcript)
    } else {
        text::render(&transcript, now, Screen::of_stdout())
    })?;
    Ok(Exit::Fine)
}

async fn load(arguments: &Arguments) -> Result<Transcript, Failure> {
    let store = arguments.place.open().await?;
    let session = names::session(&*store, &arguments.place.file, &arguments.chat).await?;
    let window = if arguments.all {
        WindowOf::All
    } else {
        WindowOf::Shown
    };
    let mut entries = store
        .transcript(&session.key, window)
        .await
        .map_err(unreadable)?;
    if let Some(last) = arguments.last {
        let last = usize::try_from(last).unwrap_or(usize::MAX);
        entries.drain(..entries.len().saturating_sub(last));
    }
    let jobs = store.all_jobs().await.map_err(unreadable)?;
    Ok(Transcript {
        session,
        entries,
        zone: words::common_zone(jobs.iter().map(|stored| &stored.job)),
    })
}

fn as_json(transcript: &Transcript) -> String {
    let chat = transcript.session.chat.as_ref().map(|chat| &chat.name);
    let entries = &transcript.entries;
    json::text(&view::Transcript::new(
        chat,
        &transcript.session.key,
        entries,
    ))
}
