//! The outbox as people see it: listing parts, and settling, retrying or cancelling one by hand.

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    ids::{IdempotencyKey, MessageId, PartId, RunId, SessionKey, TurnId},
    job::OnUnknown,
    message::{Origin, PartReason, PartState, is_message_id},
    store::{OutboxRow, OutboxScope, Resolution, StoreError},
};

use super::{
    claim::posted_by,
    connection::{Conn, Pool, Row},
    failure::Fallible,
    resolution::{self, Evidence},
    rows::{At, Columns, limit, micros, rows_for, set, write_rows},
    statement::{Statement, over_numbers, over_rows, over_texts, query},
};

macro_rules! listing {
    ($tail:literal) => {
        concat!(
            "SELECT p.part_id, p.message_id, p.part, o.parts, p.state, \
             p.state = 'sending' AND p.epoch IS NOT NULL AS under_way, p.reason, p.why, o.origin, \
             o.destination, p.session_key, p.idempotency_key, p.text, p.native IS NOT NULL AS native, \
             o.job_id, o.job_name, o.zone, o.run_id, o.turn_id, o.on_unknown, p.attempts, \
             o.enqueued_at, p.first_attempt_at, p.next_attempt_at, p.settled_at, p.channel_message_id, \
             EXISTS (SELECT 1 FROM diagnostics AS d WHERE d.part_id = p.part_id AND d.code = 'order') \
               AS settled_late, \
             EXISTS (SELECT 1 FROM diagnostics AS d WHERE d.part_id = p.part_id AND d.code = 'other-agent') \
               AS written_elsewhere ",
            $tail
        )
    };
}

// Three partial indexes, so that the open parts are found among any number of confirmed ones.
const OPEN: Statement = Statement::common(listing!(
    "FROM (SELECT part_id AS id FROM outbox_parts WHERE state IN ('pending', 'sending') \
     UNION ALL SELECT part_id FROM outbox_parts WHERE state = 'unknown' \
     UNION ALL SELECT part_id FROM outbox_parts WHERE state = 'failed') AS open \
     JOIN outbox_parts AS p ON p.part_id = open.id JOIN outbox AS o ON o.message_id = p.message_id \
     WHERE p.part_id > $1 ORDER BY p.part_id LIMIT $2"
));
const OPEN_COUNTS: Statement = Statement::common(
    "SELECT state, count(*) AS parts FROM outbox_parts WHERE state IN ('pending', 'sending') GROUP BY state \
     UNION ALL SELECT state, count(*) FROM outbox_parts WHERE state = 'unknown' GROUP BY state \
     UNION ALL SELECT state, count(*) FROM outbox_parts WHERE state = 'failed' GROUP BY state",
);
const ALL_BEFORE: Statement = Statement::common(listing!(
    "FROM outbox_parts AS p JOIN outbox AS o ON o.message_id = p.message_id \
     WHERE p.part_id < $1 ORDER BY p.part_id DESC LIMIT $2"
));
const ALL: Statement = Statement::common(listing!(
    "FROM outbox AS o JOIN outbox_parts AS p ON p.message_id = o.message_id \
     ORDER BY p.message_id, p.part"
));
const ONE: Statement = Statement::common(listing!(
    "FROM outbox_parts AS p JOIN outbox AS o ON o.message_id = p.message_id WHERE p.part_id = $1"
));
const OF_MESSAGE: Statement = Statement::common(listing!(
    "FROM outbox AS o JOIN outbox_parts AS p ON p.message_id = o.message_id \
     WHERE o.message_id = $1 ORDER BY p.part"
));
const OF_RUN: Statement = Statement::common(listing!(
    "FROM outbox AS o JOIN outbox_parts AS p ON p.message_id = o.message_id \
     WHERE o.run_id = $1 ORDER BY p.message_id, p.part"
));
const OF_TURN: Statement = Statement::common(listing!(
    "FROM outbox AS o JOIN outbox_parts AS p ON p.message_id = o.message_id \
     WHERE o.turn_id = $1 ORDER BY p.message_id, p.part"
));
// Two sets, so that each is found by its partial index.
const SHOWN: Statement = Statement::common(concat!(
    listing!(
        "FROM outbox_parts AS p JOIN outbox AS o ON o.message_id = p.message_id \
         WHERE p.session_key = $1 AND p.state IN ('confirmed', 'unknown') UNION ALL "
    ),
    listing!(
        "FROM outbox_parts AS p JOIN outbox AS o ON o.message_id = p.message_id \
         WHERE p.session_key = $1 AND p.state = 'sending' ORDER BY 2, 3"
    )
));

const CANCEL_REST: Statement = over_rows!(
    [message_id bigint, now bigint]
    "\
UPDATE outbox_parts SET state = 'cancelled', reason = 'rest-of-failed', settled_at = x.now
FROM",
    "\
WHERE outbox_parts.message_id = x.message_id AND outbox_parts.state = 'pending'
RETURNING entry_id"
);

const CANCEL_OF_JOBS: Statement = over_texts!(
    "\
UPDATE outbox_parts SET state = 'cancelled', reason = 'job-removed', settled_at = $2
WHERE state = 'pending' AND message_id IN (
  SELECT o.message_id FROM",
    "\
JOIN outbox AS o ON o.job_id = x.id
  WHERE NOT EXISTS (SELECT 1 FROM outbox_parts AS q
    WHERE q.message_id = o.message_id
      AND (q.in_doubt OR q.state IN ('sending', 'confirmed', 'unknown'))))
RETURNING entry_id"
);

// What waits behind words that a tool has sent is said already once each part of those was shown, or
// nobody can say.
const CANCEL_SAID: Statement = over_numbers!(
    "\
UPDATE outbox_parts SET state = 'cancelled', reason = 'said-already', settled_at = $2
WHERE state = 'pending' AND message_id IN (
  SELECT o.message_id FROM",
    "\
JOIN outbox AS o ON o.behind = x.id
  WHERE NOT EXISTS (SELECT 1 FROM outbox_parts AS q
    WHERE q.message_id = o.behind AND q.state NOT IN ('confirmed', 'unknown')))
RETURNING entry_id"
);

const CANCEL_FROM: Statement = Statement::common(
    "\
UPDATE outbox_parts SET state = 'cancelled', reason = $3, settled_at = $4
WHERE message_id = $1 AND part >= $2 AND state = 'pending'
RETURNING entry_id",
);

const RETRY_PART: Statement = Statement::common(
    "\
UPDATE outbox_parts SET state = 'pending', reason = NULL, in_doubt = FALSE, first_attempt_at = NULL,
  retried_at = $2, next_attempt_at = $2, settled_at = NULL
WHERE part_id = $1 RETURNING entry_id",
);

const RETRY_REST: Statement = Statement::common(
    "\
UPDATE outbox_parts SET state = 'pending', reason = NULL, retried_at = $3, next_attempt_at = $3,
  settled_at = NULL
WHERE message_id = $1 AND part > $2 AND state = 'cancelled' AND reason = 'rest-of-failed'
RETURNING entry_id",
);

const PENDING_AGAIN: Statement = over_numbers!(
    "\
UPDATE ctx_session_entries SET visibility = 'pending'
WHERE visibility = 'withheld' AND id IN (SELECT x.id FROM",
    ")"
);

const WITHHOLD: Statement = over_numbers!(
    "\
UPDATE ctx_session_entries SET visibility = 'withheld'
WHERE visibility = 'pending' AND id IN (SELECT x.id FROM",
    ")"
);

const LIFT_STOP: Statement =
    Statement::common("UPDATE addresses SET stopped_at = NULL, why = NULL WHERE session_key = $1");

const KEEP_WORD: Statement = Statement::common(
    "\
UPDATE outbox_parts SET resolution = coalesce(resolution, $2) WHERE part_id = $1",
);

/// The word stored for what is done in doubt.
pub(super) fn on_unknown_word(choice: OnUnknown) -> &'static str {
    match choice {
        OnUnknown::Hold => "hold",
        OnUnknown::Resend => "resend",
    }
}

pub(super) fn on_unknown(word: &str) -> Option<OnUnknown> {
    [OnUnknown::Hold, OnUnknown::Resend]
        .into_iter()
        .find(|choice| on_unknown_word(*choice) == word)
}

/// How many parts are in each state that needs something.
pub(super) async fn open_parts(pool: &Pool) -> Fallible<Vec<(PartState, u64)>> {
    let rows = query(OPEN_COUNTS).fetch_all(pool).await?;
    let count = |row: &Row| {
        let row = Columns::of(row, "outbox_parts", "state");
        let state = row.word("state", PartState::from_stored)?;
        Ok((state, u64::from(row.count("parts")?)))
    };
    rows.iter().map(count).collect()
}

pub(super) async fn list(pool: &Pool, scope: OutboxScope) -> Fallible<Vec<OutboxRow>> {
    let query = match scope {
        OutboxScope::Open => query(OPEN).bind(i64::MIN).bind(i64::MAX),
        OutboxScope::OpenAfter(PartId(id), most) => query(OPEN).bind(id).bind(limit(most)),
        OutboxScope::AllBefore(PartId(id), most) => query(ALL_BEFORE).bind(id).bind(limit(most)),
        OutboxScope::All => query(ALL),
        OutboxScope::One(PartId(id)) => query(ONE).bind(id),
        OutboxScope::Message(MessageId(id)) => query(OF_MESSAGE).bind(id),
    };
    rows(query.fetch_all(pool).await?)
}

pub(super) async fn of_run(pool: &Pool, run: RunId) -> Fallible<Vec<OutboxRow>> {
    rows(query(OF_RUN).bind(run.0).fetch_all(pool).await?)
}

pub(super) async fn of_turn(pool: &Pool, turn: TurnId) -> Fallible<Vec<OutboxRow>> {
    rows(query(OF_TURN).bind(turn.0).fetch_all(pool).await?)
}

pub(super) async fn shown(pool: &Pool, session: &SessionKey) -> Fallible<Vec<OutboxRow>> {
    let query = query(SHOWN).bind(session.as_str());
    rows(query.fetch_all(pool).await?)
}

fn rows(found: Vec<Row>) -> Fallible<Vec<OutboxRow>> {
    found.iter().map(outbox_row).collect()
}

fn outbox_row(row: &Row) -> Fallible<OutboxRow> {
    let row = Columns::of(row, "outbox_parts", "part_id");
    Ok(OutboxRow {
        part_id: PartId(row.get("part_id")?),
        message_id: MessageId(row.get("message_id")?),
        part: row.count("part")?,
        parts: row.count("parts")?,
        state: row.word("state", PartState::from_stored)?,
        under_way: row.get("under_way")?,
        reason: row.get("reason")?,
        why: row.get("why")?,
        origin: row.word("origin", Origin::from_stored)?,
        destination: row.json("destination")?,
        session_key: SessionKey::from_stored(row.get::<String>("session_key")?),
        key: IdempotencyKey::from_stored(row.get::<String>("idempotency_key")?),
        text: row.get("text")?,
        native: row.get("native")?,
        posted_by: posted_by(&row)?,
        run_id: row.get::<Option<i64>>("run_id")?.map(RunId),
        turn_id: row.get::<Option<i64>>("turn_id")?.map(TurnId),
        on_unknown: row.word("on_unknown", on_unknown)?,
        attempts: row.count("attempts")?,
        enqueued_at: row.instant("enqueued_at")?,
        first_attempt_at: row.instant_or_none("first_attempt_at")?,
        next_attempt_at: row.instant("next_attempt_at")?,
        settled_at: row.instant_or_none("settled_at")?,
        channel_message_id: row.get("channel_message_id")?,
        settled_late: row.get("settled_late")?,
        written_elsewhere: row.get("written_elsewhere")?,
    })
}

#[derive(Serialize)]
struct FailedMessage {
    message_id: i64,
    now: i64,
}

/// Cancels what is pending of messages of which a part failed; returns the rows to withhold.
pub(super) async fn cancel_rest(conn: &mut Conn, messages: &[At<i64>]) -> Fallible<Vec<i64>> {
    let messages: Vec<_> = messages
        .iter()
        .map(|message| FailedMessage {
            message_id: message.item,
            now: micros(message.now),
        })
        .collect();
    entry_ids(&rows_for(conn, CANCEL_REST, &messages).await?)
}

/// Cancels what removed jobs have not begun to send; returns the rows to withhold.
pub(super) async fn cancel_of_jobs(
    conn: &mut Conn,
    jobs: &[String],
    now: Timestamp,
) -> Fallible<Vec<i64>> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let query = query(CANCEL_OF_JOBS)
        .bind(serde_json::to_string(jobs)?)
        .bind(micros(now));
    entry_ids(&query.fetch_all(&mut *conn).await?)
}

/// Cancels what waits behind these messages, as far as they are shown; returns the rows to withhold.
pub(super) async fn cancel_said(
    conn: &mut Conn,
    messages: &[i64],
    settled_at: i64,
) -> Fallible<Vec<i64>> {
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    let query = set(CANCEL_SAID, messages)?.bind(settled_at);
    entry_ids(&query.fetch_all(&mut *conn).await?)
}

pub(super) fn entry_ids(rows: &[Row]) -> Fallible<Vec<i64>> {
    let mut ids = Vec::new();
    for row in rows {
        ids.extend(row.try_get::<Option<i64>>("entry_id")?);
    }
    Ok(ids)
}

/// A part that a person names; the inner error is his.
async fn named(
    conn: &mut Conn,
    part: PartId,
    wanted: &[PartState],
    accepted: &'static str,
) -> Fallible<Result<OutboxRow, StoreError>> {
    let row = query(ONE).bind(part.0).fetch_optional(&mut *conn).await?;
    let Some(row) = row else {
        return Ok(Err(StoreError::NoSuchPart { part }));
    };
    let row = outbox_row(&row)?;
    if !wanted.contains(&row.state) {
        return Ok(Err(StoreError::WrongPartState {
            part,
            found: row.state,
            accepted,
        }));
    }
    Ok(Ok(row))
}

pub(super) async fn resolve(
    conn: &mut Conn,
    part: PartId,
    word: Resolution,
    now: Timestamp,
) -> Fallible<Result<(), StoreError>> {
    let accepted = "only a part in doubt can be resolved: an unknown one, or one between two tries";
    let row = match named(
        conn,
        part,
        &[PartState::Unknown, PartState::Sending],
        accepted,
    )
    .await?
    {
        Ok(row) => row,
        Err(error) => return Ok(Err(error)),
    };
    // Whoever sends it now may have it shown after the person has looked. Between two tries nobody
    // sends it, and with a word about it nobody begins to.
    if row.under_way {
        return Ok(Err(StoreError::PartUnderWay { part }));
    }
    if let Resolution::Shown {
        message_id: Some(id),
        ..
    } = &word
        && !is_message_id(id)
    {
        return Ok(Err(StoreError::NoMessageId { found: id.len() }));
    }
    // A receipt that waits already is better evidence than a person's word.
    query(KEEP_WORD)
        .bind(part.0)
        .bind(serde_json::to_string(&Evidence::Word(word))?)
        .execute(&mut *conn)
        .await?;
    resolution::apply_in_free_lanes(conn, now).await?;
    Ok(Ok(()))
}

pub(super) async fn retry(
    conn: &mut Conn,
    part: PartId,
    now: Timestamp,
) -> Fallible<Result<(), StoreError>> {
    let accepted = "only a failed or a pending part can be sent now";
    let row = match named(
        conn,
        part,
        &[PartState::Failed, PartState::Pending],
        accepted,
    )
    .await?
    {
        Ok(row) => row,
        Err(error) => return Ok(Err(error)),
    };
    let one = query(RETRY_PART).bind(part.0).bind(micros(now));
    let mut entries = entry_ids(&one.fetch_all(&mut *conn).await?)?;
    let rest = query(RETRY_REST)
        .bind(row.message_id.0)
        .bind(row.part)
        .bind(micros(now));
    entries.extend(entry_ids(&rest.fetch_all(&mut *conn).await?)?);
    write_rows(conn, PENDING_AGAIN, &entries).await?;
    query(LIFT_STOP)
        .bind(row.session_key.as_str())
        .execute(&mut *conn)
        .await?;
    Ok(Ok(()))
}

pub(super) async fn cancel(
    conn: &mut Conn,
    part: PartId,
    now: Timestamp,
) -> Fallible<Result<(), StoreError>> {
    let accepted = "only a pending part can be cancelled";
    let row = match named(conn, part, &[PartState::Pending], accepted).await? {
        Ok(row) => row,
        Err(error) => return Ok(Err(error)),
    };
    let query = query(CANCEL_FROM)
        .bind(row.message_id.0)
        .bind(row.part)
        .bind(PartReason::ByHand.as_str())
        .bind(micros(now));
    let entries = entry_ids(&query.fetch_all(&mut *conn).await?)?;
    write_rows(conn, WITHHOLD, &entries).await?;
    Ok(Ok(()))
}
