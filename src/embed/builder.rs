//! What a scheduler is made of.

use std::{
    collections::BTreeMap,
    mem,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::AtomicU64},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::RwLock;

use crate::{
    agent::Agent,
    channel::Channel,
    clock::{Clock, SystemClock},
    config::JobsFile,
    directory::{AgentConfig, AgentKind, ChannelConfig, Chat, Permission, ReplayMode},
    ids::{AgentName, ChannelName},
    job::Job,
    schedule::zone::zone_fingerprint,
    store::sqlite::OpenMode,
    wiring::{self, Database, Registered, Terminal, jobs_file},
    worker::{Events, Services},
};

use super::{BuildError, Chatcron, Given, Inner, Setup};

/// How long what runs may take to finish, where nothing is said.
const GRACE: Duration = Duration::from_secs(30);

/// The name under which jobs are stored that no file has.
const NO_FILE: &str = "(program)";

/// What a [`Chatcron`] is made of.
#[derive(Default)]
pub struct Builder {
    database: Option<String>,
    file: Option<PathBuf>,
    agents: Vec<(String, Arc<dyn Agent>, Vec<Permission>)>,
    channels: Vec<(String, Arc<dyn Channel>)>,
    webhook: Option<Arc<dyn Channel>>,
    chats: Vec<Chat>,
    jobs: Vec<Job>,
    timezone: Option<String>,
    clock: Option<Arc<dyn Clock>>,
    grace: Option<Duration>,
    max_concurrent: Option<usize>,
    turn_timeout: Option<SignedDuration>,
}

impl Builder {
    /// Where everything durable is: a path, `sqlite:PATH`, or `postgres://USER@HOST/DATABASE`.
    #[must_use]
    pub fn database(mut self, url: impl Into<String>) -> Self {
        self.database = Some(url.into());
        self
    }

    /// A jobs file: its jobs, chats, agents and channels. It may name what is registered here, and
    /// what is registered under a name takes the place of what the file says of it.
    #[must_use]
    pub fn jobs_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Jobs besides those of the file, defined by the program: what they no longer are is removed
    /// at the next start, as with a file.
    #[must_use]
    pub fn jobs(mut self, jobs: impl IntoIterator<Item = Job>) -> Self {
        self.jobs.extend(jobs);
        self
    }

    /// An agent of the program's own.
    #[must_use]
    pub fn agent(self, name: impl Into<String>, agent: impl Agent) -> Self {
        self.agent_with(name, agent, [])
    }

    /// An agent of the program's own that is offered tools; see [`Toolbox`](crate::Toolbox).
    #[must_use]
    pub fn agent_with(
        mut self,
        name: impl Into<String>,
        agent: impl Agent,
        permissions: impl IntoIterator<Item = Permission>,
    ) -> Self {
        let permissions = permissions.into_iter().collect();
        self.agents
            .push((name.into(), Arc::new(agent), permissions));
        self
    }

    /// A channel of the program's own.
    #[must_use]
    pub fn channel(mut self, name: impl Into<String>, channel: impl Channel) -> Self {
        self.channels.push((name.into(), Arc::new(channel)));
        self
    }

    /// The channel for jobs and sends whose destination is a webhook.
    #[must_use]
    pub fn webhook_channel(mut self, channel: impl Channel) -> Self {
        self.webhook = Some(Arc::new(channel));
        self
    }

    /// A chat, besides those of the file.
    #[must_use]
    pub fn chat(mut self, chat: Chat) -> Self {
        self.chats.push(chat);
        self
    }

    /// The zone of jobs that are created and do not name their own.
    #[must_use]
    pub fn timezone(mut self, zone: impl Into<String>) -> Self {
        self.timezone = Some(zone.into());
        self
    }

    /// Another clock than the machine's.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// How long [`super::RunningWorker::shutdown`] may take; 30 s where nothing is said.
    #[must_use]
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// How many runs may be under way at once; the file's word, or 8, where nothing is said.
    #[must_use]
    pub fn max_concurrent(mut self, runs: usize) -> Self {
        self.max_concurrent = Some(runs);
        self
    }

    /// How long a person's turn may take; 10 minutes where nothing is said.
    #[must_use]
    pub fn turn_timeout(mut self, timeout: SignedDuration) -> Self {
        self.turn_timeout = Some(timeout);
        self
    }

    /// Opens the database and reads the jobs file. Nothing runs before [`Chatcron::start`].
    ///
    /// # Errors
    /// [`BuildError`] says what is missing or wrong. A job of the file that is wrong is no error:
    /// it is left out, and [`Chatcron::problems`] says why.
    pub async fn build(mut self) -> Result<Chatcron, BuildError> {
        let url = self.database.as_deref().ok_or(BuildError::NoDatabase)?;
        let folder = self.file.as_deref().map(jobs_file::folder);
        let folder = folder.unwrap_or_else(|| PathBuf::from("."));
        let database = Database::of_url(url, &folder);
        let database = database.map_err(|source| BuildError::Database { source })?;
        let (given, registered) = self.read()?;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let source = match &self.file {
            Some(file) => jobs_file::source(file),
            None => NO_FILE.to_owned(),
        };
        let setup = Setup::read(
            &given,
            &registered,
            self.file.as_deref(),
            &database,
            &*clock,
        )?;
        let opened = database.open(OpenMode::CreateIfMissing).await?;
        let store = opened.store();
        let store_id = store.identity().await?;
        Ok(Chatcron {
            inner: Arc::new(Inner {
                store,
                opened,
                database,
                clock,
                registered,
                source,
                file: self.file,
                given,
                setup: RwLock::new(Arc::new(setup)),
                grace: self.grace.unwrap_or(GRACE),
                store_id,
                events: Events::default(),
                runners: Arc::default(),
                tokens: AtomicU64::new(0),
                at_work: Mutex::new(None),
                dropped: Mutex::default(),
            }),
        })
    }
}

impl Builder {
    /// What the program gives, by name, each once.
    fn read(&mut self) -> Result<(Given, Registered), BuildError> {
        let mut given = Given {
            jobs: mem::take(&mut self.jobs),
            max_concurrent: self.max_concurrent,
            turn_timeout: self.turn_timeout,
            ..Given::default()
        };
        if let Some(zone) = &self.timezone {
            zone_fingerprint(zone).map_err(|source| BuildError::TimeZone { source })?;
        }
        given.directory.timezone = self.timezone.take();
        let mut registered = Registered {
            webhook: self.webhook.take(),
            ..Registered::default()
        };
        for (name, agent, permissions) in mem::take(&mut self.agents) {
            let name = AgentName::new(name)?;
            let config = agent_config(permissions);
            let before = given.directory.agents.insert(name.clone(), config);
            once("agent", name.as_str(), before)?;
            registered.agents.insert(name, agent);
        }
        for (name, channel) in mem::take(&mut self.channels) {
            let name = ChannelName::new(name)?;
            let config = ChannelConfig::Console { log: None };
            let before = given.directory.channels.insert(name.clone(), config);
            once("channel", name.as_str(), before)?;
            registered.channels.insert(name, channel);
        }
        for chat in mem::take(&mut self.chats) {
            let name = chat.name.clone();
            let before = given.directory.chats.insert(name.clone(), chat);
            once("chat", name.as_str(), before)?;
        }
        Ok((given, registered))
    }
}

/// Nothing has the name already.
fn once<T>(what: &'static str, name: &str, before: Option<T>) -> Result<(), BuildError> {
    match before {
        None => Ok(()),
        Some(_) => Err(BuildError::Twice {
            what,
            name: name.to_owned(),
        }),
    }
}

/// What is known of an agent that the program brings: what it may do.
fn agent_config(permissions: Vec<Permission>) -> AgentConfig {
    AgentConfig {
        // It is not built by this: what is registered takes its place.
        kind: AgentKind::Echo,
        system: None,
        replay: ReplayMode::Clean,
        tools: permissions.into_iter().collect(),
    }
}

impl Setup {
    /// What the file says and the program has given, built.
    pub(super) fn read(
        given: &Given,
        registered: &Registered,
        file: Option<&Path>,
        database: &Database,
        clock: &dyn Clock,
    ) -> Result<Self, BuildError> {
        let edited_at = file
            .and_then(jobs_file::modified_at)
            .and_then(|at| Timestamp::try_from(at).ok());
        let (folder, mut file, problems) = match file {
            Some(path) => {
                let loaded = jobs_file::load_beside(&given.directory, path, clock.now());
                let loaded = loaded.map_err(|source| BuildError::Unreadable { source })?;
                let Some(file) = loaded.file else {
                    let problems = loaded.problems;
                    return Err(BuildError::NotToml { problems });
                };
                (jobs_file::folder(path), file, loaded.problems)
            }
            None => {
                let nothing = JobsFile::empty(given.directory.clone());
                (PathBuf::from("."), nothing, Vec::new())
            }
        };
        let bad = jobs_file::bad_ids(&file);
        file.jobs.extend(given.jobs.iter().cloned());
        let wired = wiring::wire_beside(registered, &file, &folder, database, Terminal::Stderr);
        let mut services = wired.services;
        if let Some(max_concurrent) = given.max_concurrent {
            services.max_concurrent = max_concurrent;
        }
        if let Some(turn_timeout) = given.turn_timeout {
            services.turn_timeout = turn_timeout;
        }
        check_chats(&services)?;
        Ok(Self {
            directory: file.directory,
            jobs: file.jobs,
            bad,
            edited_at,
            problems,
            services,
            left_out: wired.left_out,
        })
    }
}

/// Chats that a file has are checked when it is read; these may be the program's.
fn check_chats(services: &Services) -> Result<(), BuildError> {
    let mut seen = BTreeMap::new();
    for chat in services.directory.chats.values() {
        if let Some(first) = seen.insert(chat.session_key(), &chat.name) {
            return Err(BuildError::SameChat {
                first: first.to_string(),
                second: chat.name.to_string(),
            });
        }
        let unregistered = |what: String| BuildError::Unregistered {
            chat: chat.name.to_string(),
            what,
        };
        if !services.directory.agents.contains_key(&chat.agent) {
            return Err(unregistered(format!("agent `{}`", chat.agent)));
        }
        if !services.directory.channels.contains_key(&chat.channel) {
            return Err(unregistered(format!("channel `{}`", chat.channel)));
        }
    }
    Ok(())
}
