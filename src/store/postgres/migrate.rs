//! Bringing a database to this version's schema, at open, once.
//!
//! The database is looked at before anything is written to it. Processes that start at once take
//! turns under a lock of the server, and each migration is a transaction, so one that was interrupted
//! has done nothing, and the next start does it.

use sqlx::{
    ConnectOptions, Connection, PgConnection,
    migrate::{MigrateError, Migrator},
};

use crate::store::StoreError;

use super::{Address, Failure, OpenMode, address};

static MIGRATOR: Migrator = sqlx::migrate!("migrations/postgres");

const HAS_MIGRATIONS: &str = "SELECT to_regclass('_sqlx_migrations') IS NOT NULL";
const VERSION: &str = "SELECT coalesce(max(version), 0) FROM _sqlx_migrations WHERE success";

/// Makes sure that the database has this version's schema.
pub(super) async fn prepare(address: &Address, mode: OpenMode) -> Result<(), StoreError> {
    let failed = |error: sqlx::Error| Failure::from(error).into_error(address.name());
    let mut conn = address.patient().connect().await.map_err(failed)?;
    let outcome = prepare_with(&mut conn, address, mode).await;
    let _ = conn.close().await;
    outcome
}

async fn prepare_with(
    conn: &mut PgConnection,
    address: &Address,
    mode: OpenMode,
) -> Result<(), StoreError> {
    let found = found_version(conn, address).await?;
    if found == newest_known() {
        return Ok(());
    }
    match mode {
        OpenMode::CreateIfMissing => {}
        OpenMode::MustExist | OpenMode::ReadOnly if found == 0 => {
            return Err(StoreError::Unapplied {
                database: address.name().to_owned(),
            });
        }
        OpenMode::MustExist => {}
        OpenMode::ReadOnly => {
            return Err(StoreError::Older {
                database: address.name().to_owned(),
            });
        }
    }
    let pool = address::pool(1).connect_lazy_with(address.patient());
    let outcome = MIGRATOR.run(&pool).await;
    pool.close().await;
    outcome.map_err(|error| refused(address, error))?;
    tracing::info!(
        database = %address,
        from = found,
        to = newest_known(),
        "the database has this version's schema now"
    );
    Ok(())
}

/// The schema's version, 0 for none; [`StoreError::Newer`] for one that is not known.
async fn found_version(conn: &mut PgConnection, address: &Address) -> Result<i64, StoreError> {
    let found = read_version(conn).await;
    let found = found.map_err(|error| Failure::from(error).into_error(address.name()))?;
    if found > newest_known() {
        return Err(StoreError::Newer {
            database: address.name().to_owned(),
            found,
            known: newest_known(),
        });
    }
    Ok(found)
}

async fn read_version(conn: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let has_migrations: bool = sqlx::query_scalar(HAS_MIGRATIONS)
        .fetch_one(&mut *conn)
        .await?;
    if !has_migrations {
        return Ok(0);
    }
    sqlx::query_scalar(VERSION).fetch_one(&mut *conn).await
}

fn newest_known() -> i64 {
    let versions = MIGRATOR.iter().map(|migration| migration.version);
    versions.max().unwrap_or(0)
}

fn refused(address: &Address, error: MigrateError) -> StoreError {
    unavailable(format!("cannot create or upgrade {address}"), error)
}

fn unavailable(
    what: String,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> StoreError {
    StoreError::Unavailable {
        what,
        source: source.into(),
    }
}
