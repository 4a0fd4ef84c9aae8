//! The lock of a database's one worker, wherever the database is.

use std::{future, io};

use crate::store::{
    StoreError,
    postgres::ServerLock,
    sqlite::{Holder, WorkerLock},
};

use super::Database;

/// Held by the one worker of a database.
#[derive(Debug)]
pub(in crate::cli) enum Lock {
    /// Beside a file.
    File(WorkerLock),
    /// In a server.
    Server(ServerLock),
}

impl Lock {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`StoreError::Held`] where somebody else has it, and whatever keeps it from being taken.
    pub(in crate::cli) async fn acquire(
        database: &Database,
        holder: Holder,
    ) -> Result<Self, StoreError> {
        match database {
            Database::File(path) => WorkerLock::acquire(path, holder).map(Self::File),
            Database::Server { address, .. } => {
                let lock = ServerLock::acquire(address, holder).await;
                lock.map(Self::Server)
            }
        }
    }

    /// Who has the lock; `None` where nobody has.
    ///
    /// # Errors
    /// Where it cannot be asked for.
    pub(in crate::cli) async fn holder(database: &Database) -> Result<Option<Holder>, StoreError> {
        match database {
            Database::File(path) => {
                Ok(WorkerLock::is_held(path)?.then(|| WorkerLock::holder(path)))
            }
            Database::Server { address, .. } => ServerLock::holder(address).await,
        }
    }

    /// What keeps its holder from working, as far as it says. A server is asked itself.
    pub(in crate::cli) fn trouble(database: &Database) -> Option<String> {
        match database {
            Database::File(path) => WorkerLock::trouble(path),
            Database::Server { .. } => None,
        }
    }

    /// Says what keeps its holder from working, where others can read it.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub(in crate::cli) fn tell(&self, trouble: Option<&str>) -> io::Result<()> {
        match self {
            Self::File(lock) => lock.tell(trouble),
            Self::Server(_) => Ok(()),
        }
    }

    /// Ends when somebody else has the lock: a server's goes with its connection.
    pub(in crate::cli) async fn lost(&self) {
        match self {
            Self::File(_) => future::pending().await,
            Self::Server(lock) => lock.lost().await,
        }
    }
}
