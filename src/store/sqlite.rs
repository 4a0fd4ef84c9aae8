//! The SQLite store: one file, one task that writes, a few connections that read.
//!
//! WAL with `synchronous = FULL`, because a commit that is lost at a power cut is a run that
//! happens twice. The writing task performs everything that waits in one transaction.

use std::{
    collections::HashSet,
    fmt,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::{SqliteConnection, SqlitePool};
use tokio::sync::Mutex;

use crate::{
    audit::AuditReport,
    directory::{Chat, Retention},
    ids::{JobId, PartId, RequestId, RunId, SessionKey, TurnId},
    policy::LaneQueue,
    store::{
        AttemptRow, ClaimRequest, Claimed, Conflict, DiagnosticRow, InboundMessage, IncidentCommit,
        IncidentRow, IncidentSignal, Interrupted, JobCommit, JobDigest, LaneLimits, OutboxRow,
        OutboxScope, PartSettlement, RangeRow, Resolution, Results, RunFilter, RunRow, Store,
        StoreError, StoredJob, TurnCount, TurnEnd, TurnRow, WindowOf, WorkerId, Written,
    },
    transcript::Entry,
};

mod adopt;
mod audit;
mod claim;
mod commit;
mod diagnostics;
mod enqueue;
mod entries;
mod failure;
mod ids;
mod incidents;
mod jobs;
mod lanes;
mod lock;
mod migrate;
mod open;
mod outbox;
mod prune;
mod readings;
mod reset;
mod resolution;
mod rows;
mod runs;
mod settle;
mod stretches;
mod turns;
mod workers;
mod writer;

#[cfg(test)]
mod tests;

pub use lock::{Holder, WorkerLock};
pub use open::OpenMode;

use failure::{Failure, Fallible};
use writer::{Request, Writer};

const IDENTITY: &str = "SELECT value FROM facts WHERE name = 'database_id'";

const DATA_VERSION: &str = "PRAGMA data_version";

/// Everything durable, in one SQLite file.
///
/// Dropping it lets the writing task finish what waits and end; [`SqliteStore::close`] waits for
/// that.
pub struct SqliteStore {
    path: PathBuf,
    readers: SqlitePool,
    watch: Mutex<SqliteConnection>,
    writer: Option<Writer>,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the database at this path, and brings its schema up to date.
    ///
    /// # Errors
    /// [`StoreError::Newer`] where a newer version wrote it; [`StoreError::Unavailable`], naming
    /// the file, where it is no database, is missing, or cannot be read or written. Nothing is
    /// written to it then.
    pub async fn open(path: &Path, mode: OpenMode) -> Result<Self, StoreError> {
        migrate::prepare(path, mode).await?;
        let opened = open::connect(path, mode).await;
        let opened = opened.map_err(|error| Failure::from(error).into_error(path))?;
        Ok(Self {
            path: path.to_owned(),
            readers: opened.readers,
            watch: Mutex::new(opened.watch),
            writer: opened
                .writer
                .map(|conn| Writer::start(conn, open::writing(path), path.to_owned())),
        })
    }

    /// Where the database is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the writing task once it has performed what waits, and closes the file. Whatever is
    /// asked for later fails.
    pub async fn close(&self) {
        if let Some(writer) = &self.writer {
            writer.stop().await;
        }
        self.readers.close().await;
    }

    fn writer(&self) -> Result<&Writer, StoreError> {
        self.writer.as_ref().ok_or_else(|| StoreError::Unavailable {
            what: format!("{} was opened for reading only", self.path.display()),
            source: "it takes no writes".into(),
        })
    }

    fn read<T>(&self, found: Fallible<T>) -> Result<T, StoreError> {
        found.map_err(|failure| failure.into_error(&self.path))
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn identity(&self) -> Result<String, StoreError> {
        let identity = sqlx::query_scalar(IDENTITY).fetch_one(&self.readers).await;
        self.read(identity.map_err(Failure::from))
    }

    async fn begin_worker(
        &self,
        zone_data: &str,
        now: Timestamp,
    ) -> Result<(WorkerId, Interrupted), StoreError> {
        let zone_data = zone_data.to_owned();
        self.writer()?
            .perform(move |conn| {
                Box::pin(async move { workers::begin(conn, &zone_data, now).await })
            })
            .await
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
        let mut watch = self.watch.lock().await;
        let version = sqlx::query_scalar(DATA_VERSION)
            .fetch_one(&mut *watch)
            .await;
        self.read(version.map_err(Failure::from))
    }

    async fn due_jobs(&self, now: Timestamp, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
        self.read(jobs::due(&self.readers, now, limit).await)
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

    async fn all_jobs(&self) -> Result<Vec<StoredJob>, StoreError> {
        self.read(jobs::all(&self.readers).await)
    }

    async fn commit(&self, batch: Vec<JobCommit>, now: Timestamp) -> Results<Written> {
        self.writer()?.batch(batch, now, Request::Commit).await
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

    async fn next_lane_instant(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        self.read(lanes::next_instant(&self.readers, now).await)
    }

    async fn claim(
        &self,
        worker: WorkerId,
        batch: Vec<ClaimRequest>,
        now: Timestamp,
    ) -> Results<Claimed> {
        let items = batch.into_iter().map(|request| (worker, request)).collect();
        self.writer()?.batch(items, now, Request::Claim).await
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
            .perform(move |conn| Box::pin(turns::request(conn, inbound, now)))
            .await
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

    async fn turn_counts(&self) -> Result<Vec<TurnCount>, StoreError> {
        self.read(readings::turn_counts(&self.readers).await)
    }

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

    async fn reset(&self, session: &SessionKey, now: Timestamp) -> Result<i64, StoreError> {
        let session = session.clone();
        self.writer()?
            .perform(move |conn| Box::pin(async move { reset::reset(conn, &session, now).await }))
            .await
    }

    async fn outbox(&self, scope: OutboxScope) -> Result<Vec<OutboxRow>, StoreError> {
        self.read(outbox::list(&self.readers, scope).await)
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
