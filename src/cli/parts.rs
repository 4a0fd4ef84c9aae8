//! Parts of messages, as they stand in the outbox.

use jiff::Timestamp;

use crate::{
    cli::{
        plain,
        table::{Cell, Column, Screen, Table, Tone},
        words,
    },
    message::PartState,
    store::OutboxRow,
};

/// How much of a text a line of a list shows, in characters.
const TEXT_SHOWN: usize = 60;

/// The parts as rows: id, destination, state, since when, why, and how the text begins.
pub(super) fn table(rows: &[OutboxRow], now: Timestamp, screen: Screen) -> String {
    let mut table = Table::new([
        Column::Right,
        Column::Left,
        Column::Left,
        Column::Left,
        Column::Breaks,
        Column::Breaks,
    ])
    .head(["id", "to", "state", "since", "why", "text"]);
    for row in rows {
        table.row([
            row.part_id.to_string().into(),
            to(row).into(),
            state(row.state),
            words::span(since(row).duration_until(now)).into(),
            why(row, now).into(),
            plain::beginning(row.text.as_deref().unwrap_or("(native)"), TEXT_SHOWN).into(),
        ]);
    }
    table.render(screen)
}

/// `me`, or `me (1/2)` where the message has several parts.
pub(super) fn to(row: &OutboxRow) -> String {
    let place = words::place(&row.destination);
    if row.parts > 1 {
        format!("{place} ({}/{})", row.part, row.parts)
    } else {
        place
    }
}

/// A state, in the tone of how much it matters.
pub(super) fn state(state: PartState) -> Cell {
    let tone = match state {
        PartState::Confirmed | PartState::Cancelled => Tone::Usual,
        PartState::Pending | PartState::Sending => Tone::Strong,
        PartState::Unknown => Tone::Warn,
        PartState::Failed => Tone::Bad,
    };
    Cell::toned(state.as_str(), tone)
}

/// Since when it is in its state, as far as that is known.
fn since(row: &OutboxRow) -> Timestamp {
    match row.state {
        PartState::Pending => row.enqueued_at,
        PartState::Sending => row.first_attempt_at.unwrap_or(row.enqueued_at),
        PartState::Confirmed | PartState::Unknown | PartState::Failed | PartState::Cancelled => {
            row.settled_at.unwrap_or(row.enqueued_at)
        }
    }
}

/// Why it stands so: the channel's own words, or the reason.
pub(super) fn why(row: &OutboxRow, now: Timestamp) -> String {
    let mut said: Vec<String> = Vec::new();
    if let Some(why) = &row.why {
        said.push(plain::line(why));
    }
    match row.state {
        PartState::Sending if row.under_way => said.push(String::from("is being sent")),
        PartState::Pending | PartState::Sending if row.next_attempt_at > now => {
            said.push(format!(
                "tried again {}",
                words::from_now(row.next_attempt_at, now)
            ));
        }
        PartState::Pending | PartState::Sending if row.attempts == 0 => {
            said.push(String::from("waits for its turn"));
        }
        PartState::Confirmed => said.extend(row.channel_message_id.as_ref().map(|id| shown_as(id))),
        PartState::Failed | PartState::Cancelled => {
            said.extend(
                row.reason
                    .as_deref()
                    .map(|reason| reason_words(reason).to_owned()),
            );
        }
        PartState::Pending | PartState::Sending | PartState::Unknown => {}
    }
    said.join("; ")
}

/// `#8812`.
pub(super) fn shown_as(message_id: &str) -> String {
    format!("#{}", plain::line(message_id))
}

/// The same, cut where a channel's ids are long; so much of one is still one message's.
pub(super) fn short_id(message_id: &str) -> String {
    format!("#{}", plain::beginning(message_id, 12))
}

fn reason_words(reason: &str) -> &str {
    match reason {
        "age" => "refused for longer than messages are kept trying",
        "permanent" => "refused for good",
        "address-stopped" => "the address is stopped since an earlier refusal",
        "said-already" => "a tool has sent the same words",
        "rest-of-failed" => "an earlier part of the message failed",
        "reset" => "the chat was reset before it was sent",
        "job-removed" => "its job was removed before it was sent",
        "by-hand" => "cancelled by hand",
        "not-shown" => "said by hand not to have been shown",
        other => other,
    }
}
