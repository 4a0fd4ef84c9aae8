//! The right to work on a database: a lock beside a file, which has one worker; on a server, whose
//! workers share the work under leases, everybody has it.

#[cfg(feature = "cli")]
use std::io;

#[cfg(feature = "postgres")]
use crate::store::postgres::who_works;
use crate::store::{
    StoreError,
    sqlite::{Holder, WorkerLock},
};

use super::Database;

/// Held by a worker of a database.
#[derive(Debug)]
pub(crate) enum Lock {
    /// Beside a file.
    File(#[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "it is held"))] WorkerLock),
    /// Nothing: a server's workers have leases.
    #[cfg(feature = "postgres")]
    Shared,
}

impl Lock {
    /// Takes the lock. A worker of a server needs none, and an errand there leaves its work to a
    /// worker where one is alive.
    ///
    /// # Errors
    /// [`StoreError::Held`] where somebody else has it, and whatever keeps it from being taken.
    pub(crate) async fn acquire(database: &Database, holder: Holder) -> Result<Self, StoreError> {
        match database {
            Database::File(path) => WorkerLock::acquire(path, holder).map(Self::File),
            #[cfg(feature = "postgres")]
            Database::Server { address, .. } => {
                if holder == Holder::Errand && who_works(address).await? == Some(Holder::Worker) {
                    return Err(StoreError::Held {
                        database: address.name().to_owned(),
                    });
                }
                Ok(Self::Shared)
            }
        }
    }

    /// Whether others may work beside its holder, under leases.
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Self::File(_) => false,
            #[cfg(feature = "postgres")]
            Self::Shared => true,
        }
    }

    /// Who works on the database; `None` where nobody does.
    ///
    /// # Errors
    /// Where it cannot be asked for.
    #[cfg(feature = "cli")]
    pub(crate) async fn holder(database: &Database) -> Result<Option<Holder>, StoreError> {
        match database {
            Database::File(path) => {
                Ok(WorkerLock::is_held(path)?.then(|| WorkerLock::holder(path)))
            }
            #[cfg(feature = "postgres")]
            Database::Server { address, .. } => who_works(address).await,
        }
    }

    /// What keeps its holder from working, as far as it says. A server is asked itself.
    #[cfg(feature = "cli")]
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
    #[cfg(feature = "cli")]
    pub(crate) fn tell(&self, trouble: Option<&str>) -> io::Result<()> {
        match self {
            Self::File(lock) => lock.tell(trouble),
            #[cfg(feature = "postgres")]
            Self::Shared => Ok(()),
        }
    }
}
