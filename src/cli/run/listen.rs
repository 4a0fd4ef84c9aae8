//! The HTTP API beside the worker.

use std::{net::SocketAddr, sync::Arc};

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    cli::{Exit, failure::Failure},
    clock::SystemClock,
    directory::SecretSource,
    http::{self, Access, AccessError, Api, TOKEN_MIN, TOKEN_VARIABLE},
    secret::{self, SecretError},
    store::{Store, StoreError},
    worker::{Events, Journal, Stop, Worker, WorkerHandle},
};

/// Where the API shall be, and who may ask.
pub(super) struct Asked {
    address: SocketAddr,
    access: Access,
}

impl Asked {
    /// The rule for an address; it says what is missing before anything else is done.
    pub(super) fn new(address: SocketAddr) -> Result<Self, Failure> {
        let token = match secret::read(&SecretSource::Env(TOKEN_VARIABLE.to_owned())) {
            Ok(token) => Some(token),
            Err(SecretError::NotSet { .. }) => None,
            Err(error) => {
                return Err(
                    Failure::new(Exit::Usage, format!("--listen: {error}")).help(format!(
                        "set {TOKEN_VARIABLE} to a long random text, or not at all"
                    )),
                );
            }
        };
        let access = Access::new(address, token.as_ref()).map_err(|error| {
            let help = match error {
                AccessError::NoToken { .. } => {
                    format!("set {TOKEN_VARIABLE} to a long random text, or listen on 127.0.0.1")
                }
                AccessError::ShortToken { .. } => format!(
                    "set {TOKEN_VARIABLE} to a random text of {TOKEN_MIN} bytes or more, or listen \
                     on 127.0.0.1"
                ),
                AccessError::EmptyToken => format!("set {TOKEN_VARIABLE} to a long random text"),
            };
            Failure::new(Exit::Usage, format!("--listen: {error}")).help(help)
        })?;
        if access.is_guessable() {
            tracing::warn!(
                "the token in {TOKEN_VARIABLE} has less than {TOKEN_MIN} bytes: any program of this \
                 machine can guess it"
            );
        }
        Ok(Self { address, access })
    }

    /// Takes the address.
    async fn bind(self) -> Result<Bound, Failure> {
        let cannot = |error: &dyn std::fmt::Display| {
            let message = format!("cannot listen on {}: {error}", self.address);
            Failure::new(Exit::CannotRead, message).help("name an address that is free")
        };
        let listener = TcpListener::bind(self.address).await;
        let listener = listener.map_err(|error| cannot(&error))?;
        let address = listener.local_addr().map_err(|error| cannot(&error))?;
        let metrics = http::recorder().map_err(|error| cannot(&error))?;
        Ok(Bound {
            listener,
            address,
            access: self.access,
            metrics,
        })
    }
}

/// Takes the address that was asked for, if one was.
pub(super) async fn bind(asked: Option<Asked>) -> Result<Option<Bound>, Failure> {
    match asked {
        Some(asked) => asked.bind().await.map(Some),
        None => Ok(None),
    }
}

/// Serves the API beside a worker, where it has an address.
///
/// # Errors
/// [`StoreError`] where the store cannot be read.
pub(super) async fn serve(
    bound: Option<Bound>,
    worker: &Worker,
    doors: Doors,
    asked: &Stop,
) -> Result<Option<Serving>, StoreError> {
    match bound {
        Some(bound) => bound.serve(worker, doors, asked).await.map(Some),
        None => Ok(None),
    }
}

/// Answers what is under way, and ends.
pub(super) async fn end(serving: Option<Serving>) {
    if let Some(serving) = serving {
        serving.end().await;
    }
}

/// The doors of the worker that the API uses.
pub(super) struct Doors {
    pub(super) store: Arc<dyn Store>,
    pub(super) worker: WorkerHandle,
    pub(super) events: Events,
    pub(super) journal: Option<Arc<Journal>>,
}

/// An address that is taken.
pub(super) struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    access: Access,
    metrics: PrometheusHandle,
}

impl Bound {
    async fn serve(
        self,
        worker: &Worker,
        doors: Doors,
        asked: &Stop,
    ) -> Result<Serving, StoreError> {
        let Doors {
            store,
            worker: handle,
            events,
            journal,
        } = doors;
        let api = Api {
            store_id: store.identity().await?.into(),
            store,
            worker: handle,
            events,
            clock: Arc::new(SystemClock),
            services: worker.watch_services(),
            journal,
            trouble: worker.watch_trouble(),
            metrics: self.metrics,
            draining: asked.drain.clone(),
        };
        let stop = CancellationToken::new();
        tracing::info!(address = %self.address, "the HTTP API is there");
        let serving = http::serve(self.listener, api, self.access, stop.clone());
        let task = tokio::spawn(serving);
        Ok(Serving { task, stop })
    }
}

/// The API while it is served.
pub(super) struct Serving {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Serving {
    async fn end(mut self) {
        self.stop.cancel();
        if let Err(error) = (&mut self.task).await {
            tracing::error!(%error, "the HTTP API ended badly");
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}
