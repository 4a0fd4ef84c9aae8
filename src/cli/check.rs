//! `chatcron check`: every mistake of the jobs file at its line.

use std::path::PathBuf;

use crate::{
    cli::{Colour, Exit, failure::Failure, jobs_file, print, report},
    clock::{Clock, SystemClock},
};

/// Check a jobs file: every mistake at its line.
///
/// Ends with 1 where anything is an error; warnings alone end with 0.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The jobs file.
    #[arg(default_value = "jobs.toml")]
    file: PathBuf,
    /// Print the problems as JSON.
    #[arg(long)]
    json: bool,
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
    Ok(if loaded.has_errors() {
        Exit::DoesNotHold
    } else {
        Exit::Fine
    })
}
