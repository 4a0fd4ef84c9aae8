//! SQLite's connections that read: a few, each lent to one query or snapshot at a time.
//!
//! A query is performed, whole, on a thread that may block: one hand-over, however many rows.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task,
};

use super::direct::{Direct, Settings};

/// The connections that read.
#[derive(Debug, Clone)]
pub(crate) struct Readers(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Settings,
    /// As many as may be at work.
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Direct>>,
}

impl Readers {
    /// At most so many connections; the first is made at once, so that what is wrong with the file is
    /// told now.
    pub(crate) fn open(settings: Settings, at_most: usize) -> Result<Self, sqlx::Error> {
        let first = Direct::open(&settings)?;
        Ok(Self(Arc::new(Inner {
            settings,
            permits: Arc::new(Semaphore::new(at_most)),
            idle: Mutex::new(vec![first]),
        })))
    }

    /// Waits for a free connection.
    pub(super) async fn lend(&self) -> Result<Reader, sqlx::Error> {
        let permits = Arc::clone(&self.0.permits);
        let permit = permits.acquire_owned().await;
        let permit = permit.map_err(|_| sqlx::Error::PoolClosed)?;
        let idle = self.0.idle().pop();
        let conn = match idle {
            Some(conn) => conn,
            None => {
                let settings = self.0.settings.clone();
                let opened = task::spawn_blocking(move || Direct::open(&settings)).await;
                opened.map_err(|_| sqlx::Error::WorkerCrashed)??
            }
        };
        Ok(Reader {
            conn: Some(conn),
            of: Arc::clone(&self.0),
            _permit: permit,
        })
    }

    /// Ends them. What is lent is closed when it comes back.
    pub(super) fn close(&self) {
        self.0.permits.close();
        self.0.idle().clear();
    }
}

impl Inner {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Direct>> {
        // A list of connections is as good after a panic as before it.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is lent until this is dropped.
#[derive(Debug)]
pub(crate) struct Reader {
    /// `None` while a thread has it; a caller that goes away meanwhile has it closed there.
    conn: Option<Direct>,
    of: Arc<Inner>,
    _permit: OwnedSemaphorePermit,
}

impl Reader {
    /// Has something done with it on a thread that may block.
    pub(super) async fn call<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Direct) -> Result<T, sqlx::Error> + Send + 'static,
    ) -> Result<T, sqlx::Error> {
        let mut conn = self.conn.take().ok_or(sqlx::Error::WorkerCrashed)?;
        let worked = task::spawn_blocking(move || {
            let done = work(&mut conn);
            (conn, done)
        });
        let (conn, done) = worked.await.map_err(|_| sqlx::Error::WorkerCrashed)?;
        self.conn = Some(conn);
        done
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // A snapshot that was not ended is ended by closing.
        let conn = self.conn.take().filter(|conn| !conn.is_in_transaction());
        if let Some(conn) = conn
            && !self.of.permits.is_closed()
        {
            self.of.idle().push(conn);
        }
    }
}
