//! The lock that a running worker holds beside its database.
//!
//! It is an OS lock on an open file, so it ends with the process however that ends, and the leases
//! of a dead worker can be reclaimed at once.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use crate::store::StoreError;

const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Held by the one worker of a database.
#[derive(Debug)]
pub struct WorkerLock {
    // Closing the file releases the lock.
    _file: File,
}

impl WorkerLock {
    /// Takes the lock of this database.
    ///
    /// # Errors
    /// [`StoreError::Held`] where another worker has it; [`StoreError::Unavailable`] where the lock
    /// file cannot be opened.
    pub fn acquire(database: &Path) -> Result<Self, StoreError> {
        let path = beside(database, ".lock");
        let file = open(&path).map_err(|source| unusable(&path, source))?;
        // `chatcron list`, which asks whether a worker runs, holds the lock for an instant.
        for _ in 0..TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) => thread::sleep(BETWEEN_TRIES),
                Err(TryLockError::Error(source)) => return Err(unusable(&path, source)),
            }
        }
        Err(StoreError::Held {
            database: database.display().to_string(),
        })
    }

    /// Whether a worker is running on this database.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where the lock file exists and cannot be opened.
    pub fn is_held(database: &Path) -> Result<bool, StoreError> {
        let path = beside(database, ".lock");
        // A shared lock, so that two that ask at once do not see each other.
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(source) => return Err(unusable(&path, source)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(source)) => Err(unusable(&path, source)),
        }
    }
}

/// The file of this suffix beside a database.
pub(super) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(database.as_os_str());
    name.push(suffix);
    PathBuf::from(name)
}

pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
}

fn unusable(path: &Path, source: io::Error) -> StoreError {
    StoreError::Unavailable {
        what: format!("cannot use the lock file {}", path.display()),
        source: Box::new(source),
    }
}
