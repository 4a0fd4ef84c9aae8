//! Where the database is, and opening it.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

#[cfg(feature = "postgres")]
use crate::store::postgres::{Address, AddressError, PostgresStore};
use crate::{
    ids::ChannelName,
    store::{
        Store, StoreError,
        sqlite::{OpenMode, SqliteStore},
    },
};

/// The database of a jobs file where nothing else is said; beside the file.
pub(crate) const DEFAULT_NAME: &str = "chatcron.db";

/// A database, before it is opened.
#[derive(Debug, Clone)]
pub(crate) enum Database {
    /// A file of SQLite.
    File(PathBuf),
    /// A database of a PostgreSQL server.
    #[cfg(feature = "postgres")]
    Server {
        /// Where it is.
        address: Address,
        /// The jobs file's folder, for what is kept beside a database.
        folder: PathBuf,
    },
}

/// Why a text names no database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseUrlError {
    /// It is none of SQLite or PostgreSQL.
    #[error("a database of kind `{scheme}`")]
    OtherKind {
        /// The kind that was found.
        scheme: String,
    },
    /// It is gone when the process ends, and jobs are not.
    #[error("a database in memory")]
    InMemory,
    /// It is empty.
    #[error("no file")]
    NoFile,
    /// It is no address of a PostgreSQL server.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Address(AddressError),
    /// It is a PostgreSQL server, and this build has no store for one.
    #[cfg(not(feature = "postgres"))]
    #[error("a PostgreSQL server, for which the cargo feature `postgres` is needed")]
    WithoutPostgres,
}

impl DatabaseUrlError {
    /// What would be accepted.
    pub fn help(&self) -> &'static str {
        match self {
            Self::InMemory => "jobs outlive the process: name a file",
            Self::NoFile => "use a path, or `sqlite:PATH`",
            Self::OtherKind { .. } => {
                "use a path, `sqlite:PATH`, or `postgres://USER@HOST/DATABASE`"
            }
            #[cfg(not(feature = "postgres"))]
            Self::WithoutPostgres => "use a path, or `sqlite:PATH`",
            #[cfg(feature = "postgres")]
            Self::Address(_) => "use `postgres://USER@HOST/DATABASE`",
        }
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            #[cfg(feature = "postgres")]
            Self::Server { address, .. } => address.fmt(f),
        }
    }
}

impl Database {
    /// The database that a text names: a path, `sqlite:PATH`, or the URL of a PostgreSQL server.
    /// `folder` is where the jobs file is.
    ///
    /// # Errors
    /// [`DatabaseUrlError`] where it names none.
    pub(crate) fn of_url(url: &str, folder: &Path) -> Result<Self, DatabaseUrlError> {
        let path = match url.split_once(':') {
            Some(("sqlite", path)) => path.strip_prefix("//").unwrap_or(path),
            Some(("postgres" | "postgresql", _)) => return Self::of_server(url, folder),
            Some((scheme, _)) if scheme.len() > 1 && url.contains("://") => {
                return Err(DatabaseUrlError::OtherKind {
                    scheme: scheme.to_owned(),
                });
            }
            Some(_) | None => url,
        };
        if path == ":memory:" || path.contains("mode=memory") {
            return Err(DatabaseUrlError::InMemory);
        }
        if path.is_empty() {
            return Err(DatabaseUrlError::NoFile);
        }
        Ok(Self::File(PathBuf::from(path)))
    }

    #[cfg(feature = "postgres")]
    fn of_server(url: &str, folder: &Path) -> Result<Self, DatabaseUrlError> {
        let address = url.parse().map_err(DatabaseUrlError::Address)?;
        let folder = folder.to_owned();
        Ok(Self::Server { address, folder })
    }

    #[cfg(not(feature = "postgres"))]
    fn of_server(_: &str, _: &Path) -> Result<Self, DatabaseUrlError> {
        Err(DatabaseUrlError::WithoutPostgres)
    }

    /// Whether it is a file that is not there.
    #[cfg(feature = "cli")]
    pub(crate) fn is_missing(&self) -> bool {
        match self {
            Self::File(path) => !path.exists(),
            Self::Server { .. } => false,
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be opened; nothing is written to it then.
    pub(crate) async fn open(&self, mode: OpenMode) -> Result<Opened, StoreError> {
        match self {
            Self::File(path) => {
                let store = SqliteStore::open(path, mode).await;
                store.map(|store| Opened::File(Arc::new(store)))
            }
            #[cfg(feature = "postgres")]
            Self::Server { address, .. } => {
                let store = PostgresStore::open(address, mode).await;
                store.map(|store| Opened::Server(Arc::new(store)))
            }
        }
    }

    /// Where a console channel keeps its log unless the jobs file says otherwise: beside the
    /// database, or beside the jobs file where that is a server's, and not in it.
    pub(crate) fn console_log_path(&self, channel: &ChannelName) -> PathBuf {
        let file = match self {
            Self::File(path) => path.clone(),
            #[cfg(feature = "postgres")]
            Self::Server { folder, .. } => folder.join(DEFAULT_NAME),
        };
        let mut name: OsString = file.file_stem().unwrap_or_default().to_owned();
        name.push(format!(".{channel}.log.jsonl"));
        file.with_file_name(name)
    }
}

/// A database that is open.
pub(crate) enum Opened {
    /// A file of SQLite.
    File(Arc<SqliteStore>),
    /// A database of a PostgreSQL server.
    #[cfg(feature = "postgres")]
    Server(Arc<PostgresStore>),
}

impl Opened {
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::File(store) => store.clone(),
            #[cfg(feature = "postgres")]
            Self::Server(store) => store.clone(),
        }
    }

    /// Ends what it writes in order; whatever is asked for later fails.
    pub(crate) async fn close(&self) {
        match self {
            Self::File(store) => store.close().await,
            #[cfg(feature = "postgres")]
            Self::Server(store) => store.close().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_log_is_beside_the_database() {
        let channel = ChannelName::new("terminal").unwrap();
        let mut urls = vec!["sqlite:folder/chatcron.db"];
        if cfg!(feature = "postgres") {
            urls.push("postgres://host/jobs");
        }
        for url in urls {
            let database = Database::of_url(url, Path::new("folder")).unwrap();
            assert_eq!(
                database.console_log_path(&channel),
                Path::new("folder/chatcron.terminal.log.jsonl")
            );
        }
    }
}
