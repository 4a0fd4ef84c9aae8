//! A statement in the words of each database, and what is bound to it.
//!
//! The two stores differ in their SQL alone: what is loaded, decided and written is code that they
//! share, so a statement that needs two wordings has them side by side.

use std::{borrow::Cow, marker::PhantomData};

use super::connection::{Column, Row, Target};

/// One statement. Where the databases agree on its words it has one wording.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statement {
    pub(super) sqlite: Words,
    #[cfg(feature = "postgres")]
    pub(super) postgres: &'static str,
}

/// What SQLite is told.
#[derive(Debug, Clone, Copy)]
pub(super) enum Words {
    /// These words. A set of ids is one JSON array.
    Fixed(&'static str),
    /// A set of rows stands between these words, bound value by value: SQLite reads a JSON array of
    /// rows again for each of their columns.
    Around(RowSet),
}

/// For how many rows statements are made. A larger set is several statements.
const WIDTHS: [usize; 3] = [1, 16, ROWS_AT_ONCE];
/// The largest of these.
pub(super) const ROWS_AT_ONCE: usize = 128;

/// A set of rows, as SQLite is given it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowSet {
    pub(super) columns: &'static [&'static str],
    before: &'static str,
    after: &'static str,
}

impl RowSet {
    pub(super) const fn new(
        columns: &'static [&'static str],
        before: &'static str,
        after: &'static str,
    ) -> Self {
        Self {
            columns,
            before,
            after,
        }
    }

    /// For how many rows the statement is that binds so many values.
    pub(super) fn width_for(&self, values: usize) -> usize {
        let rows = values / (self.columns.len() + 1);
        let fits = WIDTHS.into_iter().find(|width| rows <= *width);
        fits.unwrap_or(rows)
    }

    /// The statement for so many rows. A row's place is bound last; a row without is left out, so
    /// that few widths, each prepared once, do for all sets.
    pub(super) fn words(&self, rows: usize) -> String {
        let names = self.columns.iter().chain(&["place"]).enumerate();
        let names = names.map(|(n, name)| format!("column{} AS {name}", n + 1));
        let names: Vec<_> = names.collect();
        let row = format!("({}?)", "?,".repeat(self.columns.len()));
        let (before, after) = (self.before, self.after);
        let (names, rows) = (names.join(", "), vec![row; rows].join(","));
        let place = self.columns.len() + 1;
        format!(
            "{before} (SELECT {names} FROM (VALUES {rows}) WHERE column{place} IS NOT NULL) AS x \
             {after}"
        )
    }
}

impl Statement {
    /// A statement that both databases understand.
    pub(super) const fn common(words: &'static str) -> Self {
        Self::of(words, words)
    }

    /// A statement that only a database needs which several workers share.
    #[cfg(feature = "postgres")]
    pub(super) const fn on_server(words: &'static str) -> Self {
        Self::of("", words)
    }

    /// A statement with a wording for SQLite and one for PostgreSQL.
    pub(super) const fn of(sqlite: &'static str, postgres: &'static str) -> Self {
        #[cfg(not(feature = "postgres"))]
        let _ = postgres;
        Self {
            sqlite: Words::Fixed(sqlite),
            #[cfg(feature = "postgres")]
            postgres,
        }
    }

    /// A statement over a set of rows, which PostgreSQL reads from one JSON array.
    pub(super) const fn over(rows: RowSet, postgres: &'static str) -> Self {
        #[cfg(not(feature = "postgres"))]
        let _ = postgres;
        Self {
            sqlite: Words::Around(rows),
            #[cfg(feature = "postgres")]
            postgres,
        }
    }

    /// What SQLite is told, of one row where it is over rows.
    pub(in crate::store) fn sqlite(&self) -> Cow<'static, str> {
        match self.sqlite {
            Words::Fixed(words) => Cow::Borrowed(words),
            Words::Around(rows) => Cow::Owned(rows.words(1)),
        }
    }
}

/// A statement over a set of rows `x`: the columns with their types, and the words before and after
/// the set. `x.place` is a row's place in it. A large set is several statements, one after the other.
macro_rules! over_rows {
    ([$($column:ident $type:ident),+ $(,)?] $before:literal, $after:literal) => {
        $crate::store::sql::statement::Statement::over(
            $crate::store::sql::statement::RowSet::new(
                &[$(stringify!($column)),+],
                $before,
                $after,
            ),
            concat!(
                $before,
                " ROWS FROM (json_to_recordset($1::json) AS (",
                over_rows!(@typed $($column $type),+),
                ")) WITH ORDINALITY AS x (",
                $(stringify!($column), ", ",)+
                "place) ",
                $after
            ),
        )
    };
    (@typed $first:ident $first_type:ident $(, $column:ident $type:ident)*) => {
        concat!(
            stringify!($first), " ", stringify!($first_type)
            $(, ", ", stringify!($column), " ", stringify!($type))*
        )
    };
}

/// A statement over a set `x (id)` of numbers, bound as one JSON array to `$1`.
macro_rules! over_numbers {
    ($before:literal, $after:literal) => {
        $crate::store::sql::statement::Statement::of(
            concat!(
                $before,
                " (SELECT value AS id FROM json_each($1)) AS x ",
                $after
            ),
            concat!(
                $before,
                " (SELECT value::bigint AS id FROM json_array_elements_text($1::json)) AS x ",
                $after
            ),
        )
    };
}

/// A statement over a list `x (id, place)` of texts, bound as one JSON array to `$1`.
macro_rules! over_texts {
    ($before:literal, $after:literal) => {
        $crate::store::sql::statement::Statement::of(
            concat!(
                $before,
                " (SELECT value AS id, key AS place FROM json_each($1)) AS x ",
                $after
            ),
            concat!(
                $before,
                " json_array_elements_text($1::json) WITH ORDINALITY AS x (id, place) ",
                $after
            ),
        )
    };
}

/// A statement with the present instant in microseconds, by the database's own clock, between its
/// pieces: leases are told by that alone, whatever the clocks of the machines show.
macro_rules! by_clock {
    ($first:literal $(, $rest:literal)+ $(,)?) => {
        $crate::store::sql::statement::Statement::of(
            concat!($first $(, "CAST(unixepoch('subsec') * 1000000 AS INTEGER)", $rest)+),
            concat!(
                $first
                $(, "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)", $rest)+
            ),
        )
    };
}

pub(super) use {by_clock, over_numbers, over_rows, over_texts};

/// A value that is bound.
#[derive(Debug, Clone)]
pub(super) enum Bound {
    Number(Option<i64>),
    Text(Option<String>),
    /// A set of rows, or of ids.
    Json(String),
    Bytes(Option<Vec<u8>>),
    Flag(bool),
}

macro_rules! bound {
    ($($from:ty => $value:ident: $bound:expr;)+) => {
        $(impl From<$from> for Bound {
            fn from($value: $from) -> Self {
                $bound
            }
        })+
    };
}

bound! {
    bool => value: Self::Flag(value);
    i64 => value: Self::Number(Some(value));
    u32 => value: Self::Number(Some(i64::from(value)));
    Option<i64> => value: Self::Number(value);
    &str => value: Self::Text(Some(value.to_owned()));
    &String => value: Self::Text(Some(value.clone()));
    String => value: Self::Text(Some(value));
    Option<&str> => value: Self::Text(value.map(str::to_owned));
    Option<String> => value: Self::Text(value);
    Option<Vec<u8>> => value: Self::Bytes(value);
}

/// A statement with what is bound to it, in order.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) statement: Statement,
    pub(super) bound: Vec<Bound>,
}

/// Begins a query.
pub(super) fn query(statement: Statement) -> Query {
    Query {
        statement,
        bound: Vec::new(),
    }
}

impl Query {
    pub(super) fn bind(mut self, value: impl Into<Bound>) -> Self {
        self.bound.push(value.into());
        self
    }

    /// Performs it; returns how many rows it changed.
    pub(super) async fn execute(self, on: impl Target) -> Result<u64, sqlx::Error> {
        on.execute(self).await
    }

    pub(super) async fn fetch_all(self, on: impl Target) -> Result<Vec<Row>, sqlx::Error> {
        on.fetch(self).await
    }

    pub(super) async fn fetch_optional(self, on: impl Target) -> Result<Option<Row>, sqlx::Error> {
        Ok(on.fetch(self).await?.into_iter().next())
    }

    pub(super) async fn fetch_one(self, on: impl Target) -> Result<Row, sqlx::Error> {
        let first = self.fetch_optional(on).await?;
        first.ok_or(sqlx::Error::RowNotFound)
    }
}

/// A query of which the first column is read.
#[derive(Debug)]
pub(super) struct ScalarQuery<T> {
    query: Query,
    column: PhantomData<fn() -> T>,
}

/// Begins a query of one column.
pub(super) fn query_scalar<T>(statement: Statement) -> ScalarQuery<T> {
    ScalarQuery {
        query: query(statement),
        column: PhantomData,
    }
}

impl<T: Column> ScalarQuery<T> {
    pub(super) fn bind(mut self, value: impl Into<Bound>) -> Self {
        self.query = self.query.bind(value);
        self
    }

    pub(super) async fn fetch_all(self, on: impl Target) -> Result<Vec<T>, sqlx::Error> {
        let rows = self.query.fetch_all(on).await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }

    pub(super) async fn fetch_optional(self, on: impl Target) -> Result<Option<T>, sqlx::Error> {
        let row = self.query.fetch_optional(on).await?;
        row.map(|row| row.try_get(0)).transpose()
    }

    pub(super) async fn fetch_one(self, on: impl Target) -> Result<T, sqlx::Error> {
        self.query.fetch_one(on).await?.try_get(0)
    }
}
