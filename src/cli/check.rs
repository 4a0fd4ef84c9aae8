//! `chatcron check`: every mistake of the jobs file at its line.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::{
    cli::{Colour, Exit, failure::Failure, jobs_file, print, report},
    clock::{Clock, SystemClock},
    config::Level,
};

/// Check a jobs file: every mistake at its line.
///
/// Ends with 1 where anything is an error; warnings alone end with 0, unless they are denied.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The jobs file.
    #[arg(default_value = "jobs.toml")]
    file: PathBuf,
    /// Print the problems as JSON.
    #[arg(long)]
    json: bool,
    /// Let these end with 1 too.
    #[arg(long, value_enum, value_name = "WHAT")]
    deny: Option<Denied>,
}

/// What ends with 1 besides errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Denied {
    /// What works, and may not be what was meant.
    Warnings,
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let loaded = jobs_file::load(&arguments.file, SystemClock.now())?;
    let path = arguments.file.display().to_string();
    let text = if arguments.json {
        report::json(&path, &loaded)
    } else {
        report::text(&path, &loaded, Colour::of_stdout())
    };
    print(&text)?;
    let denied = match arguments.deny {
        Some(Denied::Warnings) => loaded.count(Level::Warning) > 0,
        None => false,
    };
    Ok(if loaded.has_errors() || denied {
        Exit::DoesNotHold
    } else {
        Exit::Fine
    })
}
