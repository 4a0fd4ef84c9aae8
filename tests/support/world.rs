//! A worker with a real store, and a clock, agents and channels that a test steers.
//!
//! What a channel showed is kept by the channel itself, outside the database, as a real one would.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
#[cfg(feature = "postgres")]
use chatcron::store::postgres::{Address, PostgresStore};
use chatcron::{
    agent::{Agent, AgentError, AgentReply, AgentTurn},
    channel::{Ability, Channel, OutgoingBody, OutgoingPart, TextLimit, TextUnit},
    clock::Clock,
    config::{self, JobsFile},
    ids::{ChatName, SessionKey},
    message::{Receipt, RefusalScope, SendAnswer, StopsAddress},
    outbound::{
        Channels,
        verify::{Evidence, Report, ShownLine, verify},
    },
    store::{
        InboundMessage, NewWorker, OutboxScope, Role, RunFilter, RunRow, Store, WindowOf, WorkerId,
        sqlite::{OpenMode, SqliteStore},
    },
    transcript::{Content, Entry},
    worker::{Decider, JobsChange, Scope, Services, Worker, apply_jobs},
};
use jiff::{SignedDuration, Timestamp};
#[cfg(feature = "postgres")]
use sqlx::{Connection, PgConnection};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "postgres")]
#[path = "cluster.rs"]
pub(crate) mod cluster;

/// A clock that stands until it is moved.
pub(crate) struct TestClock {
    now: watch::Sender<Timestamp>,
    /// By how much it shows more than a clock that nobody has set.
    ahead: Mutex<SignedDuration>,
}

impl TestClock {
    pub(crate) fn at(text: &str) -> Arc<Self> {
        let (now, _) = watch::channel(text.parse().unwrap());
        Arc::new(Self {
            now,
            ahead: Mutex::default(),
        })
    }

    /// Somebody sets it; no time passes.
    pub(crate) fn step(&self, to: &str) {
        let to: Timestamp = to.parse().unwrap();
        *self.ahead.lock().unwrap() += to.duration_since(self.now());
        self.now.send_replace(to);
    }

    pub(crate) fn set(&self, text: &str) {
        self.now.send_replace(text.parse().unwrap());
    }

    pub(crate) fn move_to(&self, at: Timestamp) {
        self.now.send_replace(at);
    }

    pub(crate) fn advance(&self, by: SignedDuration) {
        let to = self.now() + by;
        self.now.send_replace(to);
    }
}

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    fn elapsed(&self) -> Duration {
        let unset = self.now() - *self.ahead.lock().unwrap();
        Duration::try_from(unset.duration_since(Timestamp::UNIX_EPOCH)).unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        // Setting it makes no time pass.
        let unset = |now: Timestamp| now - *self.ahead.lock().unwrap();
        let until = unset(self.now()) + SignedDuration::try_from(duration).unwrap();
        let mut now = self.now.subscribe();
        now.wait_for(|now| unset(*now) >= until).await.unwrap();
    }
}

type Script = dyn FnMut(&AgentTurn) -> Result<AgentReply, AgentError> + Send;

/// An agent that answers by a script, and remembers what it was asked.
#[derive(Clone)]
pub(crate) struct TestAgent {
    script: Arc<Mutex<Box<Script>>>,
    asked: Arc<Mutex<Vec<AgentTurn>>>,
    /// Turns wait here while it is closed.
    gate: watch::Sender<bool>,
}

impl TestAgent {
    /// Answers with the last words of the prompt.
    pub(crate) fn echo() -> Self {
        Self::scripted(|turn| Ok(words(&last_words(turn))))
    }

    pub(crate) fn scripted(
        script: impl FnMut(&AgentTurn) -> Result<AgentReply, AgentError> + Send + 'static,
    ) -> Self {
        Self {
            script: Arc::new(Mutex::new(Box::new(script))),
            asked: Arc::default(),
            gate: watch::channel(true).0,
        }
    }

    pub(crate) fn asked(&self) -> Vec<AgentTurn> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn last_asked(&self) -> AgentTurn {
        self.asked().pop().expect("the agent was asked")
    }

    pub(crate) fn close(&self) {
        self.gate.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.gate.send_replace(true);
    }

    /// Waits until so many turns have been asked.
    pub(crate) async fn until_asked(&self, count: usize) {
        for _ in 0..2000 {
            if self.asked.lock().unwrap().len() >= count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the agent was not asked {count} times");
    }
}

#[async_trait]
impl Agent for TestAgent {
    async fn reply(
        &self,
        turn: &AgentTurn,
        _: &CancellationToken,
    ) -> Result<AgentReply, AgentError> {
        self.asked.lock().unwrap().push(turn.clone());
        self.gate.subscribe().wait_for(|open| *open).await.unwrap();
        // A script that panicked is as good as before.
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        script(turn)
    }
}

/// A reply that is only words.
pub(crate) fn words(text: &str) -> AgentReply {
    AgentReply {
        text: text.to_owned(),
        ..AgentReply::default()
    }
}

/// What a turn is asked at last.
pub(crate) fn last_words(turn: &AgentTurn) -> String {
    turn.prompt.last().unwrap().content.text()
}

/// What a channel does with one part.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Does {
    Show,
    /// Shows it, and the answer is lost.
    ShowAndLose,
    /// Does not show it, and nobody can tell.
    Lose,
    Refuse(i64),
    RefuseEverybody(i64),
    Permanent,
    Blocked,
    Move(&'static str),
}

/// A channel that keeps what it showed.
#[derive(Clone)]
pub(crate) struct TestChannel {
    ability: Ability,
    limit: usize,
    shown: Arc<Mutex<Vec<(SessionKey, ShownLine)>>>,
    script: Arc<Mutex<VecDeque<Does>>>,
    attempts: Arc<Mutex<u32>>,
    /// What it has shown it does not tell while it is closed.
    gate: watch::Sender<bool>,
}

impl TestChannel {
    pub(crate) fn new(ability: Ability) -> Self {
        Self {
            ability,
            limit: 4096,
            shown: Arc::default(),
            script: Arc::default(),
            attempts: Arc::default(),
            gate: watch::channel(true).0,
        }
    }

    /// Shows what is sent, and does not answer until it is opened.
    pub(crate) fn close(&self) {
        self.gate.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.gate.send_replace(true);
    }

    pub(crate) fn keyed() -> Self {
        Self::new(Ability::Keyed { window: None })
    }

    pub(crate) fn blind() -> Self {
        Self::new(Ability::Blind)
    }

    pub(crate) fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// What it does with the next parts; after them it shows everything.
    pub(crate) fn will(&self, script: impl IntoIterator<Item = Does>) {
        self.script.lock().unwrap().extend(script);
    }

    pub(crate) fn attempts(&self) -> u32 {
        *self.attempts.lock().unwrap()
    }

    pub(crate) fn lines(&self, session: &SessionKey) -> Vec<ShownLine> {
        let shown = self.shown.lock().unwrap();
        let here = shown.iter().filter(|(chat, _)| chat == session);
        here.map(|(_, line)| line.clone()).collect()
    }

    fn show(&self, part: &OutgoingPart) -> Receipt {
        let mut shown = self.shown.lock().unwrap();
        let key = part.key.as_str().to_owned();
        if let Ability::Keyed { .. } = self.ability
            && let Some((_, line)) = shown
                .iter()
                .find(|(_, line)| line.key.as_ref() == Some(&key))
        {
            return receipt(line);
        }
        let text = match &part.body {
            OutgoingBody::Text(text) => text.clone(),
            OutgoingBody::Native(body) => body.to_string(),
        };
        let line = ShownLine {
            message_id: (shown.len() + 1).to_string(),
            key: Some(key),
            text,
        };
        let receipt = receipt(&line);
        shown.push((part.destination.session_key(), line));
        receipt
    }
}

fn receipt(line: &ShownLine) -> Receipt {
    Receipt {
        message_id: line.message_id.clone(),
        shown_at: None,
    }
}

#[async_trait]
impl Channel for TestChannel {
    fn ability(&self) -> Ability {
        self.ability
    }

    fn limit(&self) -> TextLimit {
        TextLimit {
            max: Some(self.limit),
            unit: TextUnit::Utf16,
        }
    }

    async fn send(&self, part: &OutgoingPart, _: Timestamp) -> SendAnswer {
        *self.attempts.lock().unwrap() += 1;
        let does = self
            .script
            .lock()
            .unwrap()
            .pop_front()
            .unwrap_or(Does::Show);
        let ambiguous = || SendAnswer::Ambiguous {
            why: "the connection broke".to_owned(),
        };
        let refused = |seconds, scope| SendAnswer::Refused {
            retry_after: Some(SignedDuration::from_secs(seconds)),
            scope,
            why: "slow down".to_owned(),
        };
        let permanent = |stops_address| SendAnswer::Permanent {
            why: "chat not found".to_owned(),
            stops_address,
        };
        let answer = match does {
            Does::Show => SendAnswer::Receipt(self.show(part)),
            Does::ShowAndLose => {
                self.show(part);
                ambiguous()
            }
            Does::Lose => ambiguous(),
            Does::Refuse(seconds) => refused(seconds, RefusalScope::Chat),
            Does::RefuseEverybody(seconds) => refused(seconds, RefusalScope::Channel),
            Does::Permanent => permanent(StopsAddress::No),
            Does::Blocked => permanent(StopsAddress::Yes),
            Does::Move(to) => SendAnswer::Moved { to: to.to_owned() },
        };
        self.gate.subscribe().wait_for(|open| *open).await.unwrap();
        answer
    }
}

/// A jobs file, its database, and everything around it.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) file: JobsFile,
    pub(crate) agents: BTreeMap<String, Arc<dyn Agent>>,
    pub(crate) channels: BTreeMap<String, Arc<dyn Channel>>,
    pub(crate) webhook: Option<Arc<dyn Channel>>,
    /// The address of the database, where a server has it.
    pub(crate) server: Option<String>,
}

/// The end of a jobs file: a chat, its channel and its agent.
pub(crate) const ME: &str = r#"
[chats.me]
channel = "phone"
to      = "5550001"
agent   = "main"

[channels.phone]
kind = "console"

[agents.main]
kind = "echo"
"#;

impl World {
    /// Jobs of the chat `me` alone, with the agent and the channel in the place of the file's.
    pub(crate) async fn in_my_chat(
        jobs: &str,
        now: &str,
        agent: impl Agent,
        channel: impl Channel,
    ) -> Self {
        Self::new(&format!("{jobs}{ME}"), now)
            .await
            .with_agent("main", agent)
            .with_channel("phone", channel)
    }

    /// Reads a jobs file, which must be right, at an instant.
    pub(crate) async fn new(jobs: &str, now: &str) -> Self {
        let clock = TestClock::at(now);
        let folder = tempfile::tempdir().unwrap();
        let (store, server) = open(&folder.path().join("chatcron.db")).await;
        Self {
            file: read(jobs, clock.now()),
            folder,
            clock,
            store,
            agents: BTreeMap::new(),
            channels: BTreeMap::new(),
            webhook: None,
            server,
        }
    }

    pub(crate) fn with_agent(mut self, name: &str, agent: impl Agent) -> Self {
        self.agents.insert(name.to_owned(), Arc::new(agent));
        self
    }

    pub(crate) fn with_channel(mut self, name: &str, channel: impl Channel) -> Self {
        self.channels.insert(name.to_owned(), Arc::new(channel));
        self
    }

    pub(crate) fn with_webhook(mut self, channel: impl Channel) -> Self {
        self.webhook = Some(Arc::new(channel));
        self
    }

    /// Puts another jobs file in the place of the present one; a worker begun later has it.
    pub(crate) fn edit(&mut self, jobs: &str) {
        self.file = read(jobs, self.clock.now());
    }

    pub(crate) fn services(&self) -> Services {
        let agents = self.agents.iter().map(|(name, agent)| {
            let name = chatcron::ids::AgentName::new(name.clone()).unwrap();
            (name, agent.clone())
        });
        let named = self.channels.iter().map(|(name, channel)| {
            let name = chatcron::ids::ChannelName::new(name.clone()).unwrap();
            (name, channel.clone())
        });
        Services {
            directory: self.file.directory.clone(),
            agents: agents.collect(),
            channels: Arc::new(Channels {
                named: named.collect(),
                webhook: self.webhook.clone(),
            }),
            max_concurrent: usize::try_from(self.file.max_concurrent).unwrap(),
            turn_timeout: Services::TURN_TIMEOUT,
            retention: self.file.retention.clone(),
            zone_data: "test".to_owned(),
        }
    }

    /// Begins a worker and applies the jobs file, as a start of the process would.
    pub(crate) async fn start(&self) -> Worker {
        self.start_in(Scope::All).await
    }

    /// As if all workers had died, and been silent since: where they hold leases these are over.
    pub(crate) async fn end_leases(&self) {
        #[cfg(feature = "postgres")]
        if let Some(server) = &self.server {
            let mut conn = PgConnection::connect(server).await.unwrap();
            let end = "UPDATE workers SET lease_until = 0";
            sqlx::query(end).execute(&mut conn).await.unwrap();
            conn.close().await.unwrap();
        }
    }

    /// As if the worker that has been alive for longest were silent for longer than its lease.
    #[cfg(feature = "postgres")]
    pub(crate) async fn end_oldest_lease(&self) {
        let mut conn = PgConnection::connect(self.server.as_ref().unwrap())
            .await
            .unwrap();
        let end = "UPDATE workers SET lease_until = 0 WHERE worker_id =
                     (SELECT min(worker_id) FROM workers WHERE stopped_at IS NULL)";
        sqlx::query(end).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
    }

    /// Registers a worker that does nothing by itself.
    pub(crate) async fn begin_worker(&self) -> WorkerId {
        let worker = NewWorker {
            role: Role::Worker,
            zone_data: "test".to_owned(),
            zone_release: None,
        };
        let begun = self.store.begin_worker(worker, self.clock.now()).await;
        begun.unwrap().id
    }

    pub(crate) async fn start_in(&self, scope: Scope) -> Worker {
        self.end_leases().await;
        self.join_in(scope).await
    }

    /// Begins a worker beside those that are alive.
    pub(crate) async fn join(&self) -> Worker {
        self.join_in(Scope::All).await
    }

    async fn join_in(&self, scope: Scope) -> Worker {
        self.join_as(scope, "jobs.toml").await
    }

    /// The same, with its jobs file under another name.
    pub(crate) async fn join_with(&self, file: &str) -> Worker {
        self.join_as(Scope::All, file).await
    }

    async fn join_as(&self, scope: Scope, file: &str) -> Worker {
        let store: Arc<dyn Store> = self.store.clone();
        let worker = Worker::begin(store, self.clock.clone(), self.services(), scope, None)
            .await
            .unwrap();
        let change = worker.apply_jobs(file, &self.file.jobs, &[]).await.unwrap();
        assert!(change.refused.is_empty(), "{:?}", change.refused);
        worker
    }

    /// Applies the present jobs file beside a worker, as another process would.
    pub(crate) async fn apply(&self) -> JobsChange {
        apply_jobs(
            self.decider(),
            "jobs.toml",
            &self.file.jobs,
            &[],
            self.clock.now(),
        )
        .await
        .unwrap()
    }

    pub(crate) fn decider(&self) -> Decider<'_> {
        Decider::new(&*self.store, &self.file.directory.chats, None)
    }

    /// Moves the clock and lets the worker do everything that is then due.
    pub(crate) async fn run_at(&self, worker: &mut Worker, at: &str) {
        self.clock.set(at);
        worker.until_quiet().await.unwrap();
    }

    pub(crate) fn session(&self, chat: &str) -> SessionKey {
        self.file.directory.chats[&ChatName::new(chat).unwrap()].session_key()
    }

    /// Stores a person's message; the worker has yet to run its turn.
    pub(crate) async fn say(&self, chat: &str, text: &str) -> chatcron::ids::TurnId {
        let inbound = InboundMessage {
            session_key: self.session(chat),
            content: Content::Text(text.to_owned()),
            source: "say",
            trigger_source: None,
            raw_entry: None,
            raw_line: None,
            sender_display: None,
            sender_id_raw: None,
            channel_message_id: None,
        };
        self.store
            .request_turn(inbound, self.clock.now())
            .await
            .unwrap()
    }

    /// The texts of a chat's transcript, in order.
    pub(crate) async fn transcript(&self, chat: &str) -> Vec<String> {
        texts(&self.entries(chat, WindowOf::Shown).await)
    }

    pub(crate) async fn entries(&self, chat: &str, window: WindowOf) -> Vec<Entry> {
        self.store
            .transcript(&self.session(chat), window)
            .await
            .unwrap()
    }

    pub(crate) async fn runs(&self) -> Vec<RunRow> {
        let mut runs = self.store.runs(&RunFilter::default()).await.unwrap();
        runs.reverse();
        runs
    }

    /// The states of all parts, in order.
    pub(crate) async fn parts(&self) -> Vec<&'static str> {
        let parts = self.store.outbox(OutboxScope::All).await.unwrap();
        parts.iter().map(|part| part.state.as_str()).collect()
    }

    /// Compares the transcripts of these chats with what the channel showed.
    pub(crate) async fn verify(&self, channel: &TestChannel, chats: &[&str]) -> Report {
        let mut evidence = Vec::new();
        for chat in chats {
            let session_key = self.session(chat);
            evidence.push(Evidence {
                rows: self
                    .store
                    .transcript(&session_key, WindowOf::Shown)
                    .await
                    .unwrap(),
                parts: self.store.shown_parts(&session_key).await.unwrap(),
                log: Some(channel.lines(&session_key)),
                session_key,
            });
        }
        verify(&evidence)
    }

    /// Asserts that they agree.
    pub(crate) async fn assert_verified(&self, channel: &TestChannel, chats: &[&str]) {
        let report = self.verify(channel, chats).await;
        assert!(report.holds(), "{:#?}", report.findings);
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder.path().join("chatcron.db")
    }
}

/// Whether the databases of this test binary are a server's.
fn is_on_server() -> bool {
    let name = env!("CARGO_CRATE_NAME");
    name.ends_with("_on_postgres") || name == "several_workers"
}

/// How long leases last here. Time is real for them, whatever the test's clock shows.
#[cfg(feature = "postgres")]
const LEASE: Duration = Duration::from_secs(6);

/// An empty database: a file, or one of a server in test binaries that are named for it.
async fn open(path: &Path) -> (Arc<dyn Store>, Option<String>) {
    let mode = OpenMode::CreateIfMissing;
    #[cfg(feature = "postgres")]
    if is_on_server()
        && let Some(server) = cluster::Cluster::shared()
    {
        let url = server.new_database().await;
        let address: Address = url.parse().unwrap();
        let store = PostgresStore::open(&address.with_lease(LEASE), mode).await;
        return (Arc::new(store.unwrap()), Some(url));
    }
    let store = SqliteStore::open(path, mode).await.unwrap();
    (Arc::new(store), None)
}

fn read(jobs: &str, now: Timestamp) -> JobsFile {
    let no_files = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let loaded = config::parse(jobs, &no_files, now);
    assert!(!loaded.has_errors(), "{:#?}", loaded.problems);
    loaded.file.unwrap()
}

pub(crate) fn texts(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.content.text()).collect()
}
