//! Opening the file: how each connection is set up.

use std::{path::Path, time::Duration};

use sqlx::{
    ConnectOptions, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use super::OpenMode;

/// How long a connection waits for another process that writes.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const READERS: u32 = 4;
const STATEMENTS_CACHED: usize = 200;

/// How much of the file the writing connection keeps in memory, in KiB (negative, as SQLite has
/// it). A batch touches the newest pages of some twenty indexes, and 2 MiB do not hold them.
const WRITER_CACHE: &str = "-16384";

/// How many rows the driver's thread reads ahead: a batch has up to 512, and a thread that waits
/// after every few is woken as often.
const ROWS_AHEAD: usize = 1024;

/// How many pages the log may have before a commit copies them into the file and waits for that.
const LOG_PAGES: &str = "4000";

/// The connections of one store.
pub(super) struct Connections {
    pub(super) readers: SqlitePool,
    /// Sees what others commit by its own `data_version`.
    pub(super) watch: SqliteConnection,
    pub(super) writer: Option<SqliteConnection>,
}

/// How a connection that writes is set up.
pub(super) fn writing(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .pragma("cache_size", WRITER_CACHE)
        .pragma("wal_autocheckpoint", LOG_PAGES)
        .busy_timeout(BUSY_TIMEOUT)
        .statement_cache_capacity(STATEMENTS_CACHED)
        .row_buffer_size(ROWS_AHEAD)
        .disable_statement_logging()
}

/// How a connection that reads is set up.
pub(super) fn reading(path: &Path, mode: OpenMode) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .read_only(mode == OpenMode::ReadOnly)
        .busy_timeout(BUSY_TIMEOUT)
        .statement_cache_capacity(STATEMENTS_CACHED)
        .row_buffer_size(ROWS_AHEAD)
        .pragma("query_only", "ON")
        .disable_statement_logging()
}

pub(super) async fn connect(path: &Path, mode: OpenMode) -> Result<Connections, sqlx::Error> {
    let writer = match mode {
        OpenMode::CreateIfMissing | OpenMode::MustExist => Some(writing(path).connect().await?),
        OpenMode::ReadOnly => None,
    };
    let reading = reading(path, mode);
    Ok(Connections {
        writer,
        watch: reading.connect().await?,
        readers: SqlitePoolOptions::new()
            .max_connections(READERS)
            .connect_with(reading)
            .await?,
    })
}
