//! Messages that a turn or an attempt sends while it is under way.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::{
    ids::MessageId,
    store::{Conflict, Diagnostic, Level, NewMessage, Sent, SentBy, ToolSend},
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
    let (messages, parts) = enqueue::counts([&message].into_iter());
    let mut ids = Ids::take(conn, &[(Kind::Message, messages), (Kind::Part, parts)]).await?;
    let mut book = Book::open(conn, &BTreeSet::new()).await?;
    let messages = vec![At { item: message, now }];
    enqueue::enqueue(conn, messages, &mut ids, &mut book, &mut notes).await?;
    book.write(conn).await?;
    notes.write(conn).await?;
    let row = query(ENQUEUED).bind(key.as_str());
    let row = row.fetch_optional(&mut *conn).await?;
    let Some(row) = row else {
        return Ok(Err(Conflict::Missing));
    };
    let id: i64 = Columns::of(&row, "outbox_parts", "message_id").get("message_id")?;
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
