//! The job state machine: what an event means for a job, decided without a clock, store or task.
//!
//! `decide` is total and pure, one job at a time. The worker and the simulator ask the same
//! functions, so a simulation is a statement about production. `admit` says which waiting turns,
//! runs and deliveries go next; [`outbox`] says what an answer of a channel does to a part.

mod admit;
pub mod clock;
mod decide;
pub mod incident;
mod journal;
pub mod outbox;
mod refill;
mod state;

pub use admit::{DeliveryHead, Grant, LaneQueue, RunHead, TurnHead, admit, goes_last};
pub use decide::{BACKFILL_MAX, ON_TIME, QUEUE_MAX, decide, decide_from};
pub use journal::{Decided, JournalEntry, OwnedEvent, Recheck, decide_and_keep, recheck};
pub use refill::{FailedSlots, Past, Refill, refill};
pub use state::{
    ActiveRun, AttemptFate, AttemptResult, BackfillSlot, Decision, Effect, Effects, Event, JobPlan,
    JobState, Pause, Phase, Refusal, SkippedRange, WaitingSlot, WaitsFor,
};
