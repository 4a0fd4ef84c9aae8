//! Results that are first sent long after their slot: labelled or withheld, decided once.

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    message::PartReason,
    store::{
        ClaimedPart, Diagnostic, Level,
        sql::{
            connection::Conn,
            diagnostics::Notes,
            failure::Fallible,
            rows::{micros, write_rows},
            statement::{Statement, over_numbers, over_rows},
        },
    },
};

const DECIDED: Statement = over_numbers!(
    "\
UPDATE outbox SET late = NULL
FROM",
    "WHERE outbox.message_id = x.id AND outbox.late IS NOT NULL"
);

const LABEL: Statement = over_rows!(
    [part_id bigint, text text]
    "\
UPDATE outbox_parts SET text = x.text
FROM",
    "WHERE outbox_parts.part_id = x.part_id"
);

const WITHHOLD: Statement = over_rows!(
    [message_id bigint, reason text, now bigint]
    "\
UPDATE outbox_parts SET state = 'cancelled', reason = x.reason, settled_at = x.now
FROM",
    "WHERE outbox_parts.message_id = x.message_id AND outbox_parts.state = 'pending'"
);

#[derive(Debug, Serialize)]
struct Labelled {
    part_id: i64,
    text: String,
}

#[derive(Debug, Serialize)]
struct Withheld {
    message_id: i64,
    reason: &'static str,
    now: i64,
}

/// What a batch of claims decides about late results.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    decided: Vec<i64>,
    labelled: Vec<Labelled>,
    withheld: Vec<Withheld>,
    notes: Notes,
}

impl Lateness {
    /// A part is sent; its text has its label already, if it gets one.
    pub(super) fn sent(&mut self, part: &ClaimedPart, now: Timestamp) {
        let Some(late) = &part.late else {
            return;
        };
        self.decided.push(part.message_id.0);
        if late.rule.decide(now).is_none() {
            return;
        }
        let message = match (&late.label, &part.text) {
            (Some(_), Some(text)) => {
                self.labelled.push(Labelled {
                    part_id: part.part_id.0,
                    text: text.clone(),
                });
                "it is sent long after its slot, and says so"
            }
            (_, _) => "it is sent long after its slot, and has no room to say so",
        };
        self.note(part, Level::Info, message, now);
    }

    /// A message is not sent.
    pub(super) fn withhold(&mut self, part: &ClaimedPart, now: Timestamp) {
        self.decided.push(part.message_id.0);
        self.withheld.push(Withheld {
            message_id: part.message_id.0,
            reason: PartReason::Late.as_str(),
            now: micros(now),
        });
        let message = "it was withheld, because its slot was too long ago";
        self.note(part, Level::Warn, message, now);
    }

    fn note(&mut self, part: &ClaimedPart, level: Level, message: &str, now: Timestamp) {
        let diagnostic = Diagnostic {
            run_id: part.run_id,
            turn_id: None,
            part_id: Some(part.part_id),
            level,
            code: "late",
            message: message.to_owned(),
        };
        self.notes.add(diagnostic, now);
    }

    pub(super) async fn write(self, conn: &mut Conn) -> Fallible<()> {
        write_rows(conn, DECIDED, &self.decided).await?;
        write_rows(conn, LABEL, &self.labelled).await?;
        write_rows(conn, WITHHOLD, &self.withheld).await?;
        self.notes.write(conn).await
    }
}
