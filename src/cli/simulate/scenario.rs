//! Scenario files, and windows that are none.

use std::{fs, path::Path};

use jiff::{Timestamp, tz::TimeZone};

use crate::{
    cli::{Colour, Exit, failure::Failure, report},
    config::{self, JobsFile},
    ids::ChatName,
    simulate::{Scenario, Window, WindowError, Written},
};

use super::options;

/// Reads a scenario file. Nothing where something in it is wrong, which is told.
///
/// # Errors
/// Where it cannot be read, or names a job that there is not.
pub(super) fn load(path: &Path, file: &JobsFile) -> Result<Option<Written>, Failure> {
    let name = path.display().to_string();
    let source = fs::read_to_string(path).map_err(|error| {
        let message = format!("cannot read `{name}`: {error}");
        Failure::new(Exit::CannotRead, message).help("name a scenario file that can be read")
    })?;
    let loaded = config::parse_scenario(&source);
    let Some(written) = loaded.scenario else {
        let problems = (&*loaded.source, &loaded.problems[..]);
        eprint!("{}", report::problems(&name, problems, Colour::of_stderr()));
        return Ok(None);
    };
    let jobs = options::names(file);
    let named = written.run_times.iter().map(|(id, _)| ("run_times", id));
    let named = named.chain(written.failures.iter().map(|(id, _)| ("fail", id)));
    let expected = written
        .expects
        .iter()
        .filter_map(|expect| expect.job.as_ref());
    for (key, id) in named.chain(expected.map(|id| ("expect", id))) {
        options::known(
            key,
            "job",
            id.as_str(),
            &jobs,
            &format!("what `{name}` is for"),
        )?;
    }
    let chats: Vec<&str> = file.directory.chats.keys().map(ChatName::as_str).collect();
    for (chat, _) in &written.channel_failures {
        let place = format!("what `{name}` is for");
        options::known("channel_fail", "chat", chat.as_str(), &chats, &place)?;
    }
    Ok(Some(written))
}

/// The window and the world.
///
/// # Errors
/// The option that is wrong, and what is accepted.
pub(super) fn resolve(
    written: &Written,
    zone: &TimeZone,
    today: Timestamp,
) -> Result<(Window, Scenario), Failure> {
    written.resolve(zone, today).map_err(|error| {
        let help = match &error {
            WindowError::NoEnd => "add `--for 7d`, or `--to T`",
            WindowError::Reversed { .. } => "`--from` comes before `--to`",
            WindowError::TooLong { .. } => "a shorter `--for`, or an earlier `--to`",
            WindowError::TwoEnds => "keep one of `--to` and `--for`",
            WindowError::ReversedStretch { .. } => {
                "`--outage A..B` and `--fail JOB=A..B`: A comes before B"
            }
            WindowError::OutOfRange(_) => "a moment in the years 1 to 9999",
        };
        Failure::new(Exit::Usage, error.to_string()).help(help)
    })
}
