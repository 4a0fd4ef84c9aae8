//! `chatcron say`: a person's message into a chat, and the reply to it.

use std::time::Duration;

use crate::{
    cli::{
        Exit, database,
        errand::{self, Errand},
        failure::Failure,
        names, plain, print,
        reading::Place,
    },
    clock::{Clock, SystemClock},
    ids::{SessionKey, TurnId},
    message::PartState,
    store::{InboundMessage, OutboxRow, Store, StoreError, sqlite::OpenMode},
    transcript::{Content, TriggerSource},
    worker::{Scope, TurnRows},
};

/// Say something in a chat, as its person, and print the reply.
///
/// The turn runs in the chat's session, by the running worker or by this command where none runs;
/// the reply is shown in the chat as well.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The chat, by its name in the jobs file.
    chat: String,
    /// The message.
    text: String,
    /// How long to wait for the reply, in seconds; the turn goes on without us.
    #[arg(long, default_value_t = 900)]
    wait: u64,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    if arguments.text.trim().is_empty() {
        return Err(Failure::new(Exit::Usage, "there is nothing to say")
            .help("give the message as the second argument, in quotes"));
    }
    let (database, store) = errand::open(&arguments.place, OpenMode::CreateIfMissing).await?;
    let chat = names::session(store.as_ref(), &arguments.place.file, &arguments.chat).await?;
    let session_key = chat.key.clone();
    let inbound = inbound(session_key.clone(), arguments.text.clone());
    let scope = Scope::Session(session_key);
    let mut work = Errand::begin(&arguments.place, &database, store.clone(), scope).await?;
    let failed = |error| database::failure(&error);
    let turn = store
        .request_turn(inbound, SystemClock.now())
        .await
        .map_err(failed)?;
    let waiting = work.until(async || answered(store.as_ref(), turn).await);
    let limit = Duration::from_secs(arguments.wait);
    let waited = tokio::time::timeout(limit, waiting).await;
    work.end().await;
    match waited {
        Ok(answered) => tell(&answered?),
        Err(_elapsed) => Err(Failure::new(
            Exit::DoesNotHold,
            format!("no reply within {} s", arguments.wait),
        )
        .help(format!(
            "`chatcron transcript {}` shows the reply when it comes",
            arguments.chat
        ))),
    }
}

/// What a person says at the command line.
pub(super) fn inbound(session_key: SessionKey, text: String) -> InboundMessage {
    InboundMessage {
        session_key,
        content: Content::Text(text),
        source: "say",
        trigger_source: Some(TriggerSource::User),
        raw_entry: None,
        raw_line: None,
        sender_display: None,
        sender_id_raw: None,
        channel_message_id: None,
    }
}

/// The turn, once it has ended and every part of its reply is settled.
pub(super) async fn answered(
    store: &dyn Store,
    id: TurnId,
) -> Result<Option<TurnRows>, StoreError> {
    let rows = TurnRows::of(store, id).await?;
    Ok(rows.filter(TurnRows::is_over))
}

fn tell(answered: &TurnRows) -> Result<Exit, Failure> {
    for text in answered.parts.iter().filter_map(|part| part.text.as_ref()) {
        print(&format!("{}\n", plain::lines(text)))?;
    }
    is_shown(answered)?;
    Ok(Exit::Fine)
}

/// Whether there is a reply, and the chat got all of it.
///
/// # Errors
/// What is missing.
pub(super) fn is_shown(answered: &TurnRows) -> Result<(), Failure> {
    if answered.turn.state != "done" {
        let why = answered.turn.error.as_deref();
        let why = why.unwrap_or("it was called off");
        return Err(Failure::new(Exit::DoesNotHold, format!("no reply: {why}"))
            .help("say it again, once that is put right; the log of `chatcron run` tells more"));
    }
    let parts = answered.parts.iter();
    let open = parts.filter(|part| part.state != PartState::Confirmed);
    let undelivered: Vec<String> = open.map(undelivered).collect();
    if undelivered.is_empty() {
        return Ok(());
    }
    let message = format!("the chat did not get all of it: {}", undelivered.join("; "));
    Err(Failure::new(Exit::DoesNotHold, message).help("`chatcron outbox` shows what can be done"))
}

fn undelivered(part: &OutboxRow) -> String {
    let why = part.why.as_deref().or(part.reason.as_deref());
    format!(
        "part {} is {}: {}",
        part.part_id,
        part.state.as_str(),
        why.unwrap_or("no reason is known")
    )
}
