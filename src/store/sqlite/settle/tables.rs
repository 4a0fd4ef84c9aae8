//! The rows that settlements write, and the statement of each table.

use serde::Serialize;

use crate::message::PartState;

pub(super) const PARTS: &str = "\
UPDATE outbox_parts SET state = x.value ->> 'state', reason = x.value ->> 'reason',
  why = coalesce(x.value ->> 'why', why), in_doubt = x.value ->> 'in_doubt', epoch = NULL,
  resolution = NULL,
  next_attempt_at = coalesce(x.value ->> 'next_attempt_at', next_attempt_at),
  channel_message_id = x.value ->> 'channel_message_id', shown_at = x.value ->> 'shown_at',
  settled_at = x.value ->> 'settled_at'
FROM json_each($1) AS x WHERE outbox_parts.part_id = x.value ->> 'part_id'";

pub(super) const EVIDENCE: &str = "\
UPDATE outbox_parts SET resolution = x.value ->> 'evidence'
FROM json_each($1) AS x WHERE outbox_parts.part_id = x.value ->> 'part_id'";

pub(super) const ADDRESSES: &str = "\
INSERT INTO addresses (session_key, moved_to, stopped_at, why)
SELECT x.value ->> 'session_key', x.value ->> 'moved_to', x.value ->> 'stopped_at', x.value ->> 'why'
FROM json_each($1) AS x WHERE true
ON CONFLICT (session_key) DO UPDATE SET moved_to = excluded.moved_to,
  stopped_at = excluded.stopped_at, why = excluded.why";

#[derive(Debug, Serialize)]
pub(super) struct PartChange {
    pub(super) part_id: i64,
    pub(super) state: &'static str,
    pub(super) reason: Option<&'static str>,
    pub(super) why: Option<String>,
    pub(super) in_doubt: bool,
    pub(super) next_attempt_at: Option<i64>,
    pub(super) channel_message_id: Option<String>,
    pub(super) shown_at: Option<i64>,
    pub(super) settled_at: Option<i64>,
}

#[derive(Debug, Serialize)]
pub(super) struct EvidenceRow {
    pub(super) part_id: i64,
    pub(super) evidence: String,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct AddressRow {
    pub(super) session_key: String,
    pub(super) moved_to: Option<String>,
    pub(super) stopped_at: Option<i64>,
    pub(super) why: Option<String>,
}

impl PartChange {
    pub(super) fn new(part_id: i64, state: PartState, why: Option<String>) -> Self {
        Self {
            part_id,
            state: state.as_str(),
            reason: None,
            why,
            in_doubt: false,
            next_attempt_at: None,
            channel_message_id: None,
            shown_at: None,
            settled_at: None,
        }
    }
}
