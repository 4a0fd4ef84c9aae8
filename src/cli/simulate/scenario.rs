//! Scenario files, and windows that are none.

use std::{fs, path::Path};

use jiff::{Timestamp, tz::TimeZone};

use crate::{
    cli::{Colour, Exit, failure::Failure, report, words},
    config::{self, JobsFile, Names},
    ids::ChatName,
    job::Job,
    simulate::{Scenario, Window, WindowError, Written},
};

use super::options;

const OUTSIDE: &str = "move it, or make the window larger with `--from`, `--to` or `--for`";

/// Reads a scenario file for a jobs file.
///
/// # Errors
/// Where it cannot be read, or something in it is wrong, which is told at its line.
pub(super) fn load(path: &Path, file: &JobsFile) -> Result<Written, Failure> {
    let name = path.display().to_string();
    let source = fs::read_to_string(path).map_err(|error| {
        let message = format!("cannot read `{name}`: {error}");
        Failure::new(Exit::CannotRead, message).help("name a scenario file that can be read")
    })?;
    let chats: Vec<&str> = file.directory.chats.keys().map(ChatName::as_str).collect();
    let names = Names {
        jobs: &options::names(file),
        chats: &chats,
    };
    let loaded = config::parse_scenario(&source, names);
    let problems = (&*loaded.source, &loaded.problems[..]);
    eprint!("{}", report::problems(&name, problems, Colour::of_stderr()));
    loaded.scenario.ok_or_else(|| wrong(&name))
}

/// Nothing is simulated in a world that is not the one that is meant.
pub(super) fn wrong(path: &str) -> Failure {
    let message = format!("the scenario in `{path}` is wrong, and nothing was simulated");
    Failure::new(Exit::Usage, message).help("the mistakes are shown above")
}

/// The window and the world. What is not as it is written is told.
///
/// # Errors
/// The option that is wrong, and what is accepted.
pub(super) fn resolve(
    written: &Written,
    (name, zone): (&str, &TimeZone),
    today: Timestamp,
    jobs: &[Job],
) -> Result<(Window, Scenario), Failure> {
    let resolved = written.resolve(zone, today).map_err(|error| {
        let help = match &error {
            WindowError::NoEnd => "add `--for 7d`, or `--to T`",
            WindowError::Reversed { .. } => "`--from` comes before `--to`",
            WindowError::TooLong { .. } => "a shorter `--for`, or an earlier `--to`",
            WindowError::TwoEnds => "keep one of `--to` and `--for`",
            WindowError::ReversedStretch { .. } => {
                "`--outage A..B` and `--fail JOB=A..B`: A comes before B"
            }
            WindowError::OutOfRange(_) => "a moment in the years 1 to 9999",
            WindowError::Outside { .. } => OUTSIDE,
        };
        Failure::new(Exit::Usage, error.to_string()).help(help)
    })?;
    let window = resolved.window;
    for (written, taken) in resolved.moved {
        let taken = words::dated(taken.to_zoned_datetime(zone.clone()).datetime());
        let written = words::dated(written);
        eprintln!("warning: {written} does not exist in {name}; {taken} is taken for it");
    }
    for expect in &written.expects {
        let job = jobs.iter().find(|job| expect.job.as_ref() == Some(&job.id));
        let zone = job.map(|job| words::zone(&job.schedule.zone));
        let outside = zone.and_then(|zone| expect.slot_outside(window, &zone));
        if let (Some(job), Some(slot)) = (job, outside) {
            let message = format!(
                "`slots` of job `{}`: {slot} is outside of the window, which is from {} to {}",
                job.id, window.from, window.to
            );
            return Err(Failure::new(Exit::Usage, message).help(OUTSIDE));
        }
    }
    Ok((window, resolved.scenario))
}
