//! The scenario that dies: both modes, several parts, retries, a person's turn, a refused send and
//! ambiguous ones on a keyed and on a blind channel.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
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
    failpoints::{Life, Outside, PointedAgent, PointedChannel, PointedStore, Points},
};

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
    [("confirmed", 9), ("failed", 1), ("unknown", 1)];

const BEGIN: &str = "2026-12-01T07:59:59Z";
/// When a person says something.
const SAID_AT: &str = "2026-12-01T08:00:05Z";
const END: SignedDuration = SignedDuration::from_mins(10);
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

    async fn sleep(&self, _: Duration) {
        std::future::pending().await
    }
}

/// A database with the schema and nothing else, to be copied.
pub(crate) struct Template(tempfile::TempDir);

/// In memory where the machine has such a place.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

async fn open(path: &Path) -> SqliteStore {
    let mode = OpenMode::CreateIfMissing;
    SqliteStore::open(path, mode).await.unwrap()
}

impl Template {
    pub(crate) fn make() -> Self {
        let folder = folder();
        let path = folder.path().join("template.db");
        runtime().block_on(async { open(&path).await.close().await });
        Self(folder)
    }

    fn copy_to(&self, path: &Path) {
        std::fs::copy(self.0.path().join("template.db"), path).unwrap();
    }
}

pub(crate) fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// When processes die.
#[derive(Debug, Clone, Default)]
pub(crate) struct Case {
    pub(crate) deaths: Vec<usize>,
    downtime: SignedDuration,
    restarts: usize,
}

/// What came of a case.
pub(crate) struct Ended {
    /// The effects, in order.
    pub(crate) points: Vec<&'static str>,
    pub(crate) violations: Vec<Violation>,
    /// How many parts ended in which state.
    pub(crate) part_states: Vec<(&'static str, usize)>,
}

impl Ended {
    pub(crate) fn in_words(&self) -> String {
        let words: Vec<_> = self.violations.iter().map(ToString::to_string).collect();
        words.join("\n")
    }
}

impl Case {
    pub(crate) fn dying_at(deaths: &[usize]) -> Self {
        Self {
            deaths: deaths.to_vec(),
            ..Self::default()
        }
    }

    pub(crate) fn down_for(self, downtime: SignedDuration) -> Self {
        Self { downtime, ..self }
    }

    /// Starts and stops so often at the end.
    pub(crate) fn restarted(self, restarts: usize) -> Self {
        Self { restarts, ..self }
    }

    pub(crate) async fn run(&self, template: &Template) -> Ended {
        let folder = folder();
        let path = folder.path().join("chatcron.db");
        template.copy_to(&path);
        let mut bench = Bench {
            path: path.clone(),
            store: Arc::new(open(&path).await),
            clock: Arc::new(StandingClock(Mutex::new(at(BEGIN)))),
            file: read(at(BEGIN)),
            points: Points::with_deaths(&self.deaths),
            outside: Arc::default(),
            until: at(SLOT) + self.downtime + END,
            has_spoken: false,
        };
        bench.live_and_die(self.downtime).await;
        let mut violations = bench.check().await;
        if self.restarts > 0 {
            violations.extend(bench.restart(self.restarts).await);
        }
        let part_states = bench.part_states().await;
        bench.store.close().await;
        Ended {
            points: bench.points.reached(),
            violations,
            part_states,
        }
    }
}

/// One case, with everything that outlives its processes.
struct Bench {
    path: PathBuf,
    store: Arc<SqliteStore>,
    clock: Arc<StandingClock>,
    file: JobsFile,
    points: Arc<Points>,
    outside: Arc<Outside>,
    until: Timestamp,
    has_spoken: bool,
}

fn read(now: Timestamp) -> JobsFile {
    let no_files = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let loaded = config::parse(JOBS, &no_files, now);
    assert!(!loaded.has_errors(), "{:#?}", loaded.problems);
    loaded.file.unwrap()
}

impl Bench {
    /// Lets one process after the other work until nothing is left to do.
    async fn live_and_die(&mut self, downtime: SignedDuration) {
        loop {
            let life = Life::new(&self.points);
            let has_died = tokio::select! {
                biased;
                () = life.death() => true,
                lived = self.live(&life) => {
                    lived.unwrap();
                    false
                }
            };
            if !has_died {
                return;
            }
            let now = self.clock.now() + downtime;
            *self.clock.0.lock().unwrap() = now;
        }
    }

    /// One process, from its start until nothing is left to do.
    async fn live(&mut self, life: &Arc<Life>) -> Result<(), StoreError> {
        let mut worker = self.start(life).await?;
        loop {
            let next = worker.until_quiet().await?;
            let speaks_at = (!self.has_spoken).then(|| at(SAID_AT));
            let next = next.into_iter().chain(speaks_at).min();
            let Some(next) = next.filter(|next| *next <= self.until) else {
                return Ok(());
            };
            let now = next.max(self.clock.now());
            *self.clock.0.lock().unwrap() = now;
            if speaks_at.is_some_and(|speaks_at| speaks_at <= now) {
                self.has_spoken = true;
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
            text: "hello".to_owned(),
            source: "say",
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
        let lines = self.outside.lines.lock().unwrap().clone();
        let calls = self.outside.calls.lock().unwrap().clone();
        checker::check(&self.path, &self.rules(), &lines, &calls).await
    }

    /// I9: starts and stops with no time passing change nothing.
    async fn restart(&self, times: usize) -> Vec<Violation> {
        let before = checker::dump(&self.path).await;
        for _ in 0..times {
            let life = Life::new(&self.points);
            let mut worker = self.start(&life).await.unwrap();
            worker.until_quiet().await.unwrap();
        }
        let after = checker::dump(&self.path).await;
        let differs = before != after;
        let violation = Violation {
            invariant: "I9",
            what: format!("{times} restarts changed it from\n{before}\nto\n{after}"),
        };
        differs.then_some(violation).into_iter().collect()
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
