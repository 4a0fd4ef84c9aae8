//! The SQLite store: one file, one task that writes, a few connections that read.
//!
//! WAL with `synchronous = FULL`, because a commit that is lost at a power cut is a run that
//! happens twice. The writing task performs everything that waits in one transaction.

use std::path::{Path, PathBuf};

use sqlx::SqliteConnection;
use tokio::sync::Mutex;

use crate::store::{
    StoreError,
    sql::{
        Backend, Connections, SqlStore,
        connection::{Conn, Pool, Reconnect},
        failure::{Failure, Fallible},
    },
};

mod adopt;
mod lock;
mod migrate;
mod open;

#[cfg(test)]
mod tests;

pub use crate::store::sql::{Holder, OpenMode};
pub use lock::WorkerLock;

const DATA_VERSION: &str = "PRAGMA data_version";

/// Everything durable, in one SQLite file.
pub type SqliteStore = SqlStore<File>;

/// A database file.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    /// Sees what others commit by its own `data_version`.
    watch: Mutex<SqliteConnection>,
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
        let opened = open::connect(path, mode).await;
        let opened = opened.map_err(|error| Failure::from(error).into_error(&name))?;
        let file = File {
            path: path.to_owned(),
            watch: Mutex::new(opened.watch),
        };
        let reconnect = Reconnect::Sqlite(open::writing(path));
        let connections = Connections {
            database: name.into(),
            readers: Pool::Sqlite(opened.readers),
            writer: opened.writer.map(|conn| (Conn::Sqlite(conn), reconnect)),
        };
        Ok(Self::start(file, connections))
    }

    /// Where the database is.
    pub fn path(&self) -> &Path {
        &self.backend.path
    }
}

impl Backend for File {
    async fn change_token(&self) -> Fallible<i64> {
        let mut watch = self.watch.lock().await;
        let version = sqlx::query_scalar(DATA_VERSION).fetch_one(&mut *watch);
        Ok(version.await?)
    }
}
