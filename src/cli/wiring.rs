//! Builds everything that a worker needs from a jobs file. The only place that makes adapters.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::{
    agent::{Agent, anthropic::Anthropic, command::Command, echo::Echo, openai::OpenAi},
    channel::{
        Channel,
        console::Console,
        telegram::Telegram,
        webhook::{Webhook, WebhookSettings},
    },
    cli::database,
    config::JobsFile,
    directory::{AgentConfig, AgentKind, ChannelConfig, ModelEndpoint},
    ids::ChannelName,
    outbound::Channels,
    schedule::zone::zone_fingerprint,
    secret,
    worker::Services,
};

/// A jobs file, wired up.
pub(super) struct Wired {
    /// What the worker is given.
    pub(super) services: Services,
    /// What could not be built, in words: the rest works without it.
    pub(super) left_out: Vec<String>,
}

/// Builds the agents and channels of a jobs file. `folder` is where the file is, and what relative
/// paths in it are relative to. An agent or channel that cannot be built is left out and named.
pub(super) fn wire(file: &JobsFile, folder: &Path, database: &Path) -> Wired {
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
        match channel(name, config, folder, database) {
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
        AgentKind::Command(settings) => Arc::new(Command::new(
            settings.clone(),
            config.system.clone(),
            absolute(folder),
        )),
        AgentKind::OpenAi(endpoint) => {
            Arc::new(OpenAi::new(endpoint.clone(), key(endpoint)?, system)?)
        }
        AgentKind::Anthropic(endpoint) => {
            Arc::new(Anthropic::new(endpoint.clone(), key(endpoint)?, system)?)
        }
    })
}

fn key(endpoint: &ModelEndpoint) -> anyhow::Result<Option<secrecy::SecretString>> {
    Ok(endpoint.api_key.as_ref().map(secret::read).transpose()?)
}

fn channel(
    name: &ChannelName,
    config: &ChannelConfig,
    folder: &Path,
    database: &Path,
) -> anyhow::Result<Arc<dyn Channel>> {
    Ok(match config {
        ChannelConfig::Console { log } => {
            let log = match log {
                Some(log) => folder.join(log),
                None => database::console_log_path(database, name),
            };
            Arc::new(Console::new(log, Box::new(io::stdout())))
        }
        ChannelConfig::Telegram { token, api_root } => {
            Arc::new(Telegram::new(secret::read(token)?, api_root)?)
        }
        ChannelConfig::Webhook {
            url,
            secret,
            allow_private,
        } => Arc::new(Webhook::for_chats(&WebhookSettings {
            url: url.clone(),
            secret: secret.as_ref().map(secret::read).transpose()?,
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
