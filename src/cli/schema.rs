//! `chatcron schema`: the JSON Schema of the jobs file.

use crate::{
    cli::{Exit, failure::Failure, print},
    config,
};

/// Print the JSON Schema of the jobs file, for editors.
///
/// Write it beside the jobs file (`chatcron schema > jobs.schema.json`), and begin that with
/// `#:schema ./jobs.schema.json`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) fn run(_: &Arguments) -> Result<Exit, Failure> {
    print(&format!("{:#}\n", config::schema()))?;
    Ok(Exit::Fine)
}
