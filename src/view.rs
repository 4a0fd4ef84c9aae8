//! What is known of jobs, runs, messages and chats, as documented JSON objects.
//!
//! The commands' `--json` and the HTTP API print the same ones, so that a program can go from one to
//! the other. Field names are documented interface (docs/json-output.md): fields may be added, none
//! is renamed or removed within a major version. Showing things to people is left to the commands.

mod at;
mod entry;
mod job;
mod load;
mod part;
mod run;
mod standing;
mod starts;
mod turn;
mod words;

pub(crate) use at::At;
pub(crate) use entry::Transcript;
pub(crate) use job::{Job, JobDetail};
pub(crate) use load::{Listed, Shown, list, run, show};
pub(crate) use part::{Destination, Part};
pub(crate) use run::{Attempt, Diagnostic, Run, RunDetail, RunState, Stretch};
pub(crate) use standing::{Standing, upcoming};
pub(crate) use starts::{Start, begin, starts};
pub(crate) use turn::Turn;
pub(crate) use words::{schedule, with_offset, zone};
#[cfg(feature = "cli")]
pub(crate) use {
    job::{Target, accounted_ahead, mode_word},
    load::{RUNS_SHOWN, RunRows},
    standing::State,
    words::{clock, exact},
};
