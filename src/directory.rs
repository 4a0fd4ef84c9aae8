//! Chats, channels and agents as data: what the jobs file names besides jobs.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::ids::{AgentName, ChannelName, ChatKind, ChatName, SessionKey};

mod permission;

pub use permission::Permission;

/// Everything a job can refer to by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Directory {
    /// `[chats.NAME]`.
    pub chats: BTreeMap<ChatName, Chat>,
    /// `[channels.NAME]`.
    pub channels: BTreeMap<ChannelName, ChannelConfig>,
    /// `[agents.NAME]`.
    pub agents: BTreeMap<AgentName, AgentConfig>,
    /// `timezone`: the zone of jobs that do not name their own.
    pub timezone: Option<String>,
}

impl Directory {
    /// The chat that this session belongs to, if one does.
    pub fn chat_of_session(&self, key: &SessionKey) -> Option<&Chat> {
        self.chats.values().find(|chat| chat.session_key() == *key)
    }
}

/// A chat: an address on a channel, with the agent it is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chat {
    /// Its name in the jobs file.
    pub name: ChatName,
    /// The channel it is on.
    pub channel: ChannelName,
    /// The account on that channel, where it has several.
    pub account: Option<String>,
    /// What sort of chat it is.
    pub kind: ChatKind,
    /// The exact address, never folded in case.
    pub address: String,
    /// The thread or topic inside the chat.
    pub thread: Option<String>,
    /// The agent that answers there.
    pub agent: AgentName,
}

impl Chat {
    /// The name of the chat's conversation.
    pub fn session_key(&self) -> SessionKey {
        SessionKey::chat(
            self.channel.as_str(),
            self.account.as_deref(),
            self.kind,
            &self.address,
            self.thread.as_deref(),
        )
    }
}

/// Where a secret is kept; the jobs file never holds one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable.
    Env(String),
    /// A file whose trimmed content is the secret.
    File(PathBuf),
}

/// One channel of the jobs file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelConfig {
    /// Shows messages in the terminal, and keeps them in a log file outside the database.
    Console {
        /// The log file; `None` is beside the database.
        log: Option<PathBuf>,
    },
    /// The Telegram Bot API.
    Telegram {
        /// The bot's token.
        token: SecretSource,
        /// The API's root, `https://api.telegram.org` unless a local server is used.
        api_root: String,
        /// Whether what people write to the bot is read, and answered in the chats of the file.
        inbound: bool,
    },
    /// Messages are posted to a URL.
    Webhook {
        /// An absolute `http` or `https` URL.
        url: String,
        /// The signing secret.
        secret: Option<SecretSource>,
        /// Whether addresses of private networks and of this machine are allowed.
        allow_private: bool,
        /// What proves that a chat showed a message.
        receipt: ReceiptProof,
    },
}

/// What in a receiver's answer proves that its chat showed a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReceiptProof {
    /// A status of 2xx and the chat's own id of the message.
    #[default]
    MessageId,
    /// A status of 2xx: the receiver has no ids.
    Status,
}

/// One agent of the jobs file.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentConfig {
    /// What it is.
    pub kind: AgentKind,
    /// The system prompt.
    pub system: Option<String>,
    /// How history is replayed to it.
    pub replay: ReplayMode,
    /// What it may do besides answering.
    pub tools: BTreeSet<Permission>,
}

/// Which form of a person's messages a model is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ReplayMode {
    /// The words alone.
    #[default]
    Clean,
    /// What the connector sent, with its framing.
    Framed,
}

/// The kinds of agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentKind {
    /// Answers with the prompt itself.
    Echo,
    /// Runs a program, without a shell.
    Command(CommandAgent),
    /// Asks a server of one's own.
    Http(HttpAgent),
    /// Any server of OpenAI's chat completions.
    OpenAi(ModelEndpoint, ChatDialect),
    /// OpenAI's Responses.
    OpenAiResponses(ModelEndpoint),
    /// Anthropic's Messages.
    Anthropic(ModelEndpoint),
    /// Gemini's generateContent.
    Gemini(ModelEndpoint),
}

/// What a server of chat completions demands of a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChatDialect {
    /// What OpenAI does: nearly nothing.
    #[default]
    OpenAi,
    /// What Mistral does.
    Mistral,
    /// What a model's strict chat template does: roles alternate.
    Strict,
}

/// A program that gets the conversation as JSON on stdin and answers on stdout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandAgent {
    /// The program and its arguments; at least one.
    pub argv: Vec<String>,
    /// Variables that are set.
    pub env: BTreeMap<String, String>,
    /// Variables that are passed on from the worker's own environment, besides `PATH`, `HOME`,
    /// `LANG` and `TZ`.
    pub env_pass: Vec<String>,
    /// The working directory; `None` is the jobs file's.
    pub cwd: Option<PathBuf>,
    /// Whether every attempt counts as one that has changed something outside.
    pub has_effects: bool,
}

/// A server that gets the conversation as JSON and answers with the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAgent {
    /// An absolute `http` or `https` URL.
    pub url: String,
    /// The bearer token; none for servers that ask for none.
    pub token: Option<SecretSource>,
    /// Whether every attempt counts as one that has changed something outside.
    pub has_effects: bool,
}

/// Where a model is, and how it is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelEndpoint {
    /// The model's name.
    pub model: String,
    /// The API's root, up to and including its version.
    pub base_url: String,
    /// The API key; none for servers that ask for none.
    pub api_key: Option<SecretSource>,
    /// The most tokens of one reply.
    pub max_tokens: Option<u32>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
}

/// How long rows are kept. Rows that a chat showed are never pruned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Finished runs and their outcomes, and incidents that are over.
    pub runs: SignedDuration,
    /// Entries of jobs' own sessions.
    pub job_sessions: SignedDuration,
    /// `at` jobs that have run.
    pub one_shots: SignedDuration,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            runs: SignedDuration::from_hours(90 * 24),
            job_sessions: SignedDuration::from_hours(90 * 24),
            one_shots: SignedDuration::from_hours(7 * 24),
        }
    }
}
