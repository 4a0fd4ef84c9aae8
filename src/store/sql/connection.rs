//! The two databases behind one face: a connection that writes, a pool that reads, and rows.

#[cfg(feature = "postgres")]
use std::time::Duration;

#[cfg(feature = "postgres")]
use sqlx::{
    ColumnIndex, ConnectOptions, Connection, PgConnection, PgPool, Postgres, Transaction,
    postgres::{PgArguments, PgConnectOptions, PgRow},
};

use super::{
    direct::{Direct, DirectPlace, DirectRow, Settings},
    readers::{Reader, Readers},
    statement::{Query, Statement},
};
#[cfg(feature = "postgres")]
use super::{null_character, statement::Bound};

/// A connection, or a snapshot that readers see.
#[derive(Debug)]
pub(crate) enum Conn {
    Sqlite(Direct),
    SqliteSnapshot(Reader),
    #[cfg(feature = "postgres")]
    Postgres(PgConnection),
    #[cfg(feature = "postgres")]
    PostgresSnapshot(Transaction<'static, Postgres>),
}

/// The driver's own connection.
enum Driver<'c> {
    Sqlite(&'c mut Direct),
    SqliteReader(&'c mut Reader),
    #[cfg(feature = "postgres")]
    Postgres(&'c mut PgConnection),
}

const BEGIN: Statement = Statement::of(
    "BEGIN IMMEDIATE",
    // Whoever writes takes his turn, as in a file: what was read stays so until the commit. The lock
    // ends with the transaction.
    "BEGIN; SELECT pg_advisory_xact_lock(1667657580, hashtext(current_schema()))",
);

#[cfg(feature = "postgres")]
const TRANSACTION: &str = "SELECT pg_current_xact_id_if_assigned()::text";
// A hint for whoever sleeps; it leaves with the commit.
#[cfg(feature = "postgres")]
const NOTIFY_AND_COMMIT: &str = "SELECT pg_notify('chatcron', ''); COMMIT";
#[cfg(feature = "postgres")]
const FATE: &str = "SELECT pg_xact_status($1::xid8)";

/// How often and how long the server is asked what became of a transaction.
#[cfg(feature = "postgres")]
const ASKED: u32 = 50;
#[cfg(feature = "postgres")]
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(200);

const COMMIT: Statement = Statement::common("COMMIT");
const ROLLBACK: Statement = Statement::common("ROLLBACK");

/// Of a snapshot in SQLite, which sees what had been committed when it first reads.
const BEGIN_READING: &str = "BEGIN";

impl Conn {
    fn driver(&mut self) -> Driver<'_> {
        match self {
            Self::Sqlite(conn) => Driver::Sqlite(conn),
            Self::SqliteSnapshot(reader) => Driver::SqliteReader(reader),
            #[cfg(feature = "postgres")]
            Self::Postgres(conn) => Driver::Postgres(conn),
            #[cfg(feature = "postgres")]
            Self::PostgresSnapshot(tx) => Driver::Postgres(tx),
        }
    }

    /// Whether several workers share the database.
    pub(super) fn is_shared(&self) -> bool {
        match self {
            Self::Sqlite(_) | Self::SqliteSnapshot(_) => false,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) | Self::PostgresSnapshot(_) => true,
        }
    }

    /// Whether it is SQLite's.
    pub(super) fn is_sqlite(&self) -> bool {
        match self {
            Self::Sqlite(_) | Self::SqliteSnapshot(_) => true,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) | Self::PostgresSnapshot(_) => false,
        }
    }

    /// Begins a transaction that writes: no other does until it has ended.
    pub(super) async fn begin(&mut self) -> Result<(), sqlx::Error> {
        self.raw(BEGIN).await
    }

    /// Commits. Where the connection is lost before the answer, a new one is made and asked what
    /// became of the transaction.
    pub(super) async fn commit(&mut self, reconnect: &Reconnect) -> Result<(), sqlx::Error> {
        #[cfg(feature = "postgres")]
        if let Self::Postgres(conn) = self {
            let (error, transaction) = match commit_and_tell(conn).await {
                Ok(()) => return Ok(()),
                Err((error, None)) => return Err(error),
                Err((error, Some(_))) if !is_lost(&error) => return Err(error),
                Err((error, Some(transaction))) => (error, transaction),
            };
            return match reconnect.fate_of(&transaction).await {
                Some(fresh) => {
                    std::mem::replace(self, fresh).close_hard().await;
                    Ok(())
                }
                None => Err(error),
            };
        }
        let _ = reconnect;
        self.raw(COMMIT).await
    }

    pub(super) async fn rollback(&mut self) -> Result<(), sqlx::Error> {
        self.raw(ROLLBACK).await
    }

    async fn raw(&mut self, statement: Statement) -> Result<(), sqlx::Error> {
        match self.driver() {
            Driver::Sqlite(conn) => conn.raw(&statement.sqlite())?,
            Driver::SqliteReader(reader) => {
                reader
                    .call(move |conn| conn.raw(&statement.sqlite()))
                    .await?;
            }
            #[cfg(feature = "postgres")]
            Driver::Postgres(conn) => {
                sqlx::raw_sql(statement.postgres).execute(conn).await?;
            }
        }
        Ok(())
    }

    /// Closes it in order.
    pub(super) async fn close(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(conn) => conn.close(),
            Self::SqliteSnapshot(mut reader) => {
                reader.call(|conn| conn.raw(&ROLLBACK.sqlite())).await
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(conn) => conn.close().await,
            #[cfg(feature = "postgres")]
            Self::PostgresSnapshot(tx) => tx.rollback().await,
        }
    }

    /// Drops it without a word to the other side, which may be gone.
    pub(super) async fn close_hard(self) {
        let _ = match self {
            Self::Sqlite(conn) => conn.close(),
            Self::SqliteSnapshot(reader) => {
                drop(reader);
                Ok(())
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(conn) => conn.close_hard().await,
            #[cfg(feature = "postgres")]
            Self::PostgresSnapshot(tx) => tx.rollback().await,
        };
    }
}

/// Whether the connection is of no use any more, as against a statement that the server refuses. A
/// server that ends a session says so, also after the commit that it was asked for.
pub(super) fn is_lost(error: &sqlx::Error) -> bool {
    const SESSION_ENDED: [&str; 4] = ["57P01", "57P02", "57P03", "25P03"];
    match error.as_database_error() {
        Some(error) => {
            let code = error.code().unwrap_or_default();
            SESSION_ENDED.contains(&code.as_ref())
        }
        None => matches!(error, sqlx::Error::Io(_) | sqlx::Error::Protocol(_)),
    }
}

/// How the connection that writes is made again.
#[derive(Debug, Clone)]
pub(crate) enum Reconnect {
    Sqlite(Settings),
    #[cfg(feature = "postgres")]
    Postgres(Box<PgConnectOptions>),
}

const CHECKPOINT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

impl Reconnect {
    /// A new connection, after the one before it failed.
    pub(crate) async fn connect(&self) -> Result<Conn, sqlx::Error> {
        match self {
            Self::Sqlite(settings) => {
                let mut conn = Direct::open(settings)?;
                // On a disk that is nearly full the log is what can be given back.
                let _ = conn.raw(CHECKPOINT);
                Ok(Conn::Sqlite(conn))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(options) => Ok(Conn::Postgres(options.connect().await?)),
        }
    }
}

#[cfg(feature = "postgres")]
impl Reconnect {
    /// A new connection, if this transaction was committed after all. One that is still under way
    /// is waited for: its session has not noticed yet that nobody listens.
    async fn fate_of(&self, transaction: &str) -> Option<Conn> {
        let Self::Postgres(options) = self else {
            return None;
        };
        for _ in 0..ASKED {
            if let Ok(mut conn) = options.connect().await {
                let fate = sqlx::query_scalar::<_, Option<String>>(FATE)
                    .bind(transaction)
                    .fetch_one(&mut conn)
                    .await;
                match fate.ok().flatten().as_deref() {
                    Some("committed") => return Some(Conn::Postgres(conn)),
                    Some("aborted") => return None,
                    Some(_) | None => {}
                }
            }
            tokio::time::sleep(BETWEEN_QUESTIONS).await;
        }
        None
    }
}

/// Commits a transaction, and notifies others if it changed something; on failure, the transaction
/// of which nobody knows the end.
#[cfg(feature = "postgres")]
async fn commit_and_tell(conn: &mut PgConnection) -> Result<(), (sqlx::Error, Option<String>)> {
    let transaction: Option<String> = sqlx::query_scalar(TRANSACTION)
        .fetch_one(&mut *conn)
        .await
        .map_err(|error| (error, None))?;
    let words = match transaction {
        Some(_) => NOTIFY_AND_COMMIT,
        None => COMMIT.postgres,
    };
    let done = sqlx::raw_sql(words).execute(&mut *conn).await;
    done.map(drop).map_err(|error| (error, transaction))
}

/// The connections that read.
#[derive(Debug, Clone)]
pub(crate) enum Pool {
    Sqlite(Readers),
    #[cfg(feature = "postgres")]
    Postgres(PgPool),
}

#[cfg(feature = "postgres")]
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

impl Pool {
    /// Everything as of one instant, whoever writes meanwhile; until it is closed.
    pub(super) async fn snapshot(&self) -> Result<Conn, sqlx::Error> {
        Ok(match self {
            Self::Sqlite(readers) => {
                let mut reader = readers.lend().await?;
                reader.call(|conn| conn.raw(BEGIN_READING)).await?;
                Conn::SqliteSnapshot(reader)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => Conn::PostgresSnapshot(pool.begin_with(SNAPSHOT).await?),
        })
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Sqlite(readers) => readers.close(),
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

/// What a query is performed on.
pub(super) trait Target: Send {
    /// The rows that it finds or returns.
    fn fetch(self, query: Query) -> impl Future<Output = Result<Vec<Row>, sqlx::Error>> + Send;
    /// How many rows it changed.
    fn execute(self, query: Query) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
}

impl Target for &mut Conn {
    async fn fetch(self, query: Query) -> Result<Vec<Row>, sqlx::Error> {
        match self.driver() {
            Driver::Sqlite(conn) => Ok(rows(conn.fetch(query)?)),
            Driver::SqliteReader(reader) => Ok(rows(reader.call(|conn| conn.fetch(query)).await?)),
            #[cfg(feature = "postgres")]
            Driver::Postgres(conn) => Ok(rows(postgres(query).fetch_all(conn).await?)),
        }
    }

    async fn execute(self, query: Query) -> Result<u64, sqlx::Error> {
        match self.driver() {
            Driver::Sqlite(conn) => conn.execute(query),
            Driver::SqliteReader(reader) => reader.call(|conn| conn.execute(query)).await,
            #[cfg(feature = "postgres")]
            Driver::Postgres(conn) => Ok(postgres(query).execute(conn).await?.rows_affected()),
        }
    }
}

impl Target for &Pool {
    async fn fetch(self, query: Query) -> Result<Vec<Row>, sqlx::Error> {
        match self {
            Pool::Sqlite(readers) => {
                let mut reader = readers.lend().await?;
                Ok(rows(reader.call(|conn| conn.fetch(query)).await?))
            }
            #[cfg(feature = "postgres")]
            Pool::Postgres(pool) => Ok(rows(postgres(query).fetch_all(pool).await?)),
        }
    }

    async fn execute(self, query: Query) -> Result<u64, sqlx::Error> {
        match self {
            Pool::Sqlite(readers) => {
                let mut reader = readers.lend().await?;
                reader.call(|conn| conn.execute(query)).await
            }
            #[cfg(feature = "postgres")]
            Pool::Postgres(pool) => Ok(postgres(query).execute(pool).await?.rows_affected()),
        }
    }
}

fn rows<R: Into<Row>>(found: Vec<R>) -> Vec<Row> {
    found.into_iter().map(Into::into).collect()
}

#[cfg(feature = "postgres")]
fn postgres(query: Query) -> sqlx::query::Query<'static, Postgres, PgArguments> {
    let begun = sqlx::query(query.statement.postgres);
    query
        .bound
        .into_iter()
        .fold(begun, |query, value| match value {
            Bound::Number(value) => query.bind(value),
            Bound::Text(value) => query.bind(value.map(null_character::stored)),
            Bound::Json(json) => query.bind(null_character::stored_json(json)),
            Bound::Bytes(value) => query.bind(value),
            Bound::Flag(value) => query.bind(value),
        })
}

/// A row of either database.
pub(crate) enum Row {
    Sqlite(DirectRow),
    #[cfg(feature = "postgres")]
    Postgres(PgRow),
}

impl From<DirectRow> for Row {
    fn from(row: DirectRow) -> Self {
        Self::Sqlite(row)
    }
}

#[cfg(feature = "postgres")]
impl From<PgRow> for Row {
    fn from(row: PgRow) -> Self {
        Self::Postgres(row)
    }
}

impl Row {
    pub(super) fn try_get<T: Column>(&self, column: impl Place) -> Result<T, sqlx::Error> {
        T::of(self, column)
    }
}

/// A column's name or number.
#[cfg(feature = "postgres")]
pub(super) trait Place: DirectPlace + ColumnIndex<PgRow> {}
#[cfg(feature = "postgres")]
impl<I: DirectPlace + ColumnIndex<PgRow>> Place for I {}

/// A column's name or number.
#[cfg(not(feature = "postgres"))]
pub(super) trait Place: DirectPlace {}
#[cfg(not(feature = "postgres"))]
impl<I: DirectPlace> Place for I {}

/// What a column is read as.
pub(super) trait Column: Sized {
    fn of(row: &Row, column: impl Place) -> Result<Self, sqlx::Error>;
}

macro_rules! columns {
    ($($type:ty, $from_postgres:expr;)+) => {
        $(impl Column for $type {
            fn of(row: &Row, column: impl Place) -> Result<Self, sqlx::Error> {
                match row {
                    Row::Sqlite(row) => row.try_get(column),
                    #[cfg(feature = "postgres")]
                    Row::Postgres(row) => sqlx::Row::try_get(row, column).map($from_postgres),
                }
            }
        })+
    };
}

columns! {
    bool, |flag| flag;
    Option<bool>, |flag| flag;
    i64, |number| number;
    Option<i64>, |number| number;
    String, null_character::read;
    Option<String>, |text: Option<String>| text.map(null_character::read);
}
