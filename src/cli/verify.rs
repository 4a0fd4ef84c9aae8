//! `chatcron verify`: the transcripts against what the chats showed.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    channel::log,
    cli::{
        Exit,
        database::Database,
        failure::{Failure, with_cause},
        jobs_file,
        names::{self, Session, unreadable},
        print,
        reading::Place,
        runtime,
        table::Screen,
    },
    clock::{Clock, SystemClock},
    directory::Directory,
    ids::ChannelName,
    outbound::verify::Evidence,
    store::{Store, WindowOf},
};

mod logs;
mod report;

#[cfg(test)]
mod tests;

use logs::Logs;
use report::Compared;

/// Compare the transcripts with what the chats showed.
///
/// What the chats showed is read from outside the database: the log of a console channel, or a log
/// given by --channel-log. For a chat without a log only the channel's receipts are compared, and
/// that is said. Ends with 1 where anything differs.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// These chats only, by name or session key [default: all].
    chats: Vec<String>,
    /// What a channel showed, one JSON object a line: chat, message_id, text, at, and key where
    /// there is one. May be given for several channels.
    #[arg(long, value_name = "CHANNEL=FILE", value_parser = channel_log)]
    channel_log: Vec<(ChannelName, PathBuf)>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

fn channel_log(text: &str) -> Result<(ChannelName, PathBuf), String> {
    let accepted = "accepted: the channel's name and its log, such as `telegram=telegram.jsonl`";
    let (channel, file) = text.split_once('=').ok_or(accepted)?;
    let channel = ChannelName::new(channel).map_err(|error| format!("{error}; {accepted}"))?;
    if file.is_empty() {
        return Err(accepted.to_owned());
    }
    Ok((channel, PathBuf::from(file)))
}

/// How often a difference is looked at again before it is reported: beside a running worker, log
/// and store are never read at one instant.
const LOOKS_AGAIN: u32 = 3;
const BETWEEN_LOOKS: Duration = Duration::from_millis(400);

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let database = arguments.place.database()?;
    let directory = jobs_file::load(&arguments.place.file, SystemClock.now())
        .ok()
        .and_then(|loaded| loaded.file)
        .map(|file| file.directory)
        .unwrap_or_default();
    let compared = runtime::block_on(async {
        let store = arguments.place.open().await?;
        let mut compared = look(&*store, arguments, &database, &directory).await?;
        for _ in 0..LOOKS_AGAIN {
            if compared.holds() {
                break;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
            let again = look(&*store, arguments, &database, &directory).await?;
            compared = again.that_stay(&compared);
        }
        Ok(compared)
    })?;
    print(&if arguments.json {
        compared.json()
    } else {
        compared.render(Screen::of_stdout())
    })?;
    Ok(if compared.holds() {
        Exit::Fine
    } else {
        Exit::DoesNotHold
    })
}

/// Reads the logs and compares them with the store as it is now.
async fn look(
    store: &dyn Store,
    arguments: &Arguments,
    database: &Database,
    directory: &Directory,
) -> Result<Compared, Failure> {
    let chats = store.chats().await.map_err(unreadable)?;
    let sessions: Vec<Session> = chats.into_iter().map(Session::of_chat).collect();
    known_channels(arguments, &sessions, directory)?;
    let logs = Logs::read(&arguments.channel_log, &sessions, directory, &|channel| {
        let folder = arguments.place.file.with_file_name("");
        (folder, database.console_log_path(channel))
    })?;
    compare(store, arguments, sessions, logs).await
}

/// A log of a channel that no chat is on would prove nothing, and nobody would notice.
fn known_channels(
    arguments: &Arguments,
    sessions: &[Session],
    directory: &Directory,
) -> Result<(), Failure> {
    let chats = sessions.iter().filter_map(|session| session.chat.as_ref());
    let known: Vec<&str> = directory
        .channels
        .keys()
        .chain(chats.map(|chat| &chat.channel))
        .map(ChannelName::as_str)
        .collect();
    for (channel, _) in &arguments.channel_log {
        if !known.contains(&channel.as_str()) {
            let mut known = known;
            known.sort_unstable();
            known.dedup();
            let names = known.into_iter();
            return Err(names::unknown("channel", channel.as_str(), names, "use"));
        }
    }
    Ok(())
}

/// Compares all chats, because a message that went astray is in another one, and keeps those that
/// were asked for.
async fn compare(
    store: &dyn Store,
    arguments: &Arguments,
    mut sessions: Vec<Session>,
    logs: Logs,
) -> Result<Compared, Failure> {
    let mut asked = Vec::new();
    for name in &arguments.chats {
        let session = names::session(store, &arguments.place.file, name).await?;
        if !sessions.iter().any(|known| known.key == session.key) {
            sessions.push(session.clone());
        }
        asked.push(session.key);
    }
    // Chats that the jobs file no longer has, and whose messages a log still has.
    for key in logs.session_keys() {
        if !sessions.iter().any(|known| known.key.as_str() == key) {
            sessions.push(Session::of_key(key));
        }
    }
    let mut evidence = Vec::new();
    for session in &sessions {
        let rows = store.transcript(&session.key, WindowOf::Shown).await;
        let parts = store.shown_parts(&session.key).await;
        evidence.push(Evidence {
            session_key: session.key.clone(),
            rows: rows.map_err(unreadable)?,
            parts: parts.map_err(unreadable)?,
            log: logs.of(session),
        });
    }
    Ok(Compared::new(&sessions, &evidence, &logs, &asked))
}

/// Why a log cannot be read.
fn unreadable_log(path: &Path, error: &log::LogError) -> Failure {
    let message = format!("{}: {}", path.display(), with_cause(error));
    let failure = Failure::new(Exit::CannotRead, message);
    match error {
        log::LogError::Line { .. } => failure.help(
            "a channel log has one JSON object a line, such as {\"chat\":\"5550001\",\
             \"message_id\":\"12\",\"text\":\"Hello\",\"at\":\"2026-11-30T07:00:00Z\"}",
        ),
        log::LogError::Io(_) => {
            failure.help("name a file that can be read, as --channel-log CHANNEL=FILE")
        }
    }
}
