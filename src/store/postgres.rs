//! The PostgreSQL store: one database of a server, which several processes may use at once.
//!
//! Whoever writes takes his turn under a lock of the server that ends with his transaction, so that
//! what a batch is decided from stays as it was read. Workers hold leases by the server's clock. A connection that is lost is made again, and a
//! commit of which the answer was lost with it is asked after.

use std::{sync::Arc, time::Duration};

use sqlx::PgPool;
use tokio::sync::Mutex;

use crate::store::{
    StoreError,
    sql::{
        Backend, Connections, OpenMode, Shared, SqlStore,
        connection::{Pool, Reconnect},
        failure::{Failure, Fallible},
    },
};

mod address;
mod company;
mod migrate;
mod watch;

pub use address::{Address, AddressError};
pub use company::who_works;

use watch::Watch;

const READERS: u32 = 4;

/// Connections on which leases are renewed and jobs claimed: neither waits for those who write.
const ASIDE: u32 = 2;

/// Everything durable, in one PostgreSQL database.
pub type PostgresStore = SqlStore<Server>;

/// A database of a server.
#[derive(Debug)]
pub struct Server {
    watch: Mutex<Watch>,
}

impl SqlStore<Server> {
    /// Opens the database at this address, and brings its schema up to date. The database itself
    /// must be there.
    ///
    /// # Errors
    /// [`StoreError::Newer`] where a newer version wrote it, and nothing is written to it then;
    /// [`StoreError::Unavailable`], naming the database without its password, where the server
    /// cannot be reached, or refuses.
    pub async fn open(address: &Address, mode: OpenMode) -> Result<Self, StoreError> {
        migrate::prepare(address, mode).await?;
        let opened = connect(address, mode).await;
        opened.map_err(|error| Failure::from(error).into_error(address.name()))
    }
}

async fn connect(address: &Address, mode: OpenMode) -> Result<PostgresStore, sqlx::Error> {
    let reading = address.reading();
    let reconnect = Reconnect::Postgres(Box::new(address.writing()));
    let writer = match mode {
        OpenMode::CreateIfMissing | OpenMode::MustExist => {
            Some((reconnect.connect().await?, reconnect))
        }
        OpenMode::ReadOnly => None,
    };
    let readers: PgPool = address::pool(READERS).connect_with(reading.clone()).await?;
    let server = Server {
        watch: Mutex::new(Watch::start(reading)),
    };
    let connections = Connections {
        database: Arc::from(address.name()),
        readers: Pool::Postgres(readers),
        writer,
        shared: Some(Shared {
            aside: Pool::Postgres(address::pool(ASIDE).connect_lazy_with(address.writing())),
            lease: address.lease(),
        }),
    };
    PostgresStore::start(server, connections)
}

impl Backend for Server {
    async fn change_token(&self) -> Fallible<i64> {
        Ok(self.watch.lock().await.token().await?)
    }

    async fn await_change(&self, at_most: Duration) {
        self.watch.lock().await.wait(at_most).await;
    }
}
