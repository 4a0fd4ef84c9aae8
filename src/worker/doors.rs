//! What others use of a worker while it runs.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{clock::Clock, store::Store};

use super::{Events, Journal, Services, Worker, WorkerHandle};

/// The doors of a worker; clones are the same ones.
#[derive(Clone)]
pub(crate) struct Doors {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The chats and agents that are in force.
    pub(crate) services: watch::Receiver<Arc<Services>>,
    pub(crate) journal: Option<Arc<Journal>>,
    pub(crate) worker: WorkerHandle,
    pub(crate) events: Events,
    /// What the store is; part of every key.
    pub(crate) store_id: Arc<str>,
    /// What keeps the worker from working.
    pub(crate) trouble: watch::Receiver<Option<String>>,
    /// Cancelled when the worker begins nothing more.
    pub(crate) draining: CancellationToken,
}

impl Worker {
    /// The doors of this worker, which is reached by `handle` and asked to stop by `draining`.
    pub(crate) fn doors(&self, handle: WorkerHandle, draining: CancellationToken) -> Doors {
        Doors {
            store: self.store.clone(),
            clock: self.clock.clone(),
            services: self.watch_services(),
            journal: self.journal.clone(),
            worker: handle,
            events: self.events.clone(),
            store_id: self.store_id.clone(),
            trouble: self.watch_trouble(),
            draining,
        }
    }
}
