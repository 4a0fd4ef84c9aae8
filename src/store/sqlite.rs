//! The SQLite store: one file, one task that writes, a few connections that read.
//!
//! WAL with `synchronous = FULL`, because a commit that is lost at a power cut is a run that
//! happens twice. The writing task performs everything that waits in one transaction.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use crate::store::{
    StoreError,
    sql::{
        Backend, Connections, SqlStore,
        connection::{Conn, Pool, Reconnect},
        direct::Direct,
        failure::{Failure, Fallible},
    },
};

mod adopt;
mod backup;
mod lock;
mod migrate;
mod open;

#[cfg(test)]
mod tests;

pub use crate::store::sql::{Holder, OpenMode};
pub use backup::{BackupError, back_up};
pub use lock::WorkerLock;

const DATA_VERSION: &str = "data_version";

/// Everything durable, in one SQLite file.
pub type SqliteStore = SqlStore<File>;

/// A database file.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    watch: Mutex<Watch>,
}

/// Sees what others commit.
#[derive(Debug)]
struct Watch {
    /// By its own `data_version`. It waits for nobody, so it is asked where the caller is.
    conn: Direct,
    /// The last one, with what the log file looked like then: a file that has not changed needs no
    /// question, and a worker asks twice a second all day.
    last: Option<(i64, LogFile)>,
    /// How often the question was saved since: two commits within one tick of the file system's
    /// clock may look alike.
    saved: u32,
}

/// How often the question is saved in a row.
const SAVED_MAX: u32 = 10;

/// What the write-ahead log looks like from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LogFile {
    length: u64,
    changed_at: SystemTime,
}

impl LogFile {
    fn of(database: &Path) -> Option<Self> {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        let found = std::fs::metadata(log).ok()?;
        Some(Self {
            length: found.len(),
            changed_at: found.modified().ok()?,
        })
    }
}

impl SqlStore<File> {
    /// Opens the database at this path, and brings its schema up to date.
    ///
    /// # Errors
    /// [`StoreError::Newer`] where a newer version wrote it; [`StoreError::Unavailable`], naming
    /// the file, where it is no database, is missing, or cannot be read or written. Nothing is
    /// written to it then.
    pub async fn open(path: &Path, mode: OpenMode) -> Result<Self, StoreError> {
        migrate::prepare(path, mode).await?;
        let name = path.display().to_string();
        let opened = open::connect(path, mode);
        let opened = opened.map_err(|error| Failure::from(error).into_error(&name))?;
        let file = File {
            path: path.to_owned(),
            watch: Mutex::new(Watch {
                conn: opened.watch,
                last: None,
                saved: 0,
            }),
        };
        let reconnect = Reconnect::Sqlite(open::writing(path));
        let connections = Connections {
            database: name.as_str().into(),
            readers: Pool::Sqlite(opened.readers),
            writer: opened.writer.map(|conn| (Conn::Sqlite(conn), reconnect)),
            shared: None,
        };
        Self::start(file, connections).map_err(|error| Failure::from(error).into_error(&name))
    }

    /// Where the database is.
    #[cfg(feature = "testing")]
    pub fn path(&self) -> &Path {
        &self.backend.path
    }
}

impl Backend for File {
    async fn change_token(&self) -> Fallible<i64> {
        // What was seen is as good after a panic as before it.
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        // Looked at before the question: what is committed in between is seen the next time.
        let log = LogFile::of(&self.path);
        if let (Some((token, then)), Some(log)) = (watch.last, log)
            && then == log
            && watch.saved < SAVED_MAX
        {
            watch.saved += 1;
            return Ok(token);
        }
        let token = watch.conn.pragma(DATA_VERSION)?;
        watch.last = log.map(|log| (token, log));
        watch.saved = 0;
        Ok(token)
    }
}
