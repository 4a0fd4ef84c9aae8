//! The real worker over real SQLite in virtual time: the clock stands until everything that can
//! happen at its instant has happened, and then goes to the next instant at which something will.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use chatcron::{
    agent::{Agent, AgentError, AgentReply, AgentTurn},
    channel::{Ability, Channel, OutgoingPart, TextLimit, TextUnit},
    clock::Clock,
    config::{self, JobsFile},
    ids::{AgentName, ChannelName, IdempotencyKey, JobId},
    message::{Receipt, RefusalScope, SendAnswer},
    outbound::Channels,
    store::{
        Store,
        sqlite::{OpenMode, SqliteStore},
    },
    worker::{Journal, Scope, Services, Worker},
};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What the world does, as a scenario of the simulator says it.
pub(crate) struct JobsWorld {
    /// How long an attempt takes.
    pub(crate) times: BTreeMap<JobId, SignedDuration>,
    /// Jobs of which every attempt fails, at its end.
    pub(crate) failing: Vec<JobId>,
    pub(crate) outages: Vec<(Timestamp, Timestamp)>,
    pub(crate) clock_steps: Vec<(Timestamp, SignedDuration)>,
    /// Sends that the chats refuse: whose, and when by the machine's clock.
    pub(crate) refused: BTreeSet<(String, Timestamp)>,
}

/// A clock that nobody has touched, and what the machine shows more than that.
struct SteppingClock {
    real: watch::Sender<Timestamp>,
    offset: Mutex<SignedDuration>,
}

impl SteppingClock {
    fn real(&self) -> Timestamp {
        *self.real.borrow()
    }

    async fn until(&self, at: Timestamp) {
        let mut real = self.real.subscribe();
        real.wait_for(|real| *real >= at).await.unwrap();
    }
}

#[async_trait]
impl Clock for SteppingClock {
    fn now(&self) -> Timestamp {
        self.real() + *self.offset.lock().unwrap()
    }

    fn elapsed(&self) -> Duration {
        let since = self.real().duration_since(Timestamp::UNIX_EPOCH);
        Duration::try_from(since).unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.real() + SignedDuration::try_from(duration).unwrap();
        self.until(until).await;
    }
}

/// Takes its time, by the clock that nobody has touched.
struct SteppingAgent {
    clock: Arc<SteppingClock>,
    times: BTreeMap<JobId, SignedDuration>,
    failing: Vec<JobId>,
    ends: Arc<Mutex<BTreeSet<Timestamp>>>,
}

#[async_trait]
impl Agent for SteppingAgent {
    async fn reply(
        &self,
        turn: &AgentTurn,
        cancel: &CancellationToken,
    ) -> Result<AgentReply, AgentError> {
        let job = turn.job.clone().unwrap();
        let until = self.clock.real() + self.times[&job];
        self.ends.lock().unwrap().insert(until);
        tokio::select! {
            () = self.clock.until(until) => {}
            () = cancel.cancelled() => {
                let why = "called off".to_owned();
                return Err(AgentError::Transient { why });
            }
        }
        if self.failing.contains(&job) {
            let why = "as told".to_owned();
            return Err(AgentError::Transient { why });
        }
        Ok(AgentReply {
            text: job.to_string(),
            ..AgentReply::default()
        })
    }
}

/// One try to send a part.
#[derive(Debug, Clone)]
pub(crate) struct Try {
    pub(crate) at: Timestamp,
    pub(crate) key: IdempotencyKey,
    pub(crate) refused: bool,
}

/// Shows everything at once that it is not told to refuse.
struct Chats {
    refused: BTreeSet<(String, Timestamp)>,
    tries: Mutex<Vec<Try>>,
}

#[async_trait]
impl Channel for Chats {
    fn ability(&self) -> Ability {
        Ability::Blind
    }

    fn limit(&self) -> TextLimit {
        TextLimit {
            max: None,
            unit: TextUnit::Chars,
        }
    }

    async fn send(&self, part: &OutgoingPart, now: Timestamp) -> SendAnswer {
        let refused = self.refused.contains(&(part.speaker.clone(), now));
        let mut tries = self.tries.lock().unwrap();
        tries.push(Try {
            at: now,
            key: part.key.clone(),
            refused,
        });
        if refused {
            return SendAnswer::Refused {
                retry_after: None,
                scope: RefusalScope::Chat,
                why: "as told".to_owned(),
            };
        }
        SendAnswer::Receipt(Receipt {
            message_id: tries.len().to_string(),
            shown_at: Some(now),
        })
    }
}

/// A worker and its world.
pub(crate) struct Stepping {
    pub(crate) store: Arc<SqliteStore>,
    clock: Arc<SteppingClock>,
    file: JobsFile,
    world: JobsWorld,
    ends: Arc<Mutex<BTreeSet<Timestamp>>>,
    channel: Arc<Chats>,
    worker: Option<Worker>,
    folder: tempfile::TempDir,
}

pub(crate) fn read(jobs: &str, now: Timestamp) -> JobsFile {
    let no_files = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let loaded = config::parse(jobs, &no_files, now);
    assert!(!loaded.has_errors(), "{:#?}", loaded.problems);
    loaded.file.unwrap()
}

impl Stepping {
    pub(crate) async fn new(jobs: &str, from: Timestamp, world: JobsWorld) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chatcron.db");
        let store = SqliteStore::open(&path, OpenMode::CreateIfMissing)
            .await
            .unwrap();
        let mut stepping = Self {
            store: Arc::new(store),
            clock: Arc::new(SteppingClock {
                real: watch::channel(from).0,
                offset: Mutex::default(),
            }),
            file: read(jobs, from),
            ends: Arc::default(),
            channel: Arc::new(Chats {
                refused: world.refused.clone(),
                tries: Mutex::default(),
            }),
            world,
            worker: None,
            folder,
        };
        stepping.start().await;
        stepping
    }

    /// Where every decision is written.
    pub(crate) fn journal(&self) -> PathBuf {
        self.folder.path().join("journal.jsonl")
    }

    /// Every try to send something, in order.
    pub(crate) fn tries(&self) -> Vec<Try> {
        self.channel.tries.lock().unwrap().clone()
    }

    async fn start(&mut self) {
        let agent = SteppingAgent {
            clock: self.clock.clone(),
            times: self.world.times.clone(),
            failing: self.world.failing.clone(),
            ends: self.ends.clone(),
        };
        let agent: Arc<dyn Agent> = Arc::new(agent);
        let channel: Arc<dyn Channel> = self.channel.clone();
        let main: AgentName = "main".parse().unwrap();
        let phone: ChannelName = "phone".parse().unwrap();
        let services = Services {
            directory: self.file.directory.clone(),
            agents: BTreeMap::from([(main, agent)]),
            channels: Arc::new(Channels {
                named: BTreeMap::from([(phone, channel)]),
                webhook: None,
            }),
            max_concurrent: usize::try_from(self.file.max_concurrent).unwrap(),
            turn_timeout: Services::TURN_TIMEOUT,
            retention: None,
            zone_data: "test".to_owned(),
        };
        let store: Arc<dyn Store> = self.store.clone();
        let journal = Some(Arc::new(Journal::open(&self.journal()).unwrap()));
        let clock = self.clock.clone();
        let worker = Worker::begin(store, clock, services, Scope::All, journal)
            .await
            .unwrap();
        worker
            .apply_jobs("jobs.toml", &self.file.jobs, &[])
            .await
            .unwrap();
        self.worker = Some(worker);
    }

    /// Goes on to an instant, which is not part of it.
    pub(crate) async fn run_until(&mut self, to: Timestamp) {
        let mut next = Some(self.clock.real());
        while let Some(at) = next.filter(|at| *at < to) {
            let at = at.max(self.clock.real());
            self.pass_turning_points(at).await;
            next = self.everything_at_this_instant().await;
        }
    }

    /// What happens to the process and its clock, before anything is done at this instant.
    async fn pass_turning_points(&mut self, at: Timestamp) {
        let down = self.world.outages.iter().any(|(from, _)| *from == at);
        if down {
            // Killed: its tasks with it.
            self.worker = None;
            self.ends.lock().unwrap().clear();
        }
        for (step_at, by) in &self.world.clock_steps {
            if *step_at == at {
                *self.clock.offset.lock().unwrap() += *by;
            }
        }
        self.clock.real.send_replace(at);
        if self.world.outages.iter().any(|(_, to)| *to == at) {
            self.start().await;
        }
    }

    /// Steps until nothing changes any more, and returns the next instant at which something will,
    /// by the clock that nobody has touched.
    async fn everything_at_this_instant(&mut self) -> Option<Timestamp> {
        let now = self.clock.real();
        let mut next_wake = None;
        if let Some(worker) = &mut self.worker {
            let mut quiet = 0;
            let mut before = None;
            while quiet < 3 {
                next_wake = worker.step().await.unwrap();
                // Tasks that can end at this instant do.
                tokio::time::sleep(Duration::from_millis(1)).await;
                let journal = std::fs::metadata(self.folder.path().join("journal.jsonl"));
                let seen = (
                    journal.map(|found| found.len()).unwrap_or(0),
                    self.channel.tries.lock().unwrap().len(),
                    self.ends.lock().unwrap().len(),
                    next_wake,
                );
                quiet = if before == Some(seen) { quiet + 1 } else { 0 };
                before = Some(seen);
            }
        }
        let offset = *self.clock.offset.lock().unwrap();
        let ends = self.ends.lock().unwrap().clone();
        let outages = self
            .world
            .outages
            .iter()
            .flat_map(|(from, to)| [*from, *to]);
        let steps = self.world.clock_steps.iter().map(|(at, _)| *at);
        let wake = next_wake.map(|wake| wake - offset);
        let later = outages.chain(steps).chain(ends).chain(wake);
        later.filter(|at| *at > now).min()
    }
}
