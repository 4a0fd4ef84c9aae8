//! What a server beside a worker needs of it.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{clock::Clock, store::Store};

use super::{Events, Journal, Services, Worker, WorkerHandle};

/// What a server beside a worker needs of it: the store, what is in force, and the ways to reach the
/// worker. Clones reach the same worker.
#[derive(Clone)]
pub(crate) struct WorkerContext {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The chats and agents that are in force.
    pub(crate) services: watch::Receiver<Arc<Services>>,
    /// Where decisions are written down with their inputs, if anywhere.
    pub(crate) journal: Option<Arc<Journal>>,
    /// The way to the worker, which looks at once at what was written.
    pub(crate) worker: WorkerHandle,
    /// What happens, as the worker tells it.
    pub(crate) events: Events,
    /// What the store is; part of every key.
    pub(crate) store_id: Arc<str>,
    /// What keeps the store from working; `None` while it works.
    pub(crate) trouble: watch::Receiver<Option<String>>,
    /// Cancelled when the worker begins nothing more.
    pub(crate) draining: CancellationToken,
}

impl Worker {
    /// What a server beside this worker needs, where it is reached by `handle` and asked to stop by
    /// `draining`.
    pub(crate) fn context(
        &self,
        handle: WorkerHandle,
        draining: CancellationToken,
    ) -> WorkerContext {
        WorkerContext {
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
