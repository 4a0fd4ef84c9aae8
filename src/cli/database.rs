//! Where the database is, and opening it.

use std::path::Path;

use crate::{
    cli::{
        Exit,
        failure::{Failure, with_cause},
    },
    store::{
        StoreError,
        sqlite::{BackupError, OpenMode, back_up as copy},
    },
    wiring::{DEFAULT_NAME, DatabaseUrlError},
};

pub(super) use crate::wiring::{Database, Lock, Opened};

/// Which database a command works on.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(super) struct Arguments {
    /// The database: a path, `sqlite:PATH`, or `postgres://USER@HOST/DATABASE` [default: chatcron.db
    /// beside the jobs file].
    #[arg(long, value_name = "URL", env = "CHATCRON_DB", hide_env_values = true)]
    db: Option<String>,
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
        Database::of_url(url, &folder).map_err(|error| match &error {
            DatabaseUrlError::Address(address) => {
                Failure::new(Exit::Usage, format!("`--db` cannot be used: {address}"))
                    .help(error.help())
            }
            DatabaseUrlError::OtherKind { .. }
            | DatabaseUrlError::InMemory
            | DatabaseUrlError::NoFile => {
                Failure::new(Exit::Usage, format!("`--db` names {error}")).help(error.help())
            }
        })
    }
}

/// Opens it.
///
/// # Errors
/// In words for a person, with the exit code of what is wrong.
pub(super) async fn open(database: &Database, mode: OpenMode) -> Result<Opened, Failure> {
    database.open(mode).await.map_err(|error| failure(&error))
}

/// Copies a database into a new file.
///
/// # Errors
/// In words for a person; nothing is left at `to` then.
pub(super) async fn back_up(database: &Database, to: &Path) -> Result<(), Failure> {
    match database {
        Database::File(path) => copy(path, to).await.map_err(|error| no_copy(&error)),
        Database::Server { .. } => Err(Failure::new(
            Exit::Usage,
            format!("{database} is a database of a server"),
        )
        .help("PostgreSQL has its own tools, such as `pg_dump`: see docs/operations.md")),
    }
}

/// What a person is told when the store fails.
pub(super) fn failure(error: &StoreError) -> Failure {
    let message = with_cause(error);
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
        StoreError::Unapplied { .. } => Failure::new(Exit::CannotRead, message)
            .help("`chatcron run` makes them when it starts the jobs of a file"),
        StoreError::Older { .. } => Failure::new(Exit::CannotRead, message)
            .help("a command that writes brings it up to date, such as `chatcron run`"),
        StoreError::WrongPartState { part, .. } => Failure::new(Exit::DoesNotHold, message)
            .help(format!("`chatcron outbox show {part}` says how it stands")),
        StoreError::PartUnderWay { part } => Failure::new(Exit::DoesNotHold, message).help(format!(
            "wait for what comes of it, which `chatcron outbox show {part}` says; where a worker died \
             over it, the next `chatcron run` takes it up"
        )),
        StoreError::NoMessageId { .. } => Failure::new(Exit::Usage, message)
            .help("leave `--message-id` out where the id is not known"),
        StoreError::NoSuchPart { .. } => {
            Failure::new(Exit::CannotRead, message).help("`chatcron outbox` lists the parts")
        }
        StoreError::Unavailable { .. } => Failure::new(Exit::CannotRead, message).help(
            "see that the file or the server is there and that you may use it; `--db` names another \
             database",
        ),
        StoreError::Corrupt { .. } => Failure::new(Exit::CannotRead, message)
            .help("`chatcron audit` says what else is wrong; a backup can be put in its place"),
    }
}

fn no_copy(error: &BackupError) -> Failure {
    let help = match error {
        BackupError::Store(error) => return failure(error),
        BackupError::Occupied { .. } => "name a file that is not there yet",
        BackupError::Unfinished { .. } => "wait for its end, or name another file",
        BackupError::Place { .. } => "name a file in a folder that can be written",
    };
    let message = with_cause(error);
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
}
