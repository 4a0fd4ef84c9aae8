//! The jobs file of a command, or what a person is told where it cannot be read.

use std::{io, path::Path};

use jiff::Timestamp;

use crate::{
    cli::{Exit, failure::Failure},
    config::Loaded,
    directory::Directory,
    wiring::jobs_file::{UnreadableFile, load_beside},
};

pub(super) use crate::wiring::jobs_file::{bad_ids, folder, modified_at, source};

/// Loads a jobs file; the paths in it are relative to it.
///
/// # Errors
/// Where the file itself cannot be read. What is wrong in it is in [`Loaded`].
pub(super) fn load(path: &Path, now: Timestamp) -> Result<Loaded, Failure> {
    load_beside(&Directory::default(), path, now).map_err(|error| unreadable(&error))
}

fn unreadable(error: &UnreadableFile) -> Failure {
    let failure = Failure::new(Exit::CannotRead, format!("{error}: {}", error.source));
    let kind = error.source.kind();
    failure.help(if kind == io::ErrorKind::NotFound {
        "name the jobs file, or begin with a copy of jobs.example.toml as jobs.toml"
    } else if kind == io::ErrorKind::InvalidData {
        "a jobs file is TOML, in UTF-8"
    } else {
        "name a jobs file that can be read"
    })
}
