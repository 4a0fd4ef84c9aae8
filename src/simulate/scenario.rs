//! What a simulation is told about the world.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::ids::{ChatName, JobId};

/// From when to when; the end is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first instant.
    pub from: Timestamp,
    /// The first instant that is too late.
    pub to: Timestamp,
}

impl Window {
    /// Whether the instant is part of it.
    pub fn has(&self, at: Timestamp) -> bool {
        self.from <= at && at < self.to
    }
}

/// What the world does: all instants are those of a clock that nobody has touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// What all draws depend on, besides what is drawn.
    pub seed: u64,
    /// When the process is down.
    pub outages: Vec<Outage>,
    /// When the machine's clock is set.
    pub clock_steps: Vec<ClockStep>,
    /// How long an attempt takes, where a job has nothing of its own.
    pub run_time: RunTime,
    /// How long an attempt takes, by job.
    pub run_times: BTreeMap<JobId, RunTime>,
    /// When attempts fail, by job.
    pub failures: BTreeMap<JobId, Vec<Failing>>,
    /// How often a send to a chat is refused.
    pub channel_failures: BTreeMap<ChatName, Rate>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            seed: 0,
            outages: Vec::new(),
            clock_steps: Vec::new(),
            run_time: RunTime::USUAL,
            run_times: BTreeMap::new(),
            failures: BTreeMap::new(),
            channel_failures: BTreeMap::new(),
        }
    }
}

/// The process is killed at `from`, and starts again at `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outage {
    /// When it dies.
    pub from: Timestamp,
    /// When it starts again.
    pub to: Timestamp,
}

/// The machine's clock is set forward or back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClockStep {
    /// When.
    pub at: Timestamp,
    /// By how much.
    pub by: SignedDuration,
}

/// How long an attempt takes: drawn in whole seconds from `shortest` to `longest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunTime {
    /// At least so long.
    pub shortest: SignedDuration,
    /// At most so long.
    pub longest: SignedDuration,
}

impl RunTime {
    /// What is taken where nothing is said.
    pub const USUAL: Self = Self::fixed(SignedDuration::from_secs(30));

    /// Always the same.
    pub const fn fixed(time: SignedDuration) -> Self {
        Self {
            shortest: time,
            longest: time,
        }
    }
}

/// When attempts of a job fail, in a way that another try may cure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failing {
    /// So many of them, at their end.
    Rate(Rate),
    /// The one that is under way at this instant, then.
    At(Timestamp),
    /// Those that are under way in this stretch: at its beginning, or when they begin.
    Between(Timestamp, Timestamp),
}

/// A share, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u32);

impl Rate {
    /// Never.
    pub const NEVER: Self = Self(0);
    /// Always.
    #[cfg(feature = "testing")]
    pub const ALWAYS: Self = Self(1_000_000);
}
