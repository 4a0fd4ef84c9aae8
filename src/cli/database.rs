//! Where the database is, and opening it.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{
    cli::{Exit, failure::Failure},
    ids::ChannelName,
    store::{
        Store, StoreError,
        sqlite::{OpenMode, SqliteStore},
    },
};

/// The database of a jobs file where nothing else is said; beside the file.
const DEFAULT_NAME: &str = "chatcron.db";

/// Which database a command works on.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(super) struct Arguments {
    /// The database: a path, or `sqlite:PATH` [default: chatcron.db beside the jobs file].
    #[arg(long, value_name = "URL", env = "CHATCRON_DB")]
    db: Option<String>,
}

impl Arguments {
    /// The database's file.
    ///
    /// # Errors
    /// Where the URL is not one of SQLite.
    pub(super) fn path(&self, jobs_file: &Path) -> Result<PathBuf, Failure> {
        let Some(url) = &self.db else {
            return Ok(jobs_file.with_file_name(DEFAULT_NAME));
        };
        let path = match url.split_once(':') {
            Some(("sqlite", path)) => path.strip_prefix("//").unwrap_or(path),
            Some((scheme, _)) if scheme.len() > 1 && url.contains("://") => {
                return Err(Failure::new(
                    Exit::Usage,
                    format!("`--db` names a database of kind `{scheme}`"),
                )
                .help("use a path, or `sqlite:PATH`"));
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
        Ok(PathBuf::from(path))
    }
}

/// Opens the database.
///
/// # Errors
/// In words for a person, with the exit code of what is wrong.
pub(super) async fn open(path: &Path, mode: OpenMode) -> Result<SqliteStore, Failure> {
    SqliteStore::open(path, mode)
        .await
        .map_err(|error| failure(&error))
}

/// Opens a database that is there, to read it.
///
/// # Errors
/// As [`open`].
pub(super) async fn open_to_read(path: &Path) -> Result<Box<dyn Store>, Failure> {
    Ok(Box::new(open(path, OpenMode::ReadOnly).await?))
}

/// Opens a database that is there, to change it.
///
/// # Errors
/// As [`open`].
pub(super) async fn open_existing(path: &Path) -> Result<Box<dyn Store>, Failure> {
    Ok(Box::new(open(path, OpenMode::MustExist).await?))
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

/// Where a console channel keeps its log unless the jobs file says otherwise: beside the database,
/// and not in it.
pub(super) fn console_log_path(database: &Path, channel: &ChannelName) -> PathBuf {
    let mut name: OsString = database.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{channel}.log.jsonl"));
    database.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(db: Option<&str>) -> Result<PathBuf, String> {
        let arguments = Arguments {
            db: db.map(str::to_owned),
        };
        let path = arguments.path(Path::new("folder/jobs.toml"));
        path.map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_database_is_beside_the_jobs_file_unless_said_otherwise() {
        assert_eq!(path_of(None).unwrap(), Path::new("folder/chatcron.db"));
        assert_eq!(path_of(Some("x.db")).unwrap(), Path::new("x.db"));
        assert_eq!(path_of(Some("sqlite:x.db")).unwrap(), Path::new("x.db"));
        assert_eq!(
            path_of(Some("sqlite:///tmp/x.db")).unwrap(),
            Path::new("/tmp/x.db")
        );
        assert!(
            path_of(Some("postgres://host/db"))
                .unwrap_err()
                .contains("`postgres`")
        );
        assert!(path_of(Some("sqlite:")).is_err());
    }

    #[test]
    fn a_console_log_is_beside_the_database() {
        let channel = ChannelName::new("terminal").unwrap();
        assert_eq!(
            console_log_path(Path::new("folder/chatcron.db"), &channel),
            Path::new("folder/chatcron.terminal.log.jsonl")
        );
    }
}
