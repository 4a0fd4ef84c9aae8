//! Jobs, messages and the usual steps, so that each fact says only what it is about.

use chatcron::{
    directory::Chat,
    ids::{
        AgentName, ChannelName, ChatKind, ChatName, IdempotencyKey, JobId, PartId, RunId,
        SessionKey, TurnId,
    },
    job::{Deliver, Job, Mode, OnUnknown, Policies, ScheduleSpec, WebhookTarget, Weekdays, When},
    message::{ChatAddress, Destination, Origin, Receipt},
    occurrence::{Cause, OccurrenceRef, Outcome, Slot},
    policy::{AttemptResult, Effect, Grant, JobState, LaneQueue, outbox::Transition},
    store::{
        AttemptEnd, AttemptFate, ClaimRequest, Claimed, ClaimedPart, ClaimedRun, ClaimedTurn,
        Conflict, EntryDraft, InboundMessage, JobCommit, JobSource, LaneLimits, NewMessage,
        NewPart, OutboxRow, PartSettlement, PostedBy, Route, Store, StoredJob, Target, TurnEnd,
        TurnResult, WorkerId, Written,
    },
    transcript::{Entry, NewEntry, Role, TriggerSource, Visibility},
};
use jiff::{SignedDuration, Timestamp, civil::date};

use crate::Database;

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

pub(crate) fn job_id(id: &str) -> JobId {
    JobId::new(id).unwrap()
}

pub(crate) fn agent(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

pub(crate) fn job(id: &str, prompt: &str) -> Job {
    Job {
        id: job_id(id),
        name: None,
        enabled: true,
        schedule: ScheduleSpec {
            when: When::Daily {
                times: vec![jiff::civil::time(8, 0, 0, 0)],
                days: Weekdays::ALL,
            },
            zone: "Europe/Paris".to_owned(),
            from: None,
            until: None,
            exclude: vec![date(2026, 12, 25)],
            jitter: SignedDuration::ZERO,
        },
        prompt: prompt.to_owned(),
        mode: Mode::Background {
            deliver: Deliver::Chat(ChatName::new("me").unwrap()),
            agent: agent("claude"),
            memory: true,
            context: None,
        },
        policies: Policies::default(),
    }
}

pub(crate) fn chat(address: &str) -> Chat {
    Chat {
        name: ChatName::new(format!("chat{address}")).unwrap(),
        channel: ChannelName::new("telegram").unwrap(),
        account: None,
        kind: ChatKind::Direct,
        address: address.to_owned(),
        thread: None,
        agent: agent("claude"),
    }
}

pub(crate) fn destination(address: &str) -> Destination {
    Destination::Chat(ChatAddress::from(&chat(address)))
}

pub(crate) fn session(address: &str) -> SessionKey {
    chat(address).session_key()
}

pub(crate) fn webhook() -> Destination {
    Destination::Webhook(WebhookTarget {
        url: "https://example.org/hook".to_owned(),
        secret_env: None,
        allow_private: false,
    })
}

pub(crate) fn slot(name: &str) -> Slot {
    Slot::from_text(name)
}

pub(crate) fn scheduled(name: &str) -> OccurrenceRef {
    OccurrenceRef::Scheduled(slot(name))
}

pub(crate) fn start(name: &str, seconds: i64) -> Effect {
    Effect::Start {
        occurrence: scheduled(name),
        nominal: at(seconds),
        fire_at: at(seconds),
        cause: Cause::Scheduled,
        merged: Vec::new(),
    }
}

pub(crate) fn end(name: &str, outcome: Outcome) -> Effect {
    Effect::End {
        occurrence: scheduled(name),
        outcome,
    }
}

/// A message of these parts, from `producer`.
pub(crate) fn message(
    producer: &str,
    origin: Origin,
    to: Destination,
    texts: &[&str],
) -> NewMessage {
    let to_key = to.session_key();
    let part = |(index, text): (usize, &&str)| NewPart {
        key: IdempotencyKey::derive(
            producer,
            origin.as_str(),
            0,
            to_key.as_str(),
            u32::try_from(index).unwrap() + 1,
        ),
        text: Some((*text).to_owned()),
        native: None,
    };
    NewMessage {
        producer: producer.to_owned(),
        origin,
        ordinal: 0,
        destination: to,
        agent: agent("claude"),
        speaker: "Budget".to_owned(),
        trigger_source: Some(TriggerSource::Cron),
        posted_by: Some(PostedBy {
            job_id: job_id("budget"),
            name: "Budget".to_owned(),
            zone: "Europe/Paris".to_owned(),
        }),
        run: None,
        turn_id: None,
        on_unknown: OnUnknown::Hold,
        parts: texts.iter().enumerate().map(part).collect(),
    }
}

pub(crate) fn receipt(message_id: &str) -> Transition {
    Transition::Confirm(Receipt {
        message_id: message_id.to_owned(),
        shown_at: None,
    })
}

pub(crate) fn inbound(address: &str, text: &str, message_id: Option<&str>) -> InboundMessage {
    InboundMessage {
        session_key: session(address),
        text: text.to_owned(),
        source: "channel",
        raw_entry: Some("{\"message\":\"framed\"}".to_owned()),
        raw_line: Some(vec![0, 159, 146, 150]),
        sender_display: Some("Ada".to_owned()),
        sender_id_raw: Some("7".to_owned()),
        channel_message_id: message_id.map(str::to_owned),
    }
}

pub(crate) fn draft(
    key: &SessionKey,
    role: Role,
    text: &str,
    visibility: Visibility,
) -> EntryDraft {
    EntryDraft {
        session_key: key.clone(),
        entry: NewEntry::text(role, text),
        visibility,
        trigger_source: TriggerSource::User,
    }
}

pub(crate) fn attempt_end(run: &ClaimedRun, result: AttemptFate) -> AttemptEnd {
    AttemptEnd {
        run_id: run.run_id,
        epoch: run.epoch,
        attempt: run.attempt,
        result,
        error: None,
        output: Some("said".to_owned()),
        usage: None,
        entries: Vec::new(),
        message: None,
        diagnostics: Vec::new(),
    }
}

pub(crate) fn texts(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.content.text()).collect()
}

/// A store with a worker, and the usual steps at one instant each.
pub(crate) struct Bench<S> {
    pub(crate) store: S,
    pub(crate) worker: WorkerId,
}

impl<S: Store> Bench<S> {
    pub(crate) async fn on<D: Database<Store = S>>(database: &D) -> Self {
        let store = database.open().await;
        let (worker, _) = store.begin_worker("2026a", at(0)).await.unwrap();
        Self { store, worker }
    }

    /// A bench with the job `budget`.
    pub(crate) async fn with_job<D: Database<Store = S>>(database: &D) -> Self {
        let bench = Self::on(database).await;
        bench.create("budget").await;
        bench
    }

    /// What waits in free lanes, with room for so many of each kind.
    pub(crate) async fn queues(&self, seconds: i64, most: usize) -> Vec<LaneQueue> {
        let limits = LaneLimits {
            runs: most,
            others: most,
        };
        self.store.lane_queues(at(seconds), limits).await.unwrap()
    }

    pub(crate) fn creation(id: &str) -> JobCommit {
        JobCommit {
            job_id: job_id(id),
            target: Target::Create {
                job: Box::new(job(id, "report")),
                source: JobSource::File("jobs.toml".to_owned()),
                first_seen_at: at(0),
            },
            state: JobState::activated(at(0)),
            wake_at: Some(at(60)),
            effects: Vec::new(),
            route: route(id),
            attempt_end: None,
        }
    }

    pub(crate) async fn create(&self, id: &str) {
        self.commit(Self::creation(id), 0).await.unwrap();
    }

    pub(crate) async fn stored(&self, id: &str) -> StoredJob {
        self.store.jobs(&[job_id(id)]).await.unwrap().remove(0)
    }

    pub(crate) async fn decision(&self, id: &str, effects: Vec<Effect>) -> JobCommit {
        JobCommit {
            target: Target::Keep {
                version: self.stored(id).await.version,
            },
            effects,
            ..Self::creation(id)
        }
    }

    pub(crate) async fn commit(
        &self,
        commit: JobCommit,
        seconds: i64,
    ) -> Result<Written, Conflict> {
        let results = self.store.commit(vec![commit], at(seconds)).await.unwrap();
        results.into_iter().next().unwrap()
    }

    pub(crate) async fn decide(
        &self,
        id: &str,
        effects: Vec<Effect>,
        seconds: i64,
    ) -> Result<Written, Conflict> {
        self.commit(self.decision(id, effects).await, seconds).await
    }

    /// Starts a run of `budget` in its own session.
    pub(crate) async fn started(&self, name: &str, seconds: i64) -> RunId {
        let written = self
            .decide("budget", vec![start(name, seconds)], seconds)
            .await;
        written.unwrap().started[0].1
    }

    pub(crate) async fn claim(
        &self,
        key: &SessionKey,
        grant: Grant,
        seconds: i64,
    ) -> Result<Claimed, Conflict> {
        let request = ClaimRequest {
            session_key: key.clone(),
            grant,
        };
        let results = self
            .store
            .claim(self.worker, vec![request], at(seconds))
            .await
            .unwrap();
        results.into_iter().next().unwrap()
    }

    pub(crate) async fn claim_run(&self, run: RunId, seconds: i64) -> ClaimedRun {
        let lane = route("budget").lane;
        match self.claim(&lane, Grant::Run(run), seconds).await {
            Ok(Claimed::Run(run)) => *run,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn claim_turn(
        &self,
        key: &SessionKey,
        turn: TurnId,
        seconds: i64,
    ) -> ClaimedTurn {
        match self.claim(key, Grant::Turn(turn), seconds).await {
            Ok(Claimed::Turn(turn)) => *turn,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn claim_part(
        &self,
        part: PartId,
        key: &SessionKey,
        seconds: i64,
    ) -> ClaimedPart {
        match self.claim(key, Grant::Deliver(part), seconds).await {
            Ok(Claimed::Part(part)) => *part,
            other => panic!("{other:?}"),
        }
    }

    /// Ends a run well, with what it has to show.
    pub(crate) async fn finish(
        &self,
        run: &ClaimedRun,
        name: &str,
        message: Option<NewMessage>,
        seconds: i64,
    ) -> Result<Written, Conflict> {
        let mut commit = self
            .decision("budget", vec![end(name, Outcome::Done)])
            .await;
        commit.attempt_end = Some(AttemptEnd {
            message: message.map(|message| NewMessage {
                run: Some((run.run_id, run.attempt)),
                ..message
            }),
            ..attempt_end(run, AttemptFate::Ended(AttemptResult::Done))
        });
        self.commit(commit, seconds).await
    }

    /// Runs `budget` once, so that this message is in the outbox; returns its parts.
    pub(crate) async fn enqueued(
        &self,
        name: &str,
        message: NewMessage,
        seconds: i64,
    ) -> Vec<OutboxRow> {
        let run = self.started(name, seconds).await;
        let run = self.claim_run(run, seconds).await;
        self.finish(&run, name, Some(message), seconds)
            .await
            .unwrap();
        self.store.run_parts(run.run_id).await.unwrap()
    }

    pub(crate) async fn settle(
        &self,
        part: &ClaimedPart,
        transition: Transition,
        seconds: i64,
    ) -> Result<(), Conflict> {
        let settlement = PartSettlement {
            part_id: part.part_id,
            epoch: Some(part.epoch),
            transition,
            why: Some("said so".to_owned()),
            posting_note: Some("<posted-by/>".to_owned()),
        };
        let results = self
            .store
            .settle_parts(vec![settlement], at(seconds))
            .await
            .unwrap();
        results.into_iter().next().unwrap()
    }

    /// Claims and settles a part.
    pub(crate) async fn send(&self, part: &OutboxRow, transition: Transition, seconds: i64) {
        let part = self
            .claim_part(part.part_id, &part.session_key, seconds)
            .await;
        self.settle(&part, transition, seconds).await.unwrap();
    }

    pub(crate) async fn finish_turn(
        &self,
        turn: &ClaimedTurn,
        result: TurnResult,
        reply: Option<NewMessage>,
        seconds: i64,
    ) -> Result<(), Conflict> {
        let end = TurnEnd {
            turn_id: turn.turn_id,
            epoch: turn.epoch,
            result,
            usage: None,
            entries: Vec::new(),
            message: reply.map(|message| NewMessage {
                turn_id: Some(turn.turn_id),
                posted_by: None,
                trigger_source: Some(TriggerSource::User),
                ..message
            }),
            diagnostics: Vec::new(),
        };
        let results = self
            .store
            .finish_turns(vec![end], at(seconds))
            .await
            .unwrap();
        results.into_iter().next().unwrap()
    }

    pub(crate) async fn part(&self, id: PartId) -> OutboxRow {
        let scope = chatcron::store::OutboxScope::One(id);
        self.store.outbox(scope).await.unwrap().remove(0)
    }

    pub(crate) async fn codes(&self, run: RunId) -> Vec<String> {
        let found = self.store.diagnostics(run).await.unwrap();
        found.into_iter().map(|row| row.code).collect()
    }

    pub(crate) async fn recalled(&self, key: &SessionKey) -> Vec<String> {
        texts(&self.store.recall(key, 100).await.unwrap())
    }
}

pub(crate) fn route(id: &str) -> Route {
    Route {
        lane: SessionKey::job(&job_id(id)),
        destination: Some(destination("1")),
    }
}
