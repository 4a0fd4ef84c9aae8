//! An event log that is kept, and what is different from it.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, BufRead, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use similar::{ChangeTag, TextDiff};

use crate::cli::{Exit, failure::Failure};

/// How many lines of a difference are shown.
const SHOWN: usize = 40;
/// How many lines are shown around each.
const AROUND: usize = 2;
/// How many lines of each log are compared from the first difference on.
const COMPARED: usize = 50_000;
/// The longest line of a kept log, in bytes; no event is as long.
const LINE: u64 = 1 << 20;
/// After this the smallest difference is looked for no longer; a larger one is shown.
const PATIENCE: Duration = Duration::from_secs(5);

/// A log that is kept.
pub(super) enum Golden {
    Compare(Comparison),
    Update(Rewriting),
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
        let name = path.display().to_string();
        if what == Use::Update {
            let opened = Rewriting::open(path).map_err(|error| {
                let message = format!("cannot write `{name}`: {error}");
                Failure::new(Exit::CannotRead, message).help("nothing was simulated")
            })?;
            return Ok(Some(Self::Update(opened)));
        }
        let kept = File::open(path).map_err(|error| {
            let message = format!("cannot read `{name}`: {error}");
            Failure::new(Exit::CannotRead, message)
                .help("`--update-golden` writes it the first time")
        })?;
        let kept = BufReader::new(kept);
        Ok(Some(Self::Compare(Comparison::with(name, Box::new(kept)))))
    }

    /// Takes the next whole lines of the log.
    pub(super) fn take(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Compare(comparison) => comparison.take(lines),
            Self::Update(rewriting) => rewriting.file.write_all(lines),
        }
    }

    /// What has come of it.
    pub(super) fn settle(self) -> Result<Answer, Failure> {
        match self {
            Self::Update(rewriting) => rewriting.end(),
            Self::Compare(comparison) => comparison.end(),
        }
    }
}

/// A log that replaces the kept one when it is whole.
pub(super) struct Rewriting {
    path: PathBuf,
    beside: PathBuf,
    file: BufWriter<File>,
}

impl Rewriting {
    fn open(path: &Path) -> io::Result<Self> {
        // What a link names is replaced, and not the link.
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut beside = target.clone().into_os_string();
        beside.push(".partial");
        let beside = PathBuf::from(beside);
        Ok(Self {
            file: BufWriter::new(File::create(&beside)?),
            path: target,
            beside,
        })
    }

    fn end(mut self) -> Result<Answer, Failure> {
        let written = self.file.flush();
        let replaced = written.and_then(|()| fs::rename(&self.beside, &self.path));
        let name = self.path.display().to_string();
        match replaced {
            Ok(()) => Ok(Answer::Written(name)),
            Err(error) => {
                let message = format!("cannot write `{name}`: {error}");
                Err(Failure::new(Exit::CannotRead, message)
                    .help("name a file that can be written with --golden"))
            }
        }
    }
}

impl Drop for Rewriting {
    fn drop(&mut self) {
        // There is none after it has replaced the kept one.
        let _ = fs::remove_file(&self.beside);
    }
}

/// A log beside the kept one, line by line; only lines from the first difference on are held.
pub(super) struct Comparison {
    name: String,
    kept: Box<dyn BufRead>,
    /// How many lines were the same.
    same: usize,
    /// The last of them.
    before: VecDeque<String>,
    /// From the first difference on.
    other: Option<Tails>,
}

/// What follows the lines that are the same.
#[derive(Default)]
struct Tails {
    kept: Tail,
    log: Tail,
}

#[derive(Default)]
struct Tail {
    lines: String,
    count: usize,
    /// Lines that are not held.
    more: usize,
}

impl Tail {
    fn push(&mut self, line: &str) {
        if self.count < COMPARED {
            self.lines.push_str(line);
            self.count += 1;
        } else {
            self.more += 1;
        }
    }
}

impl Comparison {
    fn with(name: String, kept: Box<dyn BufRead>) -> Self {
        Self {
            name,
            kept,
            same: 0,
            before: VecDeque::new(),
            other: None,
        }
    }

    fn take(&mut self, lines: &[u8]) -> io::Result<()> {
        for line in String::from_utf8_lossy(lines).split_inclusive('\n') {
            if let Some(other) = &mut self.other {
                other.log.push(line);
                continue;
            }
            let kept = self.next_kept()?;
            if kept.as_deref() == Some(line) {
                self.same += 1;
                self.before.push_back(line.to_owned());
                if self.before.len() > AROUND {
                    self.before.pop_front();
                }
                continue;
            }
            let mut tails = Tails::default();
            tails.log.push(line);
            if let Some(kept) = kept {
                tails.kept.push(&kept);
            }
            self.other = Some(tails);
        }
        Ok(())
    }

    /// The next line of the kept log, with its line break.
    fn next_kept(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        let mut bounded = self.kept.by_ref().take(LINE);
        let read = bounded.read_until(b'\n', &mut line)?;
        Ok((read > 0).then(|| String::from_utf8_lossy(&line).into_owned()))
    }

    fn end(mut self) -> Result<Answer, Failure> {
        let unreadable = |error: io::Error| {
            let message = format!("cannot read the kept log: {error}");
            Failure::new(Exit::CannotRead, message).help("`--update-golden` writes it anew")
        };
        while let Some(line) = self.next_kept().map_err(unreadable)? {
            self.other.get_or_insert_default().kept.push(&line);
        }
        Ok(match self.other.take() {
            None => Answer::Same(self.name),
            Some(tails) => Answer::Different(format!(
                "error: the events are not those of {}\n{}\
                 help: `--update-golden` keeps the new ones, if they are meant\n",
                self.name,
                self.difference(&tails),
            )),
        })
    }

    /// What differs, with the lines around it.
    fn difference(&self, tails: &Tails) -> String {
        let before: String = self.before.iter().map(String::as_str).collect();
        let kept = format!("{before}{}", tails.kept.lines);
        let log = format!("{before}{}", tails.log.lines);
        let mut text = difference(&kept, &log, self.same - self.before.len());
        if tails.kept.more + tails.log.more > 0 {
            text.push_str(&format!(
                "compared were {COMPARED} lines of each from the first difference on; \
                 there are {} more of the kept log, and {} more new\n",
                lines(tails.kept.more),
                lines(tails.log.more),
            ));
        }
        text
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

/// What differs between two texts that so many lines come before.
fn difference(kept: &str, log: &str, before: usize) -> String {
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
    let (mut shown, mut more) = (0, 0);
    let mut show = |line: &str| {
        shown += 1;
        if shown <= SHOWN {
            text.push_str(line.trim_end_matches('\n'));
            text.push('\n');
        } else {
            more += 1;
        }
    };
    let mut unified = diff.unified_diff();
    for hunk in unified.context_radius(AROUND).iter_hunks() {
        let (Some(first), Some(last)) = (hunk.ops().first(), hunk.ops().last()) else {
            continue;
        };
        let range = |from: usize, to: usize| match to - from {
            1 => format!("{}", before + from + 1),
            0 => format!("{},0", before + from),
            many => format!("{},{many}", before + from + 1),
        };
        show(&format!(
            "@@ -{} +{} @@",
            range(first.old_range().start, last.old_range().end),
            range(first.new_range().start, last.new_range().end),
        ));
        for change in hunk.iter_changes() {
            show(&format!("{}{}", change.tag(), change.value()));
        }
    }
    if more > 0 {
        text.push_str(&format!("and {} more\n", lines(more)));
    }
    text
}

fn lines(count: usize) -> String {
    crate::cli::words::counted(u64::try_from(count).unwrap_or(u64::MAX), "line")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of a log beside a kept one; the log comes in two pieces.
    fn compared(kept: &str, log: &str) -> Option<String> {
        let kept = io::Cursor::new(kept.to_owned());
        let mut comparison = Comparison::with("kept".to_owned(), Box::new(kept));
        let half = log.len() / 2;
        let middle = log[..half].rfind('\n').map_or(0, |place| place + 1);
        comparison.take(&log.as_bytes()[..middle]).unwrap();
        comparison.take(&log.as_bytes()[middle..]).unwrap();
        match comparison.end().unwrap() {
            Answer::Same(_) => None,
            Answer::Different(text) => {
                let told = text.strip_prefix("error: the events are not those of kept\n");
                let told = told.and_then(|told| told.rsplit_once("help: "));
                Some(told.unwrap().0.to_owned())
            }
            other @ (Answer::NotAsked | Answer::Written(_)) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_difference_is_shown_with_what_stands_before_it() {
        assert_eq!(compared("a\nb\n", "a\nb\n"), None);
        assert_eq!(
            compared("a\nb\nc\nd\nz\n", "a\nb\nc\nx\ny\nz\n").unwrap(),
            "1 line of the kept log gone, 2 lines new\n@@ -2,4 +2,5 @@\n b\n c\n-d\n+x\n+y\n z\n"
        );
        let long = "n\n".repeat(50);
        let shown = compared("", &long).unwrap();
        assert!(shown.ends_with("+n\nand 11 lines more\n"), "{shown}");
    }

    #[test]
    fn a_log_that_breaks_off_or_goes_on_differs() {
        assert_eq!(
            compared("a\nb\nc\n", "a\nb\n").unwrap(),
            "1 line of the kept log gone, 0 lines new\n@@ -1,3 +1,2 @@\n a\n b\n-c\n"
        );
        assert_eq!(
            compared("a\nb\n", "a\nb\nc\n").unwrap(),
            "0 lines of the kept log gone, 1 line new\n@@ -1,2 +1,3 @@\n a\n b\n+c\n"
        );
    }

    #[test]
    fn lines_that_both_logs_have_are_no_difference() {
        let kept: String = (0..1000).map(|line| format!("{line}\n")).collect();
        let log = kept
            .replace("\n10\n", "\nten\n")
            .replace("\n900\n", "\nmany\n");
        let shown = compared(&kept, &log).unwrap();
        assert!(
            shown.starts_with("2 lines of the kept log gone, 2 lines new\n@@ -9,5 +9,5 @@\n"),
            "{shown}"
        );
        assert!(shown.contains("\n@@ -899,5 +899,5 @@\n"), "{shown}");
    }

    #[test]
    fn of_logs_without_an_end_a_part_is_held() {
        let kept = format!("kept\n{}", "n\n".repeat(COMPARED + 6));
        let log = format!("log\n{}", "n\n".repeat(COMPARED));
        let shown = compared(&kept, &log).unwrap();
        let says = "there are 7 lines more of the kept log, and 1 line more new\n";
        assert!(shown.ends_with(says), "{shown}");
    }
}
