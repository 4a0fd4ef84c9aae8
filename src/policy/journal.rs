//! Decisions, written down with everything they depended on, so that another version can be asked
//! whether it would decide alike.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    ids::RequestId,
    job::{Job, Policies},
    occurrence::OccurrenceRef,
    schedule::{ScheduleError, zone::zone_fingerprint},
};

use super::{AttemptResult, BackfillSlot, Decision, Effects, Event, JobPlan, JobState, decide};

/// One decision with its inputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// When it was decided.
    pub now: Timestamp,
    /// The definition it was decided on.
    pub job: Job,
    /// When the job was first seen.
    pub first_seen_at: Timestamp,
    /// The state it was decided on.
    pub state: JobState,
    /// What had happened.
    pub event: OwnedEvent,
    /// What was decided.
    pub decision: Decision,
}

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// The version of chatcron that decided.
    pub version: String,
    /// The fingerprint of the zones of the definition, and of the one that replaces it, at that
    /// time; `None` where one was not known.
    pub zone_data: Option<String>,
    /// The digest of the definition.
    pub digest: String,
    /// The decision.
    #[serde(flatten)]
    pub decided: Decided,
}

impl JournalEntry {
    /// A line about a decision of this version.
    pub fn of(decided: Decided) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            zone_data: zone_data(&decided),
            digest: decided.job.digest(),
            decided,
        }
    }

    /// Whether the digest is not the one that this version makes of the definition.
    pub fn has_other_digest(&self) -> bool {
        self.digest != self.decided.job.digest()
    }

    /// Whether the data of a zone has changed since.
    pub fn has_other_zone_data(&self) -> bool {
        self.zone_data != zone_data(&self.decided)
    }
}

fn zone_data(decided: &Decided) -> Option<String> {
    let zone = &decided.job.schedule.zone;
    let old = zone_fingerprint(zone).ok()?;
    if let OwnedEvent::DefinitionChanged { new } = &decided.event
        && new.schedule.zone != *zone
    {
        let new = zone_fingerprint(&new.schedule.zone).ok()?;
        return Some(format!("{old} {new}"));
    }
    Some(old)
}

/// The owned form of [`Event`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnedEvent {
    /// [`Event::WakeUp`].
    WakeUp,
    /// [`Event::AttemptFinished`].
    AttemptFinished {
        /// Of what.
        occurrence: OccurrenceRef,
        /// How.
        result: AttemptResult,
        /// How many have been made.
        attempts_made: u32,
        /// Whether the last of them has had effects.
        #[serde(default, skip_serializing_if = "Effects::are_none")]
        effects: Effects,
        /// The policies it started with.
        policies: Policies,
    },
    /// [`Event::LeaseLost`].
    LeaseLost {
        /// Of what.
        occurrence: OccurrenceRef,
        /// How many attempts have been made.
        attempts_made: u32,
        /// Whether the last of them has had effects.
        #[serde(default, skip_serializing_if = "Effects::are_none")]
        effects: Effects,
        /// The policies it started with.
        policies: Policies,
    },
    /// [`Event::RunCancelled`].
    RunCancelled {
        /// Of what.
        occurrence: OccurrenceRef,
    },
    /// [`Event::ManualTrigger`].
    ManualTrigger {
        /// The request.
        request: RequestId,
    },
    /// [`Event::Backfill`].
    Backfill {
        /// The slots.
        slots: Vec<BackfillSlot>,
    },
    /// [`Event::Paused`].
    Paused {
        /// Why.
        reason: String,
    },
    /// [`Event::Resumed`].
    Resumed,
    /// [`Event::DefinitionChanged`].
    DefinitionChanged {
        /// The new definition.
        new: Box<Job>,
    },
    /// [`Event::Removed`].
    Removed,
}

/// How today's code decides on a journal's inputs.
#[derive(Debug, Clone, PartialEq)]
pub enum Recheck {
    /// As it was decided then.
    Same,
    /// Otherwise.
    Different {
        /// What today's code decides.
        today: Box<Decision>,
        /// Whether the zone's data is other than then, which may be why.
        zone_data_changed: bool,
    },
}

/// Asks the policy about an event, and keeps what it depended on.
///
/// # Errors
/// [`ScheduleError`] where a schedule cannot be planned with the zone data in use.
pub fn decide_and_keep(
    job: &Job,
    first_seen_at: Timestamp,
    state: &JobState,
    event: OwnedEvent,
    now: Timestamp,
) -> Result<Decided, ScheduleError> {
    let decision = decide_on(job, first_seen_at, state, &event, now)?;
    Ok(Decided {
        now,
        job: job.clone(),
        first_seen_at,
        state: state.clone(),
        event,
        decision,
    })
}

/// Asks today's code about a decision of a journal.
///
/// # Errors
/// [`ScheduleError`] where its schedule cannot be planned with the zone data in use.
pub fn recheck(entry: &JournalEntry) -> Result<Recheck, ScheduleError> {
    let then = &entry.decided;
    let today = decide_on(
        &then.job,
        then.first_seen_at,
        &then.state,
        &then.event,
        then.now,
    )?;
    if today == then.decision {
        return Ok(Recheck::Same);
    }
    Ok(Recheck::Different {
        today: Box::new(today),
        zone_data_changed: entry.has_other_zone_data(),
    })
}

/// Asks the policy about an owned event.
///
/// # Errors
/// [`ScheduleError`] where a schedule cannot be planned with the zone data in use.
fn decide_on(
    job: &Job,
    first_seen_at: Timestamp,
    state: &JobState,
    event: &OwnedEvent,
    now: Timestamp,
) -> Result<Decision, ScheduleError> {
    let plan = JobPlan::new(job.clone(), first_seen_at)?;
    let event = match event {
        OwnedEvent::WakeUp => Event::WakeUp,
        OwnedEvent::AttemptFinished {
            occurrence,
            result,
            attempts_made,
            effects,
            policies,
        } => Event::AttemptFinished {
            occurrence,
            result: *result,
            attempts_made: *attempts_made,
            effects: *effects,
            policies,
        },
        OwnedEvent::LeaseLost {
            occurrence,
            attempts_made,
            effects,
            policies,
        } => Event::LeaseLost {
            occurrence,
            attempts_made: *attempts_made,
            effects: *effects,
            policies,
        },
        OwnedEvent::RunCancelled { occurrence } => Event::RunCancelled { occurrence },
        OwnedEvent::ManualTrigger { request } => Event::ManualTrigger { request: *request },
        OwnedEvent::Backfill { slots } => Event::Backfill { slots },
        OwnedEvent::Paused { reason } => Event::Paused {
            reason: reason.clone(),
        },
        OwnedEvent::Resumed => Event::Resumed,
        OwnedEvent::DefinitionChanged { new } => {
            let new = JobPlan::new((**new).clone(), first_seen_at)?;
            let event = Event::DefinitionChanged { new: &new };
            return Ok(decide(&plan, state, event, now));
        }
        OwnedEvent::Removed => Event::Removed,
    };
    Ok(decide(&plan, state, event, now))
}
