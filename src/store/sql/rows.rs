//! Rows in and out: sets of rows go in as a whole, columns come out checked.

use jiff::{Timestamp, civil, tz::TimeZone};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    bind::values,
    connection::{Column, Conn, Row},
    failure::{Failure, Fallible},
    statement::{Bound, Query, ROWS_AT_ONCE, Statement, Words, query},
};

/// An item of a batch with the instant at which its caller asked.
#[derive(Debug)]
pub(super) struct At<T> {
    pub(super) item: T,
    pub(super) now: Timestamp,
}

/// Performs a statement for a whole set of rows.
pub(super) async fn write_rows<R: Serialize>(
    conn: &mut Conn,
    statement: Statement,
    rows: &[R],
) -> Fallible<()> {
    for query in over(conn, statement, rows)? {
        query.execute(&mut *conn).await?;
    }
    Ok(())
}

/// Reads what a statement finds for a whole set of rows.
pub(super) async fn rows_for<R: Serialize>(
    conn: &mut Conn,
    statement: Statement,
    rows: &[R],
) -> Fallible<Vec<Row>> {
    let mut found = Vec::new();
    for query in over(conn, statement, rows)? {
        found.extend(query.fetch_all(&mut *conn).await?);
    }
    Ok(found)
}

/// The statements, one after the other, that are the statement over all of these rows.
fn over<R: Serialize>(conn: &Conn, statement: Statement, rows: &[R]) -> Fallible<Vec<Query>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let columns = match statement.sqlite {
        Words::Around(set) if conn.is_sqlite() => set.columns,
        Words::Around(_) | Words::Fixed(_) => return Ok(vec![set(statement, rows)?]),
    };
    let mut queries = Vec::with_capacity(rows.len().div_ceil(ROWS_AT_ONCE));
    for (n, rows) in rows.chunks(ROWS_AT_ONCE).enumerate() {
        queries.push(Query {
            statement,
            bound: values(columns, rows, n * ROWS_AT_ONCE)?,
        });
    }
    Ok(queries)
}

/// Begins a query whose `$1` is a set of ids.
pub(super) fn set<R: Serialize>(statement: Statement, ids: &[R]) -> Fallible<Query> {
    let json = serde_json::to_string(ids)?;
    Ok(query(statement).bind(Bound::Json(json)))
}

/// The instant as our own tables hold it.
pub(super) fn micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}

/// The instant as it is given to the `ctx_*` tables: UTC text, which in SQLite compares with its own
/// functions' and of which PostgreSQL makes a `timestamptz`.
pub(super) fn text_instant(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string()
}

/// A number of rows, as it is bound.
pub(super) fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

/// One row, whose columns are checked; a failure names table, id, column and value.
pub(super) struct Columns<'r> {
    row: &'r Row,
    table: &'static str,
    id_column: &'static str,
}

impl<'r> Columns<'r> {
    pub(super) fn of(row: &'r Row, table: &'static str, id_column: &'static str) -> Self {
        Self {
            row,
            table,
            id_column,
        }
    }

    /// A column of a type that the driver knows.
    pub(super) fn get<T: Column>(&self, column: &'static str) -> Fallible<T> {
        self.row
            .try_get(column)
            .map_err(|error| self.bad(column, error))
    }

    /// An instant of our own tables.
    pub(super) fn instant(&self, column: &'static str) -> Fallible<Timestamp> {
        let found: i64 = self.get(column)?;
        Timestamp::from_microsecond(found).map_err(|_| self.bad(column, found))
    }

    pub(super) fn instant_or_none(&self, column: &'static str) -> Fallible<Option<Timestamp>> {
        match self.get::<Option<i64>>(column)? {
            None => Ok(None),
            Some(_) => self.instant(column).map(Some),
        }
    }

    /// An instant of the `ctx_*` tables, in any form that the database's own functions accept.
    pub(super) fn text_instant(&self, column: &'static str) -> Fallible<Timestamp> {
        let found: String = self.get(column)?;
        let as_written = found.parse::<Timestamp>().ok();
        as_written
            .or_else(|| {
                let wall: civil::DateTime = found.parse().ok()?;
                TimeZone::UTC.to_timestamp(wall).ok()
            })
            .ok_or_else(|| self.bad(column, format_args!("`{found}`")))
    }

    pub(super) fn text_instant_or_none(&self, column: &'static str) -> Fallible<Option<Timestamp>> {
        match self.get::<Option<String>>(column)? {
            None => Ok(None),
            Some(_) => self.text_instant(column).map(Some),
        }
    }

    /// A word of a closed set.
    pub(super) fn word<T>(
        &self,
        column: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Fallible<T> {
        let found: String = self.get(column)?;
        parse(&found).ok_or_else(|| self.bad(column, format_args!("`{found}`")))
    }

    pub(super) fn word_or_none<T>(
        &self,
        column: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Fallible<Option<T>> {
        match self.get::<Option<String>>(column)? {
            None => Ok(None),
            Some(_) => self.word(column, parse).map(Some),
        }
    }

    /// A value that is kept as JSON.
    pub(super) fn json<T: DeserializeOwned>(&self, column: &'static str) -> Fallible<T> {
        let found: String = self.get(column)?;
        serde_json::from_str(&found)
            .map_err(|error| self.bad(column, format_args!("`{found}`, which is not it: {error}")))
    }

    pub(super) fn json_or_none<T: DeserializeOwned>(
        &self,
        column: &'static str,
    ) -> Fallible<Option<T>> {
        match self.get::<Option<String>>(column)? {
            None => Ok(None),
            Some(_) => self.json(column).map(Some),
        }
    }

    /// A count, which is never negative.
    pub(super) fn count(&self, column: &'static str) -> Fallible<u32> {
        let found: i64 = self.get(column)?;
        u32::try_from(found).map_err(|_| self.bad(column, found))
    }

    pub(super) fn count_or_none(&self, column: &'static str) -> Fallible<Option<u32>> {
        match self.get::<Option<i64>>(column)? {
            None => Ok(None),
            Some(_) => self.count(column).map(Some),
        }
    }

    pub(super) fn bad(&self, column: &'static str, found: impl std::fmt::Display) -> Failure {
        let by_number = self.row.try_get::<i64>(self.id_column);
        let id = by_number
            .map(|id| id.to_string())
            .or_else(|_| self.row.try_get::<String>(self.id_column));
        let id = id.unwrap_or_else(|_| "?".to_owned());
        Failure::corrupt(self.table, id, column, found)
    }
}
