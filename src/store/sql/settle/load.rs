//! Parts that are settled, with what their settlement depends on.

use jiff::Timestamp;

use crate::{
    message::{Destination, Origin, PartState},
    store::sql::{
        connection::{Conn, Row},
        failure::Fallible,
        rows::{Columns, rows_for},
        statement::{Statement, over_numbers},
    },
    transcript::TriggerSource,
};

const PARTS: Statement = over_numbers!(
    "\
SELECT p.part_id, p.message_id, p.session_key, p.state, p.epoch, p.in_doubt, p.text, p.entry_id,
  p.first_attempt_at, p.idempotency_key, o.origin, o.destination, o.agent, o.trigger_source, o.job_id,
  o.run_id, o.attempt, o.turn_id, o.producer, p.part = o.parts AS is_last, l.holder, e.session_id AS entry_session,
  a.moved_to, a.stopped_at, a.why AS stopped_why,
  coalesce(c.agent, (SELECT s.agent_id FROM ctx_sessions AS s WHERE s.session_key = p.session_key
    ORDER BY s.generation DESC LIMIT 1)) AS chat_agent
FROM",
    "\
JOIN outbox_parts AS p ON p.part_id = x.id
JOIN outbox AS o ON o.message_id = p.message_id
LEFT JOIN lanes AS l ON l.session_key = p.session_key
LEFT JOIN chats AS c ON c.session_key = p.session_key
LEFT JOIN addresses AS a ON a.session_key = p.session_key
LEFT JOIN ctx_session_entries AS e ON e.id = p.entry_id"
);

/// A part that is settled.
#[derive(Debug, Clone)]
pub(in crate::store::sql) struct Part {
    pub(in crate::store::sql) id: i64,
    pub(super) message_id: i64,
    pub(in crate::store::sql) session_key: String,
    pub(super) state: PartState,
    pub(super) epoch: Option<i64>,
    pub(super) in_doubt: bool,
    pub(super) text: Option<String>,
    pub(super) entry_id: Option<i64>,
    pub(super) entry_session: Option<String>,
    pub(in crate::store::sql) first_attempt_at: Option<Timestamp>,
    pub(super) key: String,
    pub(super) origin: Origin,
    pub(super) is_chat: bool,
    pub(super) agent: String,
    /// Whose the chat is at this moment; `None` where nobody knows.
    pub(super) chat_agent: Option<String>,
    pub(super) trigger_source: Option<TriggerSource>,
    pub(super) job_id: Option<String>,
    pub(super) run_id: Option<i64>,
    pub(super) attempt: Option<u32>,
    pub(super) turn_id: Option<i64>,
    pub(super) producer: String,
    /// Whether its message ends with it.
    pub(super) is_last: bool,
    pub(super) holder: Option<String>,
    pub(super) moved_to: Option<String>,
    pub(super) stopped_at: Option<i64>,
    pub(super) stopped_why: Option<String>,
}

impl Part {
    /// The job whose result it is. Alerts raise no alerts, and neither do replies to people.
    pub(super) fn result_of(&self) -> Option<String> {
        match self.origin {
            Origin::JobResult
            | Origin::TurnReply
            | Origin::MessageTool
            | Origin::SubagentAnnouncement => self.job_id.clone(),
            Origin::FailureAlert | Origin::Recovery | Origin::Gateway => None,
        }
    }
}

pub(super) async fn parts(conn: &mut Conn, ids: &[i64]) -> Fallible<Vec<Part>> {
    let rows = rows_for(conn, PARTS, ids).await?;
    rows.iter().map(part).collect()
}

fn part(row: &Row) -> Fallible<Part> {
    let row = Columns::of(row, "outbox_parts", "part_id");
    let destination: Destination = row.json("destination")?;
    Ok(Part {
        id: row.get("part_id")?,
        message_id: row.get("message_id")?,
        session_key: row.get("session_key")?,
        state: row.word("state", PartState::from_stored)?,
        epoch: row.get("epoch")?,
        in_doubt: row.get("in_doubt")?,
        text: row.get("text")?,
        entry_id: row.get("entry_id")?,
        entry_session: row.get("entry_session")?,
        first_attempt_at: row.instant_or_none("first_attempt_at")?,
        key: row.get("idempotency_key")?,
        origin: row.word("origin", Origin::from_stored)?,
        is_chat: matches!(destination, Destination::Chat(_)),
        agent: row.get("agent")?,
        chat_agent: row.get("chat_agent")?,
        trigger_source: row.word_or_none("trigger_source", TriggerSource::from_stored)?,
        job_id: row.get("job_id")?,
        run_id: row.get("run_id")?,
        attempt: row.count_or_none("attempt")?,
        turn_id: row.get("turn_id")?,
        producer: row.get("producer")?,
        is_last: row.get("is_last")?,
        holder: row.get("holder")?,
        moved_to: row.get("moved_to")?,
        stopped_at: row.get("stopped_at")?,
        stopped_why: row.get("stopped_why")?,
    })
}
