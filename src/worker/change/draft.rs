//! From a change and the job as it is stored to what shall be committed.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::{
    directory::Chat,
    ids::{ChatName, SessionKey},
    job::Job,
    outbound::route,
    policy::{Decided, Decision, JobState, OwnedEvent, decide_and_keep},
    schedule::ScheduleError,
    store::{JobCommit, JobSource, Route, StoredJob, StretchBegin, StretchChange, Target, Written},
};

use super::{Answer, Applied, Change, ChangeError};

/// A job whose schedule cannot be planned is looked at again after so long.
const UNPLANNABLE_WAIT: SignedDuration = SignedDuration::from_hours(1);

/// What a change leads to.
pub(super) enum Draft {
    /// This is committed; with the decision behind it, if the policy made one.
    Commit(Box<JobCommit>, Option<Box<Decided>>),
    /// Nothing is.
    Answer(Answer),
}

/// Asks the policy about a change. `passed` is the nominal of a slot that has its record already.
pub(super) fn draft(
    change: &Change,
    stored: Option<&StoredJob>,
    passed: Option<Timestamp>,
    chats: &BTreeMap<ChatName, Chat>,
    now: Timestamp,
) -> Draft {
    let present = stored.filter(|stored| stored.removed_at.is_none());
    if let (OwnedEvent::DefinitionChanged { new }, Some(source), None) =
        (&change.event, &change.source, present)
    {
        return create(new, source, stored, chats, now);
    }
    // A removed job takes no more events, but the end of an attempt is held against its fence.
    let Some(stored) = present.or(stored.filter(|_| change.attempt_end.is_some())) else {
        return Draft::Answer(Err(ChangeError::NoSuchJob {
            job_id: change.job_id.clone(),
        }));
    };
    if change.seen.is_some_and(|seen| seen != stored.version) {
        return Draft::Answer(Err(ChangeError::Outdated {
            job_id: change.job_id.clone(),
        }));
    }
    if is_as_before(change, stored) {
        return Draft::Answer(Ok(Applied {
            wake_at: stored.wake_at,
            is_as_before: true,
            ..Applied::default()
        }));
    }
    let state = match passed {
        Some(nominal) => stored.state.clone().past(nominal),
        None => stored.state.clone(),
    };
    let event = change.event.clone();
    match decide_and_keep(&stored.job, stored.first_seen_at, &state, event, now) {
        Ok(decided) => commit(change, stored, decided, chats),
        Err(source) => unplannable(change, stored, source, now),
    }
}

/// Whether a definition is stored already: by another worker that applies the same file.
fn is_as_before(change: &Change, stored: &StoredJob) -> bool {
    match (&change.event, &change.source) {
        (OwnedEvent::DefinitionChanged { new }, Some(source)) => {
            stored.job == **new && stored.source == *source
        }
        (_, _) => false,
    }
}

fn commit(
    change: &Change,
    stored: &StoredJob,
    decided: Decided,
    chats: &BTreeMap<ChatName, Chat>,
) -> Draft {
    let version = stored.version;
    let target = match (&change.event, &change.source) {
        (OwnedEvent::DefinitionChanged { new }, Some(source)) => Target::Redefine {
            version,
            job: new.clone(),
            source: source.clone(),
        },
        (OwnedEvent::Removed, _) => Target::Remove { version },
        (_, _) => Target::Keep { version },
    };
    let decision = &decided.decision;
    let changes_nothing = matches!(target, Target::Keep { .. })
        && change.attempt_end.is_none()
        && decision.effects.is_empty()
        && decision.state == stored.state
        && decision.wake_at == stored.wake_at;
    if changes_nothing {
        return Draft::Answer(Ok(Applied::of(&decided, Written::default())));
    }
    let commit = JobCommit {
        job_id: change.job_id.clone(),
        target,
        state: decision.state.clone(),
        wake_at: decision.wake_at,
        effects: decision.effects.clone(),
        route: route(&stored.job, chats),
        attempt_end: change.attempt_end.clone(),
        stretch: stretch(change, stored, decision),
        paused_by_policy: paused_by_policy(change, stored, &decided),
        begin: None,
    };
    Draft::Commit(Box::new(commit), Some(Box::new(decided)))
}

/// Another schedule takes over where the old one ends; a removed job plans no more. A clock that is
/// put right may bring a job back to before it was first seen.
fn stretch(change: &Change, stored: &StoredJob, decision: &Decision) -> StretchChange {
    let (before, after) = (&stored.state, &decision.state);
    let ends_at = Some(decision.accounted_to(before));
    let new_schedule = match &change.event {
        OwnedEvent::DefinitionChanged { new } if new.schedule != stored.job.schedule => {
            Some(&new.schedule)
        }
        OwnedEvent::Removed => {
            return StretchChange {
                ends_at,
                begins: None,
            };
        }
        OwnedEvent::DefinitionChanged { .. }
        | OwnedEvent::WakeUp
        | OwnedEvent::AttemptFinished { .. }
        | OwnedEvent::LeaseLost { .. }
        | OwnedEvent::RunCancelled { .. }
        | OwnedEvent::ManualTrigger { .. }
        | OwnedEvent::Backfill { .. }
        | OwnedEvent::Paused { .. }
        | OwnedEvent::Resumed => None,
    };
    let is_earlier = before.planned_from.is_some() && after.planned_from < before.planned_from;
    let begins = match new_schedule {
        Some(schedule) => (after.cursor, schedule),
        None if is_earlier => (
            after.planned_from.unwrap_or(after.cursor),
            &stored.job.schedule,
        ),
        None => return StretchChange::default(),
    };
    StretchChange {
        ends_at,
        begins: Some(StretchBegin {
            after: begins.0,
            zone: begins.1.zone.clone(),
        }),
    }
}

/// Why the end of an attempt has paused the job: a person pauses by an event of its own.
fn paused_by_policy(change: &Change, stored: &StoredJob, decided: &Decided) -> Option<String> {
    let pause = decided.decision.state.pause.as_ref()?;
    let is_new = stored.state.pause.is_none() && change.attempt_end.is_some();
    is_new.then(|| pause.reason.clone())
}

fn create(
    job: &Job,
    source: &JobSource,
    removed: Option<&StoredJob>,
    chats: &BTreeMap<ChatName, Chat>,
    now: Timestamp,
) -> Draft {
    let activated = JobState::activated(now);
    let decided = match decide_and_keep(job, now, &activated, OwnedEvent::WakeUp, now) {
        Ok(decided) => decided,
        Err(source) => {
            return Draft::Answer(Err(ChangeError::Unplannable {
                job_id: job.id.clone(),
                source,
            }));
        }
    };
    let commit = JobCommit {
        job_id: job.id.clone(),
        target: Target::Create {
            job: Box::new(job.clone()),
            source: source.clone(),
            first_seen_at: now,
        },
        state: decided.decision.state.clone(),
        wake_at: decided.decision.wake_at,
        effects: decided.decision.effects.clone(),
        route: route(job, chats),
        attempt_end: None,
        stretch: StretchChange {
            // One that was pruned away as finished was never told that it is removed.
            ends_at: removed.map(|removed| removed.state.accounted_to()),
            begins: Some(StretchBegin {
                after: now,
                zone: job.schedule.zone.clone(),
            }),
        },
        paused_by_policy: None,
        begin: None,
    };
    Draft::Commit(Box::new(commit), Some(Box::new(decided)))
}

/// A stored schedule was planned when it was stored; only other zone data can spoil it. The job is
/// looked at again later, and the others go on.
fn unplannable(
    change: &Change,
    stored: &StoredJob,
    source: ScheduleError,
    now: Timestamp,
) -> Draft {
    if !matches!(change.event, OwnedEvent::WakeUp) {
        return Draft::Answer(Err(ChangeError::Unplannable {
            job_id: change.job_id.clone(),
            source,
        }));
    }
    tracing::error!(job = %change.job_id, error = %source, "the job's schedule cannot be planned");
    let commit = JobCommit {
        job_id: change.job_id.clone(),
        target: Target::Keep {
            version: stored.version,
        },
        state: stored.state.clone(),
        wake_at: now.saturating_add(UNPLANNABLE_WAIT).ok(),
        effects: Vec::new(),
        route: Route {
            lane: SessionKey::job(&change.job_id),
            lane_per_run: false,
            destination: None,
        },
        attempt_end: None,
        stretch: StretchChange::default(),
        paused_by_policy: None,
        begin: None,
    };
    Draft::Commit(Box::new(commit), None)
}
