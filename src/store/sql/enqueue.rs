//! Messages on their way into the outbox.

use std::collections::{BTreeSet, HashSet};

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    message::{Origin, PartState},
    store::{Diagnostic, Level, NewMessage},
    transcript::{Role, Visibility},
};

use super::{
    connection::Conn,
    diagnostics::Notes,
    entries::{Book, NewRow},
    failure::Fallible,
    ids::{Ids, Kind},
    outbox,
    rows::{At, micros, rows_for, write_rows},
    statement::{Statement, over_rows, over_texts},
};

const KEYS_IN_USE: Statement = over_texts!(
    "SELECT p.idempotency_key FROM",
    "JOIN outbox_parts AS p ON p.idempotency_key = x.id"
);

const INSERT_MESSAGES: Statement = over_rows!(
    [
        message_id bigint, producer text, origin text, ordinal bigint, session_key text,
        destination text, agent text, speaker text, trigger_source text, job_id text,
        job_name text, zone text, run_id bigint, attempt bigint, turn_id bigint, on_unknown text,
        late text, late_from bigint, late_label text, behind bigint, parts bigint, enqueued_at bigint,
    ]
    "\
INSERT INTO outbox (message_id, producer, origin, ordinal, session_key, destination, agent, speaker,
  trigger_source, job_id, job_name, zone, run_id, attempt, turn_id, on_unknown, late,
  late_from, late_label, behind, parts, enqueued_at)
SELECT x.message_id, x.producer, x.origin, x.ordinal, x.session_key, x.destination, x.agent,
  x.speaker, x.trigger_source, x.job_id, x.job_name, x.zone, x.run_id, x.attempt, x.turn_id,
  x.on_unknown, x.late, x.late_from, x.late_label, x.behind, x.parts, x.enqueued_at
FROM",
    ""
);

const INSERT_PARTS: Statement = over_rows!(
    [
        part_id bigint, message_id bigint, part bigint, session_key text, begun boolean,
        idempotency_key text, text text, native text, state text, next_attempt_at bigint,
        entry_id bigint,
    ]
    "\
INSERT INTO outbox_parts (part_id, message_id, part, session_key, begun, idempotency_key, text, native, state,
  next_attempt_at, entry_id)
SELECT x.part_id, x.message_id, x.part, x.session_key, x.begun, x.idempotency_key, x.text,
  x.native, x.state, x.next_attempt_at, x.entry_id
FROM",
    ""
);

#[derive(Debug, Serialize)]
struct MessageRow {
    message_id: i64,
    producer: String,
    origin: &'static str,
    ordinal: u32,
    session_key: String,
    destination: String,
    agent: String,
    speaker: String,
    trigger_source: Option<&'static str>,
    job_id: Option<String>,
    job_name: Option<String>,
    zone: Option<String>,
    run_id: Option<i64>,
    attempt: Option<u32>,
    turn_id: Option<i64>,
    on_unknown: String,
    late: Option<&'static str>,
    late_from: Option<i64>,
    late_label: Option<String>,
    behind: Option<i64>,
    parts: usize,
    enqueued_at: i64,
}

#[derive(Debug, Serialize)]
struct PartRow {
    part_id: i64,
    message_id: i64,
    part: usize,
    session_key: String,
    begun: bool,
    idempotency_key: String,
    text: Option<String>,
    native: Option<String>,
    state: &'static str,
    next_attempt_at: i64,
    entry_id: Option<i64>,
}

/// How many messages and parts these are; what [`enqueue`] needs ids for.
pub(super) fn counts<'m>(messages: impl Iterator<Item = &'m NewMessage>) -> (usize, usize) {
    messages.fold((0, 0), |(count, parts), message| {
        (count + 1, parts + message.parts.len())
    })
}

/// The session that gets a message's pending rows, if it gets any.
pub(super) fn session_of(message: &NewMessage) -> Option<String> {
    let is_reply = message.origin == Origin::TurnReply;
    is_reply.then(|| message.destination.session_key().as_str().to_owned())
}

/// Puts messages in the outbox, with the pending rows of replies. A message of which any key is
/// there already was enqueued by an earlier attempt, and is left out.
pub(super) async fn enqueue(
    conn: &mut Conn,
    messages: Vec<At<NewMessage>>,
    ids: &mut Ids,
    book: &mut Book,
    notes: &mut Notes,
) -> Fallible<()> {
    if messages.is_empty() {
        return Ok(());
    }
    let mut taken = keys_in_use(conn, &messages).await?;
    let mut message_rows = Vec::new();
    let mut part_rows = Vec::new();
    for At { item, now } in messages {
        let known = item
            .parts
            .iter()
            .find(|part| taken.contains(part.key.as_str()));
        if let Some(known) = known {
            notes.add(already_there(&item, known.key.as_str()), now);
            continue;
        }
        taken.extend(item.parts.iter().map(|part| part.key.as_str().to_owned()));
        let message_id = ids.next(Kind::Message);
        part_rows.extend(parts_of(&item, message_id, ids, book, now)?);
        message_rows.push(message_row(item, message_id, now)?);
    }
    write_rows(conn, INSERT_MESSAGES, &message_rows).await?;
    write_rows(conn, INSERT_PARTS, &part_rows).await?;
    let behind: Vec<i64> = message_rows.iter().filter_map(|row| row.behind).collect();
    if let Some(at) = message_rows.iter().map(|row| row.enqueued_at).max() {
        for entry in outbox::cancel_said(conn, &behind, at).await? {
            book.withhold(entry);
        }
    }
    Ok(())
}

async fn keys_in_use(conn: &mut Conn, messages: &[At<NewMessage>]) -> Fallible<HashSet<String>> {
    let keys: BTreeSet<&str> = messages
        .iter()
        .flat_map(|message| &message.item.parts)
        .map(|part| part.key.as_str())
        .collect();
    let keys: Vec<&str> = keys.into_iter().collect();
    let rows = rows_for(conn, KEYS_IN_USE, &keys).await?;
    rows.iter()
        .map(|row| Ok(row.try_get("idempotency_key")?))
        .collect()
}

fn already_there(message: &NewMessage, key: &str) -> Diagnostic {
    Diagnostic {
        run_id: message.run.map(|(run, _)| run),
        turn_id: message.turn_id,
        part_id: None,
        level: Level::Info,
        code: "deduplicated",
        message: format!("a message with the key {key} is in the outbox already"),
    }
}

fn parts_of(
    message: &NewMessage,
    message_id: i64,
    ids: &mut Ids,
    book: &mut Book,
    now: Timestamp,
) -> Fallible<Vec<PartRow>> {
    let session_key = message.destination.session_key();
    let is_reply = message.origin == Origin::TurnReply;
    let mut rows = Vec::with_capacity(message.parts.len());
    for (index, part) in message.parts.iter().enumerate() {
        let entry_id = part.text.as_ref().filter(|_| is_reply).map(|text| {
            let row = pending_row(message, text, part.key.as_str(), now);
            book.ensure(session_key.as_str(), Some(message.agent.as_str()), now);
            book.add(session_key.as_str(), row, now)
        });
        rows.push(PartRow {
            part_id: ids.next(Kind::Part),
            message_id,
            part: index + 1,
            session_key: session_key.as_str().to_owned(),
            begun: is_reply,
            idempotency_key: part.key.as_str().to_owned(),
            text: part.text.clone(),
            native: part
                .native
                .as_ref()
                .map(serde_json::to_string)
                .transpose()?,
            state: PartState::Pending.as_str(),
            next_attempt_at: micros(now),
            entry_id,
        });
    }
    Ok(rows)
}

fn pending_row(message: &NewMessage, text: &str, key: &str, now: Timestamp) -> NewRow {
    let row = NewRow::text(Role::Assistant, text, Visibility::Pending, now);
    NewRow {
        origin: Some(message.origin.as_str().to_owned()),
        posted_by_job: message
            .posted_by
            .as_ref()
            .map(|job| job.job_id.as_str().to_owned()),
        turn_id: message.turn_id.map(|id| id.0),
        run_id: message.run.map(|(run, _)| run.0),
        attempt: message.run.map(|(_, attempt)| attempt),
        idempotency_key: Some(key.to_owned()),
        ..row.triggered_by(message.trigger_source)
    }
}

fn message_row(message: NewMessage, message_id: i64, now: Timestamp) -> Fallible<MessageRow> {
    let (job_id, job_name, zone) = match message.posted_by {
        Some(job) => (
            Some(job.job_id.as_str().to_owned()),
            Some(job.name),
            Some(job.zone),
        ),
        None => (None, None, None),
    };
    Ok(MessageRow {
        message_id,
        producer: message.producer,
        origin: message.origin.as_str(),
        ordinal: message.ordinal,
        session_key: message.destination.session_key().as_str().to_owned(),
        destination: serde_json::to_string(&message.destination)?,
        agent: message.agent.as_str().to_owned(),
        speaker: message.speaker,
        trigger_source: message.trigger_source.map(|source| source.as_str()),
        job_id,
        job_name,
        zone,
        run_id: message.run.map(|(run, _)| run.0),
        attempt: message.run.map(|(_, attempt)| attempt),
        turn_id: message.turn_id.map(|id| id.0),
        on_unknown: outbox::on_unknown_word(message.on_unknown).to_owned(),
        late: message.late.as_ref().map(|late| late.rule.late.as_str()),
        late_from: message.late.as_ref().map(|late| micros(late.rule.from)),
        late_label: message.late.and_then(|late| late.label),
        behind: message.behind.map(|id| id.0),
        parts: message.parts.len(),
        enqueued_at: micros(now),
    })
}
