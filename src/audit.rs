//! The proof that a ledger accounts for every slot once: no hole, no second record, no orphan.
//!
//! Pure: the caller brings the stretches that a job's definitions planned, and its records in
//! order, a page at a time; the planner says which slots there must be.

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    ids::JobId,
    job::ScheduleSpec,
    occurrence::Slot,
    schedule::{Planner, ScheduleError},
};

mod ledger;
mod open;

pub use ledger::LedgerAudit;
pub use open::{OpenRow, unended};

/// A stretch of time whose slots one definition planned.
#[derive(Debug, Clone)]
pub struct Stretch {
    planner: Planner,
    /// Its first slot comes after this instant.
    after: Timestamp,
    /// Its last slot comes at or before this instant.
    until: Timestamp,
    zone_data: ZoneData,
}

/// With which data of its zone a stretch was planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneData {
    /// With that in use now.
    Same,
    /// With other data: today's planner cannot say which slots it had.
    Other,
}

impl Stretch {
    /// The slots in (`after`, `until`] of a schedule.
    ///
    /// # Errors
    /// [`ScheduleError`] where the schedule cannot be planned with the zone data in use.
    pub fn new(
        schedule: &ScheduleSpec,
        first_seen_at: Timestamp,
        (after, until): (Timestamp, Timestamp),
        zone_data: ZoneData,
    ) -> Result<Self, ScheduleError> {
        Ok(Self {
            planner: Planner::new(schedule, first_seen_at)?,
            after,
            until,
            zone_data,
        })
    }

    fn has(&self, at: Timestamp) -> bool {
        self.after < at && at <= self.until
    }
}

/// A record of a scheduled slot, or of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// One slot.
    Row {
        /// Its number in the ledger.
        occurrence_id: i64,
        /// The slot.
        slot: Slot,
        /// Its nominal instant, as it was when it was recorded.
        nominal: Timestamp,
        /// The stored word.
        state: String,
        /// The stored reason.
        reason: Option<String>,
        /// Whether it has an instant at which it ended.
        has_ended: bool,
    },
    /// A stretch of skipped slots.
    Range {
        /// The first slot.
        first: Slot,
        /// Its nominal instant.
        first_nominal: Timestamp,
        /// The last slot.
        last: Slot,
        /// Its nominal instant.
        last_nominal: Timestamp,
        /// How many.
        slots: u64,
        /// The stored reason.
        reason: String,
    },
}

impl Record {
    fn first(&self) -> Timestamp {
        match self {
            Self::Row { nominal, .. } => *nominal,
            Self::Range { first_nominal, .. } => *first_nominal,
        }
    }

    fn last(&self) -> Timestamp {
        match self {
            Self::Row { nominal, .. } => *nominal,
            Self::Range { last_nominal, .. } => *last_nominal,
        }
    }

    fn slots(&self) -> u64 {
        match self {
            Self::Row { .. } => 1,
            Self::Range { slots, .. } => *slots,
        }
    }

    /// How a finding names it.
    fn words(&self) -> String {
        match self {
            Self::Row {
                occurrence_id,
                slot,
                ..
            } => format!("occurrence {occurrence_id} of slot {slot}"),
            Self::Range {
                first, last, slots, ..
            } => format!("the range of {slots} slots from {first} to {last}"),
        }
    }
}

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The job, where it is about one.
    pub job: Option<JobId>,
    /// What kind.
    pub kind: FindingKind,
    /// In words.
    pub what: String,
}

/// The kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// Slots without a record.
    Hole,
    /// Slots with more than one record.
    Double,
    /// A record of a slot that no definition planned, or a row that belongs to nothing.
    Orphan,
    /// A record that says something else than the plan.
    Wrong,
    /// A record that is neither under way nor ended.
    Unended,
    /// Rows that contradict each other.
    Contradiction,
}

impl FindingKind {
    /// The word that people and programs read.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hole => "hole",
            Self::Double => "double",
            Self::Orphan => "orphan",
            Self::Wrong => "wrong",
            Self::Unended => "unended",
            Self::Contradiction => "contradiction",
        }
    }
}

/// What an audit has proved, and what it found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// Jobs, removed ones included.
    pub jobs: u64,
    /// Slots of which it is proved that they have exactly one record.
    pub slots: u64,
    /// Slots before the pruning mark whose records may be gone by right.
    pub pruned: u64,
    /// Slots with a record of which today's plan can say nothing: they were recorded before the
    /// database kept what this needs, or with other zone data.
    pub unproved: u64,
    /// What is not as it must be.
    pub findings: Vec<Finding>,
}

impl AuditReport {
    /// Whether everything is as it must be.
    pub fn holds(&self) -> bool {
        self.findings.is_empty()
    }

    /// Adds what was found of another part of the ledger.
    pub fn add(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.slots += other.slots;
        self.pruned += other.pruned;
        self.unproved += other.unproved;
        self.findings.extend(other.findings);
    }
}
