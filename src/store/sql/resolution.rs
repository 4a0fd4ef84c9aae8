//! Evidence that comes after the lane went on: a late receipt, or a person's word.
//!
//! It is stored at once and written into history at the lane's next turn boundary, so that it never
//! lands between a tool call and its result.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{message::Receipt, store::Resolution};

use super::{
    connection::Conn,
    failure::Fallible,
    rows::Columns,
    settle::{Settler, Shown},
    statement::{Statement, query},
};

// Asked at the end of almost every transaction, and answered by an index that is nearly empty.
macro_rules! waiting {
    ($index:literal) => {
        concat!(
            "\
SELECT p.part_id, p.resolution FROM outbox_parts AS p",
            $index,
            "
WHERE p.resolution IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM lanes AS l WHERE l.session_key = p.session_key AND l.holder IS NOT NULL)
ORDER BY p.message_id, p.part"
        )
    };
}

pub(in crate::store) const WAITING: Statement = Statement::of(
    waiting!(" INDEXED BY idx_outbox_parts_resolution"),
    waiting!(""),
);

/// What waits for a turn boundary.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Evidence {
    /// The channel's.
    Receipt {
        /// Its proof.
        receipt: Receipt,
        /// What replay puts before the row.
        posting_note: Option<String>,
    },
    /// A person's.
    Word(Resolution),
}

impl Evidence {
    fn message_id(&self) -> Option<&String> {
        match self {
            Self::Receipt { receipt, .. } => Some(&receipt.message_id),
            Self::Word(Resolution::Shown { message_id, .. }) => message_id.as_ref(),
            Self::Word(Resolution::NotShown) => None,
        }
    }
}

/// Writes the evidence of all lanes that are free now.
pub(super) async fn apply_in_free_lanes(conn: &mut Conn, now: Timestamp) -> Fallible<()> {
    let rows = query(WAITING).fetch_all(&mut *conn).await?;
    if rows.is_empty() {
        return Ok(());
    }
    let mut waiting: Vec<(i64, Evidence)> = Vec::with_capacity(rows.len());
    for row in &rows {
        let row = Columns::of(row, "outbox_parts", "part_id");
        waiting.push((row.get("part_id")?, row.json("resolution")?));
    }
    let ids = waiting.iter().map(|(id, _)| *id).collect();
    let receipts = waiting
        .iter()
        .filter_map(|(id, evidence)| Some((*id, evidence.message_id()?.clone())))
        .collect();
    let mut settler = Settler::load(conn, ids, receipts).await?;
    for (id, evidence) in waiting {
        let first_attempt = settler.part(id).and_then(|part| part.first_attempt_at);
        let shown = |at: Option<Timestamp>, message_id, posting_note| Shown {
            at: at.or(first_attempt).unwrap_or(now),
            message_id,
            posting_note,
            is_late: true,
        };
        match evidence {
            Evidence::Receipt {
                receipt,
                posting_note,
            } => {
                let shown = shown(receipt.shown_at, Some(receipt.message_id), posting_note);
                settler.confirm(id, shown, None, now);
            }
            Evidence::Word(Resolution::Shown {
                message_id,
                posting_note,
            }) => settler.confirm(id, shown(None, message_id, posting_note), None, now),
            Evidence::Word(Resolution::NotShown) => settler.not_shown(id, now),
        }
    }
    settler.write(conn).await
}
