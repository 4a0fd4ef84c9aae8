//! What becomes of an agent's answer: what is said, and the rows that are written besides it.

use crate::{
    agent::{AgentReply, AgentTurn},
    store::EntryDraft,
    transcript::{NewEntry, Role, TriggerSource, Visibility},
};

/// A reply that is exactly this says nothing, and nothing is sent.
pub const SILENCE: &str = "NO_REPLY";

/// What an agent said, by the rule of silence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Nothing, on purpose or because the answer was blank.
    Nothing,
    /// These words.
    Words(String),
}

/// Reads a reply: exactly the token is silence; a line that is only the token is left out.
pub fn said(reply: &str) -> Said {
    let is_token = |line: &str| line.trim() == SILENCE;
    let words = if reply.lines().any(is_token) {
        let lines: Vec<_> = reply.lines().filter(|line| !is_token(line)).collect();
        lines.join("\n")
    } else {
        reply.to_owned()
    };
    let words = words.trim();
    if words.is_empty() {
        Said::Nothing
    } else {
        Said::Words(words.to_owned())
    }
}

/// The rows of a run's attempt, other than what is shown: its prompt, tool calls and results, and
/// its answer where that goes to another place or nowhere. None of them is ever in a chat's recall.
pub fn run_rows(
    turn: &AgentTurn,
    reply: &AgentReply,
    answered_here: AnsweredHere,
) -> Vec<EntryDraft> {
    let mut entries: Vec<_> = turn.prompt.iter().chain(&reply.interior).cloned().collect();
    let shown_as_reply = answered_here == AnsweredHere::Yes && said(&reply.text) != Said::Nothing;
    if !shown_as_reply && !reply.text.trim().is_empty() {
        entries.push(NewEntry::text(Role::Assistant, reply.text.clone()));
    }
    drafts(turn, entries, Visibility::Internal)
}

/// Whether the session of a turn is the one that shows its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnsweredHere {
    /// The reply becomes rows here as the chat confirms it.
    Yes,
    /// The result goes to another place, or nowhere.
    No,
}

/// The rows of a person's turn, other than the reply: tool calls and results, and silence.
pub fn turn_rows(turn: &AgentTurn, reply: &AgentReply) -> Vec<EntryDraft> {
    let seen = if turn.trigger.is_automated() {
        Visibility::Internal
    } else {
        Visibility::Interior
    };
    let mut rows = drafts(turn, reply.interior.clone(), seen);
    if said(&reply.text) == Said::Nothing && !reply.text.trim().is_empty() {
        let silence = NewEntry::text(Role::Assistant, reply.text.clone());
        rows.extend(drafts(turn, vec![silence], Visibility::Internal));
    }
    rows
}

/// The rows of a run's attempt that called tools and came to no answer: what was asked, and what it
/// did. None of them is ever recalled.
pub fn unanswered_rows(turn: &AgentTurn, called: Vec<NewEntry>) -> Vec<EntryDraft> {
    if called.is_empty() {
        return Vec::new();
    }
    let entries = turn.prompt.iter().cloned().chain(called).collect();
    drafts(turn, entries, Visibility::Internal)
}

/// The same of a person's turn, whose words have their row already.
pub fn unanswered_turn_rows(turn: &AgentTurn, called: Vec<NewEntry>) -> Vec<EntryDraft> {
    drafts(turn, called, Visibility::Internal)
}

fn drafts(turn: &AgentTurn, entries: Vec<NewEntry>, visibility: Visibility) -> Vec<EntryDraft> {
    let trigger_source: TriggerSource = turn.trigger;
    entries
        .into_iter()
        .map(|entry| EntryDraft {
            session_key: turn.session_key.clone(),
            entry,
            visibility,
            trigger_source,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_follows_its_table() {
        let words = |text: &str| Said::Words(text.to_owned());
        let table = [
            ("NO_REPLY", Said::Nothing),
            ("  NO_REPLY\n", Said::Nothing),
            ("", Said::Nothing),
            (" \n ", Said::Nothing),
            ("NO_REPLY\nNO_REPLY", Said::Nothing),
            ("ok\n\nNO_REPLY", words("ok")),
            ("NO_REPLY\nAll is well.", words("All is well.")),
            (
                "I would say NO_REPLY here.",
                words("I would say NO_REPLY here."),
            ),
            ("no_reply", words("no_reply")),
        ];
        for (reply, expected) in table {
            assert_eq!(said(reply), expected, "{reply:?}");
        }
    }
}
