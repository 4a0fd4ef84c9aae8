//! The one task that writes: it performs everything that waits in one transaction.
//!
//! Replies leave after COMMIT, so what a caller was told is durable. Statements fail a transaction
//! as a whole: everybody in it gets the error, nothing of it is written, and work goes on.

use std::{path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use sqlx::{ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::{
    sync::{Mutex, mpsc, oneshot},
    task::JoinHandle,
};

use crate::store::{
    ClaimRequest, Claimed, Conflict, JobCommit, PartSettlement, Results, StoreError, TurnEnd,
    WorkerId, Written,
};

use super::{
    claim, commit,
    failure::{Failure, Fallible},
    rows::At,
    settle, turns,
};

/// How many requests wait at most; callers beyond that wait for room.
const CHANNEL: usize = 1024;

/// What a claim is made of.
pub(super) type ClaimItem = (WorkerId, ClaimRequest);

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
    fn perform<'c>(&'c mut self, conn: &'c mut SqliteConnection) -> BoxFuture<'c, Fallible<()>>;
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
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Fallible<T>> + Send,
{
    fn perform<'c>(&'c mut self, conn: &'c mut SqliteConnection) -> BoxFuture<'c, Fallible<()>> {
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
    path: PathBuf,
    requests: mpsc::Sender<Request>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(
        conn: SqliteConnection,
        options: SqliteConnectOptions,
        path: PathBuf,
    ) -> Self {
        let (requests, waiting) = mpsc::channel(CHANNEL);
        let task = tokio::spawn(run(conn, options, waiting, path.clone()));
        Self {
            path,
            requests,
            task: Mutex::new(Some(task)),
        }
    }

    /// Ends the task after what waits already, and waits for its end.
    pub(super) async fn stop(&self) {
        let _ = self.requests.send(Request::Stop).await;
        if let Some(task) = self.task.lock().await.take() {
            let _ = task.await;
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
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Fallible<T>> + Send + 'static,
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
            what: format!("the store of {} is closed", self.path.display()),
            source: "it takes no more work".into(),
        }
    }
}

const CHECKPOINT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// What a caller is told once the transaction has ended.
type Reply = Box<dyn FnOnce(Option<&Arc<Failure>>) + Send>;

async fn run(
    mut conn: SqliteConnection,
    options: SqliteConnectOptions,
    mut waiting: mpsc::Receiver<Request>,
    path: PathBuf,
) {
    let mut drained = Vec::new();
    let mut stopping = false;
    while !stopping && waiting.recv_many(&mut drained, CHANNEL).await > 0 {
        let mut replies: Vec<Reply> = Vec::new();
        let end = drained
            .iter()
            .position(|request| matches!(request, Request::Stop));
        stopping = end.is_some();
        drained.truncate(end.unwrap_or(drained.len()));
        let outcome = transaction(&mut conn, &mut drained, &mut replies, &path).await;
        let failure = outcome.err().map(Arc::new);
        for reply in replies {
            reply(failure.as_ref());
        }
        // SQLite ends a transaction by itself on a full disk and its like, and then the driver and
        // the file disagree about where they are: another connection begins afresh.
        if failure.is_some()
            && let Ok(mut fresh) = options.connect().await
        {
            // On a disk that is nearly full the log is what can be given back.
            let _ = sqlx::query(CHECKPOINT).execute(&mut fresh).await;
            let _ = std::mem::replace(&mut conn, fresh).close_hard().await;
        }
    }
    waiting.close();
    let _ = conn.close().await;
}

/// Performs all requests, and leaves a reply for each in `replies`, also where it fails.
async fn transaction(
    conn: &mut SqliteConnection,
    requests: &mut Vec<Request>,
    replies: &mut Vec<Reply>,
    path: &std::path::Path,
) -> Fallible<()> {
    let mut groups = grouped(requests.drain(..)).into_iter();
    let mut failure = None;
    match conn.begin_with("BEGIN IMMEDIATE").await {
        Err(error) => failure = Some(Failure::from(error)),
        Ok(mut tx) => {
            for group in groups.by_ref() {
                if let Err(error) = group.perform(&mut tx, replies, path).await {
                    failure = Some(error);
                    break;
                }
            }
            let ended = match failure {
                None => tx.commit().await,
                Some(_) => tx.rollback().await,
            };
            failure = failure.or_else(|| ended.err().map(Failure::from));
        }
    }
    for group in groups {
        group.refuse(replies, path);
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
        conn: &mut SqliteConnection,
        replies: &mut Vec<Reply>,
        path: &std::path::Path,
    ) -> Fallible<()> {
        match self {
            Self::Commit(batches) => {
                let (items, callers) = merged(batches);
                let results = commit::commit(conn, items).await;
                answer(results, callers, replies, path)
            }
            Self::Claim(batches) => {
                let (items, callers) = merged(batches);
                let results = claim::claim(conn, items).await;
                answer(results, callers, replies, path)
            }
            Self::FinishTurns(batches) => {
                let (items, callers) = merged(batches);
                let results = turns::finish(conn, items).await;
                answer(results, callers, replies, path)
            }
            Self::SettleParts(batches) => {
                let (items, callers) = merged(batches);
                let results = settle::settle(conn, items).await;
                answer(results, callers, replies, path)
            }
            Self::Other(mut work) => {
                let outcome = work.perform(conn).await;
                replies.push(reply_of(work, path));
                outcome
            }
        }
    }

    /// Leaves replies without having done anything.
    fn refuse(self, replies: &mut Vec<Reply>, path: &std::path::Path) {
        match self {
            Self::Commit(batches) => refuse(batches, replies, path),
            Self::Claim(batches) => refuse(batches, replies, path),
            Self::FinishTurns(batches) => refuse(batches, replies, path),
            Self::SettleParts(batches) => refuse(batches, replies, path),
            Self::Other(work) => replies.push(reply_of(work, path)),
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
    path: &std::path::Path,
) {
    for batch in batches {
        replies.push(batch_reply(batch.reply, Vec::new(), path));
    }
}

fn answer<O: Send + 'static>(
    results: Fallible<Vec<Result<O, Conflict>>>,
    callers: Vec<Caller<O>>,
    replies: &mut Vec<Reply>,
    path: &std::path::Path,
) -> Fallible<()> {
    let (results, failure) = match results {
        Ok(results) => (results, Ok(())),
        Err(failure) => (Vec::new(), Err(failure)),
    };
    let mut results = results.into_iter();
    for (count, sender) in callers {
        let own = results.by_ref().take(count).collect();
        replies.push(batch_reply(sender, own, path));
    }
    failure
}

fn batch_reply<O: Send + 'static>(
    sender: oneshot::Sender<Results<O>>,
    results: Vec<Result<O, Conflict>>,
    path: &std::path::Path,
) -> Reply {
    let path = path.to_owned();
    Box::new(move |failure| {
        let _ = sender.send(match failure {
            Some(failure) => Err(failure.to_error(&path)),
            None => Ok(results),
        });
    })
}

fn reply_of(work: Box<dyn Work>, path: &std::path::Path) -> Reply {
    let path = path.to_owned();
    Box::new(move |failure| work.reply(failure.map(|failure| failure.to_error(&path))))
}
