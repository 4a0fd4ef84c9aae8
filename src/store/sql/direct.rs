//! SQLite, called where the caller is: its calls block.
//!
//! Whoever writes has a thread of its own, and whoever reads is lent one for a whole query. A driver
//! that hands every row from its thread to the caller's costs more than SQLite itself.

use std::{borrow::Cow, fmt, path::Path, sync::Arc, time::Duration};

use rusqlite::{
    CachedStatement, Connection, OpenFlags,
    types::{ToSqlOutput, Value, ValueRef},
};
use sqlx::error::{DatabaseError, ErrorKind};

use super::statement::{Bound, Query, Words};

#[cfg(test)]
mod tests;

/// How a connection is set up.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The database, which exists.
    pub(crate) path: Arc<Path>,
    /// What may be done with it.
    pub(crate) access: Access,
    /// How long it waits for another process that writes.
    pub(crate) busy_timeout: Duration,
    /// How many prepared statements it keeps.
    pub(crate) statements_cached: usize,
    /// Pragmas with their values.
    pub(crate) pragmas: &'static [(&'static str, &'static str)],
}

/// What a connection may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read and write.
    Write,
    /// Read; files beside the database may be made for it.
    Read,
    /// Read, and leave everything as it is.
    ReadOnly,
}

/// A connection whose calls block.
#[derive(Debug)]
pub(crate) struct Direct(Connection);

impl Direct {
    pub(crate) fn open(settings: &Settings) -> Result<Self, sqlx::Error> {
        // One thread uses it at a time, so SQLite needs no lock for it.
        let access = match settings.access {
            Access::Write | Access::Read => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Access::ReadOnly => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(&settings.path, flags).map_err(failed)?;
        conn.busy_timeout(settings.busy_timeout).map_err(failed)?;
        conn.set_prepared_statement_cache_capacity(settings.statements_cached);
        for (name, value) in settings.pragmas {
            conn.pragma_update(None, name, value).map_err(failed)?;
        }
        Ok(Self(conn))
    }

    /// Statements without values.
    pub(super) fn raw(&mut self, words: &str) -> Result<(), sqlx::Error> {
        self.0.execute_batch(words).map_err(failed)
    }

    pub(super) fn fetch(&mut self, query: Query) -> Result<Vec<DirectRow>, sqlx::Error> {
        let mut statement = self.prepared(query)?;
        let columns: Arc<[String]> = statement
            .column_names()
            .into_iter()
            .map(Into::into)
            .collect();
        let mut found = Vec::new();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(failed)? {
            let values = (0..columns.len()).map(|column| row.get::<_, Value>(column));
            found.push(DirectRow {
                values: values.collect::<Result<_, _>>().map_err(failed)?,
                columns: Arc::clone(&columns),
            });
        }
        Ok(found)
    }

    /// Returns how many rows it changed.
    pub(super) fn execute(&mut self, query: Query) -> Result<u64, sqlx::Error> {
        let mut statement = self.prepared(query)?;
        let mut rows = statement.raw_query();
        while rows.next().map_err(failed)?.is_some() {}
        drop(rows);
        drop(statement);
        Ok(self.0.changes())
    }

    /// The statement with its values.
    fn prepared(&self, query: Query) -> Result<CachedStatement<'_>, sqlx::Error> {
        let words = match query.statement.sqlite {
            Words::Fixed(words) => Cow::Borrowed(words),
            Words::Around(rows) => Cow::Owned(rows.words(rows.width_for(query.bound.len()))),
        };
        let mut statement = self.0.prepare_cached(&words).map_err(failed)?;
        for place in 1..=statement.parameter_count() {
            // `$2` is the second value, wherever SQLite meets it first.
            let name = statement
                .parameter_name(place)
                .and_then(|name| name.strip_prefix('$'));
            let number = name.and_then(|name| name.parse().ok()).unwrap_or(place);
            let value = query.bound.get(number - 1).map_or(ValueRef::Null, value_of);
            let value = ToSqlOutput::Borrowed(value);
            statement.raw_bind_parameter(place, value).map_err(failed)?;
        }
        Ok(statement)
    }

    /// What a pragma says.
    pub(crate) fn pragma(&self, name: &str) -> Result<i64, sqlx::Error> {
        let said = self.0.pragma_query_value(None, name, |row| row.get(0));
        said.map_err(failed)
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        !self.0.is_autocommit()
    }

    pub(super) fn close(self) -> Result<(), sqlx::Error> {
        self.0.close().map_err(|(_, error)| failed(error))
    }
}

fn value_of(bound: &Bound) -> ValueRef<'_> {
    fn or_null<'v, T: ?Sized>(value: Option<&'v T>, of: fn(&'v T) -> ValueRef<'v>) -> ValueRef<'v> {
        value.map_or(ValueRef::Null, of)
    }
    match bound {
        Bound::Number(value) => value.map_or(ValueRef::Null, ValueRef::Integer),
        Bound::Text(value) => or_null(value.as_deref(), |text: &str| text.into()),
        Bound::Json(json) => json.as_str().into(),
        Bound::Bytes(value) => or_null(value.as_deref(), ValueRef::Blob),
        Bound::Flag(value) => ValueRef::Integer(i64::from(*value)),
    }
}

/// A row that was read.
#[derive(Debug)]
pub(crate) struct DirectRow {
    columns: Arc<[String]>,
    values: Vec<Value>,
}

/// A column's name or number.
pub(super) trait DirectPlace: fmt::Debug {
    fn place(&self, columns: &[String]) -> Result<usize, sqlx::Error>;
}

impl DirectPlace for &str {
    fn place(&self, columns: &[String]) -> Result<usize, sqlx::Error> {
        let found = columns.iter().position(|name| name == self);
        found.ok_or_else(|| sqlx::Error::ColumnNotFound((*self).to_owned()))
    }
}

impl DirectPlace for usize {
    fn place(&self, columns: &[String]) -> Result<usize, sqlx::Error> {
        let len = columns.len();
        let inside = (*self < len).then_some(*self);
        inside.ok_or(sqlx::Error::ColumnIndexOutOfBounds { index: *self, len })
    }
}

impl DirectRow {
    pub(super) fn try_get<T: FromValue>(&self, column: impl DirectPlace) -> Result<T, sqlx::Error> {
        let place = column.place(&self.columns)?;
        T::from_value(&self.values[place]).ok_or_else(|| sqlx::Error::ColumnDecode {
            index: self.columns[place].clone(),
            source: format!("a value of the type {}", self.values[place].data_type()).into(),
        })
    }
}

/// What a value is read as; `None` where it is another.
pub(super) trait FromValue: Sized {
    fn from_value(value: &Value) -> Option<Self>;
}

impl FromValue for i64 {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(number) => Some(*number),
            Value::Null | Value::Real(_) | Value::Text(_) | Value::Blob(_) => None,
        }
    }
}

impl FromValue for bool {
    fn from_value(value: &Value) -> Option<Self> {
        i64::from_value(value).map(|number| number != 0)
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            Value::Null | Value::Integer(_) | Value::Real(_) | Value::Blob(_) => None,
        }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Option<Self> {
        if matches!(value, Value::Null) {
            return Some(None);
        }
        T::from_value(value).map(Some)
    }
}

/// SQLite's error, told as the other driver tells it.
#[derive(Debug)]
struct SqliteFailure {
    /// The extended code.
    code: i32,
    message: String,
}

impl fmt::Display for SqliteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(code: {}) {}", self.code, self.message)
    }
}

impl std::error::Error for SqliteFailure {}

impl DatabaseError for SqliteFailure {
    fn message(&self) -> &str {
        &self.message
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        Some(self.code.to_string().into())
    }

    fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn std::error::Error + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

fn failed(error: rusqlite::Error) -> sqlx::Error {
    let rusqlite::Error::SqliteFailure(code, message) = error else {
        return sqlx::Error::Decode(error.into());
    };
    sqlx::Error::Database(Box::new(SqliteFailure {
        code: code.extended_code,
        message: message.unwrap_or_else(|| code.to_string()),
    }))
}
