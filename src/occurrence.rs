//! Occurrences as data: slots, kinds, causes, and the reasons for every end.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::RequestId;

mod reason;

pub use reason::{FailReason, Outcome, SkipReason};

/// What a person wrote, spelled out for one occurrence: a local date-time with its zone (and
/// `/2` where it is the second pass of a repeated hour), or a grid instant of an `every` job.
///
/// With the job and its incarnation it identifies a scheduled occurrence. The instant is derived
/// from it and stored beside it, so that new zone data can move a slot that is still to come and
/// can never fire an accounted one twice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(String);

impl Slot {
    /// A slot in its spelled form.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The spelled form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Which occurrence of a job is meant; what the policy knows a run by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OccurrenceRef {
    /// A slot of the schedule.
    Scheduled(Slot),
    /// A person's or program's request to run now.
    Manual(RequestId),
    /// A slot that a backfill request names.
    Backfill(RequestId, Slot),
}

impl OccurrenceRef {
    /// Its kind.
    pub fn kind(&self) -> OccurrenceKind {
        match self {
            Self::Scheduled(_) => OccurrenceKind::Scheduled,
            Self::Manual(_) => OccurrenceKind::Manual,
            Self::Backfill(..) => OccurrenceKind::Backfill,
        }
    }
}

/// The kinds of rows in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OccurrenceKind {
    /// A slot of the schedule.
    Scheduled,
    /// Asked for by hand.
    Manual,
    /// Asked for by a backfill.
    Backfill,
}

impl OccurrenceKind {
    /// The word stored in the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Manual => "manual",
            Self::Backfill => "backfill",
        }
    }
}

/// Why a run was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "http-api", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Its slot came due.
    Scheduled,
    /// Its slot was missed, and is made up for.
    CatchUp,
    /// By hand.
    Manual,
    /// By a backfill.
    Backfill,
}

impl Cause {
    /// The word stored in the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::CatchUp => "catch-up",
            Self::Manual => "manual",
            Self::Backfill => "backfill",
        }
    }

    /// The cause that is stored as this word.
    pub fn from_stored(word: &str) -> Option<Self> {
        [Self::Scheduled, Self::CatchUp, Self::Manual, Self::Backfill]
            .into_iter()
            .find(|cause| cause.as_str() == word)
    }
}
