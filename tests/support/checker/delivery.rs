//! I3, I4 and I5: what was shown, what is in history, and in which order.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Found, Line, Rules,
    facts::{Facts, Part},
};

/// The part that a line is; by its key where there is one, else by chat and text.
fn part_of<'a>(facts: &'a Facts, line: &Line) -> Option<&'a Part> {
    let mut parts = facts.parts.iter();
    match &line.key {
        Some(key) => parts.find(|part| part.key == *key),
        None => parts
            .filter(|part| part.chat == line.chat)
            .find(|part| part.text.as_deref().map(str::trim) == Some(line.text.trim())),
    }
}

/// I3.
pub(super) fn shown_once(facts: &Facts, rules: &Rules, lines: &[Line], found: &mut Found) {
    let mut shown: BTreeMap<i64, Vec<&Line>> = BTreeMap::new();
    for line in lines {
        match part_of(facts, line) {
            Some(part) => {
                found.unless(part.chat == line.chat, "I3", || {
                    format!("part {} was shown in {}", part.id, line.chat)
                });
                shown.entry(part.id).or_default().push(line);
            }
            None => found.unless(false, "I3", || {
                format!("{} showed {:?}, which nobody sent", line.chat, line.text)
            }),
        }
    }
    for part in &facts.parts {
        let times = shown.get(&part.id).map_or(0, Vec::len);
        let is_blind = rules.blind.iter().any(|chats| part.chat.starts_with(chats));
        let is_right = match (part.state.as_str(), part.resend && is_blind) {
            ("confirmed", true) => times >= 1,
            ("confirmed", false) => times == 1,
            ("unknown", true) => true,
            ("unknown", false) => times <= 1,
            ("failed" | "cancelled", _) => times == 0,
            // I7 tells of the others.
            (_, _) => times <= 1,
        };
        found.unless(is_right, "I3", || {
            format!(
                "part {} is {} and was shown {times} times",
                part.id, part.state
            )
        });
        let tells = |code: &str| part.codes.iter().any(|known| known == code);
        found.unless(part.state != "unknown" || tells("unknown"), "I3", || {
            format!("part {} is unknown, and nobody is told", part.id)
        });
    }
}

/// I3: what a run that is done had to say is in the outbox, whole.
pub(super) fn nothing_is_lost(facts: &Facts, found: &mut Found) {
    let mut parts: BTreeMap<i64, Vec<&Part>> = BTreeMap::new();
    for part in &facts.parts {
        parts.entry(part.message).or_default().push(part);
    }
    for (message, parts) in &parts {
        let numbers: Vec<i64> = parts.iter().map(|part| part.number).collect();
        let all: Vec<i64> = (1..=parts[0].of).collect();
        found.unless(numbers == all, "I3", || {
            format!(
                "message {message} has the parts {numbers:?} of {}",
                parts[0].of
            )
        });
    }
    for run in facts.runs.iter().filter(|run| run.state == "done") {
        let Some(row) = facts
            .occurrences
            .iter()
            .find(|row| row.id == run.occurrence)
        else {
            continue;
        };
        let results: BTreeSet<i64> = facts
            .parts
            .iter()
            .filter(|part| part.run == Some(run.id))
            .filter(|part| matches!(part.origin.as_str(), "job_result" | "turn_reply"))
            .map(|part| part.message)
            .collect();
        let expected = usize::from(row.has_destination && run.reason.is_none());
        found.unless(results.len() == expected, "I3", || {
            format!("run {} is done and has {} results", run.id, results.len())
        });
    }
}

/// I4.
pub(super) fn transcripts_are_what_was_shown(facts: &Facts, lines: &[Line], found: &mut Found) {
    // Keys of parts that are declared to stand elsewhere than where they were shown, or nowhere.
    let mut elsewhere = BTreeSet::new();
    let mut late = BTreeSet::new();
    for part in &facts.parts {
        let tells = |code: &str| part.codes.iter().any(|known| known == code);
        if part.state == "unknown" || tells("other-agent") || tells("native-only") {
            elsewhere.insert(part.id);
        }
        if tells("order") {
            late.insert(part.key.as_str());
        }
    }
    let chats: BTreeSet<&str> = facts.parts.iter().map(|part| part.chat.as_str()).collect();
    // A webhook that a job names is no chat: its lane is `webhook:` and a digest.
    let is_chat = |chat: &&str| chat.split(':').count() > 2;
    for chat in chats.into_iter().filter(is_chat) {
        let mut seen = BTreeSet::new();
        let mut shown = Vec::new();
        for line in lines.iter().filter(|line| line.chat == chat) {
            let Some(part) = part_of(facts, line) else {
                continue;
            };
            // A declared second copy stands for the message that is in history.
            let is_copy = part.resend && !seen.insert(part.id);
            if !elsewhere.contains(&part.id) && !is_copy {
                let id = (!part.resend).then_some(line.message_id.as_str());
                shown.push((part.key.as_str(), id, line.text.trim()));
            }
        }
        let mut history = Vec::new();
        for row in facts.rows.iter().filter(|row| row.session == chat) {
            if row.visibility != "visible" || row.role == "user" {
                continue;
            }
            let part = facts.parts.iter().find(|part| {
                part.chat == chat
                    && (row.key.as_ref() == Some(&part.key)
                        || row.channel_message_id.is_some()
                            && row.channel_message_id == part.channel_message_id)
            });
            let Some(part) = part else {
                found.unless(false, "I4", || {
                    format!("{chat} has a row {:?} that nobody sent", row.text)
                });
                continue;
            };
            let id = row.channel_message_id.as_deref().filter(|_| !part.resend);
            history.push((part.key.as_str(), id, row.text.trim()));
        }
        let is_late = |entry: &(&str, Option<&str>, &str)| late.contains(entry.0);
        let in_order =
            |all: &[(&'_ str, Option<&'_ str>, &'_ str)]| -> Vec<(String, Option<String>, String)> {
                let kept = all.iter().filter(|entry| !is_late(entry));
                kept.map(|(key, id, text)| {
                    ((*key).to_owned(), id.map(str::to_owned), (*text).to_owned())
                })
                .collect()
            };
        found.unless(in_order(&shown) == in_order(&history), "I4", || {
            format!("{chat} showed {shown:#?} and its history has {history:#?}")
        });
        let (mut shown, mut history) = (shown, history);
        shown.sort_unstable();
        history.sort_unstable();
        found.unless(shown == history, "I4", || {
            format!("{chat}: what was told late is not in history once")
        });
    }
}

/// I5.
pub(super) fn parts_stand_together(facts: &Facts, lines: &[Line], found: &mut Found) {
    let mut by_chat: BTreeMap<&str, Vec<&Part>> = BTreeMap::new();
    for line in lines {
        if let Some(part) = part_of(facts, line) {
            let shown = by_chat.entry(&part.chat).or_default();
            let is_copy = shown.iter().any(|earlier| earlier.id == part.id);
            if !is_copy {
                shown.push(part);
            }
        }
    }
    for (chat, shown) in by_chat {
        let mut ended = BTreeSet::new();
        for pair in shown.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            if before.message == after.message {
                found.unless(before.number < after.number, "I5", || {
                    format!("{chat}: part {} was shown before {}", before.id, after.id)
                });
                continue;
            }
            ended.insert(before.message);
            let has_yielded = after.codes.iter().any(|code| code == "yielded");
            found.unless(has_yielded || !ended.contains(&after.message), "I5", || {
                format!("{chat}: message {} is torn apart", after.message)
            });
        }
    }
}
