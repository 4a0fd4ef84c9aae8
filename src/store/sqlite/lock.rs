//! The lock that a running worker holds beside its database.
//!
//! It is an OS lock on an open file, so it ends with the process however that ends, and the leases
//! of a dead worker can be reclaimed at once.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use crate::store::{StoreError, sql::Holder};

const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// How long the file is. All of it is written when the lock is taken, so that more can be said in
/// it on a disk that is full.
const LENGTH: usize = 512;

/// Held by the one worker of a database.
#[derive(Debug)]
pub struct WorkerLock {
    // Closing the file releases the lock.
    file: File,
    holder: Holder,
}

impl WorkerLock {
    /// Takes the lock of this database.
    ///
    /// # Errors
    /// [`StoreError::Held`] where another worker has it; [`StoreError::Unavailable`] where the lock
    /// file cannot be opened.
    pub fn acquire(database: &Path, holder: Holder) -> Result<Self, StoreError> {
        let path = beside(&real(database), ".lock");
        let file = open(&path).map_err(|source| unusable(&path, source))?;
        // `chatcron list`, which asks whether a worker runs, holds the lock for an instant.
        for _ in 0..TRIES {
            match file.try_lock() {
                Ok(()) => return Self::held(file, &path, holder),
                Err(TryLockError::WouldBlock) => thread::sleep(BETWEEN_TRIES),
                Err(TryLockError::Error(source)) => return Err(unusable(&path, source)),
            }
        }
        Err(StoreError::Held {
            database: database.display().to_string(),
        })
    }

    /// Waits for the lock of this database, for as long as that takes: blocks the thread, in the
    /// system's own queue.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where the lock file cannot be opened or waited for.
    pub fn wait(database: &Path, holder: Holder) -> Result<Self, StoreError> {
        let path = beside(&real(database), ".lock");
        let file = open(&path).map_err(|source| unusable(&path, source))?;
        loop {
            match file.lock() {
                Ok(()) => return Self::held(file, &path, holder),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(unusable(&path, source)),
            }
        }
    }

    /// Says in the file who holds it.
    fn held(file: File, path: &Path, holder: Holder) -> Result<Self, StoreError> {
        let lock = Self { file, holder };
        let told = lock.tell(None);
        told.map_err(|source| unusable(path, source))?;
        Ok(lock)
    }

    /// Says in the file what keeps its holder from working.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn tell(&self, trouble: Option<&str>) -> io::Result<()> {
        let first = self.holder.word();
        let mut text = format!("{first}\n{}", trouble.unwrap_or_default()).into_bytes();
        text.resize(LENGTH, b'\n');
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&text)
    }

    /// Who holds the lock of this database, as far as it says; `Worker` where it does not.
    pub fn holder(database: &Path) -> Holder {
        let text = said(database);
        Holder::of_word(text.lines().next().unwrap_or_default())
    }

    /// What keeps the holder of this lock from working, as far as it says.
    pub fn trouble(database: &Path) -> Option<String> {
        let text = said(database);
        let trouble = text.lines().nth(1)?.trim();
        (!trouble.is_empty()).then(|| trouble.to_owned())
    }

    /// Whether a worker is running on this database.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where the lock file exists and cannot be opened.
    pub fn is_held(database: &Path) -> Result<bool, StoreError> {
        let path = beside(&real(database), ".lock");
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

/// What the file says, as far as it can be read.
fn said(database: &Path) -> String {
    let path = beside(&real(database), ".lock");
    let text = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// The database itself, whatever links lead to it: one file has one lock.
fn real(database: &Path) -> PathBuf {
    if let Ok(real) = database.canonicalize() {
        return real;
    }
    // It is not there yet; its folder is.
    let folder = match database.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    match (folder.canonicalize(), database.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        (_, _) => database.to_owned(),
    }
}

/// The file of this suffix beside a database.
pub(super) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(database.as_os_str());
    name.push(suffix);
    PathBuf::from(name)
}

pub(super) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.create(true).truncate(false).write(true).open(path)
}

fn unusable(path: &Path, source: io::Error) -> StoreError {
    StoreError::Unavailable {
        what: format!("cannot use the lock file {}", path.display()),
        source: Box::new(source),
    }
}
