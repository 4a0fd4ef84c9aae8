//! A store with a worker, and the usual steps.

use chatcron::{
    ids::{PartId, RunId, SessionKey, TurnId},
    occurrence::Outcome,
    policy::{AttemptResult, Effect, Grant, JobState, LaneQueue, outbox::Transition},
    store::{
        AttemptEnd, AttemptFate, BegunWorker, ClaimRequest, Claimed, ClaimedPart, ClaimedRun,
        ClaimedTurn, Conflict, InboundMessage, JobCommit, JobSource, LaneLimits, NewMessage,
        NewWorker, OutboxRow, PartSettlement, Role, Store, StoredJob, StretchBegin, StretchChange,
        Target, TurnEnd, TurnResult, WorkerId, Written,
    },
    transcript::TriggerSource,
};

use crate::{
    Database,
    fixture::{at, attempt_end, end, job, job_id, route, start, texts},
};

/// Begins a worker with these zone data.
pub(crate) async fn begin(store: &impl Store, zone_data: &str, seconds: i64) -> BegunWorker {
    let worker = NewWorker {
        role: Role::Worker,
        zone_data: zone_data.to_owned(),
        zone_release: None,
    };
    store.begin_worker(worker, at(seconds)).await.unwrap()
}

/// A store with a worker, and the usual steps at one instant each.
pub(crate) struct Bench<S> {
    pub(crate) store: S,
    pub(crate) worker: WorkerId,
}

impl<S: Store> Bench<S> {
    pub(crate) async fn on<D: Database<Store = S>>(database: &D) -> Self {
        let store = database.open().await;
        let worker = begin(&store, "2026a", 0).await.id;
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
            stretch: StretchChange {
                ends_at: None,
                begins: Some(StretchBegin {
                    after: at(0),
                    zone: job(id, "report").schedule.zone,
                }),
            },
            paused_by_policy: None,
            begin: None,
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
            stretch: StretchChange::default(),
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
            .claim(self.worker.into(), vec![request], at(seconds))
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

    /// What a person says, and the turn about it under way: said and begun at these seconds.
    pub(crate) async fn begin_turn(
        &self,
        key: &SessionKey,
        said: InboundMessage,
        said_at: i64,
        begun_at: i64,
    ) -> ClaimedTurn {
        let turn = self.store.request_turn(said, at(said_at)).await.unwrap();
        self.claim_turn(key, turn, begun_at).await
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
            shown: Vec::new(),
        };
        let results = self
            .store
            .finish_turns(vec![end], at(seconds))
            .await
            .unwrap();
        results.into_iter().next().unwrap()
    }

    /// Asks for a reset, and makes it; returns the new generation.
    pub(crate) async fn reset(&self, key: &SessionKey, seconds: i64) -> i64 {
        let asked = self.store.request_reset(key, at(seconds)).await;
        asked.unwrap();
        let made = self.store.reset(key, at(seconds)).await.unwrap();
        // Nobody asks for it any more: another worker that heard of it too makes no second one.
        assert_eq!(self.store.reset(key, at(seconds)).await.unwrap(), None);
        made.unwrap()
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
