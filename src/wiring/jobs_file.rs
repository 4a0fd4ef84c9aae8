//! Reads the jobs file from where it is, with the files that it names.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use jiff::Timestamp;

use crate::{
    config::{self, JobsFile, Loaded},
    directory::Directory,
    ids::JobId,
};

/// The most bytes of a jobs file, or of a file that it names.
const LARGEST: u64 = 64 * 1024 * 1024;

/// The jobs file itself cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read `{}`", path.display())]
pub struct UnreadableFile {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// Loads a jobs file; the paths in it are relative to it. What is registered it may name as well.
///
/// # Errors
/// Where the file itself cannot be read. What is wrong in it is in [`Loaded`].
pub(crate) fn load_beside(
    registered: &Directory,
    path: &Path,
    now: Timestamp,
) -> Result<Loaded, UnreadableFile> {
    let source = read(path).map_err(|source| UnreadableFile {
        path: path.to_owned(),
        source,
    })?;
    let folder = folder(path);
    let read_file = |relative: &Path| read(&folder.join(relative));
    Ok(config::parse_beside(registered, &source, &read_file, now))
}

/// The text of a file that a person wrote: a pipe or a device could go on for ever.
fn read(path: &Path) -> io::Result<String> {
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    if found.len() > LARGEST {
        let message = format!("it has {} bytes, {LARGEST} are accepted", found.len());
        return Err(io::Error::other(message));
    }
    fs::read_to_string(path)
}

/// When a file was last modified, as far as the file system says.
pub(crate) fn modified_at(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|found| found.modified()).ok()
}

/// The folder of a file; what relative paths in a jobs file are relative to.
pub(crate) fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        Some(_) | None => PathBuf::from("."),
    }
}

/// The name under which a file's jobs are stored; moving the file together with its database keeps
/// them its own.
pub(crate) fn source(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// The ids of the jobs that are in the file and left out, as far as they are ids.
pub(crate) fn bad_ids(file: &JobsFile) -> Vec<JobId> {
    let ids = file.bad_jobs.iter();
    ids.filter_map(|bad| JobId::new(bad.name.clone()).ok())
        .collect()
}
