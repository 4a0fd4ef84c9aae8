//! Why a statement or a row of it failed, before it is told to a caller.

use std::{fmt, path::Path, sync::Arc};

use crate::store::StoreError;

/// What every function of this adapter returns.
pub(super) type Fallible<T> = Result<T, Failure>;

/// A failure that ends the whole transaction.
#[derive(Debug)]
pub(super) enum Failure {
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

    /// The error of one caller, naming the file.
    pub(super) fn into_error(self, path: &Path) -> StoreError {
        Arc::new(self).to_error(path)
    }

    /// The error of each of several callers of one transaction.
    pub(super) fn to_error(self: &Arc<Self>, path: &Path) -> StoreError {
        match &**self {
            Self::Sql(error) if has_code(error, SQLITE_BUSY) => StoreError::Busy {
                database: path.display().to_string(),
            },
            Self::Sql(error) if has_code(error, SQLITE_FULL) => StoreError::Full {
                database: path.display().to_string(),
            },
            Self::Sql(_) => StoreError::Unavailable {
                what: format!("cannot use the database {}", path.display()),
                source: Box::new(Arc::clone(self)),
            },
            Self::Corrupt(what) => StoreError::Corrupt {
                what: format!("{}: {what}", path.display()),
            },
        }
    }
}

/// Somebody else held the file for longer than we wait.
const SQLITE_BUSY: i64 = 5;
/// The disk is full.
const SQLITE_FULL: i64 = 13;

/// Whether SQLite failed for this reason, or for a kind of it.
fn has_code(error: &sqlx::Error, reason: i64) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    let code = code.and_then(|code| code.parse::<i64>().ok());
    code.is_some_and(|code| code & 0xff == reason)
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
