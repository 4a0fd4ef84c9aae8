//! Reading session rows: each reading of history is a query of its own.
//!
//! A row without `visibility` is older than the column: visible where a person triggered it or
//! nobody said, else internal.

use crate::{
    ids::{IdempotencyKey, JobId, RunId, SessionKey, TurnId},
    message::Origin,
    store::{TurnCount, WindowOf},
    transcript::{Block, Content, Entry, Provenance, Role, TriggerSource, Visibility},
};

use super::{
    connection::{Pool, Row},
    failure::Fallible,
    rows::{Columns, limit},
    statement::{Statement, query},
};

macro_rules! columns {
    () => {
        "s.session_key, s.generation, CAST(e.id AS BIGINT) AS id, CAST(e.seq AS BIGINT) AS seq, e.role, e.message, e.content_kind, \
         CASE WHEN e.visibility IS NOT NULL THEN e.visibility \
           WHEN e.trigger_source IS NULL OR e.trigger_source = 'user' THEN 'visible' \
           ELSE 'internal' END AS visibility, \
         CAST(e.created_at AS TEXT) AS created_at, CAST(e.shown_at AS TEXT) AS shown_at, e.channel_message_id, e.trigger_source, e.origin, \
         e.posted_by_job, e.posting_note, e.sender_display, e.sender_id_raw, e.turn_id, e.run_id, \
         e.attempt, e.idempotency_key, \
         CASE e.role WHEN 'user' THEN CAST(e.raw_entry AS TEXT) END AS raw_entry"
    };
}

// The newest generation, walked backwards from its end: the rest of it is not read.
macro_rules! last_of_newest {
    ($condition:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM ctx_session_entries AS e JOIN ctx_sessions AS s ON s.session_id = e.session_id \
             WHERE e.session_id = (SELECT n.session_id FROM ctx_sessions AS n \
               WHERE n.session_key = $1 ORDER BY n.generation DESC LIMIT 1) AND ",
            $condition,
            " ORDER BY e.seq DESC LIMIT $2"
        )
    };
}

pub(in crate::store) const RECALL: Statement = Statement::common(last_of_newest!(
    "(e.visibility IN ('visible', 'interior') OR (e.visibility IS NULL \
      AND (e.trigger_source IS NULL OR e.trigger_source = 'user')))"
));

const VISIBLE_TEXTS: Statement = Statement::common(last_of_newest!(
    "(e.visibility = 'visible' OR (e.visibility IS NULL \
      AND (e.trigger_source IS NULL OR e.trigger_source = 'user'))) \
     AND e.role IN ('user', 'assistant') AND coalesce(e.content_kind, 'text') = 'text' \
     AND e.message <> ''"
));

// An attempt's row in `attempts` may be pruned before the rows of its session are.
const JOB_MEMORY: Statement = Statement::common(last_of_newest!(
    "e.run_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM attempts AS a \
       WHERE a.run_id = e.run_id AND a.attempt = e.attempt \
         AND coalesce(a.result, '') NOT IN ('done', 'silent'))"
));

const TRANSCRIPT: Statement = Statement::common(concat!(
    "SELECT ",
    columns!(),
    " FROM ctx_sessions AS s JOIN ctx_session_entries AS e ON e.session_id = s.session_id \
     WHERE s.session_key = $1 AND ($2 OR e.visibility = 'visible' OR (e.visibility IS NULL \
       AND (e.trigger_source IS NULL OR e.trigger_source = 'user'))) \
     ORDER BY s.generation, e.seq"
));

// From the end, and no further than asked.
const TRANSCRIPT_BEFORE: Statement = Statement::common(concat!(
    "SELECT ",
    columns!(),
    " FROM ctx_sessions AS s JOIN ctx_session_entries AS e ON e.session_id = s.session_id \
     WHERE s.session_key = $1 AND ($2 OR e.visibility = 'visible' OR (e.visibility IS NULL \
       AND (e.trigger_source IS NULL OR e.trigger_source = 'user'))) \
       AND (s.generation < $3 OR s.generation = $3 AND e.seq < $4) \
     ORDER BY s.generation DESC, e.seq DESC LIMIT $5"
));

// Every turn begins with a row in the user's role; a run writes one for each attempt.
const TURN_COUNTS: Statement = Statement::common(
    "\
SELECT s.session_key, coalesce(e.trigger_source, 'user') AS trigger_source,
  count(DISTINCT coalesce('run:' || e.run_id, 'row:' || e.id)) AS turns,
  CAST(max(e.created_at) AS TEXT) AS last_at
FROM ctx_session_entries AS e JOIN ctx_sessions AS s ON s.session_id = e.session_id
WHERE e.role = 'user' AND e.entry_type = 'message'
  AND coalesce(e.visibility, 'visible') NOT IN ('pending', 'withheld')
GROUP BY 1, 2 ORDER BY 1, 2",
);

#[cfg(feature = "testing")]
const OF_TURN: Statement = Statement::common(concat!(
    "SELECT ",
    columns!(),
    " FROM ctx_session_entries AS e JOIN ctx_sessions AS s ON s.session_id = e.session_id \
     WHERE e.turn_id = $1 ORDER BY s.generation, e.seq"
));

pub(super) async fn recall(pool: &Pool, session: &SessionKey, most: usize) -> Fallible<Vec<Entry>> {
    last(pool, RECALL, session, most).await
}

pub(super) async fn visible_texts(
    pool: &Pool,
    session: &SessionKey,
    most: usize,
) -> Fallible<Vec<Entry>> {
    last(pool, VISIBLE_TEXTS, session, most).await
}

pub(super) async fn job_memory(pool: &Pool, job: &JobId, most: usize) -> Fallible<Vec<Entry>> {
    last(pool, JOB_MEMORY, &SessionKey::job(job), most).await
}

async fn last(
    pool: &Pool,
    statement: Statement,
    session: &SessionKey,
    most: usize,
) -> Fallible<Vec<Entry>> {
    let query = query(statement).bind(session.as_str()).bind(limit(most));
    let mut entries = entries(&query.fetch_all(pool).await?)?;
    entries.reverse();
    Ok(entries)
}

pub(super) async fn transcript(
    pool: &Pool,
    session: &SessionKey,
    window: WindowOf,
) -> Fallible<Vec<Entry>> {
    let query = query(TRANSCRIPT)
        .bind(session.as_str())
        .bind(window == WindowOf::All);
    entries(&query.fetch_all(pool).await?)
}

pub(super) async fn transcript_before(
    pool: &Pool,
    session: &SessionKey,
    window: WindowOf,
    before: Option<(i64, i64)>,
    most: usize,
) -> Fallible<Vec<Entry>> {
    let (generation, seq) = before.unwrap_or((i64::MAX, i64::MAX));
    let query = query(TRANSCRIPT_BEFORE)
        .bind(session.as_str())
        .bind(window == WindowOf::All)
        .bind(generation)
        .bind(seq)
        .bind(limit(most));
    let mut entries = entries(&query.fetch_all(pool).await?)?;
    entries.reverse();
    Ok(entries)
}

pub(super) async fn turn_counts(pool: &Pool) -> Fallible<Vec<TurnCount>> {
    let rows = query(TURN_COUNTS).fetch_all(pool).await?;
    let count = |row: &Row| {
        let row = Columns::of(row, "ctx_session_entries", "session_key");
        Ok(TurnCount {
            session_key: SessionKey::from_stored(row.get::<String>("session_key")?),
            trigger: row.word("trigger_source", TriggerSource::from_stored)?,
            turns: u64::from(row.count("turns")?),
            last_at: row.text_instant("last_at")?,
        })
    };
    rows.iter().map(count).collect()
}

#[cfg(feature = "testing")]
pub(super) async fn of_turn(pool: &Pool, turn: TurnId) -> Fallible<Vec<Entry>> {
    entries(&query(OF_TURN).bind(turn.0).fetch_all(pool).await?)
}

fn entries(rows: &[Row]) -> Fallible<Vec<Entry>> {
    rows.iter().map(entry).collect()
}

fn entry(row: &Row) -> Fallible<Entry> {
    let row = Columns::of(row, "ctx_session_entries", "id");
    let content = content(&row)?;
    let raw: Option<String> = row.get("raw_entry")?;
    let framed = raw.as_deref().and_then(Content::of_raw_entry);
    Ok(Entry {
        session_key: SessionKey::from_stored(row.get::<String>("session_key")?),
        generation: row.get("generation")?,
        seq: row.get("seq")?,
        role: row.word("role", Role::from_stored)?,
        framed: framed.filter(|framed| *framed != content),
        content,
        visibility: row.word("visibility", Visibility::from_stored)?,
        provenance: provenance(&row)?,
        created_at: row.text_instant("created_at")?,
        shown_at: row.text_instant_or_none("shown_at")?,
        channel_message_id: row.get("channel_message_id")?,
    })
}

fn content(row: &Columns<'_>) -> Fallible<Content> {
    let kind: Option<String> = row.get("content_kind")?;
    match kind.as_deref() {
        Some("blocks") => row.json("message").map(Content::Blocks),
        Some("text") => row.get("message").map(Content::Text),
        None => row.get("message").map(older_content),
        Some(other) => Err(row.bad("content_kind", format_args!("`{other}`"))),
    }
}

/// Rows older than `content_kind` hold an array of typed blocks, or else plain words.
fn older_content(message: String) -> Content {
    let typed =
        |block: &Block| !matches!(block, Block::Opaque(value) if value.get("type").is_none());
    match serde_json::from_str::<Vec<Block>>(&message) {
        Ok(blocks) if !blocks.is_empty() && blocks.iter().all(typed) => Content::Blocks(blocks),
        Ok(_) | Err(_) => Content::Text(message),
    }
}

fn provenance(row: &Columns<'_>) -> Fallible<Provenance> {
    let key: Option<String> = row.get("idempotency_key")?;
    let attempt: Option<i64> = row.get("attempt")?;
    Ok(Provenance {
        trigger_source: row.word_or_none("trigger_source", TriggerSource::from_stored)?,
        origin: row.word_or_none("origin", Origin::from_stored)?,
        posted_by_job: row.word_or_none("posted_by_job", |id| JobId::new(id).ok())?,
        posting_note: row.get("posting_note")?,
        sender_display: row.get("sender_display")?,
        sender_id_raw: row.get("sender_id_raw")?,
        turn_id: row.get::<Option<i64>>("turn_id")?.map(TurnId),
        run_id: row.get::<Option<i64>>("run_id")?.map(RunId),
        attempt: match attempt {
            None => None,
            Some(_) => Some(row.count("attempt")?),
        },
        idempotency_key: key.map(IdempotencyKey::from_stored),
    })
}
