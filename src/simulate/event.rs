//! What happens in a simulation, one decision at a time.

use jiff::{SignedDuration, Timestamp};

use crate::{
    ids::JobId,
    occurrence::{Cause, OccurrenceRef, Outcome, SkipReason, Slot},
    policy::{AttemptFate, AttemptResult, Effect, SkippedRange},
};

/// One thing that happened. `at` is what the machine's clock showed, as the worker would record it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event<'a> {
    /// When.
    pub at: Timestamp,
    /// To which job, as its place among the jobs in the order of their ids, and its id; `None` for
    /// what happens to the process.
    pub job: Option<(usize, &'a JobId)>,
    /// What.
    pub what: Happening<'a>,
}

/// What happened. The words of the ledger are used where it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening<'a> {
    /// The process was killed.
    Down,
    /// It started again.
    Up,
    /// The machine's clock was set; the event's instant is what it shows then.
    ClockStep(SignedDuration),
    /// A slot got its record and starts later.
    Wait {
        /// The slot.
        slot: &'a Slot,
        /// Its nominal instant.
        nominal: Timestamp,
        /// When it may start.
        fire_at: Timestamp,
        /// Why it will run.
        cause: Cause,
        /// Other written times that became the same occurrence.
        merged: &'a [Slot],
    },
    /// A run was started: it waits for its lane and a slot.
    Start {
        /// The slot.
        slot: &'a Slot,
        /// Its nominal instant.
        nominal: Timestamp,
        /// When it could start.
        fire_at: Timestamp,
        /// Why it runs.
        cause: Cause,
        /// Other written times that became the same occurrence.
        merged: &'a [Slot],
    },
    /// An attempt began.
    Attempt {
        /// Of this slot.
        slot: &'a Slot,
        /// Which one, from 1.
        attempt: u32,
        /// The slot's nominal instant.
        nominal: Timestamp,
    },
    /// An attempt ended.
    AttemptEnd {
        /// Of this slot.
        slot: &'a Slot,
        /// Which one.
        attempt: u32,
        /// How.
        fate: AttemptFate,
    },
    /// The run waits for its next attempt.
    Backoff {
        /// Of this slot.
        slot: &'a Slot,
        /// Until when.
        until: Timestamp,
    },
    /// The run may make its next attempt.
    Requeue {
        /// Of this slot.
        slot: &'a Slot,
    },
    /// An occurrence ended.
    End {
        /// Its slot.
        slot: &'a Slot,
        /// How.
        outcome: Outcome,
    },
    /// Slots that do not run.
    Skip(&'a SkippedRange),
    /// A send was answered.
    Send {
        /// The result of this slot.
        slot: &'a Slot,
        /// To this destination.
        to: &'a str,
        /// Which try, from 1.
        attempt: u32,
        /// What became of it.
        state: SendState,
    },
    /// An occurrence that had not ended when the window did.
    Open {
        /// Its slot.
        slot: &'a Slot,
        /// Where it stood: `waiting`, `queued`, `running` or `backoff`.
        phase: &'static str,
    },
}

/// What became of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendState {
    /// The chat has shown it.
    Confirmed,
    /// It was refused, and is tried again then.
    Again(Timestamp),
    /// It was given up.
    Failed,
    /// Nobody can say.
    Unknown,
    /// It was too late to be sent, and was not.
    Withheld,
}

/// Takes events as they happen; nothing is kept on the way.
pub trait Sink {
    /// Takes one.
    fn take(&mut self, event: &Event<'_>);
}

impl<A: Sink, B: Sink> Sink for (A, B) {
    fn take(&mut self, event: &Event<'_>) {
        self.0.take(event);
        self.1.take(event);
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn take(&mut self, event: &Event<'_>) {
        (**self).take(event);
    }
}

impl<S: Sink> Sink for Option<S> {
    fn take(&mut self, event: &Event<'_>) {
        if let Some(sink) = self {
            sink.take(event);
        }
    }
}

/// The slot that a run executes. A simulation has scheduled runs only.
pub(super) fn slot_of(occurrence: &OccurrenceRef) -> Option<&Slot> {
    match occurrence {
        OccurrenceRef::Scheduled(slot) | OccurrenceRef::Backfill(_, slot) => Some(slot),
        OccurrenceRef::Manual(_) => None,
    }
}

impl<'a> Happening<'a> {
    /// The word for it in the log.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
            Self::ClockStep(_) => "clock-step",
            Self::Wait { .. } => "wait",
            Self::Start { .. } => "start",
            Self::Attempt { .. } => "attempt",
            Self::AttemptEnd { .. } => "attempt-end",
            Self::Backoff { .. } => "backoff",
            Self::Requeue { .. } => "requeue",
            Self::End { .. } => "end",
            Self::Skip(_) => "skip",
            Self::Send { .. } => "send",
            Self::Open { .. } => "open",
        }
    }

    /// What an effect of a decision is, where it is about a slot.
    pub(super) fn of(effect: &'a Effect) -> Option<Self> {
        Some(match effect {
            Effect::Wait { waiting, merged } => Self::Wait {
                slot: &waiting.slot,
                nominal: waiting.nominal,
                fire_at: waiting.fire_at,
                cause: waiting.cause,
                merged,
            },
            Effect::Start {
                occurrence,
                nominal,
                fire_at,
                cause,
                merged,
            } => Self::Start {
                slot: slot_of(occurrence)?,
                nominal: *nominal,
                fire_at: *fire_at,
                cause: *cause,
                merged,
            },
            Effect::Requeue { occurrence } => Self::Requeue {
                slot: slot_of(occurrence)?,
            },
            Effect::Backoff { occurrence, until } => Self::Backoff {
                slot: slot_of(occurrence)?,
                until: *until,
            },
            Effect::End {
                occurrence,
                outcome,
            } => Self::End {
                slot: slot_of(occurrence)?,
                outcome: *outcome,
            },
            Effect::Skip(range) => Self::Skip(range),
        })
    }

    /// The reason for a slot that did not run.
    pub fn skip_reason(&self) -> Option<SkipReason> {
        match self {
            Self::Skip(range) => Some(range.reason),
            Self::End {
                outcome: Outcome::Skipped(reason),
                ..
            } => Some(*reason),
            Self::Down
            | Self::Up
            | Self::ClockStep(_)
            | Self::Wait { .. }
            | Self::Start { .. }
            | Self::Attempt { .. }
            | Self::AttemptEnd { .. }
            | Self::Backoff { .. }
            | Self::Requeue { .. }
            | Self::End { .. }
            | Self::Send { .. }
            | Self::Open { .. } => None,
        }
    }
}

/// The words of an attempt's end: as in the ledger.
pub(super) fn fate_words(fate: AttemptFate) -> (&'static str, Option<&'static str>) {
    match fate {
        AttemptFate::Ended(AttemptResult::Done) => ("done", None),
        AttemptFate::Ended(AttemptResult::Silent) => ("done", Some("silent")),
        AttemptFate::Ended(AttemptResult::Failed(reason)) => ("failed", Some(reason.as_str())),
        AttemptFate::Interrupted => ("interrupted", None),
        AttemptFate::Cancelled => ("cancelled", None),
    }
}
