//! Why a scheduler cannot be built or started.

use crate::{
    config::Problem,
    ids::InvalidName,
    schedule::ScheduleError,
    store::StoreError,
    wiring::{DatabaseUrlError, UnreadableFile},
    worker::ApplyError,
};

/// Why a scheduler cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Nothing says where the database is.
    #[error("no database is named; `database(\"sqlite:chatcron.db\")` names one")]
    NoDatabase,
    /// What was given names no database.
    #[error("the database cannot be used: {source}; {}", .source.help())]
    Database {
        /// Why.
        #[source]
        source: DatabaseUrlError,
    },
    /// A name that was given is none.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The jobs file cannot be read.
    #[error("{source}: {}", .source.source)]
    Unreadable {
        /// Which, and why.
        #[source]
        source: UnreadableFile,
    },
    /// The jobs file is not TOML.
    #[error("the jobs file is not TOML: {}", first(.problems))]
    NotToml {
        /// What is wrong in it.
        problems: Vec<Problem>,
    },
    /// An agent, a channel or a chat is given twice under one name.
    #[error("the {what} `{name}` is given twice; give each a name of its own")]
    Twice {
        /// What it is: `agent`, `channel` or `chat`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The zone of `timezone` is not known.
    #[error("the zone of `timezone` cannot be used: {source}")]
    TimeZone {
        /// Why, with the nearest name.
        #[source]
        source: ScheduleError,
    },
    /// Two chats are one conversation.
    #[error("chats `{first}` and `{second}` are the same conversation")]
    SameChat {
        /// The one.
        first: String,
        /// The other.
        second: String,
    },
    /// A chat is on a channel, or has an agent, that nobody has registered.
    #[error("chat `{chat}` needs {what}, which is not registered")]
    Unregistered {
        /// The chat.
        chat: String,
        /// What it needs.
        what: String,
    },
    /// The database cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn first(problems: &[Problem]) -> &str {
    problems.first().map_or("", |problem| &problem.message)
}

/// Why a worker cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Another worker, or one of this program that still runs, has the database.
    #[error("another worker runs on {database}")]
    AlreadyRunning {
        /// Which database.
        database: String,
    },
    /// The machine's clock cannot be believed.
    #[error(
        "the clock is {by:#} ahead of what the database knows: it is not believed until it is confirmed"
    )]
    ClockDoubted {
        /// By how much it is ahead.
        by: jiff::SignedDuration,
    },
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        if let StoreError::Held { database } = error {
            return Self::AlreadyRunning { database };
        }
        Self::Store(error)
    }
}

/// Why the jobs file was not put in the place of the present one. Nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// It cannot be read, or does not fit what is registered.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The worker has stopped, or its store has failed.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

/// No chat has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no chat `{found}`; the chats are {}", listed(.known))]
#[non_exhaustive]
pub struct UnknownChat {
    /// The name that was given.
    pub found: String,
    /// Those that there are.
    pub known: Vec<String>,
}

fn listed(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}
