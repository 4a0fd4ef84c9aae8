//! An event log that is kept, and what is different from it.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
};

use crate::cli::{Exit, failure::Failure};

/// How many lines of each side are shown.
const SHOWN: usize = 10;
/// How many lines are shown before the first difference.
const BEFORE: usize = 2;

/// A log that is kept.
pub(super) enum Golden {
    Compare(PathBuf, String),
    Update(PathBuf),
}

/// What is done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Compare,
    Update,
}

/// How the log compares.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    NotAsked,
    Same(String),
    Written(String),
    Different(String),
}

impl Golden {
    /// Opens it before anything is simulated.
    pub(super) fn open(path: Option<&Path>, what: Use) -> Result<Option<Self>, Failure> {
        let Some(path) = path else { return Ok(None) };
        let name = path.display();
        if what == Use::Update {
            let opened = OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .map_err(|error| {
                    let message = format!("cannot write `{name}`: {error}");
                    Failure::new(Exit::CannotRead, message).help("nothing was simulated")
                })?;
            drop(opened);
            return Ok(Some(Self::Update(path.to_owned())));
        }
        let text = fs::read_to_string(path).map_err(|error| {
            let message = format!("cannot read `{name}`: {error}");
            Failure::new(Exit::CannotRead, message)
                .help("`--update-golden` writes it the first time")
        })?;
        Ok(Some(Self::Compare(path.to_owned(), text)))
    }

    /// Compares it with what has happened, or writes that.
    pub(super) fn settle(&self, log: &[u8]) -> Result<Answer, Failure> {
        match self {
            Self::Update(path) => {
                fs::write(path, log).map_err(|error| {
                    let message = format!("cannot write `{}`: {error}", path.display());
                    Failure::new(Exit::CannotRead, message)
                })?;
                Ok(Answer::Written(path.display().to_string()))
            }
            Self::Compare(path, kept) => {
                let name = path.display().to_string();
                let log = String::from_utf8_lossy(log);
                Ok(match difference(kept, &log) {
                    None => Answer::Same(name),
                    Some(text) => Answer::Different(format!(
                        "error: the events are not those of {name}\n{text}\
                         help: `--update-golden` keeps the new ones, if they are meant\n"
                    )),
                })
            }
        }
    }
}

impl Answer {
    pub(super) fn differs(&self) -> bool {
        matches!(self, Self::Different(_))
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::NotAsked => String::new(),
            Self::Same(name) => format!("golden log {name}: the same\n"),
            Self::Written(name) => format!("golden log {name}: written\n"),
            Self::Different(text) => text.clone(),
        }
    }
}

/// What differs between two logs, between what both begin with and what both end with.
fn difference(kept: &str, log: &str) -> Option<String> {
    if kept == log {
        return None;
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (kept.lines().collect(), log.lines().collect());
    let same = |(old, new): &(&&str, &&str)| old == new;
    let start = old.iter().zip(&new).take_while(same).count();
    let (old_rest, new_rest) = (&old[start..], &new[start..]);
    let end = old_rest
        .iter()
        .rev()
        .zip(new_rest.iter().rev())
        .take_while(same)
        .count();
    let (old_part, new_part) = (
        &old_rest[..old_rest.len() - end],
        &new_rest[..new_rest.len() - end],
    );
    let mut text = format!(
        "from line {}: {} of the kept log, {} now\n",
        start + 1,
        lines(old_part.len()),
        lines(new_part.len()),
    );
    for line in &old[start.saturating_sub(BEFORE)..start] {
        text.push_str(&format!("  {line}\n"));
    }
    for (sign, part) in [("- ", old_part), ("+ ", new_part)] {
        for line in part.iter().take(SHOWN) {
            text.push_str(&format!("{sign}{line}\n"));
        }
        if part.len() > SHOWN {
            text.push_str(&format!("{sign}and {} more\n", lines(part.len() - SHOWN)));
        }
    }
    Some(text)
}

fn lines(count: usize) -> String {
    crate::cli::words::counted(u64::try_from(count).unwrap_or(u64::MAX), "line")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_with_what_stands_before_it() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(
            difference("a\nb\nc\nd\nz\n", "a\nb\nc\nx\ny\nz\n").unwrap(),
            "from line 4: 1 line of the kept log, 2 lines now\n  b\n  c\n- d\n+ x\n+ y\n"
        );
        let long = "n\n".repeat(30);
        let shown = difference("", &long).unwrap();
        assert!(shown.ends_with("+ and 20 lines more\n"), "{shown}");
    }
}
