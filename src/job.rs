//! A job as data: when it runs, where its turn lives, where its result shows, and its policies.
//!
//! Everything here has been validated. Reading TOML is `config`'s work; planning is `schedule`'s.

use jiff::{SignedDuration, Timestamp, civil};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ids::{AgentName, ChatName, JobId};

mod policies;

pub use policies::{Alert, CatchUp, Late, OnInterrupt, OnUnknown, Overlap, Policies, Retry};

/// One validated job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The id, unique in one database.
    pub id: JobId,
    /// What a person calls it; the id where nothing was said.
    pub name: Option<String>,
    /// Whether it runs at all. A disabled job keeps its history.
    pub enabled: bool,
    /// When it runs.
    pub schedule: ScheduleSpec,
    /// What the agent is asked.
    pub prompt: String,
    /// Where its turn lives and where its result shows.
    pub mode: Mode,
    /// The rules for what goes wrong.
    pub policies: Policies,
}

impl Job {
    /// What a person calls the job.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.id.as_str())
    }

    /// The chat in which it shows something, if it does.
    pub fn chat(&self) -> Option<&ChatName> {
        match &self.mode {
            Mode::InChat { chat, .. }
            | Mode::Background {
                deliver: Deliver::Chat(chat),
                ..
            } => Some(chat),
            Mode::Background {
                deliver: Deliver::Webhook(_) | Deliver::History,
                ..
            } => None,
        }
    }

    /// A digest of the whole definition: two definitions with one digest are the same job.
    pub fn digest(&self) -> String {
        let json = serde_json::to_vec(self).unwrap_or_default();
        data_encoding::HEXLOWER.encode(&Sha256::digest(json)[..16])
    }
}

/// Where a job's turn lives. A job runs in a chat or in the background, never both (Rule 2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "kebab-case")]
pub enum Mode {
    /// A normal turn in the chat's session, answered in that chat and nowhere else.
    InChat {
        /// The chat.
        chat: ChatName,
        /// The agent, where it is not the chat's own.
        agent: Option<AgentName>,
    },
    /// A turn in the job's own session, whose result goes to exactly one place.
    Background {
        /// The one place.
        deliver: Deliver,
        /// The agent that does the work.
        agent: AgentName,
        /// Whether it remembers its own earlier runs.
        memory: bool,
        /// A snapshot of a chat that is quoted to the agent.
        context: Option<ChatContext>,
    },
}

/// The one place to which a background job's result goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deliver {
    /// A chat, by name; its address is resolved when a run starts.
    Chat(ChatName),
    /// A webhook.
    Webhook(WebhookTarget),
    /// Run history only; nothing is sent.
    History,
}

/// A URL that results are posted to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookTarget {
    /// An absolute `http` or `https` URL.
    pub url: String,
    /// The environment variable that holds the signing secret; unsigned where none is named.
    pub secret_env: Option<String>,
    /// Whether addresses of private networks and of this machine are allowed.
    #[serde(default)]
    pub allow_private: bool,
}

/// How much of a chat is shown to a background job's agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatContext {
    /// The chat that is quoted.
    pub chat: ChatName,
    /// How many of its last visible text entries, at most.
    pub last: u32,
}

/// When a job runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleSpec {
    /// The kind of schedule.
    pub when: When,
    /// The IANA zone in which wall time is read. `UTC` for an `every` job without a zone.
    pub zone: String,
    /// The first moment at which it may run, as wall time in the zone; inclusive.
    pub from: Option<civil::DateTime>,
    /// The moment from which on it no longer runs, as wall time in the zone; exclusive.
    pub until: Option<civil::DateTime>,
    /// Dates on which it does not run. They apply to the date that was written.
    pub exclude: Vec<civil::Date>,
    /// The width of the window in which the start is drawn; zero for none.
    pub jitter: SignedDuration,
}

/// The kinds of schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// At these wall times on these days.
    Daily {
        /// Ascending, without repeats, at least one.
        times: Vec<civil::Time>,
        /// The days of the week.
        days: Weekdays,
    },
    /// A cron expression of five fields, or of six with seconds first, as written.
    Cron(String),
    /// Every so often of elapsed time, on the grid `anchor + k * period`.
    Every {
        /// At least one second.
        period: SignedDuration,
        /// The grid's origin; where it is not given, the instant the job was first seen.
        anchor: Option<Timestamp>,
    },
    /// Once, at this wall time.
    At(civil::DateTime),
}

/// A set of days of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Weekdays(u8);

impl Weekdays {
    /// All seven days.
    pub const ALL: Self = Self(0b111_1111);
    /// No day; not a schedule, but where a set begins.
    pub const NONE: Self = Self(0);

    /// The set with this day added.
    #[must_use]
    pub fn with(self, day: civil::Weekday) -> Self {
        Self(self.0 | 1 << day.to_sunday_zero_offset())
    }

    /// The days that are in either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the day is in the set.
    pub fn contains(self, day: civil::Weekday) -> bool {
        self.0 & (1 << day.to_sunday_zero_offset()) != 0
    }

    /// Bit `n` is set for day `n`, counted from Sunday = 0.
    pub fn bits(self) -> u8 {
        self.0
    }
}
