//! What the SQL stores share: everything but how a database is reached.
//!
//! A batch is loaded by a few statements, decided in memory, and written by a statement a table. The
//! code is one for all databases; a [`statement::Statement`] has the words of each.

use std::{collections::HashSet, fmt, future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    audit::AuditReport,
    directory::{Chat, Retention},
    ids::{JobId, PartId, RequestId, RunId, SessionKey, TurnId},
    message::PartState,
    policy::LaneQueue,
    store::{
        AttemptRow, BegunWorker, ClaimRequest, Claimant, Claimed, Conflict, DiagnosticRow,
        DueClaimant, FileToApply, FileVersion, InboundBatch, InboundMessage, IncidentCommit,
        IncidentRow, IncidentSignal, Interrupted, JobCommit, JobDigest, LaneLimits, NewWorker,
        OutboxRow, OutboxScope, OwnSend, PartSettlement, RangeRow, ReadFrom, Renewal, Resolution,
        Results, RunFilter, RunRow, Sent, SentBy, Stamped, Store, StoreError, StoredJob, ToolSend,
        TurnCount, TurnEnd, TurnRow, UnderWay, WindowOf, WorkerId, WorkerRow, Written,
    },
    transcript::Entry,
};

mod audit;
mod bind;
mod claim;
mod commit;
pub(super) mod connection;
mod diagnostics;
pub(super) mod direct;
mod effects;
mod enqueue;
mod entries;
pub(super) mod failure;
mod files;
mod ids;
mod inbound;
mod incidents;
pub(super) mod jobs;
pub(super) mod lanes;
#[cfg(feature = "postgres")]
mod null_character;
mod outbox;
mod prune;
pub(super) mod readers;
pub(super) mod readings;
mod reset;
pub(super) mod resolution;
mod rows;
mod runs;
mod sends;
mod settle;
pub(super) mod statement;
mod stretches;
mod turns;
mod workers;
mod writer;

use connection::{Conn, Pool, Reconnect};
use failure::{Failure, Fallible};
use statement::{Statement, query_scalar};
use writer::{Request, Writer};

const IDENTITY: Statement = Statement::common("SELECT value FROM facts WHERE name = 'database_id'");

/// How long a wait lasts at most where nothing can tell of changes.
pub(super) const UNTOLD_WAIT: Duration = Duration::from_millis(500);

/// What differs between databases beside the words of statements.
pub(crate) trait Backend: fmt::Debug + Send + Sync + 'static {
    /// A number that changes whenever another connection or process has committed.
    fn change_token(&self) -> impl Future<Output = Fallible<i64>> + Send;

    /// Waits until that may have changed, or for so long at most.
    fn await_change(&self, at_most: Duration) -> impl Future<Output = ()> + Send;
}

/// How a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// It is made if there is none.
    CreateIfMissing,
    /// There must be one; an older schema is brought up to date.
    MustExist,
    /// There must be one of this version's schema, and nothing is written.
    ReadOnly,
}

/// Who holds the lock of a database's worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// `chatcron run`, or a gateway's worker.
    Worker,
    /// A command that does its own errand where no worker runs, and is soon gone.
    Errand,
}

impl Holder {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Errand => "errand",
        }
    }

    /// `Worker` where it does not say.
    pub(super) fn of_word(word: &str) -> Self {
        if word == Self::Errand.word() {
            Self::Errand
        } else {
            Self::Worker
        }
    }
}

/// The connections of one store.
pub(super) struct Connections {
    /// The database, as errors name it.
    pub(super) database: Arc<str>,
    pub(super) readers: Pool,
    /// The one that writes, and how it is made again; `None` for a store that is only read.
    pub(super) writer: Option<(Conn, Reconnect)>,
    /// Where several workers share the database.
    pub(super) shared: Option<Shared>,
}

/// What several workers need to share a database.
pub(super) struct Shared {
    /// Connections that write without waiting for the turns of those who write.
    pub(super) aside: Pool,
    /// How long a worker's lease lasts.
    pub(super) lease: Duration,
}

/// Everything durable, in one SQL database: one task that writes, a few connections that read.
///
/// Dropping it lets the writing task finish what waits and end; [`SqlStore::close`] waits for that.
pub struct SqlStore<B> {
    pub(super) backend: B,
    database: Arc<str>,
    readers: Pool,
    writer: Option<Writer>,
    pub(super) shared: Option<Shared>,
}

impl<B: fmt::Debug> fmt::Debug for SqlStore<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlStore")
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}

impl<B> SqlStore<B> {
    /// # Errors
    /// Where the operating system gives no thread to the one that writes.
    pub(super) fn start(backend: B, opened: Connections) -> Result<Self, sqlx::Error> {
        let database = opened.database;
        let writer = match opened.writer {
            Some((conn, reconnect)) => Some(Writer::start(conn, reconnect, database.clone())?),
            None => None,
        };
        Ok(Self {
            backend,
            database,
            readers: opened.readers,
            writer,
            shared: opened.shared,
        })
    }

    /// Ends the writing task once it has performed what waits, and closes the database. Whatever is
    /// asked for later fails.
    pub async fn close(&self) {
        if let Some(writer) = &self.writer {
            writer.stop().await;
        }
        if let Some(shared) = &self.shared {
            shared.aside.close().await;
        }
        self.readers.close().await;
    }

    /// Where leases are renewed and jobs claimed.
    fn aside(&self) -> &Pool {
        self.shared
            .as_ref()
            .map_or(&self.readers, |shared| &shared.aside)
    }

    fn writer(&self) -> Result<&Writer, StoreError> {
        self.writer.as_ref().ok_or_else(|| StoreError::Unavailable {
            what: format!("{} was opened for reading only", self.database),
            source: "it takes no writes".into(),
        })
    }

    fn read<T>(&self, found: Fallible<T>) -> Result<T, StoreError> {
        found.map_err(|failure| failure.into_error(&self.database))
    }
}

#[async_trait]
impl<B: Backend> Store for SqlStore<B> {
    async fn identity(&self) -> Result<String, StoreError> {
        let identity = query_scalar(IDENTITY).fetch_one(&self.readers).await;
        self.read(identity.map_err(Failure::from))
    }

    async fn begin_worker(
        &self,
        worker: NewWorker,
        now: Timestamp,
    ) -> Result<BegunWorker, StoreError> {
        let lease = self.shared.as_ref().map(|shared| shared.lease);
        self.writer()?
            .perform(move |conn| {
                Box::pin(async move { workers::begin(conn, &worker, lease, now).await })
            })
            .await
    }

    async fn renew_lease(&self, worker: WorkerId) -> Result<Option<Renewal>, StoreError> {
        self.read(workers::renew(self.aside(), worker).await)
    }

    async fn take_over(&self, worker: WorkerId, now: Timestamp) -> Result<Interrupted, StoreError> {
        self.writer()?
            .perform(move |conn| Box::pin(workers::take_over(conn, worker, now)))
            .await
    }

    async fn living_workers(&self) -> Result<Vec<WorkerRow>, StoreError> {
        self.read(workers::living(&self.readers).await)
    }

    async fn running_runs(&self) -> Result<usize, StoreError> {
        self.read(workers::running_runs(&self.readers).await)
    }

    async fn reclaim(
        &self,
        worker: WorkerId,
        at_work: &HashSet<String>,
        now: Timestamp,
    ) -> Result<Interrupted, StoreError> {
        let at_work = at_work.clone();
        self.writer()?
            .perform(move |conn| {
                Box::pin(async move { workers::reclaim(conn, worker, &at_work, now).await })
            })
            .await
    }

    async fn end_worker(&self, worker: WorkerId, now: Timestamp) -> Result<(), StoreError> {
        self.writer()?
            .perform(move |conn| Box::pin(workers::end(conn, worker, now)))
            .await
    }

    async fn clock_seen(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read(workers::clock_seen(&self.readers).await)
    }

    async fn see_clock(&self, now: Timestamp) -> Result<(), StoreError> {
        self.writer()?
            .perform(move |conn| Box::pin(workers::see_clock(conn, now)))
            .await
    }

    async fn look_again(&self, now: Timestamp) -> Result<(), StoreError> {
        self.writer()?
            .perform(move |conn| Box::pin(workers::look_again(conn, now)))
            .await
    }

    async fn change_token(&self) -> Result<i64, StoreError> {
        self.read(self.backend.change_token().await)
    }

    async fn await_change(&self, at_most: Duration) {
        self.backend.await_change(at_most).await;
    }

    async fn due_jobs(
        &self,
        after: Timestamp,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<StoredJob>, StoreError> {
        self.read(jobs::due(&self.readers, after, now, limit).await)
    }

    async fn claim_due_jobs(
        &self,
        by: DueClaimant,
        after: Timestamp,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<StoredJob>, StoreError> {
        #[cfg(feature = "postgres")]
        if let Some(shared) = &self.shared {
            return self.read(jobs::claim_due(&shared.aside, by, (after, now), limit).await);
        }
        let _ = by;
        self.due_jobs(after, now, limit).await
    }

    async fn next_wake_of(&self, by: DueClaimant) -> Result<Option<Timestamp>, StoreError> {
        #[cfg(feature = "postgres")]
        if self.shared.is_some() {
            return self.read(jobs::next_wake_of(&self.readers, by).await);
        }
        let _ = by;
        self.next_wake().await
    }

    async fn next_wake(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read(jobs::next_wake(&self.readers).await)
    }

    async fn jobs(&self, ids: &[JobId]) -> Result<Vec<StoredJob>, StoreError> {
        self.read(jobs::named(&self.readers, ids).await)
    }

    async fn job_digests(&self) -> Result<Vec<JobDigest>, StoreError> {
        self.read(jobs::digests(&self.readers).await)
    }

    async fn jobs_after(
        &self,
        after: Option<&JobId>,
        limit: usize,
    ) -> Result<Vec<StoredJob>, StoreError> {
        self.read(jobs::after(&self.readers, after, limit).await)
    }

    async fn all_jobs(&self) -> Result<Vec<StoredJob>, StoreError> {
        self.read(jobs::all(&self.readers).await)
    }

    async fn commit(&self, batch: Vec<JobCommit>, now: Timestamp) -> Results<Written> {
        self.writer()?.batch(batch, now, Request::Commit).await
    }

    async fn stamp_file(&self, file: FileToApply, now: Timestamp) -> Result<Stamped, StoreError> {
        self.writer()?
            .perform(move |conn| Box::pin(files::stamp(conn, file, now)))
            .await
    }

    async fn commit_of_file(
        &self,
        version: FileVersion,
        batch: Vec<JobCommit>,
        now: Timestamp,
    ) -> Result<Result<Vec<Result<Written, Conflict>>, Conflict>, StoreError> {
        self.writer()?
            .perform(move |conn| Box::pin(files::commit(conn, version, batch, now)))
            .await
    }

    async fn new_request(&self) -> Result<RequestId, StoreError> {
        let request = ids::Kind::Request;
        self.writer()?
            .perform(move |conn| Box::pin(ids::Ids::take_one(conn, request)))
            .await
            .map(RequestId)
    }

    async fn set_chats(&self, chats: Vec<Chat>, now: Timestamp) -> Result<(), StoreError> {
        self.writer()?
            .perform(move |conn| Box::pin(async move { jobs::set_chats(conn, &chats, now).await }))
            .await
    }

    async fn chats(&self) -> Result<Vec<Chat>, StoreError> {
        self.read(jobs::chats(&self.readers).await)
    }

    async fn lane_queues(
        &self,
        now: Timestamp,
        limits: LaneLimits,
    ) -> Result<Vec<LaneQueue>, StoreError> {
        self.read(lanes::queues(&self.readers, now, limits).await)
    }

    async fn has_waiting_run(&self, now: Timestamp) -> Result<bool, StoreError> {
        self.read(lanes::has_waiting_run(&self.readers, now).await)
    }

    async fn next_lane_instant(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        self.read(lanes::next_instant(&self.readers, now).await)
    }

    async fn claim(
        &self,
        by: Claimant,
        batch: Vec<ClaimRequest>,
        now: Timestamp,
    ) -> Results<Claimed> {
        let items = batch.into_iter().map(|request| (by, request)).collect();
        self.writer()?.batch(items, now, Request::Claim).await
    }

    async fn report_effects(
        &self,
        by: SentBy,
        now: Timestamp,
    ) -> Result<Result<(), Conflict>, StoreError> {
        self.writer()?
            .perform(move |conn| Box::pin(effects::report(conn, by, now)))
            .await
    }

    async fn runs_with_effects(&self, runs: &[RunId]) -> Result<HashSet<RunId>, StoreError> {
        self.read(effects::runs_with(&self.readers, runs).await)
    }

    async fn send(
        &self,
        send: ToolSend,
        now: Timestamp,
    ) -> Result<Result<Sent, Conflict>, StoreError> {
        self.writer()?
            .perform(move |conn| Box::pin(sends::send(conn, send, now)))
            .await
    }

    async fn send_own(
        &self,
        send: OwnSend,
        now: Timestamp,
    ) -> Result<Result<Sent, Conflict>, StoreError> {
        self.writer()?
            .perform(move |conn| Box::pin(sends::send_own(conn, send, now)))
            .await
    }

    async fn finish_turns(&self, batch: Vec<TurnEnd>, now: Timestamp) -> Results<()> {
        self.writer()?.batch(batch, now, Request::FinishTurns).await
    }

    async fn settle_parts(&self, batch: Vec<PartSettlement>, now: Timestamp) -> Results<()> {
        self.writer()?.batch(batch, now, Request::SettleParts).await
    }

    async fn incident_signals(&self, limit: usize) -> Result<Vec<IncidentSignal>, StoreError> {
        self.read(incidents::reported(&self.readers, limit).await)
    }

    async fn incidents(&self, jobs: &[JobId]) -> Result<Vec<IncidentRow>, StoreError> {
        self.read(incidents::of_jobs(&self.readers, jobs).await)
    }

    async fn open_incidents(&self) -> Result<Vec<IncidentRow>, StoreError> {
        self.read(incidents::open(&self.readers).await)
    }

    async fn commit_incidents(
        &self,
        decided: IncidentCommit,
        now: Timestamp,
    ) -> Result<Result<(), Conflict>, StoreError> {
        self.writer()?
            .perform(move |conn| Box::pin(incidents::commit(conn, decided, now)))
            .await
    }

    async fn request_turn(
        &self,
        inbound: InboundMessage,
        now: Timestamp,
    ) -> Result<TurnId, StoreError> {
        self.writer()?
            .perform(move |conn| Box::pin(turns::request(conn, inbound, None, now)))
            .await
    }

    async fn request_lent_turn(
        &self,
        inbound: InboundMessage,
        runner: &str,
        now: Timestamp,
    ) -> Result<TurnId, StoreError> {
        let runner = Some(runner.to_owned());
        self.writer()?
            .perform(move |conn| Box::pin(turns::request(conn, inbound, runner, now)))
            .await
    }

    async fn read_source(
        &self,
        source: &str,
        worker: WorkerId,
    ) -> Result<Result<ReadFrom, Conflict>, StoreError> {
        let source = source.to_owned();
        self.writer()?
            .perform(move |conn| {
                Box::pin(async move { inbound::read(conn, &source, worker).await })
            })
            .await
    }

    async fn receive(
        &self,
        batch: InboundBatch,
        now: Timestamp,
    ) -> Result<Result<Vec<TurnId>, Conflict>, StoreError> {
        self.writer()?
            .perform(move |conn| Box::pin(inbound::receive(conn, batch, now)))
            .await
    }

    async fn moved_chats(&self) -> Result<Vec<(SessionKey, String)>, StoreError> {
        self.read(inbound::moved_chats(&self.readers).await)
    }

    async fn turn(&self, id: TurnId) -> Result<Option<TurnRow>, StoreError> {
        self.read(turns::one(&self.readers, id).await)
    }

    async fn recall(&self, session: &SessionKey, limit: usize) -> Result<Vec<Entry>, StoreError> {
        self.read(readings::recall(&self.readers, session, limit).await)
    }

    async fn visible_texts(
        &self,
        session: &SessionKey,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.read(readings::visible_texts(&self.readers, session, limit).await)
    }

    async fn job_memory(&self, job: &JobId, limit: usize) -> Result<Vec<Entry>, StoreError> {
        self.read(readings::job_memory(&self.readers, job, limit).await)
    }

    async fn transcript(
        &self,
        session: &SessionKey,
        window: WindowOf,
    ) -> Result<Vec<Entry>, StoreError> {
        self.read(readings::transcript(&self.readers, session, window).await)
    }

    async fn transcript_before(
        &self,
        session: &SessionKey,
        window: WindowOf,
        before: Option<(i64, i64)>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let page = readings::transcript_before(&self.readers, session, window, before, limit);
        self.read(page.await)
    }

    async fn turn_counts(&self) -> Result<Vec<TurnCount>, StoreError> {
        self.read(readings::turn_counts(&self.readers).await)
    }

    #[cfg(feature = "testing")]
    async fn turn_entries(&self, turn: TurnId) -> Result<Vec<Entry>, StoreError> {
        self.read(readings::of_turn(&self.readers, turn).await)
    }

    async fn keep_context(&self, run: RunId, snapshot: &str) -> Result<String, StoreError> {
        let snapshot = snapshot.to_owned();
        self.writer()?
            .perform(move |conn| {
                Box::pin(async move { runs::keep_context(conn, run, &snapshot).await })
            })
            .await
    }

    async fn request_reset(&self, session: &SessionKey, now: Timestamp) -> Result<(), StoreError> {
        let session = session.clone();
        self.writer()?
            .perform(move |conn| Box::pin(async move { reset::request(conn, &session, now).await }))
            .await
    }

    async fn pending_resets(&self) -> Result<Vec<SessionKey>, StoreError> {
        self.read(reset::requested(&self.readers).await)
    }

    async fn under_way(&self, session: &SessionKey) -> Result<UnderWay, StoreError> {
        let looking = async || {
            let mut snapshot = self.readers.snapshot().await?;
            let found = reset::under_way(&mut snapshot, session).await;
            snapshot.close().await?;
            found
        };
        self.read(looking().await)
    }

    async fn reset(&self, session: &SessionKey, now: Timestamp) -> Result<Option<i64>, StoreError> {
        let session = session.clone();
        self.writer()?
            .perform(move |conn| Box::pin(async move { reset::reset(conn, &session, now).await }))
            .await
    }

    async fn outbox(&self, scope: OutboxScope) -> Result<Vec<OutboxRow>, StoreError> {
        self.read(outbox::list(&self.readers, scope).await)
    }

    async fn open_parts(&self) -> Result<Vec<(PartState, u64)>, StoreError> {
        self.read(outbox::open_parts(&self.readers).await)
    }

    async fn resolve_part(
        &self,
        part: PartId,
        resolution: Resolution,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.writer()?
            .perform(move |conn| Box::pin(outbox::resolve(conn, part, resolution, now)))
            .await?
    }

    async fn retry_part(&self, part: PartId, now: Timestamp) -> Result<(), StoreError> {
        self.writer()?
            .perform(move |conn| Box::pin(outbox::retry(conn, part, now)))
            .await?
    }

    async fn cancel_part(&self, part: PartId, now: Timestamp) -> Result<(), StoreError> {
        self.writer()?
            .perform(move |conn| Box::pin(outbox::cancel(conn, part, now)))
            .await?
    }

    async fn runs(&self, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        self.read(runs::list(&self.readers, filter).await)
    }

    async fn attempts(&self, run: RunId) -> Result<Vec<AttemptRow>, StoreError> {
        self.read(runs::attempts(&self.readers, run).await)
    }

    async fn ranges(&self, filter: &RunFilter) -> Result<Vec<RangeRow>, StoreError> {
        self.read(runs::ranges(&self.readers, filter).await)
    }

    async fn diagnostics(&self, run: RunId) -> Result<Vec<DiagnosticRow>, StoreError> {
        self.read(diagnostics::of_run(&self.readers, run).await)
    }

    async fn run_parts(&self, run: RunId) -> Result<Vec<OutboxRow>, StoreError> {
        self.read(outbox::of_run(&self.readers, run).await)
    }

    async fn turn_parts(&self, turn: TurnId) -> Result<Vec<OutboxRow>, StoreError> {
        self.read(outbox::of_turn(&self.readers, turn).await)
    }

    async fn shown_parts(&self, session: &SessionKey) -> Result<Vec<OutboxRow>, StoreError> {
        self.read(outbox::shown(&self.readers, session).await)
    }

    async fn audit(&self, job: Option<&JobId>) -> Result<AuditReport, StoreError> {
        self.read(audit::audit(&self.readers, job).await)
    }

    async fn prune(&self, retention: &Retention, now: Timestamp) -> Result<u64, StoreError> {
        let writer = self.writer()?;
        let found = self.read(prune::look(&self.readers, retention, now).await)?;
        writer
            .perform(move |conn| Box::pin(prune::forget(conn, found, now)))
            .await
    }
}
