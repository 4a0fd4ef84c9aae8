//! Tool calls that wait for their results, and ids that every family accepts.

use std::collections::{HashSet, VecDeque};

/// The longest id of a call and name of a tool that all families accept.
const ID_MAX: usize = 40;
const NAME_MAX: usize = 64;

/// The calls of one request so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    used: HashSet<String>,
    /// Calls without a result: the id in the rows, and the id in the request.
    open: VecDeque<(String, String)>,
}

impl Calls {
    /// Opens a call, and gives its id and its tool's name as the request spells them.
    ///
    /// An id that was used before, or that a provider would refuse, gets another one that depends
    /// only on the calls so far.
    pub(super) fn open(&mut self, id: String, name: &str) -> (String, String) {
        let fits = (1..=ID_MAX).contains(&id.len()) && id.chars().all(is_plain);
        let mut number = self.used.len();
        let mut sent = if fits {
            id.clone()
        } else {
            format!("call_{number}")
        };
        while !self.used.insert(sent.clone()) {
            sent = format!("call_{number}");
            number += 1;
        }
        self.open.push_back((id, sent.clone()));
        (sent, tool_name(name))
    }

    /// Closes the open call with this id in the rows.
    pub(super) fn answer(&mut self, id: &str) -> Option<String> {
        let at = self.open.iter().position(|(stored, _)| stored == id)?;
        self.open.remove(at).map(|(_, sent)| sent)
    }

    /// Closes the first open call.
    pub(super) fn answer_next(&mut self) -> Option<String> {
        self.open.pop_front().map(|(_, sent)| sent)
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn tool_name(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .take(NAME_MAX)
        .collect();
    if plain.is_empty() {
        "tool".to_owned()
    } else {
        plain
    }
}
