//! Builds everything that a worker needs from a jobs file. The only place that makes adapters.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::{
    agent::{
        Agent, anthropic::Anthropic, command::Command, echo::Echo, gemini::Gemini, http::Http,
        openai::OpenAi, openai_responses::OpenAiResponses,
    },
    channel::{
        Channel,
        console::Console,
        telegram::Telegram,
        webhook::{Webhook, WebhookSettings},
    },
    cli::database::Database,
    config::JobsFile,
    directory::{AgentConfig, AgentKind, ChannelConfig, ModelEndpoint, SecretSource},
    ids::ChannelName,
    outbound::Channels,
    schedule::zone::zone_fingerprint,
    secret::{self, SecretString},
    worker::Services,
};

/// Where a console channel prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Terminal {
    /// The worker's stdout is the chat.
    Stdout,
    /// A command has its own output on stdout; the chat is shown beside it.
    Stderr,
}

impl Terminal {
    fn writer(self) -> Box<dyn Write + Send> {
        match self {
            Self::Stdout => Box::new(io::stdout()),
            Self::Stderr => Box::new(io::stderr()),
        }
    }
}

/// A jobs file, wired up.
pub(super) struct Wired {
    /// What the worker is given.
    pub(super) services: Services,
    /// What could not be built, in words: the rest works without it.
    pub(super) left_out: Vec<String>,
}

/// Builds the agents and channels of a jobs file. `folder` is where the file is, and what relative
/// paths in it are relative to. An agent or channel that cannot be built is left out and named.
pub(super) fn wire(
    file: &JobsFile,
    folder: &Path,
    database: &Database,
    terminal: Terminal,
) -> Wired {
    let mut left_out = Vec::new();
    let mut agents: BTreeMap<_, Arc<dyn Agent>> = BTreeMap::new();
    for (name, config) in &file.directory.agents {
        match agent(config, folder) {
            Ok(agent) => drop(agents.insert(name.clone(), agent)),
            Err(error) => left_out.push(format!("agent `{name}` is left out: {error:#}")),
        }
    }
    let mut named: BTreeMap<_, Arc<dyn Channel>> = BTreeMap::new();
    for (name, config) in &file.directory.channels {
        match channel(name, config, folder, database, terminal) {
            Ok(channel) => drop(named.insert(name.clone(), channel)),
            Err(error) => left_out.push(format!("channel `{name}` is left out: {error:#}")),
        }
    }
    let webhook: Option<Arc<dyn Channel>> = match Webhook::for_jobs() {
        Ok(webhook) => Some(Arc::new(webhook)),
        Err(error) => {
            left_out.push(format!("webhooks are left out: {error}"));
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

fn agent(config: &AgentConfig, folder: &Path) -> anyhow::Result<Arc<dyn Agent>> {
    let system = config.system.as_deref();
    Ok(match &config.kind {
        AgentKind::Echo => Arc::new(Echo),
        AgentKind::Command(settings) => {
            let folder = absolute(folder);
            let agent = Command::new(settings.clone(), config.system.clone(), folder);
            Arc::new(agent.with_replay(config.replay))
        }
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
    })
}

fn key(endpoint: &ModelEndpoint, folder: &Path) -> anyhow::Result<Option<SecretString>> {
    endpoint
        .api_key
        .as_ref()
        .map(|source| secret(source, folder))
        .transpose()
}

/// Reads a secret; its file is relative to the jobs file, as every path in it.
fn secret(source: &SecretSource, folder: &Path) -> anyhow::Result<SecretString> {
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
) -> anyhow::Result<Arc<dyn Channel>> {
    Ok(match config {
        ChannelConfig::Console { log } => {
            let log = match log {
                Some(log) => folder.join(log),
                None => database.console_log_path(name),
            };
            Arc::new(Console::new(log, terminal.writer()))
        }
        ChannelConfig::Telegram { token, api_root } => {
            Arc::new(Telegram::new(secret(token, folder)?, api_root)?)
        }
        ChannelConfig::Webhook {
            url,
            secret: key,
            allow_private,
        } => Arc::new(Webhook::for_chats(&WebhookSettings {
            url: url.clone(),
            secret: key.as_ref().map(|key| secret(key, folder)).transpose()?,
            allow_private: *allow_private,
        })?),
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
