//! Bringing a database to this version's schema, at open, once.
//!
//! A file is looked at before anything is written to it: a newer schema, or a file that is no
//! database, stays as it was. sqlx's own migrator takes no lock on SQLite, so two processes that
//! start at once take turns under a lock on a file beside the database.

use std::{io, path::Path};

use sqlx::{
    ConnectOptions, Connection, SqliteConnection,
    migrate::{MigrateError, Migrator},
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};

use crate::store::StoreError;

use super::{
    Failure, OpenMode, adopt,
    lock::{self, beside},
    open::{BUSY_TIMEOUT, making},
};

static MIGRATOR: Migrator = sqlx::migrate!("migrations/sqlite");

const HAS_MIGRATIONS: &str =
    "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '_sqlx_migrations'";
const VERSION: &str = "SELECT coalesce(max(version), 0) FROM _sqlx_migrations WHERE success";

/// Makes sure that the database has this version's schema.
pub(super) async fn prepare(path: &Path, mode: OpenMode) -> Result<(), StoreError> {
    let exists = path.exists();
    match mode {
        OpenMode::MustExist | OpenMode::ReadOnly if !exists => {
            return Err(unavailable(
                format!("there is no database at {}", path.display()),
                io::Error::from(io::ErrorKind::NotFound),
            ));
        }
        OpenMode::CreateIfMissing | OpenMode::MustExist | OpenMode::ReadOnly => {}
    }
    let found = if exists {
        found_version(path).await?
    } else {
        0
    };
    if exists && found == newest_known() {
        return Ok(());
    }
    if mode == OpenMode::ReadOnly {
        let database = path.display().to_string();
        return Err(if found == 0 {
            StoreError::Unapplied { database }
        } else {
            StoreError::Older { database }
        });
    }
    migrate_under_lock(path).await
}

async fn migrate_under_lock(path: &Path) -> Result<(), StoreError> {
    let lock_path = beside(path, ".migrating");
    let cannot_lock = |source: io::Error| {
        unavailable(
            format!("cannot create or upgrade the database {}", path.display()),
            source,
        )
    };
    let lock = lock::open(&lock_path).map_err(cannot_lock)?;
    // The lock is waited for on a thread, because another process may migrate for a while.
    let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock))
        .await
        .map_err(io::Error::other)
        .and_then(|locked| locked)
        .map_err(cannot_lock)?;
    let found = if path.exists() {
        found_version(path).await?
    } else {
        // Histories are private; SQLite gives the files beside it the same mode.
        lock::open(path).map_err(cannot_lock)?;
        0
    };
    if found < newest_known() {
        let options = making(path).create_if_missing(true);
        let one = SqlitePoolOptions::new().max_connections(1);
        let pool = one.connect_with(options).await;
        let pool = pool.map_err(|e| failed(path, e))?;
        let adopted = adopt::adopt(&pool).await;
        let outcome = match adopted {
            Ok(()) => MIGRATOR.run(&pool).await,
            Err(error) => Err(error.into()),
        };
        pool.close().await;
        outcome.map_err(|error| refused(path, error))?;
        tracing::info!(
            database = %path.display(),
            from = found,
            to = newest_known(),
            "the database has this version's schema now"
        );
    }
    // Whoever waits for this file finds nothing left to do.
    let _ = std::fs::remove_file(&lock_path);
    drop(lock);
    Ok(())
}

/// The schema's version, 0 for none; [`StoreError::Newer`] for one that is not known.
async fn found_version(path: &Path) -> Result<i64, StoreError> {
    let looking = SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY_TIMEOUT)
        .pragma("query_only", "ON");
    let mut conn = looking.connect().await.map_err(|e| failed(path, e))?;
    let found = read_version(&mut conn).await;
    let _ = conn.close().await;
    let found = found.map_err(|e| failed(path, e))?;
    if found > newest_known() {
        return Err(StoreError::Newer {
            database: path.display().to_string(),
            found,
            known: newest_known(),
        });
    }
    Ok(found)
}

async fn read_version(conn: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    let tables: i64 = sqlx::query_scalar(HAS_MIGRATIONS)
        .fetch_one(&mut *conn)
        .await?;
    if tables == 0 {
        return Ok(0);
    }
    sqlx::query_scalar(VERSION).fetch_one(&mut *conn).await
}

fn newest_known() -> i64 {
    let versions = MIGRATOR.iter().map(|migration| migration.version);
    versions.max().unwrap_or(0)
}

fn failed(path: &Path, error: sqlx::Error) -> StoreError {
    Failure::from(error).into_error(&path.display().to_string())
}

fn refused(path: &Path, error: MigrateError) -> StoreError {
    unavailable(
        format!("cannot create or upgrade the database {}", path.display()),
        error,
    )
}

fn unavailable(what: String, source: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Unavailable {
        what,
        source: Box::new(source),
    }
}
