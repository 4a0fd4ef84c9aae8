//! Who works on a database of a server, before it is opened.

use sqlx::{ConnectOptions, Connection, PgConnection};

use crate::store::{Role, StoreError, sql::Holder};

use super::{Address, Fallible};

const HAS_LEASES: &str = "\
SELECT EXISTS (SELECT FROM pg_attribute
  WHERE attrelid = to_regclass('workers') AND attname = 'lease_until' AND NOT attisdropped)";

const LIVING: &str = "\
SELECT role FROM workers WHERE stopped_at IS NULL
  AND lease_until > CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)";

/// Who works on the database at this address: a worker, or else an errand; `None` where nobody does,
/// or where there are no tables yet.
///
/// # Errors
/// [`StoreError::Unavailable`] where the server cannot be reached.
pub async fn who_works(address: &Address) -> Result<Option<Holder>, StoreError> {
    let look = async || -> Fallible<Option<Holder>> {
        let mut conn = address.patient().connect().await?;
        let found = living(&mut conn).await?;
        conn.close().await?;
        Ok(found)
    };
    look()
        .await
        .map_err(|failure| failure.into_error(address.name()))
}

async fn living(conn: &mut PgConnection) -> Fallible<Option<Holder>> {
    let has_leases: bool = sqlx::query_scalar(HAS_LEASES).fetch_one(&mut *conn).await?;
    if !has_leases {
        return Ok(None);
    }
    let roles: Vec<String> = sqlx::query_scalar(LIVING).fetch_all(&mut *conn).await?;
    let is_worker = |role: &String| role == Role::Worker.as_str();
    Ok(if roles.iter().any(is_worker) {
        Some(Holder::Worker)
    } else {
        roles.first().map(|_| Holder::Errand)
    })
}
