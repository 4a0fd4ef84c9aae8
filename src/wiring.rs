//! Builds everything that a worker needs from a jobs file. The only place that makes adapters.

use std::{
    collections::BTreeMap,
    error::Error,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::{
    agent::{Agent, command::Command, echo::Echo},
    channel::{Channel, console::Console},
    config::JobsFile,
    directory::{AgentConfig, AgentKind, ChannelConfig},
    ids::{AgentName, ChannelName},
    outbound::Channels,
    schedule::zone::zone_fingerprint,
    worker::Services,
};
#[cfg(feature = "http-client")]
use crate::{
    agent::{
        anthropic::Anthropic, gemini::Gemini, http::Http, openai::OpenAi,
        openai_responses::OpenAiResponses,
    },
    channel::{
        telegram::Telegram,
        webhook::{Webhook, WebhookSettings},
    },
    directory::{ModelEndpoint, SecretSource},
    secret::{self, SecretString},
};

mod database;
pub(crate) mod jobs_file;
mod lock;

#[cfg(feature = "cli")]
pub(crate) use database::DEFAULT_NAME;
pub use database::DatabaseUrlError;
pub(crate) use database::{Database, Opened};
pub use jobs_file::UnreadableFile;
pub(crate) use lock::Lock;

/// Where a console channel prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Terminal {
    /// The worker's stdout is the chat.
    #[cfg(feature = "cli")]
    Stdout,
    /// A command has its own output on stdout; the chat is shown beside it.
    Stderr,
    /// A command prints what the chat shows by itself.
    #[cfg(feature = "cli")]
    Nowhere,
}

impl Terminal {
    fn writer(self) -> Box<dyn Write + Send> {
        match self {
            #[cfg(feature = "cli")]
            Self::Stdout => Box::new(io::stdout()),
            Self::Stderr => Box::new(io::stderr()),
            #[cfg(feature = "cli")]
            Self::Nowhere => Box::new(io::sink()),
        }
    }
}

/// A jobs file, wired up.
pub(crate) struct Wired {
    /// What the worker is given.
    pub(crate) services: Services,
    /// What could not be built, in words: the rest works without it.
    pub(crate) left_out: Vec<String>,
}

/// Agents and channels that a program brings itself, by name.
#[derive(Clone, Default)]
pub(crate) struct Registered {
    pub(crate) agents: BTreeMap<AgentName, Arc<dyn Agent>>,
    pub(crate) channels: BTreeMap<ChannelName, Arc<dyn Channel>>,
    /// The channel for destinations that are webhooks of their own.
    pub(crate) webhook: Option<Arc<dyn Channel>>,
}

/// Why something cannot be built.
type BuildError = Box<dyn Error + Send + Sync>;

/// Builds the agents and channels of a jobs file. `folder` is where the file is, and what relative
/// paths in it are relative to. An agent or channel that cannot be built is left out and named.
#[cfg(feature = "cli")]
pub(crate) fn wire(
    file: &JobsFile,
    folder: &Path,
    database: &Database,
    terminal: Terminal,
) -> Wired {
    wire_beside(&Registered::default(), file, folder, database, terminal)
}

/// The same, where a program brings some of them itself: these are not built, whatever the file says.
pub(crate) fn wire_beside(
    registered: &Registered,
    file: &JobsFile,
    folder: &Path,
    database: &Database,
    terminal: Terminal,
) -> Wired {
    let mut left_out = Vec::new();
    let mut agents = registered.agents.clone();
    for (name, config) in &file.directory.agents {
        if agents.contains_key(name) {
            continue;
        }
        match agent(config, folder) {
            Ok(agent) => drop(agents.insert(name.clone(), agent)),
            Err(error) => left_out.push(format!("agent `{name}` is left out: {}", whole(&*error))),
        }
    }
    let mut named = registered.channels.clone();
    for (name, config) in &file.directory.channels {
        if named.contains_key(name) {
            continue;
        }
        match channel(name, config, folder, database, terminal) {
            Ok(channel) => drop(named.insert(name.clone(), channel)),
            Err(error) => {
                left_out.push(format!("channel `{name}` is left out: {}", whole(&*error)));
            }
        }
    }
    let webhook = match (&registered.webhook, webhook()) {
        (Some(registered), _) => Some(registered.clone()),
        (None, Ok(webhook)) => webhook,
        (None, Err(error)) => {
            left_out.push(format!("webhooks are left out: {}", whole(&*error)));
            None
        }
    };
    let services = Services {
        directory: file.directory.clone(),
        agents,
        channels: Arc::new(Channels { named, webhook }),
        max_concurrent: usize::try_from(file.max_concurrent).unwrap_or(usize::MAX),
        turn_timeout: Services::TURN_TIMEOUT,
        retention: file.retention.clone(),
        zone_data: zone_data(file),
    };
    Wired { services, left_out }
}

/// An error with what caused it.
fn whole(error: &(dyn Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}

/// The channel for destinations that are webhooks of their own.
#[cfg(feature = "http-client")]
fn webhook() -> Result<Option<Arc<dyn Channel>>, BuildError> {
    Ok(Some(Arc::new(Webhook::for_jobs()?)))
}

#[cfg(not(feature = "http-client"))]
fn webhook() -> Result<Option<Arc<dyn Channel>>, BuildError> {
    Ok(None)
}

fn agent(config: &AgentConfig, folder: &Path) -> Result<Arc<dyn Agent>, BuildError> {
    match &config.kind {
        AgentKind::Echo => Ok(Arc::new(Echo)),
        AgentKind::Command(settings) => {
            let folder = absolute(folder);
            let agent = Command::new(settings.clone(), config.system.clone(), folder);
            Ok(Arc::new(agent.with_replay(config.replay)))
        }
        kind @ (AgentKind::Http(_)
        | AgentKind::OpenAi(..)
        | AgentKind::OpenAiResponses(_)
        | AgentKind::Anthropic(_)
        | AgentKind::Gemini(_)) => over_http(kind, config, folder),
    }
}

#[cfg(not(feature = "http-client"))]
fn over_http(_: &AgentKind, _: &AgentConfig, _: &Path) -> Result<Arc<dyn Agent>, BuildError> {
    Err(WITHOUT_HTTP.into())
}

/// What is said of what this build cannot do.
#[cfg(not(feature = "http-client"))]
const WITHOUT_HTTP: &str = "it speaks HTTP, for which the cargo feature `http-client` is needed";

#[cfg(feature = "http-client")]
fn over_http(
    kind: &AgentKind,
    config: &AgentConfig,
    folder: &Path,
) -> Result<Arc<dyn Agent>, BuildError> {
    let system = config.system.as_deref();
    Ok(match kind {
        AgentKind::Http(settings) => {
            let token = settings.token.as_ref();
            let token = token.map(|source| secret(source, folder)).transpose()?;
            let agent = Http::new(settings, token, config.system.clone())?;
            Arc::new(agent.with_replay(config.replay))
        }
        AgentKind::OpenAi(endpoint, dialect) => {
            let agent = OpenAi::new(endpoint.clone(), key(endpoint, folder)?, system)?;
            Arc::new(agent.with_dialect(*dialect).with_replay(config.replay))
        }
        AgentKind::OpenAiResponses(endpoint) => {
            let agent = OpenAiResponses::new(endpoint.clone(), key(endpoint, folder)?, system)?;
            Arc::new(agent.with_replay(config.replay))
        }
        AgentKind::Anthropic(endpoint) => {
            let agent = Anthropic::new(endpoint.clone(), key(endpoint, folder)?, system)?;
            Arc::new(agent.with_replay(config.replay))
        }
        AgentKind::Gemini(endpoint) => {
            let agent = Gemini::new(endpoint.clone(), key(endpoint, folder)?, system)?;
            Arc::new(agent.with_replay(config.replay))
        }
        AgentKind::Echo | AgentKind::Command(_) => return Err("it does not speak HTTP".into()),
    })
}

#[cfg(feature = "http-client")]
fn key(endpoint: &ModelEndpoint, folder: &Path) -> Result<Option<SecretString>, BuildError> {
    endpoint
        .api_key
        .as_ref()
        .map(|source| secret(source, folder))
        .transpose()
}

/// Reads a secret; its file is relative to the jobs file, as every path in it.
#[cfg(feature = "http-client")]
fn secret(source: &SecretSource, folder: &Path) -> Result<SecretString, BuildError> {
    let source = match source {
        SecretSource::Env(_) => source.clone(),
        SecretSource::File(path) => SecretSource::File(folder.join(path)),
    };
    Ok(secret::read(&source)?)
}

fn channel(
    name: &ChannelName,
    config: &ChannelConfig,
    folder: &Path,
    database: &Database,
    terminal: Terminal,
) -> Result<Arc<dyn Channel>, BuildError> {
    match config {
        ChannelConfig::Console { log } => {
            let log = match log {
                Some(log) => folder.join(log),
                None => database.console_log_path(name),
            };
            Ok(Arc::new(Console::new(log, terminal.writer())))
        }
        ChannelConfig::Telegram { .. } | ChannelConfig::Webhook { .. } => {
            http_channel(config, folder)
        }
    }
}

#[cfg(not(feature = "http-client"))]
fn http_channel(_: &ChannelConfig, _: &Path) -> Result<Arc<dyn Channel>, BuildError> {
    Err(WITHOUT_HTTP.into())
}

#[cfg(feature = "http-client")]
fn http_channel(config: &ChannelConfig, folder: &Path) -> Result<Arc<dyn Channel>, BuildError> {
    Ok(match config {
        ChannelConfig::Telegram {
            token,
            api_root,
            inbound,
        } => {
            let bot = Telegram::new(secret(token, folder)?, api_root)?;
            Arc::new(if *inbound { bot.listening() } else { bot })
        }
        ChannelConfig::Webhook {
            url,
            secret: key,
            allow_private,
            receipt,
        } => Arc::new(Webhook::for_chats(&WebhookSettings {
            url: url.clone(),
            secret: key.as_ref().map(|key| secret(key, folder)).transpose()?,
            allow_private: *allow_private,
            receipt: *receipt,
        })?),
        ChannelConfig::Console { .. } => return Err("it does not speak HTTP".into()),
    })
}

/// A command's folder must stay what it is when something changes the working directory.
fn absolute(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}

/// One digest over the clock changes of every zone that the jobs use.
fn zone_data(file: &JobsFile) -> String {
    let mut zones: Vec<_> = file
        .jobs
        .iter()
        .map(|job| job.schedule.zone.as_str())
        .collect();
    zones.sort_unstable();
    zones.dedup();
    let mut hash = Sha256::new();
    for zone in zones {
        if let Ok(fingerprint) = zone_fingerprint(zone) {
            hash.update(format!("{zone} {fingerprint}\n"));
        }
    }
    HEXLOWER.encode(&hash.finalize()[..8])
}
