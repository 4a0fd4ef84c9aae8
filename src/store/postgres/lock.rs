//! The lock that a running worker holds in its database.
//!
//! It belongs to a session of the server, so it ends with the connection however that ends. A
//! connection that is lost is made again, and the lock taken anew; where somebody else was faster,
//! the worker is told, and must end.

use std::time::Duration;

use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::{sync::watch, task::JoinHandle};

use crate::store::{StoreError, sql::Holder};

use super::{Address, Failure, Fallible};

const TRY: &str = "SELECT pg_try_advisory_lock(1667657581, hashtext(current_schema()))";

/// The session that holds the lock: what it is for, and who it is; of another role's the server says
/// nothing more.
const HOLDER: &str = "\
SELECT coalesce(a.application_name, '') AS application_name, l.pid,
  l.pid || ' since ' || coalesce(a.backend_start::text, '') AS session
FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.classid = 1667657581
  AND l.objid = (hashtext(current_schema())::bigint & 4294967295)::oid
  AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())";
const END_SESSION: &str = "SELECT pg_terminate_backend($1)";
const STILL_THERE: &str = "SELECT 1";

/// Before the word for what a session that holds the lock is for.
const PROGRAM: &str = "chatcron ";

/// How often the connection that holds the lock is looked at.
const LOOK: Duration = Duration::from_secs(1);
const TRIES: u32 = 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// Held by the one worker of a database.
#[derive(Debug)]
pub struct ServerLock {
    keeper: JoinHandle<()>,
    lost: watch::Receiver<bool>,
}

impl Drop for ServerLock {
    fn drop(&mut self) {
        // The connection goes with its task.
        self.keeper.abort();
    }
}

impl ServerLock {
    /// Takes the lock of this database.
    ///
    /// # Errors
    /// [`StoreError::Held`] where another worker has it; [`StoreError::Unavailable`] where the
    /// server cannot be reached.
    pub async fn acquire(address: &Address, holder: Holder) -> Result<Self, StoreError> {
        let failed = |failure: Failure| failure.into_error(address.name());
        let taken = take(address, holder, None).await.map_err(failed)?;
        let Some(held) = taken else {
            return Err(StoreError::Held {
                database: address.name().to_owned(),
            });
        };
        let (told, lost) = watch::channel(false);
        let address = address.clone();
        let keeper = tokio::spawn(async move {
            keep(&address, holder, held).await;
            told.send_replace(true);
        });
        Ok(Self { keeper, lost })
    }

    /// Ends when somebody else has the lock, which can be where the connection was lost for longer
    /// than another worker needed to start.
    pub async fn lost(&self) {
        let mut lost = self.lost.clone();
        // A keeper that is gone keeps nothing.
        let _ = lost.wait_for(|lost| *lost).await;
    }

    /// Who holds the lock of this database; `None` where nobody does.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where the server cannot be reached.
    pub async fn holder(address: &Address) -> Result<Option<Holder>, StoreError> {
        let look = async || -> Fallible<Option<Holder>> {
            let mut conn = address.patient().connect().await?;
            let found = holding(&mut conn).await?;
            conn.close().await?;
            Ok(found.map(|session| {
                let name = session.application_name.as_str();
                Holder::of_word(name.strip_prefix(PROGRAM).unwrap_or(name))
            }))
        };
        look()
            .await
            .map_err(|failure| failure.into_error(address.name()))
    }
}

/// A connection that holds the lock, and the session of the server that it is.
struct Held {
    conn: PgConnection,
    session: String,
}

#[derive(sqlx::FromRow)]
struct Session {
    application_name: String,
    pid: i32,
    session: String,
}

async fn holding(conn: &mut PgConnection) -> Fallible<Option<Session>> {
    let found = sqlx::query_as(HOLDER).fetch_optional(&mut *conn).await?;
    Ok(found)
}

/// Takes the lock; `None` where another session has it. One that is ours from before, and of which
/// only the server does not know yet that it has ended, is ended.
async fn take(address: &Address, holder: Holder, before: Option<&str>) -> Fallible<Option<Held>> {
    let options = address
        .patient()
        .application_name(&format!("{PROGRAM}{}", holder.word()));
    let mut conn = options.connect().await?;
    for _ in 0..TRIES {
        let is_taken: bool = sqlx::query_scalar(TRY).fetch_one(&mut conn).await?;
        let found = holding(&mut conn).await?;
        match found {
            Some(Session { session, .. }) if is_taken => return Ok(Some(Held { conn, session })),
            Some(old) if before == Some(old.session.as_str()) => {
                let end = sqlx::query(END_SESSION).bind(old.pid);
                end.execute(&mut conn).await?;
            }
            Some(_) => break,
            None => {}
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
    conn.close().await?;
    Ok(None)
}

/// Keeps the lock until somebody else has it.
async fn keep(address: &Address, holder: Holder, mut held: Held) {
    loop {
        tokio::time::sleep(LOOK).await;
        let look = sqlx::query(STILL_THERE).execute(&mut held.conn);
        if look.await.is_ok() {
            continue;
        }
        match take(address, holder, Some(&held.session)).await {
            Ok(Some(again)) => held = again,
            Ok(None) => return,
            Err(error) => tracing::debug!(%error, "the worker's lock cannot be taken again yet"),
        }
    }
}
