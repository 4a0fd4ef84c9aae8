//! Numbered failpoints at the traits behind which every effect of the worker lies.
//!
//! A point stands before each effect: a write to the store, a call of an agent, a message that a
//! channel shows. A process that dies at a point has had the effects before it and nothing else;
//! no write is under way there, so the files are what a killed process leaves.
//! A death inside a transaction leaves what a death before it leaves, because SQLite undoes it;
//! `tests/chaos.rs` kills real processes there. The product has no code for this.
//!
//! Everything a process does goes through one gate, in the order in which it was asked for, and
//! whoever leaves it lets all others come to rest first. So the same case has the same effects in
//! the same order, always.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use chatcron::{
    agent::{Agent, AgentError, AgentReply, AgentTurn},
    audit::AuditReport,
    channel::{Ability, Channel, OutgoingBody, OutgoingPart, TextLimit, TextUnit},
    directory::{Chat, Retention},
    ids::{JobId, PartId, RequestId, RunId, SessionKey, TurnId},
    message::{PartState, Receipt, RefusalScope, SendAnswer, StopsAddress},
    policy::LaneQueue,
    store::{
        AttemptRow, BegunWorker, ClaimRequest, Claimant, Claimed, Conflict, DiagnosticRow,
        DueClaimant, FileToApply, FileVersion, InboundBatch, InboundMessage, IncidentCommit,
        IncidentRow, IncidentSignal, Interrupted, JobCommit, JobDigest, LaneLimits, NewWorker,
        OutboxRow, OutboxScope, OwnSend, PartSettlement, RangeRow, ReadFrom, Renewal, Resolution,
        Results, RunFilter, RunRow, Sent, SentBy, Stamped, Store, StoreError, StoredJob, ToolSend,
        TurnCount, TurnEnd, TurnRow, UnderWay, WindowOf, WorkerId, WorkerRow, Written,
        sqlite::SqliteStore,
    },
    transcript::Entry,
};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Mutex as Gate, MutexGuard};
use tokio_util::sync::CancellationToken;

use crate::checker::{Call, Line};

/// How often others are polled before the gate opens; more than a wake-up passes through.
const POLLS: usize = 6;

/// What happens at a point, before its effect.
pub(crate) type AtPoint = Box<dyn Fn(&'static str) + Send + Sync>;

/// The life of one process.
pub(crate) struct Life {
    gate: Gate<()>,
    at_point: AtPoint,
}

impl Life {
    pub(crate) fn new(at_point: AtPoint) -> Arc<Self> {
        Arc::new(Self {
            gate: Gate::default(),
            at_point,
        })
    }

    /// One thing at a time.
    async fn enter(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().await
    }

    /// Lets everybody who does not wait for the gate go on until he does.
    async fn leave(&self) {
        for _ in 0..POLLS {
            tokio::task::yield_now().await;
        }
    }

    fn point(&self, name: &'static str) {
        (self.at_point)(name);
    }
}

/// The real store, with a point before every write.
pub(crate) struct PointedStore {
    pub(crate) life: Arc<Life>,
    pub(crate) store: Arc<SqliteStore>,
}

macro_rules! pointed {
    (
        reads { $(fn $read:ident(&self $(, $read_arg:ident: $read_type:ty)*) -> $found:ty;)* }
        writes { $(fn $write:ident(&self $(, $write_arg:ident: $write_type:ty)*) -> $done:ty;)* }
        batches { $(fn $batch:ident(&self $(, $given_arg:ident: $given_type:ty)*; $item:ty) -> $result:ty;)* }
    ) => {
        #[async_trait]
        impl Store for PointedStore {
            async fn await_change(&self, at_most: std::time::Duration) {
                self.store.await_change(at_most).await;
            }

            $(async fn $read(&self $(, $read_arg: $read_type)*) -> $found {
                let _entered = self.life.enter().await;
                let found = self.store.$read($($read_arg),*).await;
                self.life.leave().await;
                found
            })*
            $(async fn $write(&self $(, $write_arg: $write_type)*) -> $done {
                let _entered = self.life.enter().await;
                self.life.point(stringify!($write));
                let done = self.store.$write($($write_arg),*).await;
                self.life.leave().await;
                done
            })*
            $(async fn $batch(&self $(, $given_arg: $given_type)*, batch: Vec<$item>, now: Timestamp) -> Results<$result> {
                // Nothing is written for nothing.
                if batch.is_empty() {
                    return Ok(Vec::new());
                }
                let _entered = self.life.enter().await;
                self.life.point(stringify!($batch));
                let done = self.store.$batch($($given_arg,)* batch, now).await;
                self.life.leave().await;
                done
            })*
        }
    };
}

pointed! {
    reads {
        fn identity(&self) -> Result<String, StoreError>;
        fn moved_chats(&self) -> Result<Vec<(SessionKey, String)>, StoreError>;
        fn clock_seen(&self) -> Result<Option<Timestamp>, StoreError>;
        fn change_token(&self) -> Result<i64, StoreError>;
        fn claim_due_jobs(&self, by: DueClaimant, after: Timestamp, now: Timestamp, limit: usize) -> Result<Vec<StoredJob>, StoreError>;
        fn next_wake_of(&self, by: DueClaimant) -> Result<Option<Timestamp>, StoreError>;
        fn under_way(&self, session: &SessionKey) -> Result<UnderWay, StoreError>;
        fn renew_lease(&self, worker: WorkerId) -> Result<Option<Renewal>, StoreError>;
        fn living_workers(&self) -> Result<Vec<WorkerRow>, StoreError>;
        fn running_runs(&self) -> Result<usize, StoreError>;
        fn due_jobs(&self, after: Timestamp, now: Timestamp, limit: usize) -> Result<Vec<StoredJob>, StoreError>;
        fn next_wake(&self) -> Result<Option<Timestamp>, StoreError>;
        fn jobs(&self, ids: &[JobId]) -> Result<Vec<StoredJob>, StoreError>;
        fn jobs_after(&self, after: Option<&JobId>, limit: usize) -> Result<Vec<StoredJob>, StoreError>;
        fn all_jobs(&self) -> Result<Vec<StoredJob>, StoreError>;
        fn job_digests(&self) -> Result<Vec<JobDigest>, StoreError>;
        fn chats(&self) -> Result<Vec<Chat>, StoreError>;
        fn lane_queues(&self, now: Timestamp, limits: LaneLimits) -> Result<Vec<LaneQueue>, StoreError>;
        fn has_waiting_run(&self, now: Timestamp) -> Result<bool, StoreError>;
        fn next_lane_instant(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError>;
        fn incident_signals(&self, limit: usize) -> Result<Vec<IncidentSignal>, StoreError>;
        fn incidents(&self, jobs: &[JobId]) -> Result<Vec<IncidentRow>, StoreError>;
        fn open_incidents(&self) -> Result<Vec<IncidentRow>, StoreError>;
        fn turn(&self, id: TurnId) -> Result<Option<TurnRow>, StoreError>;
        fn recall(&self, session: &SessionKey, limit: usize) -> Result<Vec<Entry>, StoreError>;
        fn visible_texts(&self, session: &SessionKey, limit: usize) -> Result<Vec<Entry>, StoreError>;
        fn job_memory(&self, job: &JobId, limit: usize) -> Result<Vec<Entry>, StoreError>;
        fn transcript(&self, session: &SessionKey, window: WindowOf) -> Result<Vec<Entry>, StoreError>;
        fn transcript_before(
            &self,
            session: &SessionKey,
            window: WindowOf,
            before: Option<(i64, i64)>,
            limit: usize
        ) -> Result<Vec<Entry>, StoreError>;
        fn turn_counts(&self) -> Result<Vec<TurnCount>, StoreError>;
        fn turn_entries(&self, turn: TurnId) -> Result<Vec<Entry>, StoreError>;
        fn pending_resets(&self) -> Result<Vec<SessionKey>, StoreError>;
        fn outbox(&self, scope: OutboxScope) -> Result<Vec<OutboxRow>, StoreError>;
        fn open_parts(&self) -> Result<Vec<(PartState, u64)>, StoreError>;
        fn runs(&self, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError>;
        fn attempts(&self, run: RunId) -> Result<Vec<AttemptRow>, StoreError>;
        fn ranges(&self, filter: &RunFilter) -> Result<Vec<RangeRow>, StoreError>;
        fn diagnostics(&self, run: RunId) -> Result<Vec<DiagnosticRow>, StoreError>;
        fn run_parts(&self, run: RunId) -> Result<Vec<OutboxRow>, StoreError>;
        fn turn_parts(&self, turn: TurnId) -> Result<Vec<OutboxRow>, StoreError>;
        fn shown_parts(&self, session: &SessionKey) -> Result<Vec<OutboxRow>, StoreError>;
        fn audit(&self, job: Option<&JobId>) -> Result<AuditReport, StoreError>;
        fn runs_with_effects(&self, runs: &[RunId]) -> Result<HashSet<RunId>, StoreError>;
    }
    writes {
        fn begin_worker(&self, worker: NewWorker, now: Timestamp) -> Result<BegunWorker, StoreError>;
        fn take_over(&self, worker: WorkerId, now: Timestamp) -> Result<Interrupted, StoreError>;
        fn reclaim(&self, worker: WorkerId, at_work: &HashSet<String>, now: Timestamp) -> Result<Interrupted, StoreError>;
        fn end_worker(&self, worker: WorkerId, now: Timestamp) -> Result<(), StoreError>;
        fn report_effects(&self, by: SentBy, now: Timestamp) -> Result<Result<(), Conflict>, StoreError>;
        fn send(&self, send: ToolSend, now: Timestamp) -> Result<Result<Sent, Conflict>, StoreError>;
        fn see_clock(&self, now: Timestamp) -> Result<(), StoreError>;
        fn look_again(&self, now: Timestamp) -> Result<(), StoreError>;
        fn new_request(&self) -> Result<RequestId, StoreError>;
        fn stamp_file(&self, file: FileToApply, now: Timestamp) -> Result<Stamped, StoreError>;
        fn commit_of_file(&self, version: FileVersion, batch: Vec<JobCommit>, now: Timestamp) -> Result<Result<Vec<Result<Written, Conflict>>, Conflict>, StoreError>;
        fn set_chats(&self, chats: Vec<Chat>, now: Timestamp) -> Result<(), StoreError>;
        fn commit_incidents(&self, decided: IncidentCommit, now: Timestamp) -> Result<Result<(), Conflict>, StoreError>;
        fn request_turn(&self, inbound: InboundMessage, now: Timestamp) -> Result<TurnId, StoreError>;
        fn read_source(&self, source: &str, worker: WorkerId) -> Result<Result<ReadFrom, Conflict>, StoreError>;
        fn receive(&self, batch: InboundBatch, now: Timestamp) -> Result<Result<Vec<TurnId>, Conflict>, StoreError>;
        fn request_lent_turn(&self, inbound: InboundMessage, runner: &str, now: Timestamp) -> Result<TurnId, StoreError>;
        fn send_own(&self, send: OwnSend, now: Timestamp) -> Result<Result<Sent, Conflict>, StoreError>;
        fn keep_context(&self, run: RunId, snapshot: &str) -> Result<String, StoreError>;
        fn request_reset(&self, session: &SessionKey, now: Timestamp) -> Result<(), StoreError>;
        fn reset(&self, session: &SessionKey, now: Timestamp) -> Result<Option<i64>, StoreError>;
        fn resolve_part(&self, part: PartId, resolution: Resolution, now: Timestamp) -> Result<(), StoreError>;
        fn retry_part(&self, part: PartId, now: Timestamp) -> Result<(), StoreError>;
        fn cancel_part(&self, part: PartId, now: Timestamp) -> Result<(), StoreError>;
        fn prune(&self, retention: &Retention, now: Timestamp) -> Result<u64, StoreError>;
    }
    batches {
        fn commit(&self; JobCommit) -> Written;
        fn claim(&self, by: Claimant; ClaimRequest) -> Claimed;
        fn finish_turns(&self; TurnEnd) -> ();
        fn settle_parts(&self; PartSettlement) -> ();
    }
}

/// What the world outside the processes has seen and done; it outlives them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outside {
    pub(crate) calls: Vec<Call>,
    pub(crate) lines: Vec<Line>,
    /// How often each part was brought to its channel.
    tries: BTreeMap<String, u32>,
}

impl Outside {
    /// Notes a call; says the how manieth of its key it is.
    fn asked(&mut self, turn: &AgentTurn, now: Timestamp) -> usize {
        let key = turn.key.as_str().to_owned();
        self.calls.push(Call {
            job: turn.job.as_ref().map(ToString::to_string),
            key: Some(key.clone()),
            at: Some(now.as_microsecond()),
        });
        let own = self
            .calls
            .iter()
            .filter(|call| call.key.as_ref() == Some(&key));
        own.count()
    }
}

/// What an agent answers to the n-th call of one key, from 1.
pub(crate) type Script = fn(&AgentTurn, usize) -> Result<AgentReply, AgentError>;

/// An agent that answers by a script, with a point before each call.
pub(crate) struct PointedAgent {
    pub(crate) life: Arc<Life>,
    pub(crate) outside: Arc<Mutex<Outside>>,
    pub(crate) script: Script,
    pub(crate) clock: Arc<dyn chatcron::clock::Clock>,
}

#[async_trait]
impl Agent for PointedAgent {
    async fn reply(
        &self,
        turn: &AgentTurn,
        _: &CancellationToken,
    ) -> Result<AgentReply, AgentError> {
        let _entered = self.life.enter().await;
        self.life.point("agent");
        let number = self.outside.lock().unwrap().asked(turn, self.clock.now());
        let answer = (self.script)(turn, number);
        self.life.leave().await;
        answer
    }
}

/// A channel that does what the text of a part says, at the first try of it:
///
/// - `[shown, lost]`: shown, and the answer is lost
/// - `[lost]`: not shown, and nobody can tell
/// - `[wait N]`: refused for so many seconds
/// - `[never]`: refused for good
pub(crate) struct PointedChannel {
    pub(crate) life: Arc<Life>,
    pub(crate) outside: Arc<Mutex<Outside>>,
    pub(crate) ability: Ability,
    pub(crate) limit: usize,
}

impl PointedChannel {
    fn show(&self, part: &OutgoingPart, text: &str) -> SendAnswer {
        let lines = &mut self.outside.lock().unwrap().lines;
        let key = part.key.as_str();
        let known = match self.ability {
            Ability::Keyed { .. } => lines.iter().find(|line| line.key.as_deref() == Some(key)),
            Ability::Blind => None,
        };
        let message_id = known.map_or_else(
            || (lines.len() + 1).to_string(),
            |line| line.message_id.clone(),
        );
        if known.is_none() {
            lines.push(Line {
                chat: part.destination.session_key().as_str().to_owned(),
                message_id: message_id.clone(),
                key: Some(key.to_owned()),
                text: text.to_owned(),
            });
        }
        SendAnswer::Receipt(Receipt {
            message_id,
            shown_at: None,
        })
    }

    fn answer(&self, part: &OutgoingPart, text: &str, number: u32) -> SendAnswer {
        let why = || "as the text says".to_owned();
        let wait = text
            .split_once("[wait ")
            .and_then(|(_, rest)| rest.split_once(']'));
        match (number, wait) {
            (1, Some((seconds, _))) => SendAnswer::Refused {
                retry_after: Some(SignedDuration::from_secs(seconds.parse().unwrap())),
                scope: RefusalScope::Chat,
                why: why(),
            },
            (1, None) if text.contains("[shown, lost]") => {
                self.show(part, text);
                SendAnswer::Ambiguous { why: why() }
            }
            (1, None) if text.contains("[lost]") => SendAnswer::Ambiguous { why: why() },
            (_, None) if text.contains("[never]") => SendAnswer::Permanent {
                why: why(),
                stops_address: StopsAddress::No,
            },
            (_, _) => self.show(part, text),
        }
    }
}

#[async_trait]
impl Channel for PointedChannel {
    fn ability(&self) -> Ability {
        self.ability
    }

    fn limit(&self) -> TextLimit {
        TextLimit {
            max: Some(self.limit),
            unit: TextUnit::Chars,
        }
    }

    async fn send(&self, part: &OutgoingPart, _: Timestamp) -> SendAnswer {
        let _entered = self.life.enter().await;
        self.life.point("send");
        let number = {
            let tries = &mut self.outside.lock().unwrap().tries;
            let tried = tries.entry(part.key.as_str().to_owned()).or_default();
            *tried += 1;
            *tried
        };
        let text = match &part.body {
            OutgoingBody::Text(text) => text.clone(),
            OutgoingBody::Native(body) => body.to_string(),
        };
        let answer = self.answer(part, &text, number);
        self.life.leave().await;
        answer
    }
}
