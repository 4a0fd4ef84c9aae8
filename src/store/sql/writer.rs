//! The one task that writes: it performs everything that waits in one transaction. SQLite's has a
//! thread of its own, as its calls block.
//!
//! Replies leave after COMMIT, so what a caller was told is durable. Statements fail a transaction
//! as a whole: everybody in it gets the error, nothing of it is written, and work goes on.

use std::{io, sync::Arc, thread};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::{
    runtime::Handle,
    sync::{Mutex, mpsc, oneshot},
};

use crate::store::{
    ClaimRequest, Claimant, Claimed, Conflict, JobCommit, PartSettlement, Results, StoreError,
    TurnEnd, Written,
};

use super::{
    claim, commit,
    connection::{Conn, Reconnect, is_lost},
    failure::{Failure, Fallible},
    rows::At,
    settle, turns,
};

/// How many requests wait at most; callers beyond that wait for room.
const CHANNEL: usize = 1024;

/// What a claim is made of.
pub(super) type ClaimItem = (Claimant, ClaimRequest);

/// A batch of one kind, of one caller.
pub(super) struct Batch<I, O> {
    items: Vec<At<I>>,
    reply: oneshot::Sender<Results<O>>,
}

/// What the task is asked for. Batches of one kind that stand together become one.
pub(super) enum Request {
    Commit(Batch<JobCommit, Written>),
    Claim(Batch<ClaimItem, Claimed>),
    FinishTurns(Batch<TurnEnd, ()>),
    SettleParts(Batch<PartSettlement, ()>),
    Other(Box<dyn Work>),
    Stop,
}

/// A rarer operation, which is not merged with others.
pub(super) trait Work: Send {
    fn perform<'c>(&'c mut self, conn: &'c mut Conn) -> BoxFuture<'c, Fallible<()>>;
    fn reply(self: Box<Self>, failure: Option<StoreError>);
}

struct Single<T, F> {
    operation: Option<F>,
    outcome: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Work for Single<T, F>
where
    T: Send,
    F: for<'c> FnOnce(&'c mut Conn) -> BoxFuture<'c, Fallible<T>> + Send,
{
    fn perform<'c>(&'c mut self, conn: &'c mut Conn) -> BoxFuture<'c, Fallible<()>> {
        Box::pin(async move {
            if let Some(operation) = self.operation.take() {
                self.outcome = Some(operation(conn).await?);
            }
            Ok(())
        })
    }

    fn reply(self: Box<Self>, failure: Option<StoreError>) {
        // A caller that has gone away wants no reply.
        let _ = match (failure, self.outcome) {
            (Some(failure), _) => self.reply.send(Err(failure)),
            (None, Some(outcome)) => self.reply.send(Ok(outcome)),
            (None, None) => Ok(()),
        };
    }
}

/// The owner of the writing task. Dropping it lets the task finish what waits, and end.
pub(super) struct Writer {
    database: Arc<str>,
    requests: mpsc::Sender<Request>,
    /// Fails once the task has ended.
    end: Mutex<oneshot::Receiver<()>>,
}

impl Writer {
    /// Starts the task on a connection; another is made by `reconnect` after one has failed.
    pub(super) fn start(conn: Conn, reconnect: Reconnect, database: Arc<str>) -> io::Result<Self> {
        let (requests, waiting) = mpsc::channel(CHANNEL);
        let (ending, end) = oneshot::channel::<()>();
        let is_blocking = conn.is_sqlite();
        let work = run(conn, reconnect, waiting, database.clone());
        let work = async move {
            work.await;
            drop(ending);
        };
        if is_blocking {
            let runtime = Handle::current();
            let thread = thread::Builder::new().name("chatcron-writer".to_owned());
            // It ends as the task does; nobody need wait for it.
            let _ = thread.spawn(move || runtime.block_on(work))?;
        } else {
            drop(tokio::spawn(work));
        }
        Ok(Self {
            database,
            requests,
            end: Mutex::new(end),
        })
    }

    /// Ends the task after what waits already, and waits for its end.
    pub(super) async fn stop(&self) {
        let _ = self.requests.send(Request::Stop).await;
        let mut end = self.end.lock().await;
        if !end.is_terminated() {
            let _ = (&mut *end).await;
        }
    }

    /// Has a batch performed.
    pub(super) async fn batch<I, O>(
        &self,
        items: Vec<I>,
        now: Timestamp,
        request: fn(Batch<I, O>) -> Request,
    ) -> Results<O> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let (reply, answer) = oneshot::channel();
        let items = items.into_iter().map(|item| At { item, now }).collect();
        self.ask(request(Batch { items, reply }), answer).await
    }

    /// Has an operation of its own performed.
    pub(super) async fn perform<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Conn) -> BoxFuture<'c, Fallible<T>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let work = Single {
            operation: Some(operation),
            outcome: None,
            reply,
        };
        self.ask(Request::Other(Box::new(work)), answer).await
    }

    async fn ask<T>(
        &self,
        request: Request,
        answer: oneshot::Receiver<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let sent = self.requests.send(request).await;
        sent.map_err(|_| self.closed())?;
        answer.await.unwrap_or_else(|_| Err(self.closed()))
    }

    fn closed(&self) -> StoreError {
        StoreError::Unavailable {
            what: format!("the store of {} is closed", self.database),
            source: "it takes no more work".into(),
        }
    }
}

/// What a caller is told once the transaction has ended.
type Reply = Box<dyn FnOnce(Option<&Arc<Failure>>) + Send>;

async fn run(
    mut conn: Conn,
    reconnect: Reconnect,
    mut waiting: mpsc::Receiver<Request>,
    database: Arc<str>,
) {
    let mut drained = Vec::new();
    let mut stopping = false;
    let mut has_failed = false;
    while !stopping && waiting.recv_many(&mut drained, CHANNEL).await > 0 {
        let mut replies: Vec<Reply> = Vec::new();
        let end = drained
            .iter()
            .position(|request| matches!(request, Request::Stop));
        stopping = end.is_some();
        drained.truncate(end.unwrap_or(drained.len()));
        // A server that went away and came back has made the connection useless meanwhile.
        if has_failed {
            renew(&mut conn, &reconnect).await;
        }
        let outcome =
            transaction(&mut conn, &reconnect, &mut drained, &mut replies, &database).await;
        let failure = outcome.err().map(Arc::new);
        for reply in replies {
            reply(failure.as_ref());
        }
        // SQLite ends a transaction by itself on a full disk and its like, and then the driver and
        // the file disagree about where they are: another connection begins afresh.
        has_failed = failure.is_some() && !renew(&mut conn, &reconnect).await;
    }
    waiting.close();
    let _ = conn.close().await;
}

/// Puts a new connection in the place of one that failed; returns whether there is one.
async fn renew(conn: &mut Conn, reconnect: &Reconnect) -> bool {
    match reconnect.connect().await {
        Ok(fresh) => {
            std::mem::replace(conn, fresh).close_hard().await;
            true
        }
        Err(_) => false,
    }
}

/// Begins a transaction, on a new connection where the server has ended the old one meanwhile:
/// nothing was under way in it.
async fn begin(conn: &mut Conn, reconnect: &Reconnect) -> Result<(), sqlx::Error> {
    match conn.begin().await {
        Err(error) if is_lost(&error) && renew(conn, reconnect).await => conn.begin().await,
        begun => begun,
    }
}

/// Performs all requests, and leaves a reply for each in `replies`, also where it fails.
async fn transaction(
    conn: &mut Conn,
    reconnect: &Reconnect,
    requests: &mut Vec<Request>,
    replies: &mut Vec<Reply>,
    database: &Arc<str>,
) -> Fallible<()> {
    let mut groups = grouped(requests.drain(..)).into_iter();
    let mut failure = None;
    match begin(conn, reconnect).await {
        Err(error) => failure = Some(Failure::from(error)),
        Ok(()) => {
            for group in groups.by_ref() {
                if let Err(error) = group.perform(conn, replies, database).await {
                    failure = Some(error);
                    break;
                }
            }
            let ended = match failure {
                None => conn.commit(reconnect).await,
                Some(_) => conn.rollback().await,
            };
            failure = failure.or_else(|| ended.err().map(Failure::from));
        }
    }
    for group in groups {
        group.refuse(replies, database);
    }
    failure.map_or(Ok(()), Err)
}

/// Requests of one kind that stand together.
enum Group {
    Commit(Vec<Batch<JobCommit, Written>>),
    Claim(Vec<Batch<ClaimItem, Claimed>>),
    FinishTurns(Vec<Batch<TurnEnd, ()>>),
    SettleParts(Vec<Batch<PartSettlement, ()>>),
    Other(Box<dyn Work>),
}

fn grouped(requests: impl Iterator<Item = Request>) -> Vec<Group> {
    let mut groups = Vec::new();
    for request in requests {
        match (groups.last_mut(), request) {
            (Some(Group::Commit(group)), Request::Commit(batch)) => group.push(batch),
            (Some(Group::Claim(group)), Request::Claim(batch)) => group.push(batch),
            (Some(Group::FinishTurns(group)), Request::FinishTurns(batch)) => group.push(batch),
            (Some(Group::SettleParts(group)), Request::SettleParts(batch)) => group.push(batch),
            (_, Request::Commit(batch)) => groups.push(Group::Commit(vec![batch])),
            (_, Request::Claim(batch)) => groups.push(Group::Claim(vec![batch])),
            (_, Request::FinishTurns(batch)) => groups.push(Group::FinishTurns(vec![batch])),
            (_, Request::SettleParts(batch)) => groups.push(Group::SettleParts(vec![batch])),
            (_, Request::Other(work)) => groups.push(Group::Other(work)),
            (_, Request::Stop) => {}
        }
    }
    groups
}

impl Group {
    async fn perform(
        self,
        conn: &mut Conn,
        replies: &mut Vec<Reply>,
        database: &Arc<str>,
    ) -> Fallible<()> {
        match self {
            Self::Commit(batches) => {
                let (items, callers) = merged(batches);
                let results = commit::commit(conn, items).await;
                answer(results, callers, replies, database)
            }
            Self::Claim(batches) => {
                let (items, callers) = merged(batches);
                let results = claim::claim(conn, items).await;
                answer(results, callers, replies, database)
            }
            Self::FinishTurns(batches) => {
                let (items, callers) = merged(batches);
                let results = turns::finish(conn, items).await;
                answer(results, callers, replies, database)
            }
            Self::SettleParts(batches) => {
                let (items, callers) = merged(batches);
                let results = settle::settle(conn, items).await;
                answer(results, callers, replies, database)
            }
            Self::Other(mut work) => {
                let outcome = work.perform(conn).await;
                replies.push(reply_of(work, database));
                outcome
            }
        }
    }

    /// Leaves replies without having done anything.
    fn refuse(self, replies: &mut Vec<Reply>, database: &Arc<str>) {
        match self {
            Self::Commit(batches) => refuse(batches, replies, database),
            Self::Claim(batches) => refuse(batches, replies, database),
            Self::FinishTurns(batches) => refuse(batches, replies, database),
            Self::SettleParts(batches) => refuse(batches, replies, database),
            Self::Other(work) => replies.push(reply_of(work, database)),
        }
    }
}

/// A caller of a merged batch: how many of its items are his, and where he waits.
type Caller<O> = (usize, oneshot::Sender<Results<O>>);

fn merged<I, O>(batches: Vec<Batch<I, O>>) -> (Vec<At<I>>, Vec<Caller<O>>) {
    let mut items = Vec::new();
    let mut callers = Vec::new();
    for batch in batches {
        callers.push((batch.items.len(), batch.reply));
        items.extend(batch.items);
    }
    (items, callers)
}

fn refuse<I, O: Send + 'static>(
    batches: Vec<Batch<I, O>>,
    replies: &mut Vec<Reply>,
    database: &Arc<str>,
) {
    for batch in batches {
        replies.push(batch_reply(batch.reply, Vec::new(), database));
    }
}

fn answer<O: Send + 'static>(
    results: Fallible<Vec<Result<O, Conflict>>>,
    callers: Vec<Caller<O>>,
    replies: &mut Vec<Reply>,
    database: &Arc<str>,
) -> Fallible<()> {
    let (results, failure) = match results {
        Ok(results) => (results, Ok(())),
        Err(failure) => (Vec::new(), Err(failure)),
    };
    let mut results = results.into_iter();
    for (count, sender) in callers {
        let own = results.by_ref().take(count).collect();
        replies.push(batch_reply(sender, own, database));
    }
    failure
}

fn batch_reply<O: Send + 'static>(
    sender: oneshot::Sender<Results<O>>,
    results: Vec<Result<O, Conflict>>,
    database: &Arc<str>,
) -> Reply {
    let database = Arc::clone(database);
    Box::new(move |failure| {
        let _ = sender.send(match failure {
            Some(failure) => Err(failure.to_error(&database)),
            None => Ok(results),
        });
    })
}

fn reply_of(work: Box<dyn Work>, database: &Arc<str>) -> Reply {
    let database = Arc::clone(database);
    Box::new(move |failure| work.reply(failure.map(|failure| failure.to_error(&database))))
}
