//! The rows that settlements write, and the statement of each table.

use serde::Serialize;

use crate::{
    message::PartState,
    store::sql::statement::{Statement, over_rows},
};

pub(super) const PARTS: Statement = over_rows!(
    [
        part_id bigint, state text, reason text, why text, in_doubt boolean,
        next_attempt_at bigint, channel_message_id text, shown_at bigint, settled_at bigint,
    ]
    "\
UPDATE outbox_parts SET state = x.state, reason = x.reason, why = coalesce(x.why, outbox_parts.why),
  in_doubt = x.in_doubt, epoch = NULL, resolution = NULL,
  next_attempt_at = coalesce(x.next_attempt_at, outbox_parts.next_attempt_at),
  channel_message_id = x.channel_message_id, shown_at = x.shown_at, settled_at = x.settled_at
FROM",
    "WHERE outbox_parts.part_id = x.part_id"
);

pub(super) const EVIDENCE: Statement = over_rows!(
    [part_id bigint, evidence text]
    "\
UPDATE outbox_parts SET resolution = x.evidence
FROM",
    "WHERE outbox_parts.part_id = x.part_id"
);

pub(super) const ADDRESSES: Statement = over_rows!(
    [session_key text, moved_to text, stopped_at bigint, why text]
    "\
INSERT INTO addresses (session_key, moved_to, stopped_at, why)
SELECT x.session_key, x.moved_to, x.stopped_at, x.why
FROM",
    "\
WHERE true
ON CONFLICT (session_key) DO UPDATE SET moved_to = excluded.moved_to,
  stopped_at = excluded.stopped_at, why = excluded.why"
);

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
