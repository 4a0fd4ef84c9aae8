//! The planner: from a validated schedule to its occurrences, in every zone and over every clock
//! change.
//!
//! It answers what comes next, what came last, and what lies in a range. It reads no clock, keeps
//! no state and decides no policy: whether a slot is run, buffered or skipped is `policy`'s work,
//! and turning TOML into a [`ScheduleSpec`](crate::job::ScheduleSpec) is `config`'s.
//!
//! The zone's clock is a list of segments of constant offset. Inside a segment planning is integer
//! arithmetic on local seconds; the rules for clock changes act at the edges only.

mod calendar;
mod clock_change;
pub mod cron;
mod day_rule;
mod day_times;
mod error;
mod every;
mod jitter;
mod note;
mod planned;
mod planner;
mod slot_text;
mod wall;
pub mod zone;

#[cfg(test)]
mod tests;

pub use clock_change::{ClockChange, ClockChangeKind, clock_changes};
pub use error::ScheduleError;
pub use planned::{Fate, Moved, Planned, Series};
pub use planner::{Occurrences, Planner};
