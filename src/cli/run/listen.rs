//! The HTTP API beside the worker.

use std::net::SocketAddr;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    cli::{Exit, failure::Failure},
    directory::SecretSource,
    http::{AccessError, Bound, Listen, ServeError, TOKEN_MIN, TOKEN_VARIABLE},
    secret::{self, SecretError},
    worker::WorkerContext,
};

/// Where the API shall be, and who may ask; it says what is missing before anything else is done.
pub(super) fn asked(address: SocketAddr) -> Result<Listen, Failure> {
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
    let listen = Listen::on(address).with_secret(token);
    listen.check().map_err(|error| failure(&error))?;
    Ok(listen)
}

/// Takes the address that was asked for, if one was.
pub(super) async fn bind(listen: Option<Listen>) -> Result<Option<Bound>, Failure> {
    match listen {
        Some(listen) => {
            let bound = listen.bind().await;
            bound.map(Some).map_err(|error| failure(&error))
        }
        None => Ok(None),
    }
}

fn failure(error: &ServeError) -> Failure {
    let (exit, help) = match error {
        ServeError::Access(AccessError::NoToken { .. }) => (
            Exit::Usage,
            format!("set {TOKEN_VARIABLE} to a long random text, or listen on 127.0.0.1"),
        ),
        ServeError::Access(AccessError::ShortToken { .. }) => (
            Exit::Usage,
            format!(
                "set {TOKEN_VARIABLE} to a random text of {TOKEN_MIN} bytes or more, or listen on \
                 127.0.0.1"
            ),
        ),
        ServeError::Access(AccessError::EmptyToken | AccessError::UnsendableToken { .. }) => (
            Exit::Usage,
            format!("set {TOKEN_VARIABLE} to a long random text"),
        ),
        ServeError::Bind { .. } => {
            let help = String::from("name an address that is free");
            return Failure::new(Exit::CannotRead, error.to_string()).help(help);
        }
        ServeError::Listener { .. } | ServeError::WorkerEnded => {
            return Failure::new(Exit::CannotRead, error.to_string());
        }
    };
    Failure::new(exit, format!("--listen: {error}")).help(help)
}

/// The API while it is served, if it has an address.
pub(super) struct Serving {
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl Serving {
    /// Serves it beside a worker.
    pub(super) fn begin(bound: Option<Bound>, context: WorkerContext) -> Self {
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        if let Some(bound) = bound {
            tasks.spawn(bound.serve(context, stop.clone()));
        }
        Self { tasks, stop }
    }

    /// Answers what is under way, and ends.
    pub(super) async fn end(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "the HTTP API ended badly");
            }
        }
    }
}
