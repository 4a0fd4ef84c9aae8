//! Session rows on their way in: which generation they join, and which `seq` they get.
//!
//! A [`Book`] hands out places in memory, which is safe because the transaction it belongs to is the
//! only one that writes; it is written, by a statement a table, before the next one is opened.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use serde::Serialize;
use sqlx::{Row, SqliteConnection};

use crate::{
    store::EntryDraft,
    transcript::{Content, NewEntry, Role, TriggerSource, Visibility},
};

use super::{
    failure::Fallible,
    rows::{rows_for, text_instant, write_rows},
};

const NEWEST_GENERATIONS: &str = "\
SELECT s.session_key, s.session_id, s.generation, s.next_seq
FROM json_each($1) AS x JOIN ctx_sessions AS s ON s.session_key = x.value
WHERE s.generation = (SELECT max(m.generation) FROM ctx_sessions AS m WHERE m.session_key = x.value)";

const LAST_ROW: &str = "SELECT coalesce(max(id), 0) FROM ctx_session_entries";

const INSERT_SESSIONS: &str = "\
INSERT INTO ctx_sessions (session_id, session_key, agent_id, generation, next_seq, created_at)
SELECT x.value ->> 'session_id', x.value ->> 'session_key',
  coalesce((SELECT c.agent FROM chats AS c WHERE c.session_key = x.value ->> 'session_key'), x.value ->> 'agent'),
  x.value ->> 'generation', x.value ->> 'next_seq', x.value ->> 'created_at'
FROM json_each($1) AS x";

const UPDATE_SESSIONS: &str = "\
UPDATE ctx_sessions SET next_seq = x.value ->> 'next_seq'
FROM json_each($1) AS x WHERE ctx_sessions.session_id = x.value ->> 'session_id'";

const INSERT_ENTRIES: &str = "\
INSERT INTO ctx_session_entries (id, session_id, seq, role, entry_type, message, content_kind,
  raw_entry, created_at, trigger_source, is_automated, sender_display, sender_id_raw, visibility,
  chat_key, channel_message_id, shown_at, origin, posted_by_job, posting_note, turn_id, run_id,
  attempt, idempotency_key)
SELECT x.value ->> 'id', x.value ->> 'session_id', x.value ->> 'seq', x.value ->> 'role', 'message',
  x.value ->> 'message', x.value ->> 'content_kind', x.value ->> 'raw_entry', x.value ->> 'created_at',
  x.value ->> 'trigger_source', x.value ->> 'is_automated', x.value ->> 'sender_display',
  x.value ->> 'sender_id_raw', x.value ->> 'visibility', x.value ->> 'chat_key',
  x.value ->> 'channel_message_id', x.value ->> 'shown_at', x.value ->> 'origin',
  x.value ->> 'posted_by_job', x.value ->> 'posting_note', x.value ->> 'turn_id', x.value ->> 'run_id',
  x.value ->> 'attempt', x.value ->> 'idempotency_key'
FROM json_each($1) AS x";

// What asks a turn that no person began is nothing that a chat showed.
const SHOW_ENTRIES: &str = "\
UPDATE ctx_session_entries SET session_id = x.value ->> 'session_id', seq = x.value ->> 'seq',
  visibility = iif(role = 'user' AND is_automated, 'internal', 'visible'),
  chat_key = coalesce(x.value ->> 'chat_key', chat_key),
  channel_message_id = coalesce(x.value ->> 'channel_message_id', channel_message_id),
  shown_at = coalesce(x.value ->> 'shown_at', shown_at),
  posting_note = coalesce(x.value ->> 'posting_note', posting_note)
FROM json_each($1) AS x WHERE ctx_session_entries.id = x.value ->> 'id'";

const WITHHOLD: &str = "\
UPDATE ctx_session_entries SET visibility = 'withheld'
WHERE visibility = 'pending' AND id IN (SELECT x.value FROM json_each($1) AS x)";

/// A row that is inserted; its place is given by the book.
#[derive(Debug, Default, Serialize)]
pub(super) struct NewRow {
    pub(super) id: i64,
    pub(super) session_id: String,
    pub(super) seq: i64,
    pub(super) role: &'static str,
    pub(super) message: String,
    pub(super) content_kind: &'static str,
    pub(super) raw_entry: Option<String>,
    pub(super) created_at: String,
    pub(super) trigger_source: Option<&'static str>,
    pub(super) is_automated: Option<bool>,
    pub(super) sender_display: Option<String>,
    pub(super) sender_id_raw: Option<String>,
    pub(super) visibility: &'static str,
    pub(super) chat_key: Option<String>,
    pub(super) channel_message_id: Option<String>,
    pub(super) shown_at: Option<String>,
    pub(super) origin: Option<String>,
    pub(super) posted_by_job: Option<String>,
    pub(super) posting_note: Option<String>,
    pub(super) turn_id: Option<i64>,
    pub(super) run_id: Option<i64>,
    pub(super) attempt: Option<u32>,
    pub(super) idempotency_key: Option<String>,
}

impl NewRow {
    /// Plain words.
    pub(super) fn text(
        role: Role,
        text: impl Into<String>,
        seen: Visibility,
        now: Timestamp,
    ) -> Self {
        Self {
            role: role.as_str(),
            message: text.into(),
            content_kind: "text",
            visibility: seen.as_str(),
            created_at: text_instant(now),
            ..Self::default()
        }
    }

    /// Words or blocks.
    pub(super) fn content(
        role: Role,
        content: Content,
        seen: Visibility,
        now: Timestamp,
    ) -> Fallible<Self> {
        let (message, content_kind) = match content {
            Content::Text(text) => (text, "text"),
            Content::Blocks(blocks) => (serde_json::to_string(&blocks)?, "blocks"),
        };
        Ok(Self {
            content_kind,
            ..Self::text(role, message, seen, now)
        })
    }

    /// A row of an attempt or a turn, as its caller drafted it.
    pub(super) fn draft(draft: EntryDraft, now: Timestamp) -> Fallible<Self> {
        let NewEntry { role, content, .. } = draft.entry;
        let row = Self::content(role, content, draft.visibility, now)?;
        Ok(row.triggered_by(Some(draft.trigger_source)))
    }

    pub(super) fn triggered_by(self, source: Option<TriggerSource>) -> Self {
        Self {
            trigger_source: source.map(TriggerSource::as_str),
            is_automated: source.map(TriggerSource::is_automated),
            ..self
        }
    }
}

/// A pending row that becomes part of history.
#[derive(Debug, Default, Serialize)]
pub(super) struct Shown {
    pub(super) id: i64,
    pub(super) session_id: String,
    pub(super) seq: i64,
    pub(super) chat_key: Option<String>,
    pub(super) channel_message_id: Option<String>,
    pub(super) shown_at: Option<String>,
    pub(super) posting_note: Option<String>,
}

/// Where a row was put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) session_id: String,
    pub(super) generation: i64,
    seq: i64,
}

#[derive(Debug, Serialize)]
struct Session {
    session_key: String,
    session_id: String,
    agent: Option<String>,
    generation: i64,
    next_seq: i64,
    created_at: String,
    #[serde(skip)]
    stored_seq: Option<i64>,
}

impl Session {
    fn begin(session_key: &str, generation: i64, agent: Option<&str>, now: Timestamp) -> Self {
        Self {
            session_key: session_key.to_owned(),
            session_id: session_id(session_key, generation),
            agent: agent.map(str::to_owned),
            generation,
            next_seq: 1,
            created_at: text_instant(now),
            stored_seq: None,
        }
    }
}

/// The rows that one transaction adds or shows.
#[derive(Debug, Default)]
pub(super) struct Book {
    sessions: HashMap<String, Session>,
    last_id: i64,
    added: Vec<NewRow>,
    shown: Vec<Shown>,
    withheld: Vec<i64>,
}

/// The id of a session's generation, where this program names it.
fn session_id(session_key: &str, generation: i64) -> String {
    format!("{session_key}@{generation}")
}

impl Book {
    /// Opens the newest generations of these sessions.
    pub(super) async fn open(
        conn: &mut SqliteConnection,
        keys: &BTreeSet<String>,
    ) -> Fallible<Self> {
        let mut book = Self::default();
        if keys.is_empty() {
            return Ok(book);
        }
        let keys: Vec<&String> = keys.iter().collect();
        for row in rows_for(conn, NEWEST_GENERATIONS, &keys).await? {
            let session_key: String = row.try_get("session_key")?;
            let next_seq = row.try_get("next_seq")?;
            let session = Session {
                session_key: session_key.clone(),
                session_id: row.try_get("session_id")?,
                agent: None,
                generation: row.try_get("generation")?,
                next_seq,
                created_at: String::new(),
                stored_seq: Some(next_seq),
            };
            book.sessions.insert(session_key, session);
        }
        book.last_id = sqlx::query_scalar(LAST_ROW).fetch_one(&mut *conn).await?;
        Ok(book)
    }

    /// Makes sure that the session has a generation; `agent` is whose it is if the chat is unknown.
    pub(super) fn ensure(&mut self, session_key: &str, agent: Option<&str>, now: Timestamp) {
        self.session(session_key, agent, now);
    }

    /// Begins the next generation of a session, the first where there is none.
    pub(super) fn next_generation(&mut self, session_key: &str, now: Timestamp) -> i64 {
        let newest = self.sessions.get(session_key);
        let generation = newest.map_or(0, |session| session.generation) + 1;
        let session = Session::begin(session_key, generation, None, now);
        self.sessions.insert(session_key.to_owned(), session);
        generation
    }

    fn session(&mut self, session_key: &str, agent: Option<&str>, now: Timestamp) -> &mut Session {
        self.sessions
            .entry(session_key.to_owned())
            .or_insert_with(|| Session::begin(session_key, 1, agent, now))
    }

    fn place(&mut self, session_key: &str, now: Timestamp) -> Place {
        let session = self.session(session_key, None, now);
        let seq = session.next_seq;
        session.next_seq += 1;
        Place {
            session_id: session.session_id.clone(),
            generation: session.generation,
            seq,
        }
    }

    /// Adds a row at the end of the session's history; returns its id.
    pub(super) fn add(&mut self, session_key: &str, mut row: NewRow, now: Timestamp) -> i64 {
        let place = self.place(session_key, now);
        self.last_id += 1;
        row.id = self.last_id;
        row.session_id = place.session_id;
        row.seq = place.seq;
        self.added.push(row);
        self.last_id
    }

    /// Puts a pending row at the end of the session's history, for everyone to see.
    pub(super) fn show(&mut self, session_key: &str, mut shown: Shown, now: Timestamp) -> Place {
        let place = self.place(session_key, now);
        shown.session_id.clone_from(&place.session_id);
        shown.seq = place.seq;
        self.shown.push(shown);
        place
    }

    /// A pending row that no chat will show.
    pub(super) fn withhold(&mut self, id: i64) {
        self.withheld.push(id);
    }

    /// Writes everything.
    pub(super) async fn write(self, conn: &mut SqliteConnection) -> Fallible<()> {
        let (stored, new): (Vec<_>, Vec<_>) = self
            .sessions
            .into_values()
            .filter(|session| session.stored_seq != Some(session.next_seq))
            .partition(|session| session.stored_seq.is_some());
        write_rows(conn, INSERT_SESSIONS, &new).await?;
        write_rows(conn, UPDATE_SESSIONS, &stored).await?;
        write_rows(conn, INSERT_ENTRIES, &self.added).await?;
        write_rows(conn, SHOW_ENTRIES, &self.shown).await?;
        write_rows(conn, WITHHOLD, &self.withheld).await
    }
}
