//! What channels bring in: messages and the position behind them, in one transaction.

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    channel::inbound::Position,
    ids::{SessionKey, TurnId},
    store::{Conflict, InboundBatch, ReadFrom, WorkerId},
};

use super::{
    connection::{Conn, Pool},
    failure::Fallible,
    rows::{Columns, micros, write_rows},
    statement::{Statement, over_rows, query},
    turns,
};

// A worker that others took for dead reads nothing, and what a dead one read is anybody's.
const READ: Statement = Statement::common(
    "\
INSERT INTO inbound_sources (source, worker_id)
SELECT $1, w.worker_id FROM workers AS w WHERE w.worker_id = $2 AND w.stopped_at IS NULL
ON CONFLICT (source) DO UPDATE SET worker_id = excluded.worker_id
WHERE inbound_sources.worker_id = excluded.worker_id OR NOT EXISTS (SELECT 1 FROM workers AS o
  WHERE o.worker_id = inbound_sources.worker_id AND o.stopped_at IS NULL)
RETURNING source, position, moved_at",
);

const MOVE_ON: Statement = Statement::common(
    "\
UPDATE inbound_sources SET position = $3, moved_at = $4 WHERE source = $1 AND worker_id = $2
  AND EXISTS (SELECT 1 FROM workers AS w WHERE w.worker_id = $2 AND w.stopped_at IS NULL)",
);

const MOVE_CHATS: Statement = over_rows!(
    [session_key text, moved_to text]
    "\
INSERT INTO addresses (session_key, moved_to)
SELECT x.session_key, x.moved_to
FROM",
    "\
WHERE true
ON CONFLICT (session_key) DO UPDATE SET moved_to = excluded.moved_to"
);

const MOVED: Statement = Statement::common(
    "\
SELECT session_key, moved_to FROM addresses WHERE moved_to IS NOT NULL ORDER BY session_key",
);

/// Has a worker read a source, unless another one that is alive reads it.
pub(super) async fn read(
    conn: &mut Conn,
    source: &str,
    worker: WorkerId,
) -> Fallible<Result<ReadFrom, Conflict>> {
    let query = query(READ).bind(source).bind(worker.0);
    let Some(row) = query.fetch_optional(&mut *conn).await? else {
        return Ok(Err(Conflict::LeaseLost));
    };
    let row = Columns::of(&row, "inbound_sources", "source");
    let at: Option<String> = row.get("position")?;
    let position = match (at, row.instant_or_none("moved_at")?) {
        (Some(at), Some(moved_at)) => Some(Position { at, moved_at }),
        (_, _) => None,
    };
    Ok(Ok(ReadFrom { position }))
}

#[derive(Debug, Serialize)]
struct MovedRow<'r> {
    session_key: &'r str,
    moved_to: &'r str,
}

/// Stores what a source brought.
pub(super) async fn receive(
    conn: &mut Conn,
    batch: InboundBatch,
    now: Timestamp,
) -> Fallible<Result<Vec<TurnId>, Conflict>> {
    let moving = query(MOVE_ON)
        .bind(&batch.source)
        .bind(batch.worker.0)
        .bind(&batch.position)
        .bind(micros(now));
    if moving.execute(&mut *conn).await? == 0 {
        return Ok(Err(Conflict::LeaseLost));
    }
    let moved: Vec<_> = batch
        .moved
        .iter()
        .map(|(session_key, moved_to)| MovedRow {
            session_key: session_key.as_str(),
            moved_to,
        })
        .collect();
    write_rows(conn, MOVE_CHATS, &moved).await?;
    let mut received = Vec::with_capacity(batch.messages.len());
    for message in batch.messages {
        received.push(turns::request(conn, message, None, now).await?);
    }
    Ok(Ok(received))
}

/// The chats that have moved, with their present address.
pub(super) async fn moved_chats(pool: &Pool) -> Fallible<Vec<(SessionKey, String)>> {
    let rows = query(MOVED).fetch_all(pool).await?;
    let pairs = rows.iter().map(|row| {
        let row = Columns::of(row, "addresses", "session_key");
        let session_key = row.get::<String>("session_key")?;
        Ok((SessionKey::from_stored(session_key), row.get("moved_to")?))
    });
    pairs.collect()
}
