//! How an occurrence ends, and why. A terminal state is reached once.

use serde::{Deserialize, Serialize};

/// Why a slot did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "http-api", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// The job was paused.
    Paused,
    /// A run of the job was active.
    Overlap,
    /// It was outside the catch-up window, or the job does not catch up.
    Missed,
    /// It was inside the window, but a newer slot ran instead.
    Superseded,
    /// Its date is excluded.
    Excluded,
    /// Its zone skipped its date whole.
    NoSuchDate,
}

impl SkipReason {
    /// All reasons.
    pub const ALL: [Self; 6] = [
        Self::Paused,
        Self::Overlap,
        Self::Missed,
        Self::Superseded,
        Self::Excluded,
        Self::NoSuchDate,
    ];

    /// The word stored in the column and shown to people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Overlap => "overlap",
            Self::Missed => "missed",
            Self::Superseded => "superseded",
            Self::Excluded => "excluded",
            Self::NoSuchDate => "no-such-date",
        }
    }

    /// The reason that is stored as this word.
    pub fn from_stored(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

/// Why a run failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailReason {
    /// The last attempt failed in a way that another try might have cured.
    Transient,
    /// An attempt failed in a way that no other try can cure.
    Permanent,
    /// An attempt took too long.
    Timeout,
    /// The process died during the run, or nobody made its next attempt before the next slot.
    Interrupted,
    /// An attempt failed after it had effects, and is not repeated by itself.
    AfterEffects,
    /// The job was paused before the next attempt.
    Paused,
    /// The agent's code panicked.
    Panicked,
}

impl FailReason {
    /// All reasons.
    pub const ALL: [Self; 7] = [
        Self::Transient,
        Self::Permanent,
        Self::Timeout,
        Self::Interrupted,
        Self::AfterEffects,
        Self::Paused,
        Self::Panicked,
    ];

    /// The word stored in the column and shown to people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::Timeout => "timeout",
            Self::Interrupted => "interrupted",
            Self::AfterEffects => "after-effects",
            Self::Paused => "paused",
            Self::Panicked => "panicked",
        }
    }

    /// The reason that is stored as this word.
    pub fn from_stored(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

/// How an occurrence ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It ran, and has something to show.
    Done,
    /// It ran, and has nothing to say.
    Silent,
    /// It was given up.
    Failed(FailReason),
    /// It was called off.
    Cancelled,
    /// It did not run.
    Skipped(SkipReason),
}

impl Outcome {
    /// The word stored in the state column.
    pub fn state(self) -> &'static str {
        match self {
            Self::Done | Self::Silent => "done",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
            Self::Skipped(_) => "skipped",
        }
    }

    /// The word stored in the reason column.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Done | Self::Cancelled => None,
            Self::Silent => Some("silent"),
            Self::Failed(reason) => Some(reason.as_str()),
            Self::Skipped(reason) => Some(reason.as_str()),
        }
    }

    /// The outcome that is stored as these words.
    pub fn from_stored(state: &str, reason: Option<&str>) -> Option<Self> {
        match (state, reason) {
            ("done", None) => Some(Self::Done),
            ("done", Some("silent")) => Some(Self::Silent),
            ("failed", Some(reason)) => FailReason::from_stored(reason).map(Self::Failed),
            ("cancelled", _) => Some(Self::Cancelled),
            ("skipped", Some(reason)) => SkipReason::from_stored(reason).map(Self::Skipped),
            (_, _) => None,
        }
    }
}
