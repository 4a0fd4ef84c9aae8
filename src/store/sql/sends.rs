//! Messages that a turn or an attempt sends while it is under way.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::{
    ids::MessageId,
    store::{Conflict, Diagnostic, Level, NewMessage, OwnSend, Sent, SentBy, ToolSend},
};

use super::{
    connection::Conn,
    diagnostics::Notes,
    enqueue,
    entries::Book,
    failure::Fallible,
    ids::{Ids, Kind},
    rows::{At, Columns},
    statement::{Statement, query},
};

const LANE_OF_RUN: Statement = Statement::common(
    "SELECT lane FROM runs WHERE run_id = $1 AND epoch = $2 AND state = 'running'",
);

const LANE_OF_TURN: Statement = Statement::common(
    "SELECT session_key AS lane FROM turns WHERE turn_id = $1 AND epoch = $2 AND state = 'running'",
);

const SENT_EARLIER: Statement = Statement::common(
    "\
SELECT message_id, text FROM outbox_parts
WHERE message_id = (SELECT q.message_id FROM outbox_parts AS q WHERE q.idempotency_key = $1)
ORDER BY part",
);

const ENQUEUED: Statement =
    Statement::common("SELECT message_id FROM outbox_parts WHERE idempotency_key = $1");

const GO_FIRST: Statement =
    Statement::common("UPDATE outbox_parts SET begun = TRUE WHERE message_id = $1");

const SENT_BY: Statement = Statement::common(
    "\
SELECT o.message_id, o.origin, o.session_key, p.text, p.native
FROM outbox AS o JOIN outbox_parts AS p ON p.message_id = o.message_id
WHERE o.producer = $1 AND o.run_id IS NULL AND o.turn_id IS NULL ORDER BY p.part",
);

const PRUNED_BEFORE: Statement =
    Statement::common("SELECT CAST(value AS BIGINT) AS at FROM facts WHERE name = 'pruned_before'");

/// Enqueues a message of a program, once for its key.
pub(super) async fn send_own(
    conn: &mut Conn,
    send: OwnSend,
    now: Timestamp,
) -> Fallible<Result<Sent, Conflict>> {
    let OwnSend {
        message,
        created_at,
    } = send;
    if let Some(earlier) = sent_by(conn, &message).await? {
        return Ok(Ok(earlier));
    }
    let pruned_before = query(PRUNED_BEFORE).fetch_optional(&mut *conn).await?;
    if let Some(row) = pruned_before {
        let pruned_before = Columns::of(&row, "facts", "at").instant("at")?;
        if created_at < pruned_before {
            return Ok(Err(Conflict::TooOld { pruned_before }));
        }
    }
    let Some(key) = message.parts.first().map(|part| part.key.clone()) else {
        return Ok(Err(Conflict::Missing));
    };
    let mut notes = Notes::default();
    let sent = put(conn, message, key.as_str(), &mut notes, now).await?;
    notes.write(conn).await?;
    Ok(sent
        .map(|id| Sent::New(MessageId(id)))
        .ok_or(Conflict::Missing))
}

/// What was sent under the key of a program before.
async fn sent_by(conn: &mut Conn, message: &NewMessage) -> Fallible<Option<Sent>> {
    let rows = query(SENT_BY).bind(message.producer.as_str());
    let rows = rows.fetch_all(&mut *conn).await?;
    let (mut words, mut natives) = (String::new(), Vec::new());
    let mut found = None;
    for row in &rows {
        let row = Columns::of(row, "outbox", "message_id");
        let place: (String, String) = (row.get("origin")?, row.get("session_key")?);
        found = Some((MessageId(row.get("message_id")?), place));
        words.push_str(&row.get::<Option<String>>("text")?.unwrap_or_default());
        natives.extend(row.json_or_none::<serde_json::Value>("native")?);
    }
    let Some((id, (origin, session))) = found else {
        return Ok(None);
    };
    let parts = message.parts.iter();
    let now_words: String = parts
        .clone()
        .filter_map(|part| part.text.as_deref())
        .collect();
    let now_natives: Vec<_> = parts.filter_map(|part| part.native.clone()).collect();
    let is_same = origin == message.origin.as_str()
        && session == message.destination.session_key().as_str()
        // A channel may take longer messages than it did, and then cuts elsewhere.
        && without_space(&words) == without_space(&now_words)
        && natives == now_natives;
    Ok(Some(if is_same {
        Sent::Again(id)
    } else {
        Sent::Otherwise
    }))
}

fn without_space(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Puts one message in the outbox; returns its id, if it is there then.
async fn put(
    conn: &mut Conn,
    message: NewMessage,
    key: &str,
    notes: &mut Notes,
    now: Timestamp,
) -> Fallible<Option<i64>> {
    let (messages, parts) = enqueue::counts([&message].into_iter());
    let mut ids = Ids::take(conn, &[(Kind::Message, messages), (Kind::Part, parts)]).await?;
    let mut book = Book::open(conn, &BTreeSet::new()).await?;
    let messages = vec![At { item: message, now }];
    enqueue::enqueue(conn, messages, &mut ids, &mut book, notes).await?;
    book.write(conn).await?;
    let row = query(ENQUEUED).bind(key).fetch_optional(&mut *conn).await?;
    row.map(|row| Columns::of(&row, "outbox_parts", "message_id").get("message_id"))
        .transpose()
}

/// Enqueues a message under its sender's lease.
pub(super) async fn send(
    conn: &mut Conn,
    send: ToolSend,
    now: Timestamp,
) -> Fallible<Result<Sent, Conflict>> {
    let ToolSend { by, message } = send;
    let Some(lane) = lane_of(conn, by).await? else {
        return Ok(Err(Conflict::LeaseLost));
    };
    let Some(key) = message.parts.first().map(|part| part.key.clone()) else {
        return Ok(Err(Conflict::Missing));
    };
    let mut notes = Notes::default();
    if let Some(earlier) = sent_earlier(conn, key.as_str(), &message).await? {
        if earlier == Sent::Otherwise {
            notes.add(other_words(&message), now);
            notes.write(conn).await?;
        }
        return Ok(Ok(earlier));
    }
    let goes_first = message.destination.session_key().as_str() == lane;
    let id = put(conn, message, key.as_str(), &mut notes, now).await?;
    notes.write(conn).await?;
    let Some(id) = id else {
        return Ok(Err(Conflict::Missing));
    };
    if goes_first {
        query(GO_FIRST).bind(id).execute(&mut *conn).await?;
    }
    Ok(Ok(Sent::New(MessageId(id))))
}

/// The lane of the sender, if its lease is held.
async fn lane_of(conn: &mut Conn, by: SentBy) -> Fallible<Option<String>> {
    let (statement, id, epoch) = match by {
        SentBy::Run(id, epoch) => (LANE_OF_RUN, id.0, epoch),
        SentBy::Turn(id, epoch) => (LANE_OF_TURN, id.0, epoch),
    };
    let row = query(statement).bind(id).bind(epoch.0);
    let row = row.fetch_optional(&mut *conn).await?;
    row.map(|row| Columns::of(&row, "lanes", "lane").get("lane"))
        .transpose()
}

async fn sent_earlier(conn: &mut Conn, key: &str, message: &NewMessage) -> Fallible<Option<Sent>> {
    let rows = query(SENT_EARLIER).bind(key).fetch_all(&mut *conn).await?;
    let mut texts: Vec<Option<String>> = Vec::with_capacity(rows.len());
    let mut id = None;
    for row in &rows {
        let row = Columns::of(row, "outbox_parts", "message_id");
        id = Some(MessageId(row.get("message_id")?));
        texts.push(row.get("text")?);
    }
    let now = message.parts.iter().map(|part| &part.text);
    Ok(id.map(|id| {
        if texts.iter().eq(now) {
            Sent::Again(id)
        } else {
            Sent::Otherwise
        }
    }))
}

fn other_words(message: &NewMessage) -> Diagnostic {
    Diagnostic {
        run_id: message.run.map(|(run, _)| run),
        turn_id: message.turn_id,
        part_id: None,
        level: Level::Warn,
        code: "other-words",
        message: String::from(
            "an earlier attempt has sent other words in this place; these are not sent",
        ),
    }
}
