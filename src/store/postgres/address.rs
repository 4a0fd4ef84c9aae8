//! Where a PostgreSQL database is, and how each connection to it is set up.

use std::{fmt, str::FromStr, time::Duration};

use sqlx::{
    ConnectOptions,
    postgres::{PgConnectOptions, PgPoolOptions},
};

/// How long a reader waits for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
const STATEMENTS_CACHED: usize = 200;

/// How long a worker's lease lasts where nothing else is said: longer than any built-in channel takes
/// to send.
const LEASE: Duration = Duration::from_secs(45);

/// Where a database is: `postgres://user:password@host/database`.
///
/// What is written nowhere else comes from the environment and the password file, as for `psql`.
#[derive(Clone)]
pub struct Address {
    options: Box<PgConnectOptions>,
    name: String,
    lease: Duration,
}

/// Why a text is no address of a PostgreSQL database. It does not repeat the text, which may hold a
/// password.
#[derive(Debug, thiserror::Error)]
#[error("it is no address of a PostgreSQL database; write postgres://USER@HOST/DATABASE")]
pub struct AddressError {
    #[source]
    source: sqlx::Error,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(url: &str) -> Result<Self, AddressError> {
        let options = PgConnectOptions::from_str(url).map_err(|source| AddressError { source })?;
        let database = options.get_database().unwrap_or(options.get_username());
        let name = match options.get_socket() {
            Some(folder) => format!("postgres:{}/{database}", folder.display()),
            None => format!(
                "postgres://{}:{}/{database}",
                options.get_host(),
                options.get_port()
            ),
        };
        Ok(Self {
            options: Box::new(
                options
                    .application_name("chatcron")
                    .disable_statement_logging()
                    .statement_cache_capacity(STATEMENTS_CACHED),
            ),
            name,
            lease: LEASE,
        })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.name).finish()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Address {
    /// The database as people are told of it: without user and password.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same database, for workers whose lease lasts so long: others take over from one that has
    /// been silent for that time, and a channel is given no longer than that to send.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long the lease of a worker lasts.
    pub(super) fn lease(&self) -> Duration {
        self.lease
    }

    /// A connection that only reads.
    pub(super) fn reading(&self) -> PgConnectOptions {
        let read_only = [("default_transaction_read_only", "on")];
        (*self.options).clone().options(read_only)
    }

    /// A connection that writes. Another writer is waited for, and one that froze in the middle of
    /// its transaction loses it.
    pub(super) fn writing(&self) -> PgConnectOptions {
        let patience = [
            ("lock_timeout", "8s"),
            ("idle_in_transaction_session_timeout", "3s"),
        ];
        (*self.options).clone().options(patience)
    }

    /// A connection that may take its time.
    pub(super) fn patient(&self) -> PgConnectOptions {
        (*self.options).clone()
    }
}

/// A few connections, made when they are needed.
pub(super) fn pool(connections: u32) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_told_the_password() {
        let address: Address = "postgres://ada:secret@example.org:5433/jobs"
            .parse()
            .expect("one");
        assert_eq!(address.name(), "postgres://example.org:5433/jobs");
        assert!(!format!("{address:?} {address}").contains("secret"));
        let wrong = "postgres://ada:secret@example.org:port/jobs".parse::<Address>();
        let error = wrong.expect_err("the port is no number");
        assert!(!error.to_string().contains("secret"));
    }

    #[test]
    fn a_socket_is_named_by_its_folder() {
        let address: Address = "postgres://ada@localhost/jobs?host=/run/db"
            .parse()
            .expect("one");
        assert_eq!(address.name(), "postgres:/run/db/jobs");
    }
}
