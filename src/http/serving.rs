//! Serving the API beside a worker: where, for whom, and until when.

use std::{io, net::SocketAddr};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{embed::RunningWorker, secret::SecretString};

use super::{Access, AccessError, Api, TOKEN_MIN, app, figures, listen};

/// Where the HTTP API listens, and which token requests need. Without a token any program of this
/// machine may ask, and only a loopback address is accepted.
pub struct Listen {
    place: Place,
    token: Option<SecretString>,
}

enum Place {
    Address(SocketAddr),
    Listener(TcpListener),
}

/// Why the HTTP API cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Other machines could use it without a token, or with one that is too short or empty.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The address cannot be taken.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The listener that was given has no address.
    #[error("the listener cannot be used: {source}")]
    Listener {
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The worker beside which it would be has ended.
    #[error("the worker has ended; `Chatcron::start` starts another one")]
    WorkerEnded,
}

impl Listen {
    /// Listens on this address; with port 0 the system chooses a free one, which
    /// [`RunningWorker::serve`] returns.
    pub fn on(address: impl Into<SocketAddr>) -> Self {
        Self {
            place: Place::Address(address.into()),
            token: None,
        }
    }

    /// Takes over a listener of the program's own, which is bound already.
    pub fn from_listener(listener: TcpListener) -> Self {
        Self {
            place: Place::Listener(listener),
            token: None,
        }
    }

    /// The same, where every request needs this token. An address that other machines reach requires
    /// one, of 16 bytes at least.
    #[must_use]
    pub fn with_token(self, token: impl Into<String>) -> Self {
        self.with_secret(Some(SecretString::from(token.into())))
    }

    pub(crate) fn with_secret(mut self, token: Option<SecretString>) -> Self {
        self.token = token;
        self
    }

    /// Whether it may be there.
    ///
    /// # Errors
    /// As [`Listen::bind`], as far as it is known before the address is taken.
    #[cfg(feature = "cli")]
    pub(crate) fn check(&self) -> Result<(), ServeError> {
        self.access().map(drop)
    }

    fn access(&self) -> Result<(SocketAddr, Access), ServeError> {
        let address = match &self.place {
            Place::Address(address) => *address,
            Place::Listener(listener) => address_of(listener)?,
        };
        Ok((address, Access::new(address, self.token.as_ref())?))
    }

    /// Takes the address. What is counted from now on is shown.
    ///
    /// # Errors
    /// [`ServeError`] where it cannot be taken, or may not be without a token.
    pub(crate) async fn bind(self) -> Result<Bound, ServeError> {
        let (address, access) = self.access()?;
        if access.is_guessable() {
            tracing::warn!(
                "the token of the HTTP API has less than {TOKEN_MIN} bytes: any program of this \
                 machine can guess it"
            );
        }
        let listener = match self.place {
            Place::Listener(listener) => listener,
            Place::Address(address) => TcpListener::bind(address)
                .await
                .map_err(|source| ServeError::Bind { address, source })?,
        };
        figures::install();
        Ok(Bound {
            address: address_of(&listener).unwrap_or(address),
            listener,
            access,
        })
    }
}

fn address_of(listener: &TcpListener) -> Result<SocketAddr, ServeError> {
    let address = listener.local_addr();
    address.map_err(|source| ServeError::Listener { source })
}

/// An address that is taken.
pub(crate) struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    access: Access,
}

impl Bound {
    /// Logs the address, and returns what serves the API until `stop` is cancelled.
    pub(crate) fn serve(
        self,
        api: Api,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> + Send + 'static {
        tracing::info!(address = %self.address, "the HTTP API is there");
        serve(self.listener, api, self.access, stop)
    }
}

/// Serves the API until it is asked to stop.
async fn serve(listener: TcpListener, api: Api, access: Access, stop: CancellationToken) {
    let clock = api.clock.clone();
    let upkeep = figures::keep_up(clock.as_ref(), &stop);
    let serving = listen::serve(listener, app(api, access), stop.clone());
    tokio::join!(serving, upkeep);
}

impl RunningWorker {
    /// Serves the HTTP API beside this worker, and returns where it is. It ends with the worker:
    /// [`RunningWorker::shutdown`] lets requests under way be answered, and dropping the worker ends
    /// it at once. It may be called again for another address.
    ///
    /// # Errors
    /// [`ServeError`] where the address cannot be taken, may not be without a token, or the worker
    /// has ended.
    pub async fn serve(&mut self, listen: Listen) -> Result<SocketAddr, ServeError> {
        let bound = listen.bind().await?;
        let address = bound.address;
        let is_served = self.serve_beside(|api, gone| bound.serve(api, gone));
        is_served.then_some(address).ok_or(ServeError::WorkerEnded)
    }
}
