//! Cron expressions: five fields, or six with seconds first, compiled to bit masks.
//!
//! Strict where dialects differ: what another program would read another way is refused, with the
//! range of bytes at fault and a hint.

use crate::schedule::{day_rule::DayRule, day_times::DayTimes};

mod error;
mod field;
mod item;
mod parse;

#[cfg(test)]
mod tests;

pub use error::CronError;
pub use field::Field;
pub use parse::parse;

/// A cron expression, compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronExpr {
    pub(crate) seconds: u64,
    pub(crate) minutes: u64,
    pub(crate) hours: u32,
    pub(crate) days: DayRule,
    frequent: bool,
    either_day: bool,
}

impl CronExpr {
    /// Whether the minute or the hour field starts with `*`: such a job runs at every matching
    /// instant, and others run once for what is written.
    pub fn is_frequent(&self) -> bool {
        self.frequent
    }

    /// Whether both day fields are set, and a date that either of them names counts.
    pub fn takes_either_day(&self) -> bool {
        self.either_day
    }

    pub(crate) fn times(&self) -> DayTimes {
        DayTimes::product(self.hours, self.minutes, self.seconds)
    }
}
