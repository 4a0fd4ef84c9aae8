//! The lock of a database's one worker, wherever the database is.

use std::{future, io};

#[cfg(feature = "postgres")]
use crate::store::postgres::ServerLock;
use crate::store::{
    StoreError,
    sqlite::{Holder, WorkerLock},
};

use super::Database;

/// Held by the one worker of a database.
#[derive(Debug)]
pub(crate) enum Lock {
    /// Beside a file.
    File(WorkerLock),
    /// In a server.
    #[cfg(feature = "postgres")]
    Server(ServerLock),
}

impl Lock {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`StoreError::Held`] where somebody else has it, and whatever keeps it from being taken.
    pub(crate) async fn acquire(database: &Database, holder: Holder) -> Result<Self, StoreError> {
        match database {
            Database::File(path) => WorkerLock::acquire(path, holder).map(Self::File),
            #[cfg(feature = "postgres")]
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
    pub(crate) async fn holder(database: &Database) -> Result<Option<Holder>, StoreError> {
        match database {
            Database::File(path) => {
                Ok(WorkerLock::is_held(path)?.then(|| WorkerLock::holder(path)))
            }
            #[cfg(feature = "postgres")]
            Database::Server { address, .. } => ServerLock::holder(address).await,
        }
    }

    /// What keeps its holder from working, as far as it says. A server is asked itself.
    pub(crate) fn trouble(database: &Database) -> Option<String> {
        match database {
            Database::File(path) => WorkerLock::trouble(path),
            #[cfg(feature = "postgres")]
            Database::Server { .. } => None,
        }
    }

    /// Says what keeps its holder from working, where others can read it.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub(crate) fn tell(&self, trouble: Option<&str>) -> io::Result<()> {
        match self {
            Self::File(lock) => lock.tell(trouble),
            #[cfg(feature = "postgres")]
            Self::Server(_) => Ok(()),
        }
    }

    /// Ends when somebody else has the lock: a server's goes with its connection.
    pub(crate) async fn lost(&self) {
        match self {
            Self::File(_) => future::pending().await,
            #[cfg(feature = "postgres")]
            Self::Server(lock) => lock.lost().await,
        }
    }
}
