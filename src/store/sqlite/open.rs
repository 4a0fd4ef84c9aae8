//! Opening the file: how each connection is set up.

use std::{path::Path, time::Duration};

use sqlx::{
    ConnectOptions as _,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use crate::store::sql::{
    direct::{Access, Direct, Settings},
    readers::Readers,
};

use super::OpenMode;

/// How long a connection waits for another process that writes.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const READERS: usize = 4;
const STATEMENTS_CACHED: usize = 200;

/// How much of the file the writing connection keeps in memory, in KiB (negative, as SQLite has
/// it). A batch touches the newest pages of some twenty indexes, and 2 MiB do not hold them.
const WRITER_CACHE: &str = "-16384";

/// How many pages the log may have before a commit copies them into the file and waits for that.
const LOG_PAGES: &str = "4000";

/// The connections of one store.
pub(super) struct Connections {
    pub(super) readers: Readers,
    /// Sees what others commit by its own `data_version`.
    pub(super) watch: Direct,
    pub(super) writer: Option<Direct>,
}

/// How the connection that writes is set up.
pub(super) fn writing(path: &Path) -> Settings {
    Settings {
        path: path.into(),
        access: Access::Write,
        busy_timeout: BUSY_TIMEOUT,
        statements_cached: STATEMENTS_CACHED,
        pragmas: &[
            ("journal_mode", "WAL"),
            ("synchronous", "FULL"),
            ("foreign_keys", "ON"),
            ("cache_size", WRITER_CACHE),
            ("wal_autocheckpoint", LOG_PAGES),
        ],
    }
}

/// How the connection that makes the schema is set up.
pub(super) fn making(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging()
}

/// How a connection that reads is set up.
pub(super) fn reading(path: &Path, mode: OpenMode) -> Settings {
    Settings {
        path: path.into(),
        access: match mode {
            OpenMode::ReadOnly => Access::ReadOnly,
            OpenMode::CreateIfMissing | OpenMode::MustExist => Access::Read,
        },
        busy_timeout: BUSY_TIMEOUT,
        statements_cached: STATEMENTS_CACHED,
        pragmas: &[("query_only", "ON")],
    }
}

pub(super) fn connect(path: &Path, mode: OpenMode) -> Result<Connections, sqlx::Error> {
    let writer = match mode {
        OpenMode::CreateIfMissing | OpenMode::MustExist => Some(Direct::open(&writing(path))?),
        OpenMode::ReadOnly => None,
    };
    let reading = reading(path, mode);
    Ok(Connections {
        writer,
        watch: Direct::open(&Settings {
            busy_timeout: Duration::ZERO,
            ..reading.clone()
        })?,
        readers: Readers::open(reading, READERS)?,
    })
}
