//! Session rows on their way in: which generation they join, and which `seq` they get.
//!
//! A [`Book`] hands out places in memory, which is safe because the transaction it belongs to is the
//! only one that writes; it is written, by a statement a table, before the next one is opened.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    store::EntryDraft,
    transcript::{Content, NewEntry, Role, TriggerSource, Visibility},
};

use super::{
    connection::Conn,
    failure::Fallible,
    rows::{rows_for, text_instant, write_rows},
    statement::{RowSet, Statement, over_numbers, over_rows, over_texts, query_scalar},
};

const NEWEST_GENERATIONS: Statement = over_texts!(
    "\
SELECT s.session_key, s.session_id, s.generation, s.next_seq
FROM",
    "\
JOIN ctx_sessions AS s ON s.session_key = x.id
WHERE s.generation = (SELECT max(m.generation) FROM ctx_sessions AS m WHERE m.session_key = x.id)"
);

const LAST_ROW: Statement =
    Statement::common("SELECT CAST(coalesce(max(id), 0) AS BIGINT) FROM ctx_session_entries");

const INSERT_SESSIONS: Statement = over_rows!(
    [
        session_id text, session_key text, agent text, generation bigint, next_seq bigint,
        created_at timestamptz,
    ]
    "\
INSERT INTO ctx_sessions (session_id, session_key, agent_id, generation, next_seq, created_at)
SELECT x.session_id, x.session_key,
  coalesce((SELECT c.agent FROM chats AS c WHERE c.session_key = x.session_key), x.agent),
  x.generation, x.next_seq, x.created_at
FROM",
    ""
);

const UPDATE_SESSIONS: Statement = over_rows!(
    [session_id text, next_seq bigint]
    "\
UPDATE ctx_sessions SET next_seq = x.next_seq
FROM",
    "WHERE ctx_sessions.session_id = x.session_id"
);

const ENTRY_COLUMNS: &[&str] = &[
    "id",
    "session_id",
    "seq",
    "role",
    "message",
    "content_kind",
    "created_at",
    "trigger_source",
    "is_automated",
    "sender_display",
    "sender_id_raw",
    "visibility",
    "chat_key",
    "channel_message_id",
    "shown_at",
    "origin",
    "posted_by_job",
    "posting_note",
    "turn_id",
    "run_id",
    "attempt",
    "idempotency_key",
    "raw_entry",
];

macro_rules! insert_entries {
    ($raw_entry:literal) => {
        concat!(
            "INSERT INTO ctx_session_entries (id, session_id, seq, role, entry_type, message, \
               content_kind, created_at, trigger_source, is_automated, sender_display, \
               sender_id_raw, visibility, chat_key, channel_message_id, shown_at, origin, \
               posted_by_job, posting_note, turn_id, run_id, attempt, idempotency_key, raw_entry) \
             SELECT x.id, x.session_id, x.seq, x.role, 'message', x.message, x.content_kind, \
               x.created_at, x.trigger_source, x.is_automated, x.sender_display, x.sender_id_raw, \
               x.visibility, x.chat_key, x.channel_message_id, x.shown_at, x.origin, \
               x.posted_by_job, x.posting_note, x.turn_id, x.run_id, x.attempt, \
               x.idempotency_key, ",
            $raw_entry,
            " FROM x"
        )
    };
}

// Ids are handed out in memory. In PostgreSQL the column's own sequence follows them, for whoever
// else writes there.
const INSERT_ENTRIES: Statement = Statement::over(
    RowSet::new(
        ENTRY_COLUMNS,
        "WITH x AS (SELECT * FROM",
        concat!(") ", insert_entries!("x.raw_entry")),
    ),
    concat!(
        "WITH x AS (SELECT * FROM json_to_recordset($1::json) AS x (",
        "id bigint, ",
        "session_id text, ",
        "seq bigint, ",
        "role text, ",
        "message text, ",
        "content_kind text, ",
        "created_at timestamptz, ",
        "trigger_source text, ",
        "is_automated boolean, ",
        "sender_display text, ",
        "sender_id_raw text, ",
        "visibility text, ",
        "chat_key text, ",
        "channel_message_id text, ",
        "shown_at timestamptz, ",
        "origin text, ",
        "posted_by_job text, ",
        "posting_note text, ",
        "turn_id bigint, ",
        "run_id bigint, ",
        "attempt bigint, ",
        "idempotency_key text, ",
        "raw_entry text)), added AS (",
        insert_entries!("x.raw_entry::json"),
        " RETURNING id) \
         SELECT setval(pg_get_serial_sequence('ctx_session_entries', 'id'), max(id)) FROM added"
    ),
);

// What asks a turn that no person began is nothing that a chat showed.
const SHOW_ENTRIES: Statement = over_rows!(
    [
        id bigint, session_id text, seq bigint, chat_key text, channel_message_id text,
        shown_at timestamptz, posting_note text,
    ]
    "\
UPDATE ctx_session_entries SET session_id = x.session_id, seq = x.seq,
  visibility = CASE WHEN ctx_session_entries.role = 'user' AND ctx_session_entries.is_automated
    THEN 'internal' ELSE 'visible' END,
  chat_key = coalesce(x.chat_key, ctx_session_entries.chat_key),
  channel_message_id = coalesce(x.channel_message_id, ctx_session_entries.channel_message_id),
  shown_at = coalesce(x.shown_at, ctx_session_entries.shown_at),
  posting_note = coalesce(x.posting_note, ctx_session_entries.posting_note)
FROM",
    "WHERE ctx_session_entries.id = x.id"
);

const WITHHOLD: Statement = over_numbers!(
    "\
UPDATE ctx_session_entries SET visibility = 'withheld'
WHERE visibility = 'pending' AND id IN (SELECT x.id FROM",
    ")"
);

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
    pub(super) async fn open(conn: &mut Conn, keys: &BTreeSet<String>) -> Fallible<Self> {
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
        book.last_id = query_scalar(LAST_ROW).fetch_one(&mut *conn).await?;
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
    pub(super) async fn write(self, conn: &mut Conn) -> Fallible<()> {
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
