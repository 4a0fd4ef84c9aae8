//! Resets: a session's next generation.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::{ids::SessionKey, message::PartReason, store::UnderWay};

use super::{
    claim::{CLAIMED_RUNS, claimed_run},
    connection::{Conn, Pool},
    entries::Book,
    failure::Fallible,
    outbox, resolution,
    rows::{micros, rows_for},
    statement::{Statement, query, query_scalar},
};

const REQUEST: Statement = Statement::common(
    "\
INSERT INTO reset_requests (session_key, requested_at) VALUES ($1, $2)
ON CONFLICT (session_key) DO NOTHING",
);

const REQUESTED: Statement =
    Statement::common("SELECT session_key FROM reset_requests ORDER BY requested_at, session_key");

const DONE: Statement =
    Statement::common("DELETE FROM reset_requests WHERE session_key = $1 RETURNING session_key");

const RUNNING_IN: Statement = Statement::common(
    "SELECT run_id FROM runs WHERE state = 'running' AND lane = $1 ORDER BY run_id",
);

const SENDING_IN: Statement = Statement::common(
    "SELECT session_key FROM lanes WHERE session_key = $1 AND holder LIKE 'part:%'",
);

const CANCEL_TURN: Statement = Statement::common(
    "\
UPDATE turns SET state = 'cancelled', epoch = epoch + 1, ended_at = $2, error = 'the chat was reset'
WHERE session_key = $1 AND state = 'running'",
);

const FREE_OF_TURN: Statement = Statement::common(
    "\
UPDATE lanes SET holder = NULL, worker_id = NULL, taken_at = NULL
WHERE session_key = $1 AND holder LIKE 'turn:%'",
);

const CANCEL_REPLIES: Statement = Statement::common(
    "\
UPDATE outbox_parts SET state = 'cancelled', reason = $2, settled_at = $3
WHERE part_id IN (
  SELECT p.part_id FROM outbox_parts AS p JOIN outbox AS o ON o.message_id = p.message_id
  WHERE p.session_key = $1 AND p.state IN ('pending', 'sending') AND p.state = 'pending'
    AND (o.origin = 'turn_reply' OR o.origin = 'message_tool' AND p.begun))
RETURNING entry_id",
);

pub(super) async fn request(conn: &mut Conn, session: &SessionKey, now: Timestamp) -> Fallible<()> {
    let query = query(REQUEST).bind(session.as_str()).bind(micros(now));
    query.execute(&mut *conn).await?;
    Ok(())
}

pub(super) async fn requested(pool: &Pool) -> Fallible<Vec<SessionKey>> {
    let keys: Vec<String> = query_scalar(REQUESTED).fetch_all(pool).await?;
    Ok(keys.into_iter().map(SessionKey::from_stored).collect())
}

/// Raises the generation. What was being sent still settles, into the new generation.
pub(super) async fn reset(
    conn: &mut Conn,
    session: &SessionKey,
    now: Timestamp,
) -> Fallible<Option<i64>> {
    let key = session.as_str();
    let done = query(DONE).bind(key).fetch_optional(&mut *conn);
    if done.await?.is_none() {
        return Ok(None);
    }
    let turn = query(CANCEL_TURN).bind(key).bind(micros(now));
    turn.execute(&mut *conn).await?;
    let lane = query(FREE_OF_TURN).bind(key);
    lane.execute(&mut *conn).await?;
    let replies = query(CANCEL_REPLIES)
        .bind(key)
        .bind(PartReason::Reset.as_str())
        .bind(micros(now))
        .fetch_all(&mut *conn)
        .await?;
    let mut book = Book::open(conn, &BTreeSet::from([key.to_owned()])).await?;
    for entry in outbox::entry_ids(&replies)? {
        book.withhold(entry);
    }
    let generation = book.next_generation(key, now);
    book.write(conn).await?;
    resolution::apply_in_free_lanes(conn, now).await?;
    Ok(Some(generation))
}

/// What is under way in a session.
pub(super) async fn under_way(conn: &mut Conn, session: &SessionKey) -> Fallible<UnderWay> {
    let key = session.as_str();
    let runs: Vec<i64> = query_scalar(RUNNING_IN)
        .bind(key)
        .fetch_all(&mut *conn)
        .await?;
    let runs = rows_for(conn, CLAIMED_RUNS, &runs).await?;
    let sending = query(SENDING_IN).bind(key).fetch_optional(&mut *conn);
    Ok(UnderWay {
        runs: runs.iter().map(claimed_run).collect::<Fallible<_>>()?,
        is_sending: sending.await?.is_some(),
    })
}
