//! Jobs and chats, as they are read, and the chats of the jobs file as they are replaced.

use jiff::Timestamp;
use serde::Serialize;

#[cfg(feature = "postgres")]
use crate::store::{DueClaimant, DueKinds};
use crate::{
    directory::Chat,
    ids::JobId,
    store::{JobDigest, JobSource, StoredJob},
};

use super::{
    connection::{Conn, Pool, Row},
    failure::{Failure, Fallible},
    rows::{Columns, limit, micros, set, write_rows},
    statement::{Statement, over_rows, over_texts, query, query_scalar},
};

macro_rules! jobs {
    ($tail:literal) => {
        concat!(
            "SELECT j.job_id, j.incarnation, j.revision, j.version, j.source, j.first_seen_at, \
             j.state, j.wake_at, j.removed_at, d.definition ",
            $tail
        )
    };
}

pub(in crate::store) const DUE: Statement = Statement::common(jobs!(
    "FROM jobs AS j JOIN definitions AS d ON d.digest = j.digest \
     WHERE j.wake_at IS NOT NULL AND j.removed_at IS NULL AND j.wake_at <= $1 \
       AND j.wake_at > $3 \
     ORDER BY j.wake_at, j.job_id LIMIT $2"
));
/// What another worker has not claimed: `$4` is the one that asks. With `$5` only those jobs of which
/// no slot depends on zone data.
#[cfg(feature = "postgres")]
macro_rules! free_to {
    ($before:literal, $worker:literal, $no_zones:literal, $after:literal) => {
        concat!(
            $before,
            " j.wake_at IS NOT NULL AND j.removed_at IS NULL
  AND (j.claimed_until IS NULL OR j.claimed_version <> j.version OR j.claimed_by = ",
            $worker,
            " OR j.claimed_until <= CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT))
  AND (NOT ",
            $no_zones,
            " OR EXISTS (SELECT 1 FROM definitions AS d WHERE d.digest = j.digest
    AND d.definition::json #> '{schedule,when,every}' IS NOT NULL))",
            $after
        )
    };
}

#[cfg(feature = "postgres")]
const CLAIM_DUE: Statement = Statement::on_server(concat!(
    free_to!(
        "WITH due AS (SELECT j.job_id FROM jobs AS j WHERE j.wake_at <= $1 AND j.wake_at > $3 AND",
        "$4",
        "$5",
        " ORDER BY j.wake_at, j.job_id LIMIT $2 FOR UPDATE SKIP LOCKED),
claimed AS (
  UPDATE jobs SET claimed_by = $4, claimed_version = version,
    claimed_until = CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT) + $6
  FROM due WHERE jobs.job_id = due.job_id RETURNING jobs.*)
"
    ),
    jobs!(
        "FROM claimed AS j JOIN definitions AS d ON d.digest = j.digest \
         ORDER BY j.wake_at, j.job_id"
    )
));

#[cfg(feature = "postgres")]
const NEXT_WAKE_OF: Statement = Statement::on_server(free_to!(
    "SELECT j.wake_at FROM jobs AS j WHERE",
    "$1",
    "$2",
    " ORDER BY j.wake_at LIMIT 1"
));

/// For how long a claim keeps others from deciding about the same job, in microseconds: longer than
/// a batch of decisions takes. What a dead worker has claimed is free when it is taken over from.
#[cfg(feature = "postgres")]
const CLAIM: i64 = 5_000_000;

const NAMED: Statement = Statement::of(
    jobs!(
        "FROM json_each($1) AS x JOIN jobs AS j ON j.job_id = x.value \
         JOIN definitions AS d ON d.digest = j.digest ORDER BY x.key"
    ),
    jobs!(
        "FROM json_array_elements_text($1::json) WITH ORDINALITY AS x (value, key) \
         JOIN jobs AS j ON j.job_id = x.value \
         JOIN definitions AS d ON d.digest = j.digest ORDER BY x.key"
    ),
);
const ALL: Statement = Statement::common(jobs!(
    "FROM jobs AS j JOIN definitions AS d ON d.digest = j.digest \
     WHERE j.removed_at IS NULL ORDER BY j.job_id"
));

const AFTER: Statement = Statement::common(jobs!(
    "FROM jobs AS j JOIN definitions AS d ON d.digest = j.digest \
     WHERE j.removed_at IS NULL AND j.job_id > $1 ORDER BY j.job_id LIMIT $2"
));

const NEXT_WAKE: Statement = Statement::common(
    "\
SELECT min(wake_at) AS wake_at FROM jobs WHERE wake_at IS NOT NULL AND removed_at IS NULL",
);

// One row for all jobs: a worker that starts reads a hundred thousand of them.
const DIGESTS: Statement = Statement::of(
    "\
SELECT json_group_array(json_array(job_id, source, digest)) FROM jobs WHERE removed_at IS NULL",
    "\
SELECT coalesce(json_agg(json_build_array(job_id, source, digest)), '[]')::text
FROM jobs WHERE removed_at IS NULL",
);

const REMOVE_CHATS: Statement = over_texts!(
    "\
UPDATE chats SET removed_at = $2 WHERE removed_at IS NULL
  AND session_key NOT IN (SELECT x.id FROM",
    ")"
);

// Two chats may swap their names, and names are unique among chats that are not removed.
const SET_ASIDE: Statement = Statement::common(
    "\
UPDATE chats SET removed_at = 0 WHERE removed_at IS NULL",
);

const UPSERT_CHATS: Statement = over_rows!(
    [session_key text, name text, chat text, agent text]
    "\
INSERT INTO chats (session_key, name, chat, agent)
SELECT x.session_key, x.name, x.chat, x.agent
FROM",
    "\
WHERE true
ON CONFLICT (session_key) DO UPDATE SET name = excluded.name, chat = excluded.chat,
  agent = excluded.agent, removed_at = NULL"
);

const CHATS: Statement = Statement::common(
    "\
SELECT session_key, chat FROM chats WHERE removed_at IS NULL ORDER BY name",
);

pub(super) async fn after(
    pool: &Pool,
    after: Option<&JobId>,
    most: usize,
) -> Fallible<Vec<StoredJob>> {
    // Every id comes after nothing.
    let after = after.map_or("", JobId::as_str);
    let query = query(AFTER).bind(after.to_owned()).bind(limit(most));
    decode(&query.fetch_all(pool).await?)
}

pub(super) async fn due(
    pool: &Pool,
    after: Timestamp,
    now: Timestamp,
    most: usize,
) -> Fallible<Vec<StoredJob>> {
    let query = query(DUE)
        .bind(micros(now))
        .bind(limit(most))
        .bind(micros(after));
    decode(&query.fetch_all(pool).await?)
}

/// Claims due jobs that no other worker has claimed.
#[cfg(feature = "postgres")]
pub(super) async fn claim_due(
    aside: &Pool,
    by: DueClaimant,
    (after, now): (Timestamp, Timestamp),
    most: usize,
) -> Fallible<Vec<StoredJob>> {
    let query = query(CLAIM_DUE)
        .bind(micros(now))
        .bind(limit(most))
        .bind(micros(after))
        .bind(by.worker.0)
        .bind(by.kinds == DueKinds::WithoutZones)
        .bind(CLAIM);
    decode(&query.fetch_all(aside).await?)
}

/// When the next job is due that no other worker has claimed.
#[cfg(feature = "postgres")]
pub(super) async fn next_wake_of(pool: &Pool, by: DueClaimant) -> Fallible<Option<Timestamp>> {
    let row = query(NEXT_WAKE_OF)
        .bind(by.worker.0)
        .bind(by.kinds == DueKinds::WithoutZones)
        .fetch_optional(pool)
        .await?;
    let Some(row) = row else { return Ok(None) };
    Columns::of(&row, "jobs", "wake_at").instant_or_none("wake_at")
}

pub(super) async fn named(pool: &Pool, ids: &[JobId]) -> Fallible<Vec<StoredJob>> {
    let query = query(NAMED).bind(serde_json::to_string(ids)?);
    decode(&query.fetch_all(pool).await?)
}

pub(super) async fn all(pool: &Pool) -> Fallible<Vec<StoredJob>> {
    decode(&query(ALL).fetch_all(pool).await?)
}

pub(super) async fn digests(pool: &Pool) -> Fallible<Vec<JobDigest>> {
    let rows: String = query_scalar(DIGESTS).fetch_one(pool).await?;
    let rows: Vec<[String; 3]> = serde_json::from_str(&rows)?;
    let digests = rows.into_iter().map(|[job_id, source, digest]| {
        let bad = |column, found: &str| Failure::corrupt("jobs", &job_id, column, found);
        let source = JobSource::from_stored(&source).ok_or_else(|| bad("source", &source))?;
        Ok(JobDigest {
            job_id: JobId::new(&*job_id).map_err(|_| bad("job_id", &job_id))?,
            source,
            digest,
        })
    });
    digests.collect()
}

pub(super) async fn next_wake(pool: &Pool) -> Fallible<Option<Timestamp>> {
    let row = query(NEXT_WAKE).fetch_one(pool).await?;
    Columns::of(&row, "jobs", "wake_at").instant_or_none("wake_at")
}

fn decode(rows: &[Row]) -> Fallible<Vec<StoredJob>> {
    rows.iter().map(stored_job).collect()
}

fn stored_job(row: &Row) -> Fallible<StoredJob> {
    let row = Columns::of(row, "jobs", "job_id");
    Ok(StoredJob {
        job: row.json("definition")?,
        incarnation: row.get("incarnation")?,
        revision: row.get("revision")?,
        version: row.get("version")?,
        source: row.word("source", JobSource::from_stored)?,
        state: row.json("state")?,
        first_seen_at: row.instant("first_seen_at")?,
        wake_at: row.instant_or_none("wake_at")?,
        removed_at: row.instant_or_none("removed_at")?,
    })
}

#[derive(Serialize)]
struct ChatRow<'c> {
    session_key: String,
    name: &'c str,
    chat: String,
    agent: &'c str,
}

/// Replaces the chats. A removed chat keeps its row: what is still under way there needs its agent.
pub(super) async fn set_chats(conn: &mut Conn, chats: &[Chat], now: Timestamp) -> Fallible<()> {
    let mut rows = Vec::with_capacity(chats.len());
    for chat in chats {
        rows.push(ChatRow {
            session_key: chat.session_key().as_str().to_owned(),
            name: chat.name.as_str(),
            chat: serde_json::to_string(chat)?,
            agent: chat.agent.as_str(),
        });
    }
    let keys: Vec<_> = rows.iter().map(|row| &row.session_key).collect();
    let removal = set(REMOVE_CHATS, &keys)?.bind(micros(now));
    removal.execute(&mut *conn).await?;
    query(SET_ASIDE).execute(&mut *conn).await?;
    write_rows(conn, UPSERT_CHATS, &rows).await
}

pub(super) async fn chats(pool: &Pool) -> Fallible<Vec<Chat>> {
    let rows = query(CHATS).fetch_all(pool).await?;
    rows.iter()
        .map(|row| Columns::of(row, "chats", "session_key").json("chat"))
        .collect()
}
