//! Where the database is, and opening it.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    cli::{Exit, failure::Failure},
    ids::ChannelName,
    store::{
        Store, StoreError,
        postgres::{Address, PostgresStore},
        sqlite::{BackupError, OpenMode, SqliteStore, back_up},
    },
};

mod lock;

pub(super) use lock::Lock;

/// The database of a jobs file where nothing else is said; beside the file.
const DEFAULT_NAME: &str = "chatcron.db";

/// Which database a command works on.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(super) struct Arguments {
    /// The database: a path, `sqlite:PATH`, or `postgres://USER@HOST/DATABASE` [default: chatcron.db
    /// beside the jobs file].
    #[arg(long, value_name = "URL", env = "CHATCRON_DB", hide_env_values = true)]
    db: Option<String>,
}

/// A database, before it is opened.
#[derive(Debug, Clone)]
pub(super) enum Database {
    /// A file of SQLite.
    File(PathBuf),
    /// A database of a PostgreSQL server.
    Server {
        /// Where it is.
        address: Address,
        /// The jobs file's folder, for what is kept beside a database.
        folder: PathBuf,
    },
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Server { address, .. } => address.fmt(f),
        }
    }
}

impl Arguments {
    /// The database.
    ///
    /// # Errors
    /// Where the URL is none of SQLite or PostgreSQL.
    pub(super) fn database(&self, jobs_file: &Path) -> Result<Database, Failure> {
        let folder = jobs_file.with_file_name("");
        let Some(url) = &self.db else {
            return Ok(Database::File(folder.join(DEFAULT_NAME)));
        };
        let path = match url.split_once(':') {
            Some(("sqlite", path)) => path.strip_prefix("//").unwrap_or(path),
            Some(("postgres" | "postgresql", _)) => {
                let address = url.parse().map_err(|error| {
                    Failure::new(Exit::Usage, format!("`--db` cannot be used: {error}"))
                })?;
                return Ok(Database::Server { address, folder });
            }
            Some((scheme, _)) if scheme.len() > 1 && url.contains("://") => {
                return Err(Failure::new(
                    Exit::Usage,
                    format!("`--db` names a database of kind `{scheme}`"),
                )
                .help("use a path, `sqlite:PATH`, or `postgres://USER@HOST/DATABASE`"));
            }
            Some(_) | None => url,
        };
        if path == ":memory:" || path.contains("mode=memory") {
            return Err(
                Failure::new(Exit::Usage, "`--db` names a database in memory")
                    .help("jobs outlive the process: name a file"),
            );
        }
        if path.is_empty() {
            return Err(Failure::new(Exit::Usage, "`--db` names no file")
                .help("use a path, or `sqlite:PATH`"));
        }
        Ok(Database::File(PathBuf::from(path)))
    }
}

impl Database {
    /// Whether it is a file that is not there.
    pub(super) fn is_missing(&self) -> bool {
        match self {
            Self::File(path) => !path.exists(),
            Self::Server { .. } => false,
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// In words for a person, with the exit code of what is wrong.
    pub(super) async fn open(&self, mode: OpenMode) -> Result<Opened, Failure> {
        let opened = match self {
            Self::File(path) => {
                let store = SqliteStore::open(path, mode).await;
                store.map(|store| Opened::File(Arc::new(store)))
            }
            Self::Server { address, .. } => {
                let store = PostgresStore::open(address, mode).await;
                store.map(|store| Opened::Server(Arc::new(store)))
            }
        };
        opened.map_err(|error| failure(&error))
    }

    /// Copies it into a new file.
    ///
    /// # Errors
    /// In words for a person; nothing is left at `to` then.
    pub(super) async fn back_up(&self, to: &Path) -> Result<(), Failure> {
        match self {
            Self::File(path) => back_up(path, to).await.map_err(|error| no_copy(&error)),
            Self::Server { .. } => Err(Failure::new(
                Exit::Usage,
                format!("{self} is a database of a server"),
            )
            .help("PostgreSQL has its own tools, such as `pg_dump`: see docs/operations.md")),
        }
    }

    /// Where a console channel keeps its log unless the jobs file says otherwise: beside the
    /// database, or beside the jobs file where that is a server's, and not in it.
    pub(super) fn console_log_path(&self, channel: &ChannelName) -> PathBuf {
        let file = match self {
            Self::File(path) => path.clone(),
            Self::Server { folder, .. } => folder.join(DEFAULT_NAME),
        };
        let mut name: OsString = file.file_stem().unwrap_or_default().to_owned();
        name.push(format!(".{channel}.log.jsonl"));
        file.with_file_name(name)
    }
}

/// A database that is open.
pub(super) enum Opened {
    /// A file of SQLite.
    File(Arc<SqliteStore>),
    /// A database of a PostgreSQL server.
    Server(Arc<PostgresStore>),
}

impl Opened {
    pub(super) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::File(store) => store.clone(),
            Self::Server(store) => store.clone(),
        }
    }

    /// Ends what it writes in order; whatever is asked for later fails.
    pub(super) async fn close(&self) {
        match self {
            Self::File(store) => store.close().await,
            Self::Server(store) => store.close().await,
        }
    }
}

/// What a person is told when the store fails.
pub(super) fn failure(error: &StoreError) -> Failure {
    let message = match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    match error {
        StoreError::Held { .. } => Failure::new(Exit::Refused, message).help(
            "stop that one first, or wait for its end with `run --standby`; \
                 commands such as `chatcron list` work beside it",
        ),
        StoreError::Busy { .. } => Failure::new(Exit::Refused, message)
            .help("try again when it has finished; nothing was written"),
        StoreError::Full { .. } => Failure::new(Exit::CannotRead, message)
            .help("make room there and try again; nothing was written"),
        StoreError::Newer { .. } => Failure::new(Exit::Refused, message)
            .help("install the newer chatcron, or name another database with --db"),
        StoreError::WrongPartState { .. } => Failure::new(Exit::DoesNotHold, message),
        StoreError::NoSuchPart { .. } => {
            Failure::new(Exit::CannotRead, message).help("`chatcron outbox` lists the parts")
        }
        StoreError::Unavailable { .. } | StoreError::Corrupt { .. } => {
            Failure::new(Exit::CannotRead, message)
        }
    }
}

fn no_copy(error: &BackupError) -> Failure {
    let help = match error {
        BackupError::Store(error) => return failure(error),
        BackupError::Occupied { .. } => "name a file that is not there yet",
        BackupError::Unfinished { .. } => "wait for its end, or remove that file",
        BackupError::Place { .. } => "name a file in a folder that can be written",
    };
    let message = match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    Failure::new(Exit::CannotRead, message).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database_of(db: Option<&str>) -> Result<Database, String> {
        let arguments = Arguments {
            db: db.map(str::to_owned),
        };
        let database = arguments.database(Path::new("folder/jobs.toml"));
        database.map_err(|failure| failure.to_string())
    }

    fn name_of(db: Option<&str>) -> String {
        database_of(db).unwrap().to_string()
    }

    #[test]
    fn the_database_is_beside_the_jobs_file_unless_said_otherwise() {
        assert_eq!(name_of(None), "folder/chatcron.db");
        assert_eq!(name_of(Some("x.db")), "x.db");
        assert_eq!(name_of(Some("sqlite:x.db")), "x.db");
        assert_eq!(name_of(Some("sqlite:///tmp/x.db")), "/tmp/x.db");
        let server = "postgres://ada:secret@host/jobs";
        assert_eq!(name_of(Some(server)), "postgres://host:5432/jobs");
        let other = database_of(Some("mysql://host/db")).unwrap_err();
        assert!(other.contains("`mysql`"), "{other}");
        let wrong = database_of(Some("postgres://ada:secret@host:port/db")).unwrap_err();
        assert!(!wrong.contains("secret"), "{wrong}");
        assert!(database_of(Some("sqlite:")).is_err());
    }

    #[test]
    fn a_console_log_is_beside_the_database() {
        let channel = ChannelName::new("terminal").unwrap();
        for db in [None, Some("postgres://host/jobs")] {
            assert_eq!(
                database_of(db).unwrap().console_log_path(&channel),
                Path::new("folder/chatcron.terminal.log.jsonl")
            );
        }
    }
}
