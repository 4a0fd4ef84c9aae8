//! The scenario that dies: both modes, several parts, retries, a person's turn, a refused send and
//! ambiguous ones on a keyed and on a blind channel, an alert.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use chatcron::{
    agent::{Agent, AgentError, AgentReply, AgentTurn},
    channel::{Ability, Channel},
    clock::Clock,
    config::{self, JobsFile},
    ids::{AgentName, ChannelName, ChatName},
    outbound::Channels,
    store::{
        InboundMessage, Store, StoreError,
        sqlite::{OpenMode, SqliteStore},
    },
    worker::{Scope, Services, Worker},
};
use jiff::{SignedDuration, Timestamp};
use tokio::runtime::Runtime;

use crate::{
    checker::{self, JobRule, Rules, Slots, Violation},
    failpoints::{Life, Outside, PointedAgent, PointedChannel, PointedStore},
};

const DATABASE: &str = "chatcron.db";

const JOBS: &str = r#"
timezone       = "UTC"
max_concurrent = 2

[defaults]
retry           = { attempts = 4, backoff = "30s" }
catch_up_spread = "0s"

[jobs.report]
daily   = "08:00"
prompt  = "report"
deliver = "me"

[jobs.check-in]
daily  = "08:00"
prompt = "check-in"
chat   = "me"

[jobs.desk]
daily   = "08:00"
prompt  = "desk"
deliver = "desk"

[jobs.hook]
daily   = "08:00"
prompt  = "hook"
deliver = { webhook = "http://127.0.0.1:9/hook", allow_private = true }

[jobs.again]
daily      = "08:00"
prompt     = "again"
deliver    = "me"
on_unknown = "resend"

[jobs.gone]
daily   = "08:00"
prompt  = "gone"
deliver = "desk"

[jobs.flaky]
daily   = "08:00"
prompt  = "flaky"
deliver = "history"

[jobs.doomed]
daily   = "08:00"
prompt  = "doomed"
deliver = "desk"
alert   = { after = 1 }

[jobs.tick]
every   = "5m"
anchor  = "2026-12-01T08:02:00Z"
prompt  = "tick"
deliver = "desk"
memory  = true
context = { chat = "me", last = 5 }

[chats.me]
channel = "phone"
to      = "5550001"
agent   = "main"

[chats.desk]
channel = "screen"
to      = "1"
agent   = "main"

[channels.phone]
kind = "console"

[channels.screen]
kind = "console"

[agents.main]
kind = "echo"
"#;

/// What becomes of the parts where nobody dies, by count.
pub(crate) const PART_STATES: [(&str, usize); 3] =
    [("confirmed", 12), ("failed", 1), ("unknown", 1)];

const BEGIN: &str = "2026-12-01T07:59:59Z";
/// When a person says something.
const SAID_AT: &str = "2026-12-01T08:00:05Z";
/// How long it takes until nothing is left to do.
const TO_THE_END: SignedDuration = SignedDuration::from_mins(8);
const SLOT: &str = "2026-12-01T08:00:00Z";
const DAY: SignedDuration = SignedDuration::from_hours(24);
/// The slots of `tick`.
const TICK: &str = "2026-12-01T08:02:00Z";
const FIVE_MINUTES: SignedDuration = SignedDuration::from_mins(5);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// What the agent says: never the same words twice, so that an answer of another attempt is seen.
fn answer(turn: &AgentTurn, number: usize) -> Result<AgentReply, AgentError> {
    let id = &turn.key.as_str()[..4];
    let text = match turn.job.as_ref().map(|job| job.as_str()) {
        // Three parts: the second is refused for longer than a person has to wait.
        Some("report") => [
            format!("part one {id}{number}"),
            format!("part two {id}{number} [wait 12]"),
            format!("part end {id}{number}"),
        ]
        .join("\n\n"),
        // In doubt on a channel that knows no keys.
        Some("check-in") => format!("hi {id}{number} [shown, lost]"),
        // In doubt on one that does.
        Some("desk") => format!("desk {id}{number} [shown, lost]"),
        Some("flaky") if number == 1 => {
            let why = "the first try fails".to_owned();
            return Err(AgentError::Transient { why });
        }
        Some("hook") => format!("hook {id}{number} [shown, lost]"),
        // In doubt on a channel that knows no keys, and sent again: once too often, as declared.
        Some("again") => format!("again {id}{number} [shown, lost]"),
        Some("gone") => format!("gone {id}{number} [never]"),
        Some("doomed") => {
            let why = "no try can help".to_owned();
            return Err(AgentError::Permanent { why });
        }
        Some(job) => format!("{job} {id}{number}"),
        None => format!("yes {id}{number}"),
    };
    Ok(AgentReply {
        text,
        ..AgentReply::default()
    })
}

/// A clock that stands until the driver moves it. Nothing waits by it but limits.
struct StandingClock(Mutex<Timestamp>);

#[async_trait]
impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn elapsed(&self) -> Duration {
        let since = self.now().duration_since(Timestamp::UNIX_EPOCH);
        Duration::try_from(since).unwrap()
    }

    async fn sleep(&self, _: Duration) {
        std::future::pending().await
    }
}

/// In memory where the machine has such a place.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

pub(crate) fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// Everything that outlives a process.
pub(crate) struct World {
    folder: tempfile::TempDir,
    now: Timestamp,
    has_spoken: bool,
    outside: Outside,
    /// The effects before which processes have died: their numbers in the lives of these, and
    /// their names.
    pub(crate) deaths: Vec<(usize, &'static str)>,
}

/// What came of letting a process work until nothing is left to do.
pub(crate) struct Lived {
    /// The names of its effects.
    pub(crate) points: Vec<&'static str>,
    /// The worlds that it would have left, had it died before its first effect, its second, ...
    pub(crate) had_it_died: Vec<World>,
    pub(crate) violations: Vec<Violation>,
    /// How many parts are in which state.
    pub(crate) part_states: Vec<(&'static str, usize)>,
}

impl World {
    /// Before anything has happened: a database with the schema and nothing else.
    pub(crate) fn new() -> Self {
        let folder = folder();
        let path = folder.path().join(DATABASE);
        runtime().block_on(async { open(&path).await.close().await });
        Self {
            folder,
            now: at(BEGIN),
            has_spoken: false,
            outside: Outside::default(),
            deaths: Vec::new(),
        }
    }

    /// The next process starts only after so long.
    pub(crate) fn down_for(mut self, downtime: SignedDuration) -> Self {
        self.now += downtime;
        self
    }

    /// Lets one process work until nothing is left to do, and checks what has come of it.
    pub(crate) async fn live(self, keeping: Keep) -> Lived {
        let bench = Bench::new(self).await;
        let life = bench.life(keeping);
        bench.work(&life).await.unwrap();
        let violations = bench.check().await;
        let part_states = bench.part_states().await;
        bench.store.close().await;
        let mut lived = bench.lived.lock().unwrap();
        Lived {
            points: std::mem::take(&mut lived.points),
            had_it_died: std::mem::take(&mut lived.had_it_died),
            violations,
            part_states,
        }
    }

    /// I9: what `times` starts and stops at the end change, with no time passing.
    pub(crate) async fn restart(self, times: usize) -> (String, String) {
        let bench = Bench::new(self).await;
        bench.work(&bench.life(Keep::Nothing)).await.unwrap();
        let path = bench.path();
        let before = checker::dump(&path).await;
        for _ in 0..times {
            bench.work(&bench.life(Keep::Nothing)).await.unwrap();
        }
        (before, checker::dump(&path).await)
    }
}

/// Whether the worlds are kept that a process would leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    Worlds,
    Nothing,
}

#[derive(Default)]
struct Course {
    points: Vec<&'static str>,
    had_it_died: Vec<World>,
}

/// A world in which a process works.
struct Bench {
    folder: tempfile::TempDir,
    store: Arc<SqliteStore>,
    clock: Arc<StandingClock>,
    outside: Arc<Mutex<Outside>>,
    has_spoken: Arc<AtomicBool>,
    deaths: Vec<(usize, &'static str)>,
    lived: Arc<Mutex<Course>>,
    file: JobsFile,
    until: Timestamp,
}

async fn open(path: &Path) -> SqliteStore {
    let mode = OpenMode::CreateIfMissing;
    SqliteStore::open(path, mode).await.unwrap()
}

/// The database and its log, as they stand.
fn copied(from: &Path) -> tempfile::TempDir {
    let to = folder();
    for name in [DATABASE.to_owned(), format!("{DATABASE}-wal")] {
        let source = from.join(&name);
        if source.exists() {
            std::fs::copy(source, to.path().join(name)).unwrap();
        }
    }
    to
}

fn read(now: Timestamp) -> JobsFile {
    let no_files = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let loaded = config::parse(JOBS, &no_files, now);
    assert!(!loaded.has_errors(), "{:#?}", loaded.problems);
    loaded.file.unwrap()
}

impl Bench {
    async fn new(world: World) -> Self {
        let path = world.folder.path().join(DATABASE);
        Self {
            store: Arc::new(open(&path).await),
            folder: world.folder,
            clock: Arc::new(StandingClock(Mutex::new(world.now))),
            outside: Arc::new(Mutex::new(world.outside)),
            has_spoken: Arc::new(AtomicBool::new(world.has_spoken)),
            deaths: world.deaths,
            lived: Arc::default(),
            file: read(at(BEGIN)),
            until: world.now.max(at(SLOT)) + TO_THE_END,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(DATABASE)
    }

    /// A process that keeps the worlds it would leave.
    fn life(&self, keeping: Keep) -> Arc<Life> {
        let (clock, outside) = (self.clock.clone(), self.outside.clone());
        let (lived, has_spoken) = (self.lived.clone(), self.has_spoken.clone());
        let (from, deaths) = (self.folder.path().to_owned(), self.deaths.clone());
        Life::new(Box::new(move |name| {
            let mut lived = lived.lock().unwrap();
            lived.points.push(name);
            if keeping == Keep::Nothing {
                return;
            }
            let mut deaths = deaths.clone();
            deaths.push((lived.points.len(), name));
            lived.had_it_died.push(World {
                folder: copied(&from),
                now: clock.now(),
                has_spoken: has_spoken.load(Ordering::Relaxed),
                outside: outside.lock().unwrap().clone(),
                deaths,
            });
        }))
    }

    /// One process, from its start until nothing is left to do.
    async fn work(&self, life: &Arc<Life>) -> Result<(), StoreError> {
        let mut worker = self.start(life).await?;
        loop {
            let next = worker.until_quiet().await?;
            let has_spoken = self.has_spoken.load(Ordering::Relaxed);
            let speaks_at = (!has_spoken).then(|| at(SAID_AT));
            let next = next.into_iter().chain(speaks_at).min();
            let Some(next) = next.filter(|next| *next <= self.until) else {
                return Ok(());
            };
            let now = next.max(self.clock.now());
            *self.clock.0.lock().unwrap() = now;
            if speaks_at.is_some_and(|speaks_at| speaks_at <= now) {
                self.has_spoken.store(true, Ordering::Relaxed);
                self.say(now).await?;
            }
        }
    }

    async fn start(&self, life: &Arc<Life>) -> Result<Worker, StoreError> {
        let store: Arc<dyn Store> = Arc::new(PointedStore {
            life: life.clone(),
            store: self.store.clone(),
        });
        let services = self.services(life);
        let worker = Worker::begin(store, self.clock.clone(), services, Scope::All, None).await?;
        worker.apply_jobs("jobs.toml", &self.file.jobs, &[]).await?;
        Ok(worker)
    }

    /// Another process stores a person's words.
    async fn say(&self, now: Timestamp) -> Result<(), StoreError> {
        let chat = &self.file.directory.chats[&ChatName::new("me").unwrap()];
        let inbound = InboundMessage {
            session_key: chat.session_key(),
            content: chatcron::transcript::Content::Text("hello".to_owned()),
            source: "say",
            trigger_source: None,
            raw_entry: None,
            raw_line: None,
            sender_display: None,
            sender_id_raw: None,
            channel_message_id: None,
        };
        self.store.request_turn(inbound, now).await?;
        Ok(())
    }

    fn services(&self, life: &Arc<Life>) -> Services {
        let agent: Arc<dyn Agent> = Arc::new(PointedAgent {
            life: life.clone(),
            outside: self.outside.clone(),
            script: answer,
            clock: self.clock.clone(),
        });
        let channel = |ability, limit| -> Arc<dyn Channel> {
            Arc::new(PointedChannel {
                life: life.clone(),
                outside: self.outside.clone(),
                ability,
                limit,
            })
        };
        let name = |name: &str| -> ChannelName { name.parse().unwrap() };
        let main: AgentName = "main".parse().unwrap();
        Services {
            directory: self.file.directory.clone(),
            agents: BTreeMap::from([(main, agent)]),
            channels: Arc::new(Channels {
                named: BTreeMap::from([
                    (name("phone"), channel(Ability::Blind, 26)),
                    (
                        name("screen"),
                        channel(Ability::Keyed { window: None }, 100),
                    ),
                ]),
                webhook: Some(channel(Ability::Keyed { window: None }, 1000)),
            }),
            max_concurrent: usize::try_from(self.file.max_concurrent).unwrap(),
            turn_timeout: Services::TURN_TIMEOUT,
            retention: None,
            zone_data: "test".to_owned(),
        }
    }

    fn rules(&self) -> Rules {
        let slots = |first: &str, period: SignedDuration| {
            let mut slots = Vec::new();
            let mut slot = at(first);
            while slot <= self.clock.now() {
                slots.push(slot.as_microsecond());
                slot += period;
            }
            Slots::At(slots)
        };
        let rule = |id: &str| JobRule {
            slots: match id {
                "tick" => slots(TICK, FIVE_MINUTES),
                _ => slots(SLOT, DAY),
            },
            attempts: 4,
            window: DAY.as_micros().try_into().unwrap(),
            goes_on: true,
            overlaps: false,
        };
        let ids = self.file.jobs.iter().map(|job| job.id.to_string());
        Rules {
            jobs: ids.map(|id| (id.clone(), rule(&id))).collect(),
            blind: vec!["phone:".to_owned()],
            max_concurrent: 2,
        }
    }

    async fn check(&self) -> Vec<Violation> {
        let outside = self.outside.lock().unwrap().clone();
        checker::check(&self.path(), &self.rules(), &outside.lines, &outside.calls).await
    }

    async fn part_states(&self) -> Vec<(&'static str, usize)> {
        let scope = chatcron::store::OutboxScope::All;
        let mut states: BTreeMap<&'static str, usize> = BTreeMap::new();
        for part in self.store.outbox(scope).await.unwrap() {
            *states.entry(part.state.as_str()).or_default() += 1;
        }
        states.into_iter().collect()
    }
}
