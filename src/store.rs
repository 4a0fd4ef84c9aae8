//! The store: what must survive, and the transactions that change it.
//!
//! Writing methods of the hot path take batches and return one result an item: a stale fence or a
//! conflict fails its own item and nobody else's, and replies leave after COMMIT. A transaction is never held
//! across an agent or channel call. Adapters are in `store/`.

use std::{collections::HashSet, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    audit::AuditReport,
    directory::{Chat, Retention},
    ids::{JobId, MessageId, PartId, RequestId, RunId, SessionKey, TurnId},
    message::PartState,
    policy::LaneQueue,
    transcript::Entry,
};

mod error;
mod inbound_rows;
mod incident_rows;
mod job_rows;
mod outbox_rows;
mod run_rows;
mod session_rows;
mod worker_rows;

#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use crate::policy::AttemptFate;
pub use error::{Conflict, StoreError};
pub use inbound_rows::{InboundBatch, ReadFrom};
pub use incident_rows::{IncidentCommit, IncidentRow, IncidentSignal, Reported};
pub use job_rows::{
    Accepts, AttemptEnd, BegunRun, FileToApply, FileVersion, JobCommit, JobDigest, JobSource,
    Route, Stamped, StoredJob, StretchBegin, StretchChange, Target, Written,
};
pub use outbox_rows::{
    ClaimedPart, LateNotice, NewMessage, NewPart, OutboxRow, OwnSend, PartSettlement, PostedBy,
    Resolution, Sent, SentBy, ToolSend,
};
pub use run_rows::{
    AttemptRow, ClaimedRun, DeliveryCounts, Diagnostic, DiagnosticRow, Level, RangeCursor,
    RangeRow, RunCursor, RunFilter, RunRow, UnderWay,
};
pub use session_rows::{
    ClaimedTurn, EntryDraft, InboundMessage, TurnCount, TurnEnd, TurnResult, TurnRow, WindowOf,
};
pub use worker_rows::{
    BegunWorker, Claimant, DueClaimant, DueKinds, Interrupted, NewWorker, Renewal, Role, WorkerId,
    WorkerRow,
};

/// One result an item of a batch.
pub type Results<T> = Result<Vec<Result<T, Conflict>>, StoreError>;

/// A lane that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The lane.
    pub session_key: SessionKey,
    /// What shall hold it.
    pub grant: crate::policy::Grant,
}

/// A lane that was taken, with what its holder needs.
#[derive(Debug, Clone)]
pub enum Claimed {
    /// An attempt of a run may begin.
    Run(Box<ClaimedRun>),
    /// A user turn may begin.
    Turn(Box<ClaimedTurn>),
    /// A part is marked `sending` and may be sent.
    Part(Box<ClaimedPart>),
    /// A message is too late to be sent, and was cancelled; nothing holds its lane.
    Withheld(Box<ClaimedPart>),
}

/// Everything durable.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// What this store is: drawn once, when it was made. Producers of messages are named with it, so
    /// that two stores never send one idempotency key.
    async fn identity(&self) -> Result<String, StoreError>;

    // Workers.

    /// Registers a worker, and gives it what those held that are dead: where workers share the
    /// database those whose lease is over, and else all before it, as the caller has made sure. User
    /// turns of theirs that were running are waiting again, or have failed after their second
    /// attempt.
    async fn begin_worker(
        &self,
        worker: NewWorker,
        now: Timestamp,
    ) -> Result<BegunWorker, StoreError>;

    /// Holds the worker's lease for another while; `None` where another worker has taken over from
    /// it. Waits for nobody who writes.
    async fn renew_lease(&self, worker: WorkerId) -> Result<Option<Renewal>, StoreError>;

    /// Gives a living worker what those held whose lease is over, as [`Store::begin_worker`] does.
    async fn take_over(&self, worker: WorkerId, now: Timestamp) -> Result<Interrupted, StoreError>;

    /// The workers whose lease is not over, in the order in which they began. Of a database that no
    /// workers share, the one that has not stopped in order: whether it lives its lock tells.
    async fn living_workers(&self) -> Result<Vec<WorkerRow>, StoreError>;

    /// Takes back what this worker holds and does not know to be at work (`run:<id>`, `turn:<id>`,
    /// `part:<id>`): a claim whose answer never arrived.
    async fn reclaim(
        &self,
        worker: WorkerId,
        at_work: &HashSet<String>,
        now: Timestamp,
    ) -> Result<Interrupted, StoreError>;

    /// Records that the worker has stopped in order. What it still holds others take over at once.
    async fn end_worker(&self, worker: WorkerId, now: Timestamp) -> Result<(), StoreError>;

    /// The newest instant at which somebody is known to have believed the machine's clock: a worker
    /// that began, worked or ended, or a person who confirmed it.
    async fn clock_seen(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Records that the clock is believed now.
    async fn see_clock(&self, now: Timestamp) -> Result<(), StoreError>;

    /// Has every job looked at now: what was derived from the clock, or from other zone data, may be
    /// wrong.
    async fn look_again(&self, now: Timestamp) -> Result<(), StoreError>;

    /// A number that changes whenever another connection or process has committed.
    async fn change_token(&self) -> Result<i64, StoreError>;

    /// Waits until the token may have changed, or for so long at most, where nobody tells.
    async fn await_change(&self, at_most: Duration);

    // Jobs and decisions.

    /// Jobs whose `wake_at` lies after `after` and has come, in the order (`wake_at`, job id), at
    /// most `limit`.
    async fn due_jobs(
        &self,
        after: Timestamp,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<StoredJob>, StoreError>;

    /// The same, claimed for a moment by one of several workers, so that the others decide about
    /// other jobs meanwhile; without waiting for those who write. A claim only saves work: what is
    /// decided is fenced by the job's version.
    async fn claim_due_jobs(
        &self,
        by: DueClaimant,
        after: Timestamp,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<StoredJob>, StoreError>;

    /// The smallest `wake_at` of the jobs that [`Store::claim_due_jobs`] would give this worker when
    /// they are due.
    async fn next_wake_of(&self, by: DueClaimant) -> Result<Option<Timestamp>, StoreError>;

    /// The smallest `wake_at` of all jobs.
    async fn next_wake(&self) -> Result<Option<Timestamp>, StoreError>;

    /// These jobs, removed ones too, in the order asked; unknown ids are left out.
    async fn jobs(&self, ids: &[JobId]) -> Result<Vec<StoredJob>, StoreError>;

    /// So many of the jobs that are not removed, by id, of those whose ids come after this one.
    async fn jobs_after(
        &self,
        after: Option<&JobId>,
        limit: usize,
    ) -> Result<Vec<StoredJob>, StoreError>;

    /// All jobs that are not removed, by id.
    async fn all_jobs(&self) -> Result<Vec<StoredJob>, StoreError>;

    /// All jobs that are not removed, as far as a jobs file needs to know which it changes.
    async fn job_digests(&self) -> Result<Vec<JobDigest>, StoreError>;

    /// Commits decisions: state, ledger, runs, the end of an attempt with its rows and messages.
    /// Each item is fenced by the job's version, and an attempt's end by its epoch too.
    async fn commit(&self, batch: Vec<JobCommit>, now: Timestamp) -> Results<Written>;

    /// Makes a jobs file's content the newest one, with its chats, unless it is known to be older than
    /// what is in force.
    async fn stamp_file(&self, file: FileToApply, now: Timestamp) -> Result<Stamped, StoreError>;

    /// Commits decisions that a jobs file has led to, all in one transaction. Fenced by the file's
    /// version: [`Conflict::StaleVersion`] where another content is in force by now.
    async fn commit_of_file(
        &self,
        version: FileVersion,
        batch: Vec<JobCommit>,
        now: Timestamp,
    ) -> Result<Result<Vec<Result<Written, Conflict>>, Conflict>, StoreError>;

    /// A new request id.
    async fn new_request(&self) -> Result<RequestId, StoreError>;

    /// Replaces the chats of the jobs file.
    async fn set_chats(&self, chats: Vec<Chat>, now: Timestamp) -> Result<(), StoreError>;

    /// The chats of the jobs file that was applied last, by name.
    async fn chats(&self) -> Result<Vec<Chat>, StoreError>;

    // Lanes.

    /// What waits in free lanes in which something can be done at `now`: at most one delivery, one
    /// turn and one run for each. A lane that only waits for a delivery to be tried again, or for a
    /// run to come due, is left out.
    async fn lane_queues(
        &self,
        now: Timestamp,
        limits: LaneLimits,
    ) -> Result<Vec<LaneQueue>, StoreError>;

    /// Whether a run that is due at `now` waits for its lane or for a slot.
    async fn has_waiting_run(&self, now: Timestamp) -> Result<bool, StoreError>;

    /// The next instant at which a delivery that backs off or a queued run comes due, after `now`.
    async fn next_lane_instant(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError>;

    /// How many runs are under way, whoever works on them.
    async fn running_runs(&self) -> Result<usize, StoreError>;

    /// Takes lanes: a run's attempt or a turn begins, a part is marked `sending`. A user's row
    /// takes its place in history here. Where workers share the database it renews the claimant's
    /// lease too; [`Conflict::LeaseLost`] where another worker has taken over from it, and
    /// [`Conflict::NoSlot`] where as many runs are under way as may be.
    async fn claim(
        &self,
        by: Claimant,
        batch: Vec<ClaimRequest>,
        now: Timestamp,
    ) -> Results<Claimed>;

    /// Records that the attempt under way of a run or a turn is about to have effects. Fenced by its
    /// epoch: [`Conflict::LeaseLost`] where it is over.
    async fn report_effects(
        &self,
        by: SentBy,
        now: Timestamp,
    ) -> Result<Result<(), Conflict>, StoreError>;

    /// Those of these runs of which the last attempt has had effects: reported ones, or a message
    /// that a tool of it sent.
    async fn runs_with_effects(&self, runs: &[RunId]) -> Result<HashSet<RunId>, StoreError>;

    /// Puts a message of a turn or an attempt that is under way in the outbox. Fenced by its epoch:
    /// [`Conflict::LeaseLost`] where it is over. Into the lane that its sender holds it goes as soon
    /// as that is free, before the reply.
    async fn send(
        &self,
        send: ToolSend,
        now: Timestamp,
    ) -> Result<Result<Sent, Conflict>, StoreError>;

    /// Puts a message of a program's own in the outbox. Its producer is the program's key: where that
    /// was used before, nothing is sent, and the answer says whether the words were the same. One
    /// that was asked for before anything was pruned is refused with [`Conflict::TooOld`], because
    /// its key may have been forgotten.
    async fn send_own(
        &self,
        send: OwnSend,
        now: Timestamp,
    ) -> Result<Result<Sent, Conflict>, StoreError>;

    /// Ends user turns: rows, messages, and the lane is free. Fenced by the turn's epoch.
    async fn finish_turns(&self, batch: Vec<TurnEnd>, now: Timestamp) -> Results<()>;

    /// Records what became of parts, and frees their lanes. A receipt is evidence, whoever brings it:
    /// it is fenced by the part's state alone. Another answer counts for the attempt under way.
    async fn settle_parts(&self, batch: Vec<PartSettlement>, now: Timestamp) -> Results<()>;

    // Incidents.

    /// What was committed and nobody has decided on, as far as incidents go: oldest first.
    async fn incident_signals(&self, limit: usize) -> Result<Vec<IncidentSignal>, StoreError>;

    /// The open incidents of these jobs, and of each cause the newest that was alerted about.
    async fn incidents(&self, jobs: &[JobId]) -> Result<Vec<IncidentRow>, StoreError>;

    /// All incidents that are not over.
    async fn open_incidents(&self) -> Result<Vec<IncidentRow>, StoreError>;

    /// Commits what was decided about signals: incidents, and messages that tell of them. A pending
    /// alert of an incident that is over is cancelled. Fenced by the signals.
    async fn commit_incidents(
        &self,
        decided: IncidentCommit,
        now: Timestamp,
    ) -> Result<Result<(), Conflict>, StoreError>;

    // Sessions.

    /// Stores a user's message with its pending row and its turn. The same channel message id in
    /// the same chat is the same turn.
    async fn request_turn(
        &self,
        inbound: InboundMessage,
        now: Timestamp,
    ) -> Result<TurnId, StoreError>;

    /// As [`Store::request_turn`], for a turn that a program runs itself: it waits for the lane
    /// under this token, and no agent of a worker answers it.
    async fn request_lent_turn(
        &self,
        inbound: InboundMessage,
        runner: &str,
        now: Timestamp,
    ) -> Result<TurnId, StoreError>;

    /// Has a worker read a source from now on, such as a bot's messages; [`Conflict::LeaseLost`] where
    /// another one reads it that is alive, or this one was taken for dead.
    async fn read_source(
        &self,
        source: &str,
        worker: WorkerId,
    ) -> Result<Result<ReadFrom, Conflict>, StoreError>;

    /// Stores what a source brought, with the position behind it: all of it, or nothing. A message
    /// that is known makes no second turn. Fenced by who reads the source. Returns the messages'
    /// turns.
    async fn receive(
        &self,
        batch: InboundBatch,
        now: Timestamp,
    ) -> Result<Result<Vec<TurnId>, Conflict>, StoreError>;

    /// The chats that have moved, with their present address.
    async fn moved_chats(&self) -> Result<Vec<(SessionKey, String)>, StoreError>;

    /// A user turn.
    async fn turn(&self, id: TurnId) -> Result<Option<TurnRow>, StoreError>;

    /// A session's history as the chat's next turn is given it: the newest generation's visible
    /// and interior rows, oldest first, the last `limit` of them.
    async fn recall(&self, session: &SessionKey, limit: usize) -> Result<Vec<Entry>, StoreError>;

    /// The last `limit` visible text rows of a session, oldest first.
    async fn visible_texts(
        &self,
        session: &SessionKey,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError>;

    /// Rows of committed attempts of a job's own session, oldest first, the last `limit`.
    async fn job_memory(&self, job: &JobId, limit: usize) -> Result<Vec<Entry>, StoreError>;

    /// A session's rows over all generations, in order: what the chat showed, or all of them.
    async fn transcript(
        &self,
        session: &SessionKey,
        window: WindowOf,
    ) -> Result<Vec<Entry>, StoreError>;

    /// The same in pages from the end: at most `limit` rows, oldest first, that stand before this
    /// place (generation and seq), or at the end.
    async fn transcript_before(
        &self,
        session: &SessionKey,
        window: WindowOf,
        before: Option<(i64, i64)>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError>;

    /// How many turns of each session were begun by whom, by session key and trigger. A run counts
    /// once, however many attempts it had; a person's message counts when its turn has begun.
    async fn turn_counts(&self) -> Result<Vec<TurnCount>, StoreError>;

    /// Rows of a turn, in order.
    #[cfg(feature = "testing")]
    async fn turn_entries(&self, turn: TurnId) -> Result<Vec<Entry>, StoreError>;

    /// Keeps the snapshot of a chat that a run was given, once; returns what is stored.
    async fn keep_context(&self, run: RunId, snapshot: &str) -> Result<String, StoreError>;

    /// Asks the worker for a reset of a session.
    async fn request_reset(&self, session: &SessionKey, now: Timestamp) -> Result<(), StoreError>;

    /// Resets that were asked for.
    async fn pending_resets(&self) -> Result<Vec<SessionKey>, StoreError>;

    /// Raises the session's generation: its running turn is cancelled, and the unsent parts of its
    /// turns' replies with it. Runs of the session are the caller's to end first. Returns the new
    /// generation; `None` where nobody asks for it any more.
    async fn reset(&self, session: &SessionKey, now: Timestamp) -> Result<Option<i64>, StoreError>;

    /// What is under way in a session, whoever works on it.
    async fn under_way(&self, session: &SessionKey) -> Result<UnderWay, StoreError>;

    // Outbox.

    /// Parts that are not settled or `unknown` (or all with `include_settled`), oldest first.
    async fn outbox(&self, scope: OutboxScope) -> Result<Vec<OutboxRow>, StoreError>;

    /// How many parts are in each state that needs something: `pending`, `sending`, `unknown`,
    /// `failed`.
    async fn open_parts(&self) -> Result<Vec<(PartState, u64)>, StoreError>;

    /// Settles an `unknown` part by a person's word; written at the lane's next turn boundary.
    async fn resolve_part(
        &self,
        part: PartId,
        resolution: Resolution,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Sends a `failed` part again under the same key, and the rest of its message with it, or a
    /// `pending` one without waiting for its time; lifts the stop of its address.
    async fn retry_part(&self, part: PartId, now: Timestamp) -> Result<(), StoreError>;

    /// Cancels a `pending` part and the rest of its message.
    async fn cancel_part(&self, part: PartId, now: Timestamp) -> Result<(), StoreError>;

    // Reading.

    /// Runs, newest first.
    async fn runs(&self, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError>;

    /// The attempts of a run.
    async fn attempts(&self, run: RunId) -> Result<Vec<AttemptRow>, StoreError>;

    /// Skipped stretches, newest first.
    async fn ranges(&self, filter: &RunFilter) -> Result<Vec<RangeRow>, StoreError>;

    /// What a person should know about a run.
    async fn diagnostics(&self, run: RunId) -> Result<Vec<DiagnosticRow>, StoreError>;

    /// Parts of the messages of a run.
    async fn run_parts(&self, run: RunId) -> Result<Vec<OutboxRow>, StoreError>;

    /// Parts of the messages of a turn.
    async fn turn_parts(&self, turn: TurnId) -> Result<Vec<OutboxRow>, StoreError>;

    /// Every part that a channel may have shown in this chat: confirmed and unknown ones, and
    /// those that are being sent, in the order of their messages.
    async fn shown_parts(&self, session: &SessionKey) -> Result<Vec<OutboxRow>, StoreError>;

    /// Holds the ledger of all jobs, or of one, against what their definitions planned, as of one
    /// instant; whoever writes meanwhile is not seen.
    async fn audit(&self, job: Option<&JobId>) -> Result<AuditReport, StoreError>;

    // Housekeeping.

    /// Deletes what is older than the retention says; never a row a chat showed, a receipt, a key
    /// of a shown message or a range. Returns how many rows went.
    async fn prune(&self, retention: &Retention, now: Timestamp) -> Result<u64, StoreError>;
}

/// How many lanes are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneLimits {
    /// Lanes in which only a run waits: current ones before those that are made up for, then by
    /// due instant and job.
    pub runs: usize,
    /// Lanes with a delivery to send, and as many with a waiting turn; oldest first.
    pub others: usize,
}

/// Which parts are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxScope {
    /// Those that need something: not settled, `unknown`, or `failed`.
    Open,
    /// The same, those behind this one, at most so many.
    OpenAfter(PartId, usize),
    /// All of them.
    All,
    /// All of them, newest first: those before this one, at most so many.
    AllBefore(PartId, usize),
    /// One part.
    One(PartId),
    /// One message.
    Message(MessageId),
}
