//! One planned occurrence, as it leaves the planner.

use jiff::Timestamp;

/// One slot of a schedule and the instant that it comes to.
///
/// Small and cheap: its identity text is made by
/// [`Planner::slot`](crate::schedule::Planner::slot) when it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Planned {
    /// The instant at which it starts, before jitter.
    ///
    /// Nominals of one planner are strictly increasing. A void slot that would share the instant
    /// of an occurrence that fires stands one microsecond before it.
    pub nominal: Timestamp,
    /// Whether it runs.
    pub fate: Fate,
    /// What a clock change did to it.
    pub moved: Option<Moved>,
    /// The local time that was written, in seconds; zero for grid instants.
    pub(crate) local: i64,
}

impl Planned {
    /// Whether it runs, as far as the schedule is concerned.
    pub fn fires(&self) -> bool {
        self.fate == Fate::Fires
    }
}

/// Slots of one fate with nothing else between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Series {
    /// The first.
    pub first: Planned,
    /// The last; the same as the first where there is one only.
    pub last: Planned,
    /// How many.
    pub count: u64,
}

impl Series {
    /// One slot.
    pub fn of(planned: Planned) -> Self {
        Self {
            first: planned,
            last: planned,
            count: 1,
        }
    }
}

/// What becomes of a slot, as far as the schedule is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It runs.
    Fires,
    /// Its date is excluded.
    Excluded,
    /// The zone skipped its date whole.
    NoSuchDate,
}

/// How a clock change touched a fixed-time occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Moved {
    /// The written time does not exist: it starts at the first instant after the gap.
    ToGapEnd,
    /// The written time comes twice: it starts at the first.
    FirstPass,
}
