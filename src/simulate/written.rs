//! A scenario as people write it, on the command line and in files: one set of forms for both.

use std::fmt;

use jiff::{
    SignedDuration, Timestamp,
    civil::{DateTime, Time, Weekday},
};

use crate::ids::{ChatName, JobId};

use super::{Expect, Rate, RunTime, Scenario, Window};

pub mod parse;
mod resolve;

/// A moment as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// An instant.
    Instant(Timestamp),
    /// Wall time in the file's zone.
    Wall(DateTime),
    /// The first such time of the week in the window.
    Weekday(Weekday, Time),
}

/// From when to when, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The beginning.
    pub from: Moment,
    /// The end.
    pub to: Moment,
}

/// When attempts fail, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// So many.
    Rate(Rate),
    /// The one that is under way then.
    At(Moment),
    /// Those that are under way in this stretch.
    Between(Stretch),
}

/// A scenario as written, all of it optional.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// The beginning of the window.
    pub from: Option<Moment>,
    /// Its end.
    pub to: Option<Moment>,
    /// Its length.
    pub length: Option<SignedDuration>,
    /// What draws depend on.
    pub seed: Option<u64>,
    /// When the process is down.
    pub outages: Vec<Stretch>,
    /// When the clock is set, and by how much.
    pub clock_steps: Vec<(Moment, SignedDuration)>,
    /// How long attempts take, where nothing is said of their job.
    pub run_time: Option<RunTime>,
    /// How long they take, by job.
    pub run_times: Vec<(JobId, RunTime)>,
    /// When they fail, by job.
    pub failures: Vec<(JobId, Given)>,
    /// How often sends are refused, by chat.
    pub channel_failures: Vec<(ChatName, Rate)>,
    /// How many attempts may be under way at once.
    pub max_concurrent: Option<u32>,
    /// What it must come to.
    pub expects: Vec<Expect>,
}

/// Why there is no window, or why something is not in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WindowError {
    /// It ends before it begins, or at once.
    #[error("the window ends at {to}, which is not after its beginning, {from}")]
    Reversed {
        /// Its beginning.
        from: Timestamp,
        /// Its end.
        to: Timestamp,
    },
    /// It is longer than a hundred years.
    #[error("the window from {from} to {to} is longer than 100 years")]
    TooLong {
        /// Its beginning.
        from: Timestamp,
        /// Its end.
        to: Timestamp,
    },
    /// Both an end and a length.
    #[error("the window has an end and a length: one of the two")]
    TwoEnds,
    /// Neither an end nor a length.
    #[error("the window has no end")]
    NoEnd,
    /// A stretch ends before it begins, or at once.
    #[error("{what} ends at {to}, which is not after its beginning, {from}")]
    ReversedStretch {
        /// What kind of stretch.
        what: &'static str,
        /// Its beginning.
        from: Timestamp,
        /// Its end.
        to: Timestamp,
    },
    /// A moment that no clock shows.
    #[error("{0} is beyond the calendar")]
    OutOfRange(String),
    /// Nothing of it would be simulated.
    #[error("{what} is outside of the window, which is from {from} to {to}")]
    Outside {
        /// What, as it was written.
        what: String,
        /// The window's beginning.
        from: Timestamp,
        /// Its end.
        to: Timestamp,
    },
}

/// The window and the world that a scenario comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// From when to when.
    pub window: Window,
    /// What the world does.
    pub scenario: Scenario,
    /// Wall times that a clock change skips, each with the instant that is taken for it.
    pub moved: Vec<(DateTime, Timestamp)>,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instant(at) => write!(f, "{at}"),
            Self::Wall(wall) => write!(f, "{wall}"),
            Self::Weekday(day, time) => {
                // The accepted form is the first three letters.
                let day = format!("{day:?}");
                write!(f, "{} {}", &day[..3], time.strftime("%H:%M:%S"))
            }
        }
    }
}

impl fmt::Display for Stretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.from, self.to)
    }
}

impl Written {
    /// What is written here over what is written there: of single values the ones here, of lists
    /// both.
    #[must_use]
    pub fn over(mut self, under: Self) -> Self {
        let own_end = self.to.is_some() || self.length.is_some();
        self.from = self.from.or(under.from);
        if !own_end {
            (self.to, self.length) = (under.to, under.length);
        }
        self.seed = self.seed.or(under.seed);
        self.outages = joined(under.outages, self.outages);
        self.run_time = self.run_time.or(under.run_time);
        self.max_concurrent = self.max_concurrent.or(under.max_concurrent);
        self.clock_steps = joined(under.clock_steps, self.clock_steps);
        self.run_times = joined(under.run_times, self.run_times);
        self.failures = joined(under.failures, self.failures);
        self.channel_failures = joined(under.channel_failures, self.channel_failures);
        self.expects = joined(under.expects, self.expects);
        self
    }
}

/// Both, in this order; of a map the entries above win.
fn joined<C: IntoIterator + Extend<C::Item>>(mut below: C, above: C) -> C {
    below.extend(above);
    below
}
