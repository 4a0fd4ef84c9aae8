//! User turns: how they come in, and how they end.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    ids::{SessionKey, TurnId},
    store::{
        Conflict, Diagnostic, InboundMessage, Level, NewMessage, TurnEnd, TurnResult, TurnRow,
    },
    transcript::{Role, TriggerSource, Visibility},
};

mod shown;

use shown::ShownReplies;

use super::{
    connection::{Conn, Pool},
    diagnostics::Notes,
    enqueue,
    entries::{Book, NewRow},
    failure::Fallible,
    ids::{Ids, Kind},
    lanes::{self, Release},
    resolution,
    rows::{At, Columns, micros, rows_for, text_instant, write_rows},
    statement::{Statement, over_numbers, over_rows, query},
};

const KNOWN: Statement = Statement::common(
    "\
SELECT turn_id, role FROM ctx_session_entries
WHERE chat_key = $1 AND channel_message_id = $2 AND channel_message_id IS NOT NULL",
);

const INSERT: Statement = Statement::common(
    "\
INSERT INTO turns (turn_id, session_key, source, text, state, entry_id, requested_at, runner)
VALUES ($1, $2, $3, $4, 'waiting', $5, $6, $7)",
);

const KEEP_LINE: Statement =
    Statement::common("UPDATE ctx_session_entries SET raw_line = $2 WHERE id = $1");

const FENCES: Statement = over_numbers!(
    "\
SELECT t.turn_id, t.session_key, t.state, t.epoch
FROM",
    "JOIN turns AS t ON t.turn_id = x.id"
);

const END: Statement = over_rows!(
    [turn_id bigint, state text, uncounted bigint, ended_at bigint, error text, usage text]
    "\
UPDATE turns SET state = x.state, attempts = turns.attempts - x.uncounted, epoch = turns.epoch + 1,
  ended_at = x.ended_at, error = x.error, usage = coalesce(x.usage, turns.usage)
FROM",
    "WHERE turns.turn_id = x.turn_id"
);

const ONE: Statement = Statement::common(
    "\
SELECT turn_id, session_key, state, requested_at, started_at, ended_at, error, runner
FROM turns WHERE turn_id = $1",
);

/// Stores a user's message, with its pending row and its turn, once.
pub(super) async fn request(
    conn: &mut Conn,
    inbound: InboundMessage,
    runner: Option<String>,
    now: Timestamp,
) -> Fallible<TurnId> {
    let inbound = inbound.cleaned();
    let unclosed = inbound.has_unclosed_framing();
    let text = inbound.content.text();
    let trigger = inbound
        .trigger_source
        .unwrap_or_else(|| TriggerSource::of_session(&inbound.session_key));
    let session_key = inbound.session_key.as_str();
    let mut message_id = inbound.channel_message_id;
    if let Some(id) = &message_id {
        let known = query(KNOWN)
            .bind(session_key)
            .bind(id)
            .fetch_optional(&mut *conn)
            .await?;
        if let Some(row) = known {
            let turn = row.try_get::<Option<i64>>("turn_id")?;
            let is_a_persons = row.try_get::<String>("role")? == Role::User.as_str();
            if let (Some(turn), true) = (turn, is_a_persons) {
                return Ok(TurnId(turn));
            }
            // Another row has the id, as in a chat that counts anew: the words are kept all the same.
            message_id = None;
        }
    }
    let turn_id = Ids::take_one(conn, Kind::Turn).await?;
    let mut book = Book::open(conn, &BTreeSet::from([session_key.to_owned()])).await?;
    let is_shown = inbound.source == "channel";
    let row = NewRow {
        raw_entry: inbound.raw_entry,
        sender_display: inbound.sender_display,
        sender_id_raw: inbound.sender_id_raw,
        chat_key: message_id.is_some().then(|| session_key.to_owned()),
        channel_message_id: message_id,
        shown_at: is_shown.then(|| text_instant(now)),
        turn_id: Some(turn_id),
        ..NewRow::content(Role::User, inbound.content, Visibility::Pending, now)?
            .triggered_by(Some(trigger))
    };
    let entry = book.add(session_key, row, now);
    book.write(conn).await?;
    if let Some(line) = inbound.raw_line {
        let query = query(KEEP_LINE).bind(entry).bind(Some(line));
        query.execute(&mut *conn).await?;
    }
    query(INSERT)
        .bind(turn_id)
        .bind(session_key)
        .bind(inbound.source)
        .bind(&text)
        .bind(entry)
        .bind(micros(now))
        .bind(runner)
        .execute(&mut *conn)
        .await?;
    if unclosed {
        let mut notes = Notes::default();
        notes.add(unclosed_framing(TurnId(turn_id)), now);
        notes.write(conn).await?;
    }
    Ok(TurnId(turn_id))
}

fn unclosed_framing(turn_id: TurnId) -> Diagnostic {
    Diagnostic {
        run_id: None,
        turn_id: Some(turn_id),
        part_id: None,
        level: Level::Info,
        code: "unclosed-framing",
        message: String::from(
            "a block in front of the person's words does not end; it is kept as their words",
        ),
    }
}

#[derive(Debug, Serialize)]
struct Ended {
    turn_id: i64,
    state: &'static str,
    uncounted: i64,
    ended_at: Option<i64>,
    error: Option<String>,
    usage: Option<String>,
}

struct Fence {
    session_key: String,
    is_running: bool,
    epoch: i64,
}

/// Ends turns; one result an item.
pub(super) async fn finish(
    conn: &mut Conn,
    items: Vec<At<TurnEnd>>,
) -> Fallible<Vec<Result<(), Conflict>>> {
    let mut fences = fences(conn, &items).await?;
    let messages = items.iter().filter_map(|item| item.item.message.as_ref());
    let (messages, parts) = enqueue::counts(messages);
    let mut ids = Ids::take(conn, &[(Kind::Message, messages), (Kind::Part, parts)]).await?;
    let mut book = Book::open(conn, &sessions_of(&items)).await?;
    let mut notes = Notes::default();
    let (mut ended, mut releases, mut messages) = (Vec::new(), Vec::new(), Vec::new());
    let mut shown = ShownReplies::default();
    let mut results = Vec::with_capacity(items.len());
    let mut last = None;
    for At { item, now } in items {
        last = last.max(Some(now));
        let fence = fences.get_mut(&item.turn_id.0);
        match fence {
            None => results.push(Err(Conflict::Missing)),
            Some(fence) if fence.is_running && fence.epoch == item.epoch.0 => {
                fence.is_running = false;
                releases.push(Release::turn(&fence.session_key, item.turn_id.0));
                ended.push(ended_row(&item, now)?);
                shown.add(&item, now);
                messages.extend(append(item, now, &mut book, &mut notes)?);
                results.push(Ok(()));
            }
            Some(_) => results.push(Err(Conflict::LeaseLost)),
        }
    }
    enqueue::enqueue(conn, messages, &mut ids, &mut book, &mut notes).await?;
    write_rows(conn, END, &ended).await?;
    lanes::release(conn, &releases).await?;
    book.write(conn).await?;
    notes.write(conn).await?;
    shown.confirm(conn).await?;
    if let Some(now) = last {
        resolution::apply_in_free_lanes(conn, now).await?;
    }
    Ok(results)
}

async fn fences(conn: &mut Conn, items: &[At<TurnEnd>]) -> Fallible<HashMap<i64, Fence>> {
    let ids: Vec<i64> = items.iter().map(|item| item.item.turn_id.0).collect();
    let mut fences = HashMap::new();
    for row in rows_for(conn, FENCES, &ids).await? {
        let state: String = row.try_get("state")?;
        let fence = Fence {
            session_key: row.try_get("session_key")?,
            is_running: state == "running",
            epoch: row.try_get("epoch")?,
        };
        fences.insert(row.try_get("turn_id")?, fence);
    }
    Ok(fences)
}

fn sessions_of(items: &[At<TurnEnd>]) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for item in items {
        let entries = item.item.entries.iter();
        keys.extend(entries.map(|entry| entry.session_key.as_str().to_owned()));
        keys.extend(item.item.message.as_ref().and_then(enqueue::session_of));
    }
    keys
}

fn ended_row(end: &TurnEnd, now: Timestamp) -> Fallible<Ended> {
    let (state, uncounted, error) = match &end.result {
        TurnResult::Done => ("done", 0, None),
        TurnResult::Failed { error } => ("failed", 0, Some(error.clone())),
        TurnResult::Requeued => ("waiting", 1, None),
    };
    let usage = end.usage.as_ref().map(serde_json::to_string).transpose()?;
    Ok(Ended {
        turn_id: end.turn_id.0,
        state,
        uncounted,
        ended_at: (state != "waiting").then(|| micros(now)),
        error,
        usage,
    })
}

fn append(
    end: TurnEnd,
    now: Timestamp,
    book: &mut Book,
    notes: &mut Notes,
) -> Fallible<Option<At<NewMessage>>> {
    for draft in end.entries {
        let session_key = draft.session_key.as_str().to_owned();
        let row = NewRow {
            turn_id: Some(end.turn_id.0),
            ..NewRow::draft(draft, now)?
        };
        book.add(&session_key, row, now);
    }
    for diagnostic in end.diagnostics {
        notes.add(diagnostic, now);
    }
    Ok(end.message.map(|item| At { item, now }))
}

pub(super) async fn one(pool: &Pool, id: TurnId) -> Fallible<Option<TurnRow>> {
    let row = query(ONE).bind(id.0).fetch_optional(pool).await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let row = Columns::of(&row, "turns", "turn_id");
    Ok(Some(TurnRow {
        turn_id: id,
        session_key: SessionKey::from_stored(row.get::<String>("session_key")?),
        state: row.get("state")?,
        requested_at: row.instant("requested_at")?,
        started_at: row.instant_or_none("started_at")?,
        ended_at: row.instant_or_none("ended_at")?,
        error: row.get("error")?,
        runner: row.get("runner")?,
    }))
}
