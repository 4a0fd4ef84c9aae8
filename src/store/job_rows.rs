//! Jobs and decisions, as the store takes and gives them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    agent::Usage,
    directory::Chat,
    ids::{Epoch, JobId, OccurrenceId, RunId, SessionKey},
    job::Job,
    message::Destination,
    occurrence::{Cause, OccurrenceRef, Outcome},
    policy::{AttemptFate, Effect, JobState},
};

use super::{Diagnostic, EntryDraft, NewMessage, WorkerId};

/// A job as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredJob {
    /// The present definition.
    pub job: Job,
    /// Raised when a removed id is created again.
    pub incarnation: i64,
    /// Raised by every change of the definition.
    pub revision: i64,
    /// Raised by every decision.
    pub version: i64,
    /// Where it is defined.
    pub source: JobSource,
    /// What the policy remembers.
    pub state: JobState,
    /// When it was first seen; the default anchor of an `every` job.
    pub first_seen_at: Timestamp,
    /// When it next needs a decision.
    pub wake_at: Option<Timestamp>,
    /// When it was removed.
    pub removed_at: Option<Timestamp>,
}

/// What a job's definition is, without the definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobDigest {
    /// The job.
    pub job_id: JobId,
    /// Where it is defined.
    pub source: JobSource,
    /// [`Job::digest`] of its definition, by the version that stored it.
    pub digest: String,
}

/// A jobs file that a worker is about to apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileToApply {
    /// Its name.
    pub file: String,
    /// A digest of its content.
    pub digest: String,
    /// Its chats.
    pub chats: Vec<Chat>,
    /// Which content may be applied.
    pub accepts: Accepts,
}

/// Which content of a jobs file may be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepts {
    /// Any.
    Any,
    /// One that was applied before, and replaced by another since, only if the copy was edited after
    /// that; the instant is when it was, as far as that is known.
    NotOlder(Option<Timestamp>),
}

/// One content of a jobs file, as it was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileVersion {
    /// The file's name.
    pub file: String,
    /// Raised by every other content that is applied.
    pub revision: i64,
}

/// What a worker that is about to apply a jobs file is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stamped {
    /// Its content is the newest one, and its chats are in force.
    Newest(FileVersion),
    /// Its content was applied before, and another one since: nothing was changed.
    Older {
        /// When that other one was.
        replaced_at: Timestamp,
    },
}

/// Where a job is defined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobSource {
    /// In a jobs file of this name.
    File(String),
    /// At run time, by this creator.
    Runtime(String),
}

impl JobSource {
    /// The word stored in the column.
    pub fn to_stored(&self) -> String {
        match self {
            Self::File(name) => format!("file:{name}"),
            Self::Runtime(creator) => format!("runtime:{creator}"),
        }
    }

    /// The source that is stored as this word.
    pub fn from_stored(word: &str) -> Option<Self> {
        let (kind, rest) = word.split_once(':')?;
        match kind {
            "file" => Some(Self::File(rest.to_owned())),
            "runtime" => Some(Self::Runtime(rest.to_owned())),
            _ => None,
        }
    }
}

/// One decision about one job, to be committed.
#[derive(Debug, Clone)]
pub struct JobCommit {
    /// The job.
    pub job_id: JobId,
    /// What is changed.
    pub target: Target,
    /// The new state.
    pub state: JobState,
    /// When it next needs a decision.
    pub wake_at: Option<Timestamp>,
    /// What is written with it.
    pub effects: Vec<Effect>,
    /// Where runs that these effects start or let wait will take place.
    pub route: Route,
    /// The attempt whose end the decision answers.
    pub attempt_end: Option<AttemptEnd>,
    /// Why a policy has paused the job with this decision, if one has.
    pub paused_by_policy: Option<String>,
    /// Which slots the job's definitions plan, where that changes.
    pub stretch: StretchChange,
    /// The worker that begins at once what these effects start, where the lane is free; what was not
    /// begun waits as it does otherwise. Not followed where workers share the database: whoever
    /// claims there renews a lease.
    pub begin: Option<WorkerId>,
}

/// How the stretches change that a job's definitions plan; kept so that a ledger can be audited
/// over edits. Both may be set: one definition takes over from another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StretchChange {
    /// The nominal instant up to which the definition in force until now has accounted.
    pub ends_at: Option<Timestamp>,
    /// From where on the definition that is then in force plans slots.
    pub begins: Option<StretchBegin>,
}

/// Where a stretch begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StretchBegin {
    /// Its slots come after this instant.
    pub after: Timestamp,
    /// The zone in which they are planned.
    pub zone: String,
}

/// Which row of a job a decision changes, and how.
#[derive(Debug, Clone)]
pub enum Target {
    /// A job that is created; fails with `StaleVersion` if it exists and is not removed.
    Create {
        /// The definition.
        job: Box<Job>,
        /// Where it is defined.
        source: JobSource,
        /// When it was first seen.
        first_seen_at: Timestamp,
    },
    /// A job at this version, whose definition stays.
    Keep {
        /// The version that was decided on.
        version: i64,
    },
    /// A job at this version, whose definition is replaced. Occurrences that these effects start
    /// or let wait were planned by the old definition, and keep it.
    Redefine {
        /// The version that was decided on.
        version: i64,
        /// The new definition.
        job: Box<Job>,
        /// Where it is defined now.
        source: JobSource,
    },
    /// A job at this version, which is removed. Its `pending` parts are cancelled, except the rest
    /// of a message already begun.
    Remove {
        /// The version that was decided on.
        version: i64,
    },
}

/// Where a run takes place and where its result goes; frozen when its slot is accounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The session whose lane it takes.
    pub lane: SessionKey,
    /// Whether each run has a lane of its own instead, beside the others.
    #[serde(default)]
    pub lane_per_run: bool,
    /// Where the result shows; `None` for history only, or where the chat is not known.
    pub destination: Option<Destination>,
}

/// The end of an attempt, fenced by its epoch.
#[derive(Debug, Clone)]
pub struct AttemptEnd {
    /// The run.
    pub run_id: RunId,
    /// Under which lease the attempt was made.
    pub epoch: Epoch,
    /// Which attempt.
    pub attempt: u32,
    /// How it ended.
    pub result: AttemptFate,
    /// In words, without prompt, reply or secret.
    pub error: Option<String>,
    /// What the agent said; kept in run history.
    pub output: Option<String>,
    /// What the provider counted.
    pub usage: Option<Usage>,
    /// Rows for the session in which it ran.
    pub entries: Vec<EntryDraft>,
    /// What is to be shown.
    pub message: Option<NewMessage>,
    /// What a person should know.
    pub diagnostics: Vec<Diagnostic>,
}

/// What a committed decision has written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Runs that were started.
    pub started: Vec<(OccurrenceRef, RunId)>,
    /// Runs that ended, so that their attempts, if any are under way, can be aborted.
    pub ended: Vec<RunId>,
    /// How each of them ended, in the same order.
    pub outcomes: Vec<Outcome>,
    /// The first attempts that were begun with it.
    pub begun: Vec<BegunRun>,
}

/// A run whose first attempt began in the commit that started it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunRun {
    /// The run.
    pub run_id: RunId,
    /// The fence of everything that the attempt writes.
    pub epoch: Epoch,
    /// What it executes.
    pub occurrence: OccurrenceRef,
    /// Its row in the ledger.
    pub occurrence_id: OccurrenceId,
    /// Raised when the job's id is created again.
    pub incarnation: i64,
    /// Its nominal instant.
    pub nominal_at: Timestamp,
    /// Why it runs.
    pub cause: Cause,
    /// The session in which it runs.
    pub lane: SessionKey,
    /// Where its result goes.
    pub destination: Option<Destination>,
}
