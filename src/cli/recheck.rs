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
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let path = &arguments.journal;
    let file = File::open(path).map_err(|error| unreadable(path, &error.to_string()))?;
    let (mut decisions, mut unfinished) = (0, 0);
    let mut differences = Vec::new();
    for (index, line) in BufReader::new(file).split(b'\n').enumerate() {
        let line = line.map_err(|error| unreadable(path, &error.to_string()))?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let entry: JournalEntry = match serde_json::from_slice(&line) {
            Ok(entry) => entry,
            // Its process died while it wrote the line.
            Err(error) if error.is_eof() => {
                unfinished += 1;
                continue;
            }
            Err(error) => {
                let why = format!("line {} is not a decision: {error}", index + 1);
                return Err(unreadable(path, &why));
            }
        };
        decisions += 1;
        differences.extend(difference(index + 1, entry));
    }
    let text = if arguments.json {
        in_json(decisions, unfinished, &differences)
    } else {
        in_words(decisions, unfinished, &differences)
    };
    print(&text)?;
    Ok(if differences.is_empty() {
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

fn difference(line: usize, entry: JournalEntry) -> Option<Difference> {
    let (today, zone_data_changed) = match recheck(&entry) {
        Ok(Recheck::Same) => return None,
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
    })
}

fn in_json(decisions: usize, unfinished: usize, differences: &[Difference]) -> String {
    let differences: Vec<Value> = differences
        .iter()
        .map(|difference| {
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
            })
        })
        .collect();
    let report = json!({
        "decisions": decisions,
        "unfinished": unfinished,
        "differences": differences,
    });
    format!("{report:#}\n")
}

fn in_words(decisions: usize, unfinished: usize, differences: &[Difference]) -> String {
    let mut text = String::new();
    for difference in differences {
        let entry = &difference.entry;
        text.push_str(&format!(
            "line {}: job {} at {}, decided by {}\n  event  {}\n  then   {}\n",
            difference.line,
            entry.decided.job.id,
            entry.decided.now,
            plain::line(&entry.version),
            plain::line(&json!(entry.decided.event).to_string()),
            plain::line(&json!(entry.decided.decision).to_string()),
        ));
        match &difference.today {
            Ok(today) => text.push_str(&format!("  today  {}\n", plain::line(&today.to_string()))),
            Err(error) => text.push_str(&format!("  today  cannot be planned: {error}\n")),
        }
        if difference.zone_data_changed {
            text.push_str("  the zone's data is other than then, which may be why\n");
        }
    }
    if unfinished > 0 {
        text.push_str(&format!(
            "lines that break off, and were not read: {unfinished}\n"
        ));
    }
    if decisions == 0 {
        text.push_str("the journal has no decision\n");
        return text;
    }
    let same = decisions - differences.len();
    text.push_str(&format!(
        "{same} of {decisions} decisions would be taken alike\n"
    ));
    text
}
