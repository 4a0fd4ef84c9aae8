//! An event log that is kept, and what is different from it.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    time::Duration,
};

use similar::{ChangeTag, TextDiff};

use crate::cli::{Exit, failure::Failure};

/// How many lines of a difference are shown.
const SHOWN: usize = 40;
/// How many lines are shown around each.
const AROUND: usize = 2;
/// After this the smallest difference is looked for no longer; a larger one is shown.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// What differs between two logs, with the lines around it.
fn difference(kept: &str, log: &str) -> Option<String> {
    if kept == log {
        return None;
    }
    let diff = TextDiff::configure()
        .timeout(PATIENCE)
        .diff_lines(kept, log);
    let count = |tag| {
        diff.iter_all_changes()
            .filter(|line| line.tag() == tag)
            .count()
    };
    let mut text = format!(
        "{} of the kept log gone, {} new\n",
        lines(count(ChangeTag::Delete)),
        lines(count(ChangeTag::Insert)),
    );
    let shown = diff.unified_diff().context_radius(AROUND).to_string();
    let mut shown = shown.lines();
    for line in shown.by_ref().take(SHOWN) {
        text.push_str(&format!("{line}\n"));
    }
    let more = shown.count();
    if more > 0 {
        text.push_str(&format!("and {} more\n", lines(more)));
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
            "1 line of the kept log gone, 2 lines new\n@@ -2,4 +2,5 @@\n b\n c\n-d\n+x\n+y\n z\n"
        );
        let long = "n\n".repeat(50);
        let shown = difference("", &long).unwrap();
        assert!(shown.ends_with("+n\nand 11 lines more\n"), "{shown}");
    }

    #[test]
    fn lines_that_both_logs_have_are_no_difference() {
        let kept: String = (0..1000).map(|line| format!("{line}\n")).collect();
        let log = kept
            .replace("\n10\n", "\nten\n")
            .replace("\n900\n", "\nmany\n");
        let shown = difference(&kept, &log).unwrap();
        assert!(
            shown.starts_with("2 lines of the kept log gone, 2 lines new\n"),
            "{shown}"
        );
    }
}
