//! `chatcron recheck`: would today's code decide as a journal says it was decided?

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    cli::{Exit, failure::Failure, plain, print},
    policy::{JournalEntry, Recheck, recheck},
};

/// Ask today's code about every decision of a journal.
///
/// A journal is written by `chatcron run --journal FILE`. Ends with 1 where any decision would be
/// taken differently.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The journal.
    journal: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What came of one line that is not the same.
struct Difference {
    line: usize,
    entry: JournalEntry,
    /// What today's code decides, or why it cannot.
    today: Result<Value, String>,
    zone_data_changed: bool,
    digest_differs: bool,
}

/// Counts over the whole journal; the differences are told as they are found.
#[derive(Default)]
struct Sums {
    decisions: usize,
    /// Lines that break off.
    unfinished: usize,
    /// Decisions of a later version than this one.
    newer: usize,
    differences: usize,
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let path = &arguments.journal;
    let file = File::open(path).map_err(|error| unreadable(path, &error.to_string()))?;
    let mut sums = Sums::default();
    if arguments.json {
        print("{\n  \"differences\": [")?;
    }
    for (index, line) in BufReader::new(file).split(b'\n').enumerate() {
        let line = line.map_err(|error| unreadable(path, &error.to_string()))?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let entry: JournalEntry = match serde_json::from_slice(&line) {
            Ok(entry) => entry,
            // Its process died while it wrote the line.
            Err(error) if error.is_eof() => {
                sums.unfinished += 1;
                continue;
            }
            Err(error) => {
                let why = format!("line {} is not a decision: {error}", index + 1);
                return Err(unreadable(path, &why));
            }
        };
        sums.decisions += 1;
        sums.newer += usize::from(is_newer(&entry.version, env!("CARGO_PKG_VERSION")));
        let Some(difference) = difference(index + 1, entry) else {
            continue;
        };
        if arguments.json {
            let comma = if sums.differences > 0 { "," } else { "" };
            let difference = in_json(&difference).to_string();
            print(&format!("{comma}\n    {difference}"))?;
        } else {
            print(&in_words(&difference))?;
        }
        sums.differences += 1;
    }
    if sums.newer > 0 {
        eprintln!("{}", newer(sums.newer));
    }
    if arguments.json {
        print(&format!(
            "\n  ],\n  \"decisions\": {},\n  \"unfinished\": {},\n  \"newer\": {}\n}}\n",
            sums.decisions, sums.unfinished, sums.newer
        ))?;
    } else {
        print(&summary(&sums))?;
    }
    Ok(if sums.differences == 0 {
        Exit::Fine
    } else {
        Exit::DoesNotHold
    })
}

fn unreadable(path: &Path, why: &str) -> Failure {
    let message = format!("cannot read the journal {}: {why}", path.display());
    Failure::new(Exit::CannotRead, message)
        .help("a journal is written by `chatcron run --journal FILE`, one decision a line")
}

fn newer(count: usize) -> String {
    let decided = crate::cli::words::counted(count as u64, "decision");
    format!(
        "warning: {decided} of a later version than this one, {}, which may know less than it takes",
        env!("CARGO_PKG_VERSION")
    )
}

/// Whether a version comes after another; a pre-release comes before its release.
fn is_newer(version: &str, than: &str) -> bool {
    let parts = |version: &str| {
        let whole = version.split('+').next().unwrap_or_default();
        let (numbers, is_release) = match whole.split_once('-') {
            Some((numbers, _)) => (numbers, false),
            None => (whole, true),
        };
        let numbers = numbers.split('.').map(|number| number.parse().ok());
        let numbers: Option<Vec<u64>> = numbers.collect();
        numbers.map(|numbers| (numbers, is_release))
    };
    // What is no version is none that this one has ever had.
    parts(version).is_none_or(|version| Some(version) > parts(than))
}

fn difference(line: usize, entry: JournalEntry) -> Option<Difference> {
    let digest_differs = entry.has_other_digest();
    let (today, zone_data_changed) = match recheck(&entry) {
        Ok(Recheck::Same) if !digest_differs => return None,
        Ok(Recheck::Same) => (Ok(json!(entry.decided.decision)), false),
        Ok(Recheck::Different {
            today,
            zone_data_changed,
        }) => (Ok(json!(today)), zone_data_changed),
        Err(error) => (Err(error.to_string()), entry.has_other_zone_data()),
    };
    Some(Difference {
        line,
        entry,
        today,
        zone_data_changed,
        digest_differs,
    })
}

fn in_json(difference: &Difference) -> Value {
    let entry = &difference.entry;
    json!({
        "line": difference.line,
        "job_id": entry.decided.job.id,
        "now": entry.decided.now,
        "version": entry.version,
        "event": entry.decided.event,
        "then": entry.decided.decision,
        "today": difference.today.as_ref().ok(),
        "error": difference.today.as_ref().err(),
        "zone_data_changed": difference.zone_data_changed,
        "digest_differs": difference.digest_differs,
    })
}

fn in_words(difference: &Difference) -> String {
    let entry = &difference.entry;
    let mut text = format!(
        "line {}: job {} at {}, decided by {}\n  event  {}\n  then   {}\n",
        difference.line,
        entry.decided.job.id,
        entry.decided.now,
        plain::line(&entry.version),
        plain::line(&json!(entry.decided.event).to_string()),
        plain::line(&json!(entry.decided.decision).to_string()),
    );
    match &difference.today {
        Ok(today) => text.push_str(&format!("  today  {}\n", plain::line(&today.to_string()))),
        Err(error) => text.push_str(&format!("  today  cannot be planned: {error}\n")),
    }
    if difference.zone_data_changed {
        text.push_str("  the zone's data is other than then, which may be why\n");
    }
    if difference.digest_differs {
        text.push_str(
            "  the digest is not that of the definition: the line was edited, \
             or the digest is made otherwise today\n",
        );
    }
    text
}

fn summary(sums: &Sums) -> String {
    let mut text = String::new();
    if sums.unfinished > 0 {
        text.push_str(&format!(
            "lines that break off, and were not read: {}\n",
            sums.unfinished
        ));
    }
    if sums.decisions == 0 {
        text.push_str("the journal has no decision\n");
        return text;
    }
    let same = sums.decisions - sums.differences;
    text.push_str(&format!(
        "{same} of {} decisions would be taken alike\n",
        sums.decisions
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_in_the_order_of_their_numbers() {
        for (version, is_later) in [
            ("0.1.0", false),
            ("0.0.9", false),
            ("0.1.0-beta", false),
            ("0.1.0+local", false),
            ("0.1.1", true),
            ("0.10.0", true),
            ("1.0.0-rc.1", true),
            ("next", true),
        ] {
            assert_eq!(is_newer(version, "0.1.0"), is_later, "{version}");
        }
    }
}
