//! Connections: how many, how long, and their end.
//!
//! A connection on which nothing is asked costs next to nothing and is closed after a while; where
//! all places are taken, the one that has been idle the longest makes room. So idle connections, in
//! whatever number, keep nobody out.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::Router;
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::Service};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    explained::Explained,
    guarded::Guarded,
    limits::{CONNECTIONS_MAX, HEAD_MAX, HEAD_TIME},
};

/// How long a new connection waits for a place, before it is closed.
const PLACE_TIME: Duration = Duration::from_secs(1);
/// How long requests may go on after the stop.
const GRACE: Duration = Duration::from_secs(5);
/// How long it waits after a connection could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Serves connections until it is asked to stop; then requests under way are answered.
pub(super) async fn serve(listener: TcpListener, app: Router, stop: CancellationToken) {
    let open = Arc::new(Open::default());
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            Some(_ended) = tasks.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _from)) => stream,
            Err(error) => {
                // Such as no file handle being left: others will end.
                tracing::debug!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        if tasks.len() >= CONNECTIONS_MAX {
            open.close_longest_idle();
            let freed = tokio::time::timeout(PLACE_TIME, tasks.join_next()).await;
            if freed.is_err() {
                tracing::debug!("a connection is closed: all of them are at work");
                continue;
            }
        }
        let connection = open.clone().add();
        tasks.spawn(connected(stream, app.clone(), connection, stop.clone()));
    }
    let all_ended = async { while tasks.join_next().await.is_some() {} };
    // What does not end in time is aborted with the set.
    let _ = tokio::time::timeout(GRACE, all_ended).await;
}

/// Serves one connection to its end.
async fn connected(
    stream: TcpStream,
    app: Router,
    connection: Registered,
    stop: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let requests = connection.requests.clone();
    let closed = connection.closed.clone();
    let service = Counted {
        app: TowerToHyperService::new(app),
        requests,
    };
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(Explained::new(stream)), service);
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => Some(ended),
        () = closed.cancelled() => return,
        () = stop.cancelled() => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// The connections that are open, by age.
#[derive(Default)]
struct Open {
    connections: Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    last: u64,
    by_age: BTreeMap<u64, Connection>,
}

#[derive(Clone)]
struct Connection {
    /// How many requests are under way on it, until the end of their answers.
    requests: Arc<AtomicUsize>,
    closed: CancellationToken,
}

impl Open {
    fn add(self: Arc<Self>) -> Registered {
        let connection = Connection {
            requests: Arc::default(),
            closed: CancellationToken::new(),
        };
        let mut connections = self.lock();
        connections.last += 1;
        let id = connections.last;
        connections.by_age.insert(id, connection.clone());
        drop(connections);
        Registered {
            id,
            requests: connection.requests,
            closed: connection.closed,
            open: self,
        }
    }

    /// Closes the oldest connection on which nothing is under way.
    fn close_longest_idle(&self) {
        let connections = self.lock();
        let mut by_age = connections.by_age.values();
        let is_idle = |open: &&Connection| {
            open.requests.load(Ordering::Acquire) == 0 && !open.closed.is_cancelled()
        };
        if let Some(idle) = by_age.find(is_idle) {
            idle.closed.cancel();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open connection, known as such until it is dropped.
struct Registered {
    id: u64,
    requests: Arc<AtomicUsize>,
    closed: CancellationToken,
    open: Arc<Open>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.open.lock().by_age.remove(&self.id);
    }
}

/// The API, which counts what is under way on its connection.
struct Counted {
    app: TowerToHyperService<Router>,
    requests: Arc<AtomicUsize>,
}

impl Service<Request<Incoming>> for Counted {
    type Response = Response<Guarded<UnderWay>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let under_way = UnderWay::begin(self.requests.clone());
        let answering = self.app.call(request);
        Box::pin(async move {
            let response = answering.await?;
            Ok(response.map(|body| Guarded::new(body, under_way)))
        })
    }
}

/// A request under way.
struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    fn begin(requests: Arc<AtomicUsize>) -> Self {
        requests.fetch_add(1, Ordering::AcqRel);
        Self(requests)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
