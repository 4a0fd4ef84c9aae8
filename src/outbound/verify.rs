//! The proof of Rule 1: visible rows against what a chat showed, as told from outside the database.
//!
//! Pure: the caller brings the rows, the parts and the channel's own log. Differences that the
//! design declares (a part in doubt, another agent's chat, a native payload, words that came in by
//! `say`) are told as `info` and do not fail it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{
    ids::{PartId, SessionKey},
    job::OnUnknown,
    message::PartState,
    store::OutboxRow,
    transcript::{Entry, Role, Visibility},
};

#[cfg(test)]
mod tests;

/// What is known of one chat.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// The chat's session.
    pub session_key: SessionKey,
    /// Its rows, in the order of its history.
    pub rows: Vec<Entry>,
    /// The parts that the channel may have shown there.
    pub parts: Vec<OutboxRow>,
    /// What the channel's own log says, in its order; `None` where there is no log.
    pub log: Option<Vec<ShownLine>>,
}

/// One message that a channel's log says was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownLine {
    /// The channel's id of it.
    pub message_id: String,
    /// The key it was sent under, where the log tells.
    pub key: Option<String>,
    /// The text.
    pub text: String,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The chat.
    pub chat: SessionKey,
    /// What kind.
    pub kind: FindingKind,
    /// The channel's id of the message, where there is one.
    pub message_id: Option<String>,
    /// In words.
    pub what: String,
}

/// The kinds of difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// The chat showed it, and the transcript does not have it.
    Missing,
    /// The transcript has it, and the chat did not show it.
    Extra,
    /// It is there more than once.
    Duplicated,
    /// The texts differ.
    Altered,
    /// The order differs.
    Reordered,
    /// It was shown in another chat.
    WrongChat,
    /// A difference that the design declares.
    Info,
}

/// What came of the comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Messages that agree.
    pub agreed: u64,
    /// A person's messages that came in by `say` or the API: the chat itself did not show them.
    pub said: u64,
    /// All differences, by chat.
    pub findings: Vec<Finding>,
    /// Chats of which only receipts could be compared.
    pub receipts_only: Vec<SessionKey>,
}

impl Report {
    /// Whether the transcripts are what the chats showed.
    pub fn holds(&self) -> bool {
        self.findings
            .iter()
            .all(|finding| finding.kind == FindingKind::Info)
    }
}

/// Compares every chat's rows with its log, or with its receipts where it has none.
pub fn verify(chats: &[Evidence]) -> Report {
    let mut report = Report::default();
    let elsewhere = keys_by_chat(chats);
    for chat in chats {
        let log = match &chat.log {
            Some(log) => log.clone(),
            None => {
                report.receipts_only.push(chat.session_key.clone());
                receipts(chat)
            }
        };
        Comparison::new(chat, &log, &elsewhere).run(&mut report);
    }
    report
}

/// The keys that were meant for each chat, to tell a message that went astray from a foreign one.
fn keys_by_chat(chats: &[Evidence]) -> BTreeMap<&str, &SessionKey> {
    let mut keys = BTreeMap::new();
    for chat in chats {
        for part in &chat.parts {
            keys.insert(part.key.as_str(), &chat.session_key);
        }
    }
    keys
}

/// A log made of receipts, for channels that keep none of their own.
fn receipts(chat: &Evidence) -> Vec<ShownLine> {
    let mut confirmed: Vec<_> = chat
        .parts
        .iter()
        .filter(|part| part.state == PartState::Confirmed)
        .collect();
    confirmed.sort_by_key(|part| (part.settled_at, part.part_id));
    confirmed
        .into_iter()
        .map(|part| ShownLine {
            message_id: part.channel_message_id.clone().unwrap_or_default(),
            key: Some(part.key.as_str().to_owned()),
            text: part.text.clone().unwrap_or_default(),
        })
        .collect()
}

struct Comparison<'a> {
    chat: &'a Evidence,
    log: &'a [ShownLine],
    keys: &'a BTreeMap<&'a str, &'a SessionKey>,
    /// Lines of the log that a row accounts for.
    taken: BTreeSet<usize>,
    /// Lines that a part in doubt accounts for: as many as it may have been shown.
    excused: BTreeMap<PartId, u32>,
    findings: Vec<Finding>,
}

impl<'a> Comparison<'a> {
    fn new(
        chat: &'a Evidence,
        log: &'a [ShownLine],
        keys: &'a BTreeMap<&'a str, &'a SessionKey>,
    ) -> Self {
        Self {
            chat,
            log,
            keys,
            taken: BTreeSet::new(),
            excused: BTreeMap::new(),
            findings: Vec::new(),
        }
    }

    fn run(mut self, report: &mut Report) {
        let mut furthest = None;
        for row in self
            .chat
            .rows
            .iter()
            .filter(|row| row.visibility == Visibility::Visible)
        {
            if row.role == Role::User {
                // Words of a person are in history because somebody brought them, not because we
                // sent them.
                report.said += u64::from(row.channel_message_id.is_none());
                self.taken.extend(self.line_by_id(row));
                continue;
            }
            let Some(index) = self.line_of(row) else {
                self.note(
                    FindingKind::Extra,
                    row.channel_message_id.clone(),
                    format!(
                        "the transcript has {} (seq {}), which the chat did not show",
                        quoted(&row.content.text()),
                        row.seq
                    ),
                );
                continue;
            };
            self.taken.insert(index);
            let agrees = self.same_text(row, index) & self.in_order(row, index, &mut furthest);
            report.agreed += u64::from(agrees);
        }
        for index in 0..self.log.len() {
            if !self.taken.contains(&index) {
                self.unaccounted(index);
            }
        }
        report.findings.extend(self.findings);
    }

    /// The line of a person's message, in a log that has those too. Its place is not compared: the
    /// row took its own when its turn began.
    fn line_by_id(&self, row: &Entry) -> Option<usize> {
        let id = row.channel_message_id.as_deref()?;
        self.log.iter().position(|line| line.message_id == id)
    }

    /// The first line that is this row: by the channel's id, else by the key, else by the text.
    fn line_of(&self, row: &Entry) -> Option<usize> {
        let free = |index: &usize| !self.taken.contains(index);
        let find = |is_it: &dyn Fn(&ShownLine) -> bool| {
            (0..self.log.len())
                .filter(free)
                .find(|index| is_it(&self.log[*index]))
        };
        let by_id = row
            .channel_message_id
            .as_deref()
            .map(|id| find(&|line| line.message_id == id));
        if let Some(found) = by_id {
            return found;
        }
        let key = row.provenance.idempotency_key.as_ref();
        let by_key = key.and_then(|key| find(&|line| line.key.as_deref() == Some(key.as_str())));
        let text = row.content.text();
        by_key.or_else(|| find(&|line| line.text == text))
    }

    fn same_text(&mut self, row: &Entry, index: usize) -> bool {
        let text = row.content.text();
        let line = &self.log[index];
        if line.text == text {
            return true;
        }
        let what = format!(
            "the chat showed {}, and the transcript has {}",
            quoted(&line.text),
            quoted(&text)
        );
        self.note(FindingKind::Altered, Some(line.message_id.clone()), what);
        false
    }

    fn in_order(&mut self, row: &Entry, index: usize, furthest: &mut Option<usize>) -> bool {
        if furthest.is_none_or(|furthest| index > furthest) {
            *furthest = Some(index);
            return true;
        }
        let late = self.part_of(row).is_some_and(|part| part.settled_late);
        let kind = if late {
            FindingKind::Info
        } else {
            FindingKind::Reordered
        };
        let what = format!(
            "{} stands later in the transcript than the chat showed it",
            quoted(&row.content.text())
        );
        self.note(kind, Some(self.log[index].message_id.clone()), what);
        late
    }

    fn part_of(&self, row: &Entry) -> Option<&'a OutboxRow> {
        let key = row.provenance.idempotency_key.as_ref()?;
        self.chat.parts.iter().find(|part| part.key == *key)
    }

    /// A line of the log without a row: declared, double, astray, or missing.
    fn unaccounted(&mut self, index: usize) {
        let line = &self.log[index];
        let part = self.part_behind(line);
        let words = quoted(&line.text);
        let (kind, what) = match part {
            Some(part) if is_in_doubt(part) => (
                FindingKind::Info,
                format!(
                    "{words} matches part {}, of which nobody knows whether it was shown",
                    part.part_id
                ),
            ),
            Some(part) if self.has_row(part) && part.on_unknown == OnUnknown::Resend => (
                FindingKind::Info,
                format!("{words} is there again, as `on_unknown = \"resend\"` allows"),
            ),
            Some(part) if self.has_row(part) => (
                FindingKind::Duplicated,
                format!("the chat showed {words} more than once"),
            ),
            Some(part) if part.native => (
                FindingKind::Info,
                format!("part {} has no text of its own to write", part.part_id),
            ),
            Some(part) if part.written_elsewhere => (
                FindingKind::Info,
                format!("{words} was sent for an agent that the chat is not bound to"),
            ),
            Some(_) => (
                FindingKind::Missing,
                format!("the chat showed {words}, and the transcript has no such row"),
            ),
            None => self.without_part(line, &words),
        };
        self.note(kind, Some(line.message_id.clone()), what);
    }

    /// The part that a line may be. One in doubt accounts for as many lines as it was tried.
    fn part_behind(&mut self, line: &ShownLine) -> Option<&'a OutboxRow> {
        let parts = &self.chat.parts;
        let in_doubt =
            |part: &&OutboxRow| is_in_doubt(part) || part.on_unknown == OnUnknown::Resend;
        let excused = &self.excused;
        let has_room = |part: &&OutboxRow| {
            excused.get(&part.part_id).copied().unwrap_or(0) < part.attempts.max(1)
        };
        let doubtful = parts
            .iter()
            .filter(in_doubt)
            .filter(has_room)
            .find(|part| is_of(line, part));
        if let Some(part) = doubtful {
            *self.excused.entry(part.part_id).or_default() += 1;
            return Some(part);
        }
        parts
            .iter()
            .filter(|part| !in_doubt(part))
            .find(|part| is_of(line, part))
    }

    fn without_part(&self, line: &ShownLine, words: &str) -> (FindingKind, String) {
        let meant_for = line.key.as_deref().and_then(|key| self.keys.get(key));
        match meant_for {
            Some(other) => (
                FindingKind::WrongChat,
                format!("{words} was meant for {other}"),
            ),
            None if self.log[..]
                .iter()
                .filter(|other| other.message_id == line.message_id)
                .count()
                > 1 =>
            {
                (
                    FindingKind::Duplicated,
                    format!("the chat's log has {words} more than once under one id"),
                )
            }
            None => (
                FindingKind::Missing,
                format!("the chat showed {words}, which chatcron did not send"),
            ),
        }
    }

    fn has_row(&self, part: &OutboxRow) -> bool {
        self.chat.rows.iter().any(|row| {
            row.visibility == Visibility::Visible
                && row.provenance.idempotency_key.as_ref() == Some(&part.key)
        })
    }

    fn note(&mut self, kind: FindingKind, message_id: Option<String>, what: String) {
        self.findings.push(Finding {
            chat: self.chat.session_key.clone(),
            kind,
            message_id,
            what,
        });
    }
}

/// Whether nobody knows whether the chat has shown a part: it was not answered, or not yet.
fn is_in_doubt(part: &OutboxRow) -> bool {
    matches!(part.state, PartState::Unknown | PartState::Sending)
}

/// Whether a line of the log is this part: by key, by the channel's id, or, for a part in doubt on
/// a channel that knows neither, by its text.
fn is_of(line: &ShownLine, part: &OutboxRow) -> bool {
    let by_key = line.key.as_deref() == Some(part.key.as_str());
    let by_id = part.channel_message_id.as_deref() == Some(line.message_id.as_str());
    let in_doubt = is_in_doubt(part) || part.on_unknown == OnUnknown::Resend;
    let by_text =
        line.key.is_none() && in_doubt && part.text.as_deref() == Some(line.text.as_str());
    by_key || by_id || by_text
}

/// The beginning of a text, for a report.
fn quoted(text: &str) -> String {
    const SHOWN: usize = 40;
    let mut start: String = text.chars().take(SHOWN).collect();
    if text.chars().count() > SHOWN {
        start.push('…');
    }
    format!("{start:?}")
}
