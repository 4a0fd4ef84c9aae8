//! `chatcron outbox`: messages on their way, and a person's word about those in doubt.

use jiff::Timestamp;
use serde_json::json;

use crate::{
    cli::{
        Exit,
        failure::Failure,
        json,
        names::{self, unreadable},
        parts, plain, print,
        reading::Place,
        runtime,
        table::{Column, Screen, Table, Tone},
        words,
    },
    clock::{Clock, SystemClock},
    ids::PartId,
    message::{Destination, PartState},
    outbound::posting_note,
    store::{OutboxRow, OutboxScope, Resolution, Store, StoreError},
    view::Part,
};

#[cfg(test)]
mod tests;

/// Show the messages that need something: not sent yet, failed, or in doubt.
///
/// A message is sent in parts, as its chat takes them; each has its id.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// Those that are done with too.
    #[arg(long)]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Show(Show),
    Resolve(Resolve),
    Retry(Retry),
    Cancel(Cancel),
}

/// Show everything about one part.
#[derive(Debug, clap::Args)]
struct Show {
    /// The part's id.
    id: i64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// Say whether the chat showed a part in doubt.
///
/// In doubt is an unknown part, and one that is tried again under its key, between two tries. With
/// --shown its row is written to the chat's transcript; with --not-shown it counts as failed, and
/// `chatcron outbox retry` sends it again.
#[derive(Debug, clap::Args)]
struct Resolve {
    /// The part's id.
    id: i64,
    #[command(flatten)]
    word: Word,
    /// With --shown: the channel's id of the message, if you know it.
    #[arg(long, value_name = "M", conflicts_with = "not_shown")]
    message_id: Option<String>,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Word {
    /// The chat shows the message.
    #[arg(long)]
    shown: bool,
    /// The chat does not show it.
    #[arg(long)]
    not_shown: bool,
}

/// Send a failed part again, and the rest of its message with it; or all of them.
///
/// It keeps its key, so that a channel which has it after all does not show it twice. The agent is
/// not asked again.
#[derive(Debug, clap::Args)]
struct Retry {
    /// The part's id.
    #[arg(required_unless_present = "all")]
    id: Option<i64>,
    /// All failed parts, in the order in which they were made.
    #[arg(long, conflicts_with = "id")]
    all: bool,
    /// With --all: those of this chat only, by name or session key.
    #[arg(long, value_name = "CHAT", requires = "all")]
    chat: Option<String>,
    /// With --all: say what would be sent, and change nothing.
    #[arg(long, requires = "all")]
    dry_run: bool,
    #[command(flatten)]
    place: Place,
}

/// Cancel a part that was not sent yet, and the rest of its message with it.
#[derive(Debug, clap::Args)]
struct Cancel {
    /// The part's id.
    id: i64,
    #[command(flatten)]
    place: Place,
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let now = SystemClock.now();
    let text = runtime::block_on(async {
        match &arguments.action {
            None => list(arguments, now).await,
            Some(Action::Show(show)) => show_one(show, now).await,
            Some(Action::Resolve(resolve)) => settle(resolve, now).await,
            Some(Action::Retry(retry)) => match retry.id {
                Some(id) => {
                    let store = retry.place.open_to_write().await?;
                    let row = part(&*store, id).await?;
                    store
                        .retry_part(row.part_id, now)
                        .await
                        .map_err(unreadable)?;
                    Ok(retried(&row))
                }
                None => retry_all(retry, now).await,
            },
            Some(Action::Cancel(cancel)) => {
                let store = cancel.place.open_to_write().await?;
                let row = part(&*store, cancel.id).await?;
                store
                    .cancel_part(row.part_id, now)
                    .await
                    .map_err(unreadable)?;
                Ok(cancelled(&row))
            }
        }
    })?;
    print(&text)?;
    Ok(Exit::Fine)
}

async fn list(arguments: &Arguments, now: Timestamp) -> Result<String, Failure> {
    let store = arguments.place.open().await?;
    let scope = if arguments.all {
        OutboxScope::All
    } else {
        OutboxScope::Open
    };
    let rows = store.outbox(scope).await.map_err(unreadable)?;
    if arguments.json {
        let parts: Vec<Part> = rows.iter().map(Part::from).collect();
        return Ok(json::text(&json!({ "parts": parts })));
    }
    Ok(render(&rows, now, Screen::of_stdout()))
}

fn render(rows: &[OutboxRow], now: Timestamp, screen: Screen) -> String {
    if rows.is_empty() {
        return String::from("nothing is on its way, and nothing is in doubt\n");
    }
    let mut out = parts::table(rows, now, screen);
    for row in rows {
        match row.state {
            PartState::Unknown => out.push_str(&look(row)),
            PartState::Sending if !row.under_way => out.push_str(&look(row)),
            PartState::Failed => out.push_str(&format!(
                "to send {} again: chatcron outbox retry {}\n",
                row.part_id, row.part_id
            )),
            PartState::Pending
            | PartState::Sending
            | PartState::Confirmed
            | PartState::Cancelled => {}
        }
    }
    out
}

fn look(row: &OutboxRow) -> String {
    format!(
        "look at {}, then: chatcron outbox resolve {} --shown | --not-shown\n",
        words::place(&row.destination),
        row.part_id
    )
}

async fn part(store: &dyn Store, id: i64) -> Result<OutboxRow, Failure> {
    let part = PartId(id);
    let rows = store
        .outbox(OutboxScope::One(part))
        .await
        .map_err(unreadable)?;
    rows.into_iter()
        .next()
        .ok_or_else(|| unreadable(StoreError::NoSuchPart { part }))
}

async fn show_one(show: &Show, now: Timestamp) -> Result<String, Failure> {
    let store = show.place.open().await?;
    let row = part(&*store, show.id).await?;
    if show.json {
        return Ok(json::text(&Part::from(&row)));
    }
    let jobs = store.all_jobs().await.map_err(unreadable)?;
    let zone = words::common_zone(jobs.iter().map(|stored| &stored.job));
    Ok(detail(&row, &zone, now, Screen::of_stdout()))
}

fn detail(row: &OutboxRow, zone_name: &str, now: Timestamp, screen: Screen) -> String {
    let zone = words::zone(zone_name);
    let at = |at: Timestamp| words::moment(at, now, &zone);
    let title = format!(
        "part {} ({} of {} of message {})",
        row.part_id, row.part, row.parts, row.message_id
    );
    let mut table = Table::new([Column::Left, Column::Breaks]).indent(2);
    table.row(["to".into(), parts::to(row).into()]);
    table.row(["state".into(), parts::state(row.state)]);
    table.row(["why".into(), parts::why(row, now).into()]);
    table.row(["what".into(), row.origin.as_str().replace('_', " ").into()]);
    let producer = match (&row.posted_by, row.run_id, row.turn_id) {
        (Some(job), Some(run), _) => format!("job {}, run {run}", job.job_id),
        (Some(job), None, _) => format!("job {}", job.job_id),
        (None, Some(run), _) => format!("run {run}"),
        (None, None, Some(turn)) => format!("turn {turn}"),
        (None, None, None) => String::from("-"),
    };
    table.row(["from".into(), producer.into()]);
    table.row(["key".into(), plain::line(row.key.as_str()).into()]);
    let tried = match row.first_attempt_at {
        Some(first) => format!(
            "{}, first {}",
            words::counted(row.attempts, "time"),
            at(first)
        ),
        None => String::from("not yet"),
    };
    table.row(["tried".into(), tried.into()]);
    table.row(["enqueued".into(), at(row.enqueued_at).into()]);
    if let Some(settled) = row.settled_at {
        table.row(["settled".into(), at(settled).into()]);
    }
    let text = row.text.as_deref().unwrap_or("(the channel's own form)");
    table.row(["text".into(), plain::lines(text).into()]);
    format!(
        "{}\n{}times in {zone_name}\n",
        screen.toned(&title, Tone::Strong),
        table.render(screen)
    )
}

async fn settle(resolve: &Resolve, now: Timestamp) -> Result<String, Failure> {
    let store = resolve.place.open_to_write().await?;
    let row = part(&*store, resolve.id).await?;
    let resolution = if resolve.word.shown {
        Resolution::Shown {
            message_id: resolve.message_id.clone(),
            posting_note: row.posted_by.as_ref().map(|job| posting_note(job, now)),
        }
    } else {
        Resolution::NotShown
    };
    let text = resolved(&row, &resolution);
    store
        .resolve_part(row.part_id, resolution, now)
        .await
        .map_err(unreadable)?;
    Ok(text)
}

fn resolved(row: &OutboxRow, resolution: &Resolution) -> String {
    let (id, to) = (row.part_id, words::place(&row.destination));
    match (resolution, &row.destination) {
        (Resolution::Shown { .. }, Destination::Chat(_)) => format!(
            "part {id} counts as shown in {to}; its row joins that chat's transcript as soon as no \
             turn is running there\n"
        ),
        (Resolution::Shown { .. }, Destination::Webhook(_)) => {
            format!("part {id} counts as received by {to}\n")
        }
        (Resolution::NotShown, _) => format!(
            "part {id} counts as failed: {to} did not show it\n\
             to send it again: chatcron outbox retry {id}\n"
        ),
    }
}

/// Sends all failed parts again, or says which they are.
async fn retry_all(retry: &Retry, now: Timestamp) -> Result<String, Failure> {
    let store = if retry.dry_run {
        retry.place.open().await?
    } else {
        retry.place.open_to_write().await?
    };
    let chat = match &retry.chat {
        Some(name) => Some(names::session(&*store, &retry.place.file, name).await?),
        None => None,
    };
    let rows = store.outbox(OutboxScope::Open).await.map_err(unreadable)?;
    let is_asked = |row: &&OutboxRow| {
        let is_there = chat.as_ref().is_none_or(|chat| chat.key == row.session_key);
        row.state == PartState::Failed && is_there
    };
    let failed: Vec<OutboxRow> = rows.iter().filter(is_asked).cloned().collect();
    if retry.dry_run {
        let table = parts::table(&failed, now, Screen::of_stdout());
        let text = format!("{}; nothing was changed\n", would_retry(failed.len()));
        return Ok(if failed.is_empty() {
            text
        } else {
            table + &text
        });
    }
    let mut sent = 0;
    for row in &failed {
        match store.retry_part(row.part_id, now).await {
            Ok(()) => sent += 1,
            // Somebody else has said otherwise meanwhile.
            Err(StoreError::WrongPartState { .. } | StoreError::NoSuchPart { .. }) => {}
            Err(error) => return Err(unreadable(error)),
        }
    }
    Ok(all_retried(sent))
}

fn would_retry(count: usize) -> String {
    match count {
        0 => String::from("no part has failed"),
        _ => format!("{} would be sent again", counted_parts(count)),
    }
}

fn all_retried(count: usize) -> String {
    match count {
        0 => String::from("no part has failed; nothing was changed\n"),
        _ => format!(
            "sent again, each under its old key and with the rest of its message: {}; a running \
             `chatcron run` does it now, else the next one\n",
            counted_parts(count)
        ),
    }
}

fn counted_parts(count: usize) -> String {
    words::counted(u64::try_from(count).unwrap_or(u64::MAX), "part")
}

fn retried(row: &OutboxRow) -> String {
    format!(
        "part {} is sent again to {}, under its old key, and what was cancelled of its message \
         after it; a running `chatcron run` does it now, else the next one\n",
        row.part_id,
        words::place(&row.destination)
    )
}

fn cancelled(row: &OutboxRow) -> String {
    let rest = if row.part < row.parts {
        " and the rest of its message"
    } else {
        ""
    };
    format!(
        "part {}{rest} will not be sent to {}\n",
        row.part_id,
        words::place(&row.destination)
    )
}
