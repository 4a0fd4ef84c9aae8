//! The SQLite store: one file, one task that writes, a few connections that read.
//!
//! WAL with `synchronous = FULL`, because a commit that is lost at a power cut is a run that
//! happens twice. The writing task performs everything that waits in one transaction.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use crate::store::{
    StoreError,
    sql::{
        Backend, Connections, SqlStore, UNTOLD_WAIT,
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
mod watch;

#[cfg(test)]
mod tests;

pub use crate::store::sql::{Holder, OpenMode};
pub use backup::{BackupError, back_up};
pub use lock::WorkerLock;
use watch::Watch;

const DATA_VERSION: &str = "data_version";

/// Everything durable, in one SQLite file.
pub type SqliteStore = SqlStore<File>;

/// A database file.
#[derive(Debug)]
pub struct File {
    /// Where it is, without links: SQLite has its log beside that, wherever the program is by then.
    path: PathBuf,
    /// Sees by its own `data_version` what others commit. It waits for nobody, so it is asked where
    /// the caller is.
    watch: Mutex<Direct>,
    /// Tells when to ask; made when first somebody waits.
    log_watch: OnceLock<Option<Watch>>,
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
            path: path.canonicalize().unwrap_or_else(|_| path.to_owned()),
            watch: Mutex::new(opened.watch),
            log_watch: OnceLock::new(),
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
        // A pragma is as good after a panic as before it.
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(watch.pragma(DATA_VERSION)?)
    }

    async fn await_change(&self, at_most: Duration) {
        let watch = || Watch::begin(self.path.clone()).ok();
        let Some(watch) = self.log_watch.get_or_init(watch) else {
            return tokio::time::sleep(at_most.min(UNTOLD_WAIT)).await;
        };
        let mut changes = watch.subscribe();
        // Told or not, whoever waits asks then.
        let _ = tokio::time::timeout(at_most, changes.changed()).await;
    }
}
