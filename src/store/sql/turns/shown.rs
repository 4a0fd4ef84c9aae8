//! Replies that a program has shown itself: confirmed in the transaction that ends their turn.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    message::Receipt,
    store::{
        TurnEnd,
        sql::{
            connection::Conn,
            failure::Fallible,
            rows::{Columns, rows_for},
            settle::{Settler, Shown},
            statement::{Statement, over_texts},
        },
    },
};

const PENDING: Statement = over_texts!(
    "SELECT p.part_id, p.idempotency_key FROM",
    "\
JOIN outbox_parts AS p ON p.idempotency_key = x.id
WHERE p.state = 'pending'"
);

/// Receipts of parts that are in the outbox as soon as their turns have ended, by key.
#[derive(Debug, Default)]
pub(super) struct ShownReplies {
    receipts: BTreeMap<String, (Receipt, Timestamp)>,
}

impl ShownReplies {
    pub(super) fn add(&mut self, end: &TurnEnd, now: Timestamp) {
        let parts = end.message.iter().flat_map(|message| &message.parts);
        for (part, receipt) in parts.zip(&end.shown) {
            let key = part.key.as_str().to_owned();
            self.receipts.insert(key, (receipt.clone(), now));
        }
    }

    /// Makes them history, as if a writer had brought their receipts.
    pub(super) async fn confirm(self, conn: &mut Conn) -> Fallible<()> {
        if self.receipts.is_empty() {
            return Ok(());
        }
        let keys: Vec<&str> = self.receipts.keys().map(String::as_str).collect();
        let mut found = BTreeMap::new();
        for row in &rows_for(conn, PENDING, &keys).await? {
            let row = Columns::of(row, "outbox_parts", "part_id");
            let (id, key): (i64, String) = (row.get("part_id")?, row.get("idempotency_key")?);
            if let Some((receipt, now)) = self.receipts.get(&key) {
                found.insert(id, (receipt.clone(), *now));
            }
        }
        let ids = found.keys().copied().collect();
        let message_ids = found.iter();
        let message_ids = message_ids.map(|(id, (receipt, _))| (*id, receipt.message_id.clone()));
        let mut settler = Settler::load(conn, ids, message_ids.collect()).await?;
        // In the order of their parts, which is that of their ids.
        for (id, (receipt, now)) in found {
            let shown = Shown {
                at: receipt.shown_at.unwrap_or(now),
                message_id: Some(receipt.message_id),
                posting_note: None,
                is_late: false,
            };
            settler.confirm(id, shown, None, now);
        }
        settler.write(conn).await
    }
}
