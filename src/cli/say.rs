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
    ids::TurnId,
    message::PartState,
    store::{InboundMessage, OutboxRow, Store, StoreError, TurnRow, sqlite::OpenMode},
    transcript::{Content, TriggerSource},
    worker::Scope,
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

/// How a turn and its reply stand.
struct Answered {
    turn: TurnRow,
    parts: Vec<OutboxRow>,
}

pub(super) async fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    if arguments.text.trim().is_empty() {
        return Err(Failure::new(Exit::Usage, "there is nothing to say")
            .help("give the message as the second argument, in quotes"));
    }
    let (database, store) = errand::open(&arguments.place, OpenMode::CreateIfMissing).await?;
    let chat = names::session(store.as_ref(), &arguments.place.file, &arguments.chat).await?;
    let session_key = chat.key.clone();
    let inbound = InboundMessage {
        session_key: session_key.clone(),
        content: Content::Text(arguments.text.clone()),
        source: "say",
        trigger_source: Some(TriggerSource::User),
        raw_entry: None,
        raw_line: None,
        sender_display: None,
        sender_id_raw: None,
        channel_message_id: None,
    };
    let scope = Scope::Session(session_key);
    let mut work = Errand::begin(&arguments.place, &database, store.clone(), scope).await?;
    let failed = |error| database::failure(&error);
    let turn = store
        .request_turn(inbound, SystemClock.now())
        .await
        .map_err(failed)?;
    let waiting = work.until(async || answered(store.as_ref(), turn).await);
    let limit = Duration::from_secs(arguments.wait);
    match tokio::time::timeout(limit, waiting).await {
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

/// The turn, once it has ended and every part of its reply is settled.
async fn answered(store: &dyn Store, id: TurnId) -> Result<Option<Answered>, StoreError> {
    let Some(turn) = store.turn(id).await? else {
        return Ok(None);
    };
    if matches!(turn.state.as_str(), "waiting" | "running") {
        return Ok(None);
    }
    let parts = store.turn_parts(id).await?;
    let settled = parts.iter().all(|part| part.state.is_settled());
    Ok(settled.then_some(Answered { turn, parts }))
}

fn tell(answered: &Answered) -> Result<Exit, Failure> {
    if answered.turn.state != "done" {
        let why = answered
            .turn
            .error
            .as_deref()
            .unwrap_or("it was called off");
        return Err(Failure::new(Exit::DoesNotHold, format!("no reply: {why}")));
    }
    let mut undelivered = Vec::new();
    for part in &answered.parts {
        if let Some(text) = &part.text {
            print(&format!("{}\n", plain::lines(text)))?;
        }
        if part.state != PartState::Confirmed {
            undelivered.push(format!(
                "part {} is {}: {}",
                part.part_id,
                part.state.as_str(),
                part.why
                    .as_deref()
                    .or(part.reason.as_deref())
                    .unwrap_or("no reason is known")
            ));
        }
    }
    if undelivered.is_empty() {
        return Ok(Exit::Fine);
    }
    Err(Failure::new(
        Exit::DoesNotHold,
        format!("the chat did not get all of it: {}", undelivered.join("; ")),
    )
    .help("`chatcron outbox` shows what can be done"))
}
