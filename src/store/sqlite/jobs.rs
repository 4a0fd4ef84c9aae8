//! Jobs and chats, as they are read, and the chats of the jobs file as they are replaced.

use jiff::Timestamp;
use serde::Serialize;
use sqlx::{SqliteConnection, SqlitePool, sqlite::SqliteRow};

use crate::{
    directory::Chat,
    ids::JobId,
    store::{JobDigest, JobSource, StoredJob},
};

use super::{
    failure::Fallible,
    rows::{Columns, limit, micros, write_rows},
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

pub(super) const DUE: &str = jobs!(
    "FROM jobs AS j JOIN definitions AS d ON d.digest = j.digest \
     WHERE j.wake_at IS NOT NULL AND j.removed_at IS NULL AND j.wake_at <= $1 \
     ORDER BY j.wake_at, j.job_id LIMIT $2"
);
const NAMED: &str = jobs!(
    "FROM json_each($1) AS x JOIN jobs AS j ON j.job_id = x.value \
     JOIN definitions AS d ON d.digest = j.digest ORDER BY x.key"
);
const ALL: &str = jobs!(
    "FROM jobs AS j JOIN definitions AS d ON d.digest = j.digest \
     WHERE j.removed_at IS NULL ORDER BY j.job_id"
);

const DIGESTS: &str = "\
SELECT job_id, source, digest FROM jobs WHERE removed_at IS NULL";

const NEXT_WAKE: &str = "\
SELECT min(wake_at) AS wake_at FROM jobs WHERE wake_at IS NOT NULL AND removed_at IS NULL";

const REMOVE_CHATS: &str = "\
UPDATE chats SET removed_at = $2 WHERE removed_at IS NULL
  AND session_key NOT IN (SELECT x.value ->> 'session_key' FROM json_each($1) AS x)";

// Two chats may swap their names, and names are unique among chats that are not removed.
const SET_ASIDE: &str = "\
UPDATE chats SET removed_at = 0 WHERE removed_at IS NULL";

const UPSERT_CHATS: &str = "\
INSERT INTO chats (session_key, name, chat, agent)
SELECT x.value ->> 'session_key', x.value ->> 'name', x.value ->> 'chat', x.value ->> 'agent'
FROM json_each($1) AS x WHERE true
ON CONFLICT (session_key) DO UPDATE SET name = excluded.name, chat = excluded.chat,
  agent = excluded.agent, removed_at = NULL";

const CHATS: &str = "\
SELECT session_key, chat FROM chats WHERE removed_at IS NULL ORDER BY name";

pub(super) async fn due(
    pool: &SqlitePool,
    now: Timestamp,
    most: usize,
) -> Fallible<Vec<StoredJob>> {
    let query = sqlx::query(DUE).bind(micros(now)).bind(limit(most));
    decode(&query.fetch_all(pool).await?)
}

pub(super) async fn named(pool: &SqlitePool, ids: &[JobId]) -> Fallible<Vec<StoredJob>> {
    let query = sqlx::query(NAMED).bind(serde_json::to_string(ids)?);
    decode(&query.fetch_all(pool).await?)
}

pub(super) async fn all(pool: &SqlitePool) -> Fallible<Vec<StoredJob>> {
    decode(&sqlx::query(ALL).fetch_all(pool).await?)
}

pub(super) async fn digests(pool: &SqlitePool) -> Fallible<Vec<JobDigest>> {
    let rows = sqlx::query(DIGESTS).fetch_all(pool).await?;
    let digests = rows.iter().map(|row| {
        let row = Columns::of(row, "jobs", "job_id");
        Ok(JobDigest {
            job_id: row.word("job_id", |id| JobId::new(id).ok())?,
            source: row.word("source", JobSource::from_stored)?,
            digest: row.get("digest")?,
        })
    });
    digests.collect()
}

pub(super) async fn next_wake(pool: &SqlitePool) -> Fallible<Option<Timestamp>> {
    let row = sqlx::query(NEXT_WAKE).fetch_one(pool).await?;
    Columns::of(&row, "jobs", "wake_at").instant_or_none("wake_at")
}

fn decode(rows: &[SqliteRow]) -> Fallible<Vec<StoredJob>> {
    rows.iter().map(stored_job).collect()
}

fn stored_job(row: &SqliteRow) -> Fallible<StoredJob> {
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
pub(super) async fn set_chats(
    conn: &mut SqliteConnection,
    chats: &[Chat],
    now: Timestamp,
) -> Fallible<()> {
    let mut rows = Vec::with_capacity(chats.len());
    for chat in chats {
        rows.push(ChatRow {
            session_key: chat.session_key().as_str().to_owned(),
            name: chat.name.as_str(),
            chat: serde_json::to_string(chat)?,
            agent: chat.agent.as_str(),
        });
    }
    let removal = sqlx::query(REMOVE_CHATS)
        .bind(serde_json::to_string(&rows)?)
        .bind(micros(now));
    removal.execute(&mut *conn).await?;
    sqlx::query(SET_ASIDE).execute(&mut *conn).await?;
    write_rows(conn, UPSERT_CHATS, &rows).await
}

pub(super) async fn chats(pool: &SqlitePool) -> Fallible<Vec<Chat>> {
    let rows = sqlx::query(CHATS).fetch_all(pool).await?;
    rows.iter()
        .map(|row| Columns::of(row, "chats", "session_key").json("chat"))
        .collect()
}
