//! Reads the jobs file from where it is, with the files that it names.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;

use crate::{
    cli::{Exit, failure::Failure},
    config::{self, Loaded},
};

/// Loads a jobs file; the paths in it are relative to it.
///
/// # Errors
/// Where the file itself cannot be read. What is wrong in it is in [`Loaded`].
pub(super) fn load(path: &Path, now: Timestamp) -> Result<Loaded, Failure> {
    let source = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    let folder: PathBuf = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    let read_file = |relative: &Path| fs::read_to_string(folder.join(relative));
    Ok(config::parse(&source, &read_file, now))
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let failure = Failure::new(
        Exit::CannotRead,
        format!("cannot read `{}`: {error}", path.display()),
    );
    failure.help(if error.kind() == io::ErrorKind::NotFound {
        "name the jobs file, or begin with a copy of jobs.example.toml as jobs.toml"
    } else if error.kind() == io::ErrorKind::InvalidData {
        "a jobs file is TOML, in UTF-8"
    } else {
        "name a jobs file that can be read"
    })
}
