//! Why a statement or a row of it failed, before it is told to a caller.

use std::{fmt, sync::Arc};

#[cfg(feature = "postgres")]
use sqlx::postgres::PgDatabaseError;

use crate::store::StoreError;

/// Somebody else kept the database for longer than we wait.
const SQLITE_BUSY: i64 = 5;
const LOCK_NOT_AVAILABLE: &str = "55P03";
/// The disk is full.
const SQLITE_FULL: i64 = 13;
const DISK_FULL: &str = "53100";

/// What every function of this adapter returns.
pub(crate) type Fallible<T> = Result<T, Failure>;

/// A failure that ends the whole transaction.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The driver's.
    Sql(sqlx::Error),
    /// A row that this version cannot have written.
    Corrupt(String),
}

impl Failure {
    /// Says what was found where.
    pub(super) fn corrupt(
        table: &str,
        id: impl fmt::Display,
        column: &str,
        found: impl fmt::Display,
    ) -> Self {
        Self::Corrupt(format!("{table} {id}: `{column}` holds {found}"))
    }

    /// The error of one caller, naming the database.
    pub(crate) fn into_error(self, database: &str) -> StoreError {
        Arc::new(self).to_error(database)
    }

    /// The error of each of several callers of one transaction.
    pub(super) fn to_error(self: &Arc<Self>, database: &str) -> StoreError {
        match &**self {
            Self::Sql(error) if has_code(error, SQLITE_BUSY, LOCK_NOT_AVAILABLE) => {
                StoreError::Busy {
                    database: database.to_owned(),
                }
            }
            Self::Sql(error) if has_code(error, SQLITE_FULL, DISK_FULL) => StoreError::Full {
                database: database.to_owned(),
            },
            Self::Sql(_) => StoreError::Unavailable {
                what: format!("cannot use the database {database}"),
                source: Box::new(Arc::clone(self)),
            },
            Self::Corrupt(what) => StoreError::Corrupt {
                what: format!("{database}: {what}"),
            },
        }
    }
}

/// Whether SQLite failed for this reason, or for a kind of it, or PostgreSQL for that one.
fn has_code(error: &sqlx::Error, sqlite: i64, postgres: &str) -> bool {
    let Some(error) = error.as_database_error() else {
        return false;
    };
    let code = error.code().unwrap_or_default();
    #[cfg(feature = "postgres")]
    if error.try_downcast_ref::<PgDatabaseError>().is_some() {
        return code == postgres;
    }
    #[cfg(not(feature = "postgres"))]
    let _ = postgres;
    let code = code.parse::<i64>().unwrap_or_default();
    code & 0xff == sqlite
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sql(error) => error.fmt(f),
            Self::Corrupt(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Failure {}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Corrupt(format!("a value cannot be written as JSON: {error}"))
    }
}
