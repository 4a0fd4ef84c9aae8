//! The production core in virtual time: what a window, an outage or a clock change will do.
//!
//! [`Simulation`] asks [`policy::decide`](crate::policy::decide),
//! [`policy::admit`](crate::policy::admit) and the planner exactly as the worker does, in the same
//! order at one instant, and makes up only what the world would answer: how long an agent takes,
//! whether it fails, whether a chat accepts. It reads no clock and no file; the same input gives the
//! same events on every host.

mod draw;
mod event;
mod expect;
mod fingerprint;
mod histogram;
mod lanes;
mod log;
mod markup;
mod quiet;
mod report;
mod run;
mod scenario;
mod timeline;
mod world;
mod written;

#[cfg(feature = "testing")]
pub use event::SendState;
pub use event::{Event, Happening, Sink};
pub use expect::{Checker, Expect, Unmet};
pub use fingerprint::zones_fingerprint;
pub use histogram::Histogram;
pub use log::{Log, LogSum};
pub(crate) use markup::escaped;
pub use quiet::totals;
pub use report::{JobTotals, Peak, Report, Tally};
pub use run::Simulation;
pub use scenario::{ClockStep, Failing, Outage, Rate, RunTime, Scenario, Window};
pub use timeline::Timeline;
pub use written::{Given, Moment, Stretch, WindowError, Written, parse};
