//! A worker with its store on a real disk, an agent that answers at once and a channel that shows
//! at once and keeps what it showed.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use chatcron::{
    agent::{Agent, AgentError, AgentReply, AgentTurn},
    channel::{Ability, Channel, OutgoingBody, OutgoingPart, TextLimit, TextUnit},
    clock::{Clock, SystemClock},
    directory::{Chat, Directory},
    ids::{AgentName, ChannelName, ChatKind, ChatName, JobId, SessionKey},
    job::{Deliver, Job, Mode, Policies, ScheduleSpec, When},
    message::{Receipt, SendAnswer},
    outbound::{
        Channels,
        verify::{Evidence, ShownLine, verify},
    },
    store::{
        Store, WindowOf,
        sqlite::{OpenMode, SqliteStore},
    },
    worker::{HousekeepingError, Scope, Services, Stop, Ticks, Worker, WorkerHandle},
};
use jiff::{SignedDuration, Timestamp};
use sqlx::{Connection, SqliteConnection};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Where a job's result goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    /// To a chat of the job's own.
    Chat,
    /// Nowhere.
    History,
}

/// The present instant.
pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}

/// A job that comes due at `first` and every day after it.
pub(crate) fn job(index: usize, first: Timestamp, to: To) -> Job {
    let deliver = match to {
        To::Chat => Deliver::Chat(chat_name(index)),
        To::History => Deliver::History,
    };
    Job {
        id: JobId::new(format!("job-{index}")).expect("a name"),
        name: None,
        enabled: true,
        schedule: ScheduleSpec {
            when: When::Every {
                period: SignedDuration::from_hours(24),
                anchor: Some(first),
            },
            zone: "UTC".to_owned(),
            from: None,
            until: None,
            exclude: Vec::new(),
            jitter: SignedDuration::ZERO,
        },
        prompt: "Say what is new.".to_owned(),
        mode: Mode::Background {
            deliver,
            agent: agent_name(),
            memory: false,
            context: None,
        },
        policies: Policies::default(),
    }
}

fn agent_name() -> AgentName {
    AgentName::new("main").expect("a name")
}

fn channel_name() -> ChannelName {
    ChannelName::new("phone").expect("a name")
}

fn chat_name(index: usize) -> ChatName {
    ChatName::new(format!("chat-{index}")).expect("a name")
}

struct Instant;

#[async_trait]
impl Agent for Instant {
    async fn reply(
        &self,
        turn: &AgentTurn,
        _: &CancellationToken,
    ) -> Result<AgentReply, AgentError> {
        let job = turn.job.as_ref().map(ToString::to_string);
        Ok(AgentReply {
            text: format!("Nothing is new for {}.", job.unwrap_or_default()),
            ..AgentReply::default()
        })
    }
}

/// Shows everything at once, and remembers it.
#[derive(Default)]
pub(crate) struct Phone {
    shown: AtomicU64,
    log: Mutex<HashMap<SessionKey, Vec<ShownLine>>>,
}

#[async_trait]
impl Channel for Phone {
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
        let number = self.shown.fetch_add(1, Ordering::Relaxed);
        let OutgoingBody::Text(text) = &part.body else {
            panic!("only texts are sent here");
        };
        let line = ShownLine {
            message_id: number.to_string(),
            key: Some(part.key.as_str().to_owned()),
            text: text.clone(),
        };
        let session = part.destination.session_key();
        let mut log = self.log.lock().expect("nobody panics with it");
        log.entry(session).or_default().push(line);
        SendAnswer::Receipt(Receipt {
            message_id: number.to_string(),
            shown_at: Some(now),
        })
    }
}

/// A service on a disk of its own.
pub(crate) struct Service {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) phone: Arc<Phone>,
    folder: Option<tempfile::TempDir>,
    chats: usize,
    stop: Stop,
    worker: Option<JoinHandle<Result<(), HousekeepingError>>>,
}

impl Service {
    /// An empty database, and this many chats.
    pub(crate) async fn new(chats: usize) -> Self {
        // Beside the build, so that it is on a disk and not in memory.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        Self {
            chats,
            ..Self::at(&folder.path().join("bench.db"), Some(folder)).await
        }
    }

    /// The database at this path, which may be another's to remove.
    pub(crate) async fn at(path: &Path, folder: Option<tempfile::TempDir>) -> Self {
        let store = SqliteStore::open(path, OpenMode::CreateIfMissing).await;
        Self {
            store: Arc::new(store.expect("a database")),
            phone: Arc::default(),
            folder,
            chats: 0,
            stop: Stop::default(),
            worker: None,
        }
    }

    fn services(&self) -> Services {
        let chat = |index: usize| {
            let name = chat_name(index);
            let chat = Chat {
                name: name.clone(),
                channel: channel_name(),
                account: None,
                kind: ChatKind::Direct,
                address: format!("{}", 1_000_000 + index),
                thread: None,
                agent: agent_name(),
            };
            (name, chat)
        };
        let agent: Arc<dyn Agent> = Arc::new(Instant);
        let channel: Arc<dyn Channel> = self.phone.clone();
        Services {
            directory: Directory {
                chats: (0..self.chats).map(chat).collect(),
                ..Directory::default()
            },
            agents: BTreeMap::from([(agent_name(), agent)]),
            channels: Arc::new(Channels {
                named: BTreeMap::from([(channel_name(), channel)]),
                webhook: None,
            }),
            max_concurrent: 512,
            turn_timeout: Services::TURN_TIMEOUT,
            retention: None,
            zone_data: "bench".to_owned(),
        }
    }

    /// A worker that has not begun its loop.
    pub(crate) async fn begin(&self) -> Worker {
        let store: Arc<dyn Store> = self.store.clone();
        let clock = Arc::new(SystemClock);
        Worker::begin(store, clock, self.services(), Scope::All, None)
            .await
            .expect("a worker")
    }

    /// Applies these jobs and lets a worker run.
    pub(crate) async fn run(&mut self, jobs: &[Job]) {
        let worker = self.begin().await;
        let changed = worker.apply_jobs("bench.toml", jobs, &[]).await;
        assert!(changed.expect("the jobs").refused.is_empty());
        self.spawn(worker);
    }

    /// Lets a worker run.
    pub(crate) fn spawn(&mut self, worker: Worker) {
        let (_, requests) = WorkerHandle::new();
        let stop = self.stop.clone();
        let grace = Duration::from_secs(5);
        let task = worker.run(requests, stop, Ticks::Off, grace);
        self.worker = Some(tokio::spawn(task));
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.store.path().to_owned()
    }

    /// A connection that looks on.
    pub(crate) async fn look(&self) -> SqliteConnection {
        let path = self.path();
        SqliteConnection::connect(&format!("sqlite:{}", path.display()))
            .await
            .expect("a connection")
    }

    /// Waits until a count has reached a number.
    pub(crate) async fn until(&self, sql: &'static str, count: usize) {
        let mut conn = self.look().await;
        loop {
            let found: i64 = sqlx::query_scalar(sql)
                .fetch_one(&mut conn)
                .await
                .expect("a count");
            if usize::try_from(found).is_ok_and(|found| found >= count) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Stops the worker, and proves the database: every slot has one record, and every chat's
    /// history is what the phone showed.
    pub(crate) async fn stop_and_prove(mut self) {
        self.stop.now.cancel();
        if let Some(worker) = self.worker.take() {
            worker.await.expect("the worker").expect("its housekeeping");
        }
        let audit = self.store.audit(None).await.expect("an audit");
        assert!(audit.holds(), "{:?}", audit.findings.first());
        let shown = std::mem::take(&mut *self.phone.log.lock().expect("nobody panics with it"));
        let mut chats = Vec::new();
        for (session_key, log) in shown {
            let window = WindowOf::Shown;
            chats.push(Evidence {
                rows: self
                    .store
                    .transcript(&session_key, window)
                    .await
                    .expect("rows"),
                parts: self.store.shown_parts(&session_key).await.expect("parts"),
                log: Some(log),
                session_key,
            });
        }
        let report = verify(&chats);
        assert!(report.holds(), "{:?}", report.findings.first());
        self.store.close().await;
        drop(self.folder);
    }
}
