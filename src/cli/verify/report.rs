//! What came of the comparison, chat by chat.

use serde_json::{Value, json};

use crate::{
    cli::{
        json,
        names::Session,
        parts, plain,
        table::{Cell, Column, Screen, Table, Tone},
        words,
    },
    ids::SessionKey,
    outbound::verify::{Evidence, Finding, FindingKind, verify},
};

use super::logs::{LogFile, Logs};

/// The comparison of several chats.
#[derive(Debug)]
pub(super) struct Compared {
    chats: Vec<ComparedChat>,
    /// Lines of logs that belong to no chat that is known.
    foreign_lines: usize,
}

/// The comparison of one chat.
#[derive(Debug)]
struct ComparedChat {
    session: Session,
    agreed: u64,
    /// Messages of a person that the chat itself did not show.
    said: u64,
    /// The log, as it is called; `None` where only receipts could be compared.
    log: Option<String>,
    log_is_absent: bool,
    findings: Vec<Finding>,
}

impl Compared {
    /// Compares all chats with each other's evidence; reports on those `asked` for, or on all.
    pub(super) fn new(
        sessions: &[Session],
        evidence: &[Evidence],
        logs: &Logs,
        asked: &[SessionKey],
    ) -> Self {
        let all = verify(evidence);
        let chats = sessions
            .iter()
            .zip(evidence)
            .filter(|(session, _)| asked.is_empty() || asked.contains(&session.key))
            .map(|(session, evidence)| {
                let log = logs.channel_of(session);
                let of_chat = all
                    .findings
                    .iter()
                    .filter(|found| found.chat == session.key);
                let alone = verify(std::slice::from_ref(evidence));
                ComparedChat {
                    session: session.clone(),
                    agreed: alone.agreed,
                    said: alone.said,
                    log: log.map(|log| log.path.display().to_string()),
                    log_is_absent: log.is_some_and(|log| log.state == LogFile::Absent),
                    findings: of_chat.cloned().collect(),
                }
            })
            .collect();
        Self {
            chats,
            foreign_lines: logs.of_others(sessions),
        }
    }

    /// What of this comparison was found by an earlier one too. A worker that goes on meanwhile makes
    /// differences that pass; real ones stay.
    pub(super) fn that_stay(mut self, earlier: &Self) -> Self {
        let known: Vec<&Finding> = earlier
            .chats
            .iter()
            .flat_map(|chat| &chat.findings)
            .collect();
        for chat in &mut self.chats {
            chat.findings
                .retain(|finding| finding.kind == FindingKind::Info || known.contains(&finding));
        }
        self
    }

    pub(super) fn holds(&self) -> bool {
        let mut findings = self.chats.iter().flat_map(|chat| &chat.findings);
        findings.all(|finding| finding.kind == FindingKind::Info)
    }

    fn agreed(&self) -> u64 {
        self.chats.iter().map(|chat| chat.agreed).sum()
    }

    pub(super) fn json(&self) -> String {
        let chats: Vec<Value> = self.chats.iter().map(ComparedChat::json).collect();
        json::text(&json!({
            "holds": self.holds(),
            "agreed": self.agreed(),
            "foreign_lines": self.foreign_lines,
            "chats": chats,
        }))
    }

    pub(super) fn render(&self, screen: Screen) -> String {
        if self.chats.is_empty() {
            return String::from("there is no chat to compare\n");
        }
        let mut table = Table::new([Column::Left, Column::Left, Column::Breaks, Column::Breaks])
            .head(["chat", "messages", "", "compared with"]);
        for chat in &self.chats {
            table.row([
                Cell::toned(chat.session.name.clone(), Tone::Strong),
                chat.messages().into(),
                chat.counts(),
                chat.compared_with().into(),
            ]);
        }
        let mut out = table.render(screen);
        for chat in self.chats.iter().filter(|chat| !chat.findings.is_empty()) {
            out.push_str(&format!("in {}:\n", chat.session.name));
            out.push_str(&chat.findings(screen));
        }
        if self.foreign_lines > 0 {
            let lines = u64::try_from(self.foreign_lines).unwrap_or(u64::MAX);
            out.push_str(&format!(
                "not compared: {} of the logs, of chats that the jobs file does not have\n",
                words::counted(lines, "line")
            ));
        }
        out.push_str(&self.verdict(screen));
        out
    }

    fn verdict(&self, screen: Screen) -> String {
        let by_receipts = self.chats.iter().filter(|chat| chat.log.is_none()).count();
        let receipts = match by_receipts {
            0 => String::new(),
            count if count == self.chats.len() => String::from(", by receipts only"),
            count => format!(", {count} of them by receipts only"),
        };
        let chats = u64::try_from(self.chats.len()).unwrap_or(u64::MAX);
        let chats = words::counted(chats, "chat");
        if self.holds() {
            let agreed = words::counted(self.agreed(), "message");
            return format!("verified: {chats}{receipts}, {agreed}, no difference\n");
        }
        let mut findings = self.chats.iter().flat_map(|chat| &chat.findings);
        let differing = findings
            .by_ref()
            .filter(|f| f.kind != FindingKind::Info)
            .count();
        let differing = words::counted(u64::try_from(differing).unwrap_or(u64::MAX), "difference");
        let verdict = format!("NOT verified: {differing} in {chats}{receipts}");
        format!("{}\n", screen.toned(&verdict, Tone::Bad))
    }
}

impl ComparedChat {
    fn compared_with(&self) -> String {
        match &self.log {
            None => String::from("receipts only"),
            Some(log) if self.log_is_absent => format!("{log} (not there yet)"),
            Some(log) => log.clone(),
        }
    }

    /// `4 agree`, and how many were said by `say`.
    fn messages(&self) -> String {
        match self.said {
            0 => format!("{} agree", self.agreed),
            said => format!("{} agree, {said} by `say`", self.agreed),
        }
    }

    /// `2 missing, 1 info`.
    fn counts(&self) -> Cell {
        let mut kinds: Vec<FindingKind> = self.findings.iter().map(|found| found.kind).collect();
        kinds.sort_unstable();
        let counts: Vec<String> = kinds
            .chunk_by(|one, other| one == other)
            .map(|alike| format!("{} {}", alike.len(), kind(alike[0])))
            .collect();
        let differs = kinds.iter().any(|kind| *kind != FindingKind::Info);
        let tone = if differs { Tone::Bad } else { Tone::Usual };
        Cell::toned(counts.join(", "), tone)
    }

    fn findings(&self, screen: Screen) -> String {
        let mut table = Table::new([Column::Left, Column::Left, Column::Breaks]).indent(2);
        for finding in &self.findings {
            let tone = match finding.kind {
                FindingKind::Info => Tone::Usual,
                FindingKind::Missing
                | FindingKind::Extra
                | FindingKind::Duplicated
                | FindingKind::Altered
                | FindingKind::Reordered
                | FindingKind::WrongChat => Tone::Bad,
            };
            let id = finding.message_id.as_deref().unwrap_or_default();
            let id = if id.is_empty() {
                String::new()
            } else {
                parts::short_id(id)
            };
            table.row([
                Cell::toned(kind(finding.kind), tone),
                id.into(),
                plain::line(&finding.what).into(),
            ]);
        }
        table.render(screen)
    }

    fn json(&self) -> Value {
        let findings: Vec<Value> = self
            .findings
            .iter()
            .map(|finding| {
                json!({
                    "kind": finding.kind,
                    "message_id": finding.message_id,
                    "what": finding.what,
                })
            })
            .collect();
        json!({
            "chat": self.session.chat.as_ref().map(|chat| &chat.name),
            "session_key": self.session.key,
            "compared_with": if self.log.is_some() { "log" } else { "receipts" },
            "log": self.log,
            "agreed": self.agreed,
            "said": self.said,
            "findings": findings,
        })
    }
}

fn kind(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Missing => "missing",
        FindingKind::Extra => "extra",
        FindingKind::Duplicated => "duplicated",
        FindingKind::Altered => "altered",
        FindingKind::Reordered => "reordered",
        FindingKind::WrongChat => "wrong chat",
        FindingKind::Info => "info",
    }
}
