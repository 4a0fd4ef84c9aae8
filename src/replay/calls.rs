//! Tool calls that wait for their results, and ids that the family accepts.

use std::collections::{HashSet, VecDeque};

use super::family::IdForm;

/// The longest id of a call and name of a tool that all families accept.
const ID_MAX: usize = 40;
const NAME_MAX: usize = 64;

/// The calls of one request so far.
#[derive(Debug)]
pub(super) struct Calls {
    form: IdForm,
    used: HashSet<String>,
    /// Calls without a result: the id in the rows, and the id in the request.
    open: VecDeque<(String, String)>,
}

impl Calls {
    pub(super) fn new(form: IdForm) -> Self {
        Self {
            form,
            used: HashSet::new(),
            open: VecDeque::new(),
        }
    }

    /// Opens a call, and gives its id and its tool's name as the request spells them.
    ///
    /// An id that was used before, or that a provider would refuse, gets another one that depends
    /// only on the calls so far.
    pub(super) fn open(&mut self, id: String, name: &str) -> (String, String) {
        let mut number = self.used.len();
        let mut sent = if self.form.fits(&id) {
            id.clone()
        } else {
            self.form.make(number)
        };
        while !self.used.insert(sent.clone()) {
            sent = self.form.make(number);
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

impl IdForm {
    fn fits(self, id: &str) -> bool {
        let is_alphanumeric = id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        match self {
            Self::Plain => (1..=ID_MAX).contains(&id.len()) && id.chars().all(is_plain),
            Self::Alphanumeric => (1..=ID_MAX).contains(&id.len()) && is_alphanumeric,
            Self::Nine => id.len() == 9 && is_alphanumeric,
        }
    }

    fn make(self, number: usize) -> String {
        match self {
            Self::Plain => format!("call_{number}"),
            Self::Alphanumeric => format!("call{number}"),
            // More calls than that are in no request that a model could read.
            Self::Nine => format!("c{:08}", number % 100_000_000),
        }
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// A name that every family accepts: it begins with a letter or `_`.
fn tool_name(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        plain.push_str(if name.is_empty() { "tool" } else { "_" });
    }
    plain.extend(name.chars().map(|c| if is_plain(c) { c } else { '_' }));
    plain.truncate(NAME_MAX);
    plain
}
