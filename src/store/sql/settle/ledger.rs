//! Settling parts in memory, and writing all of it with one statement a table.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    ids::{PartId, RunId, TurnId},
    message::{Origin, PartReason, PartState, StopsAddress},
    policy::outbox::Transition,
    store::{
        Diagnostic, Level,
        sql::{
            connection::Conn,
            diagnostics::Notes,
            entries::{self, Book, NewRow},
            failure::Fallible,
            incidents::{self, Signals},
            outbox,
            resolution::Evidence,
            rows::{At, micros, rows_for, text_instant, write_rows},
            statement::{Statement, over_rows},
        },
    },
    transcript::{Role, Visibility},
};

use super::{
    load::{self, Part},
    tables::{ADDRESSES, AddressRow, EVIDENCE, EvidenceRow, PARTS, PartChange},
};

const MESSAGE_IDS: Statement = over_rows!(
    [chat_key text, message_id text]
    "SELECT e.chat_key, e.channel_message_id FROM",
    "JOIN ctx_session_entries AS e ON e.chat_key = x.chat_key AND e.channel_message_id = x.message_id"
);

/// The channel's id in a receipt, and the chat in which it counts.
#[derive(Debug, Serialize)]
struct ReceiptId<'p> {
    chat_key: &'p str,
    message_id: String,
}

/// That a chat showed a part.
pub(in crate::store::sql) struct Shown {
    pub(in crate::store::sql) at: Timestamp,
    pub(in crate::store::sql) message_id: Option<String>,
    pub(in crate::store::sql) posting_note: Option<String>,
    /// Learned after the lane went on: its row stands where it was learned, not where it was shown.
    pub(in crate::store::sql) is_late: bool,
}

/// Parts on their way to their next state.
#[derive(Debug, Default)]
pub(in crate::store::sql) struct Settler {
    parts: HashMap<i64, Part>,
    message_ids: HashSet<(String, String)>,
    changes: BTreeMap<i64, PartChange>,
    evidence: BTreeMap<i64, Evidence>,
    failed_messages: Vec<At<i64>>,
    addresses: BTreeMap<String, AddressRow>,
    book: Book,
    notes: Notes,
    signals: Signals,
    /// Producers of alerts that were not shown by the attempt that ended.
    unshown_alerts: Vec<At<String>>,
}

impl Settler {
    /// Loads the parts; `receipts` are the channel's ids that may be confirmed.
    pub(in crate::store::sql) async fn load(
        conn: &mut Conn,
        ids: BTreeSet<i64>,
        receipts: Vec<(i64, String)>,
    ) -> Fallible<Self> {
        let ids: Vec<i64> = ids.into_iter().collect();
        let mut settler = Self::default();
        for part in load::parts(conn, &ids).await? {
            settler.parts.insert(part.id, part);
        }
        let known = |(id, message): (i64, String)| Some((settler.parts.get(&id)?, message));
        let pairs: Vec<ReceiptId> = receipts
            .into_iter()
            .filter_map(known)
            .map(|(part, message_id)| ReceiptId {
                chat_key: &part.session_key,
                message_id,
            })
            .collect();
        for row in rows_for(conn, MESSAGE_IDS, &pairs).await? {
            let pair = (row.try_get(0)?, row.try_get(1)?);
            settler.message_ids.insert(pair);
        }
        let keys = settler.parts.values().map(|part| part.session_key.clone());
        settler.book = Book::open(conn, &keys.collect()).await?;
        Ok(settler)
    }

    pub(in crate::store::sql) fn part(&self, id: i64) -> Option<&Part> {
        self.parts.get(&id)
    }

    /// Keeps evidence until the lane is free.
    pub(super) fn keep(&mut self, id: i64, evidence: Evidence) {
        self.evidence.insert(id, evidence);
    }

    /// The chat showed it: the part, its row, and the address that is good again.
    pub(in crate::store::sql) fn confirm(
        &mut self,
        id: i64,
        shown: Shown,
        why: Option<String>,
        now: Timestamp,
    ) {
        let Some(part) = self.parts.get_mut(&id) else {
            return;
        };
        part.state = PartState::Confirmed;
        part.epoch = None;
        let part = part.clone();
        let change = PartChange {
            channel_message_id: shown.message_id.clone(),
            shown_at: Some(micros(shown.at)),
            settled_at: Some(micros(now)),
            ..PartChange::new(id, PartState::Confirmed, why)
        };
        self.changes.insert(id, change);
        self.evidence.remove(&id);
        if part.stopped_at.is_some() {
            let address = self.address(&part);
            address.stopped_at = None;
            address.why = None;
        }
        if let Some(job) = part.result_of().filter(|_| part.is_last) {
            self.signals.delivered(job, part.run_id, now);
        }
        if part.is_chat {
            self.show(&part, shown, now);
        }
    }

    /// Makes the row of a confirmed part visible, or says why it has none.
    fn show(&mut self, part: &Part, shown: Shown, now: Timestamp) {
        let Some(text) = &part.text else {
            let words = "the chat shows it, and history has no row: it was sent without text";
            self.note(part, Level::Warn, "native-only", words.to_owned(), now);
            return;
        };
        if shown.is_late {
            let words = "shown earlier than its place in history says";
            self.note(part, Level::Info, "order", words.to_owned(), now);
        }
        let message_id = self.free_message_id(part, shown.message_id, now);
        let shown_at = Some(text_instant(shown.at));
        let chat_key = Some(part.session_key.clone());
        if let Some(entry) = part.entry_id {
            let row = entries::Shown {
                id: entry,
                chat_key,
                channel_message_id: message_id,
                shown_at,
                posting_note: shown.posting_note,
                ..entries::Shown::default()
            };
            let place = self.book.show(&part.session_key, row, now);
            if part.entry_session.as_ref() != Some(&place.session_id) {
                let words = format!(
                    "the chat was reset meanwhile; it is in generation {}",
                    place.generation
                );
                self.note(part, Level::Info, "generation", words, now);
            }
            return;
        }
        let owner = part.chat_agent.as_ref().unwrap_or(&part.agent);
        if *owner != part.agent {
            let words = format!(
                "the chat belongs to agent {owner}; the words of agent {} are not in its history",
                part.agent
            );
            self.note(part, Level::Warn, "other-agent", words, now);
            return;
        }
        let row = NewRow {
            chat_key,
            channel_message_id: message_id,
            shown_at,
            origin: Some(part.origin.as_str().to_owned()),
            posted_by_job: part.job_id.clone(),
            posting_note: shown.posting_note,
            turn_id: part.turn_id,
            run_id: part.run_id,
            attempt: part.attempt,
            idempotency_key: Some(part.key.clone()),
            ..NewRow::text(Role::Assistant, text.clone(), Visibility::Visible, now)
                .triggered_by(part.trigger_source)
        };
        self.book.ensure(&part.session_key, Some(&part.agent), now);
        self.book.add(&part.session_key, row, now);
    }

    /// The channel's id for the row. A second row by one id would contradict the first, and a
    /// confirmation stands whatever the id.
    fn free_message_id(
        &mut self,
        part: &Part,
        message_id: Option<String>,
        now: Timestamp,
    ) -> Option<String> {
        let message_id = message_id?;
        let pair = (part.session_key.clone(), message_id);
        if self.message_ids.contains(&pair) {
            let words = format!("the chat has a row for message {} already", pair.1);
            self.note(part, Level::Warn, "message-id-conflict", words, now);
            return None;
        }
        self.message_ids.insert(pair.clone());
        Some(pair.1)
    }

    /// It was not shown as far as anybody knows.
    pub(super) fn decline(
        &mut self,
        id: i64,
        transition: Transition,
        why: Option<String>,
        now: Timestamp,
    ) {
        let Some(part) = self.parts.get(&id).cloned() else {
            return;
        };
        if part.origin == Origin::FailureAlert {
            self.unshown_alerts.push(At {
                item: part.producer.clone(),
                now,
            });
        }
        let change = match transition {
            Transition::Confirm(_) => return,
            Transition::TryAgain { state, at } => PartChange {
                in_doubt: state == PartState::Sending,
                next_attempt_at: Some(micros(at)),
                ..PartChange::new(id, state, why)
            },
            Transition::Unknown => {
                let words = "nobody can say whether the chat showed it".to_owned();
                self.note(&part, Level::Warn, "unknown", words, now);
                PartChange {
                    in_doubt: true,
                    settled_at: Some(micros(now)),
                    ..PartChange::new(id, PartState::Unknown, why)
                }
            }
            Transition::Fail {
                reason,
                stops_address,
            } => self.fail(&part, &reason, stops_address, why, now),
            Transition::Readdress { to } => {
                let words = format!("the chat has a new address: {to}");
                self.note(&part, Level::Info, "moved", words, now);
                self.address(&part).moved_to = Some(to);
                // A part in doubt is never `pending`: it could be cancelled as certainly not shown.
                let state = if part.in_doubt {
                    PartState::Sending
                } else {
                    PartState::Pending
                };
                PartChange {
                    in_doubt: part.in_doubt,
                    next_attempt_at: Some(micros(now)),
                    ..PartChange::new(id, state, why)
                }
            }
        };
        if let Some(part) = self.parts.get_mut(&id) {
            part.state = PartState::from_stored(change.state).unwrap_or(part.state);
            part.epoch = None;
            part.in_doubt = change.in_doubt;
        }
        self.changes.insert(id, change);
    }

    fn fail(
        &mut self,
        part: &Part,
        reason: &PartReason,
        stops_address: StopsAddress,
        why: Option<String>,
        now: Timestamp,
    ) -> PartChange {
        let said = why.clone().unwrap_or_else(|| reason.as_str().to_owned());
        let words = format!("it was not delivered: {said}");
        self.note(part, Level::Warn, "delivery-failed", words, now);
        if let Some(entry) = part.entry_id {
            self.book.withhold(entry);
        }
        if let Some(job) = part.result_of() {
            let lane = part.session_key.clone();
            self.signals
                .undelivered(job, part.run_id, lane, said.clone(), now);
        }
        self.failed_messages.push(At {
            item: part.message_id,
            now,
        });
        if stops_address == StopsAddress::Yes {
            let address = self.address(part);
            address.stopped_at = Some(micros(now));
            address.why = Some(said);
        }
        PartChange {
            reason: Some(reason.as_str()),
            settled_at: Some(micros(now)),
            ..PartChange::new(part.id, PartState::Failed, why)
        }
    }

    /// A person said that the chat did not show it. What was sent after it stays as it is; what waits
    /// behind one that was still tried is cancelled, as after any part that failed.
    pub(in crate::store::sql) fn not_shown(&mut self, id: i64, now: Timestamp) {
        let Some(part) = self.parts.get_mut(&id) else {
            return;
        };
        if part.state == PartState::Sending {
            self.failed_messages.push(At {
                item: part.message_id,
                now,
            });
        }
        part.state = PartState::Failed;
        if let Some(entry) = part.entry_id {
            self.book.withhold(entry);
        }
        let change = PartChange {
            reason: Some(PartReason::NotShown.as_str()),
            settled_at: Some(micros(now)),
            ..PartChange::new(id, PartState::Failed, None)
        };
        self.changes.insert(id, change);
    }

    fn address(&mut self, part: &Part) -> &mut AddressRow {
        let row = || AddressRow {
            session_key: part.session_key.clone(),
            moved_to: part.moved_to.clone(),
            stopped_at: part.stopped_at,
            why: part.stopped_why.clone(),
        };
        self.addresses
            .entry(part.session_key.clone())
            .or_insert_with(row)
    }

    fn note(
        &mut self,
        part: &Part,
        level: Level,
        code: &'static str,
        message: String,
        now: Timestamp,
    ) {
        let diagnostic = Diagnostic {
            run_id: part.run_id.map(RunId),
            turn_id: part.turn_id.map(TurnId),
            part_id: Some(PartId(part.id)),
            level,
            code,
            message,
        };
        self.notes.add(diagnostic, now);
    }

    /// Writes everything.
    pub(in crate::store::sql) async fn write(mut self, conn: &mut Conn) -> Fallible<()> {
        let changes: Vec<PartChange> = self.changes.into_values().collect();
        let mut evidence = Vec::with_capacity(self.evidence.len());
        for (part_id, kept) in &self.evidence {
            evidence.push(EvidenceRow {
                part_id: *part_id,
                evidence: serde_json::to_string(kept)?,
            });
        }
        let addresses: Vec<AddressRow> = self.addresses.into_values().collect();
        write_rows(conn, PARTS, &changes).await?;
        write_rows(conn, EVIDENCE, &evidence).await?;
        write_rows(conn, ADDRESSES, &addresses).await?;
        for entry in outbox::cancel_rest(conn, &self.failed_messages).await? {
            self.book.withhold(entry);
        }
        let message_of = |change: &PartChange| Some(self.parts.get(&change.part_id)?.message_id);
        let settled: Vec<i64> = changes.iter().filter_map(message_of).collect();
        if let Some(at) = changes.iter().filter_map(|change| change.settled_at).max() {
            for entry in outbox::cancel_said(conn, &settled, at).await? {
                self.book.withhold(entry);
            }
        }
        for At { item, now } in &self.unshown_alerts {
            incidents::withdraw(conn, &[item], *now).await?;
        }
        self.book.write(conn).await?;
        self.signals.write(conn).await?;
        self.notes.write(conn).await
    }
}
