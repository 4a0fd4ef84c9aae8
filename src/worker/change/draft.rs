//! From a change and the job as it is stored to what shall be committed.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::{
    directory::Chat,
    ids::{ChatName, SessionKey},
    job::Job,
    occurrence::{Outcome, SkipReason},
    outbound::route,
    policy::{Decision, Effect, Event, JobPlan, JobState, decide},
    schedule::ScheduleError,
    store::{JobCommit, JobSource, Route, StoredJob, Target, Written},
};

use super::{Answer, Applied, Change, ChangeError, What};

/// A job whose schedule cannot be planned is looked at again after so long.
const UNPLANNABLE_WAIT: SignedDuration = SignedDuration::from_hours(1);

/// What a change leads to.
pub(super) enum Draft {
    Commit(Box<JobCommit>, Applied),
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
    if let (What::Define(job, source), None) = (&change.what, present) {
        return create(job, source, chats, now);
    }
    // A removed job takes no more events, but the end of an attempt is held against its fence.
    let Some(stored) = present.or(stored.filter(|_| change.attempt_end.is_some())) else {
        return Draft::Answer(Err(ChangeError::NoSuchJob {
            job_id: change.job_id.clone(),
        }));
    };
    let state = match passed {
        Some(nominal) => stored.state.clone().past(nominal),
        None => stored.state.clone(),
    };
    match decided(change, stored, &state, now) {
        Ok(decision) => commit(change, stored, decision, chats),
        Err(source) => unplannable(change, stored, source, now),
    }
}

fn decided(
    change: &Change,
    stored: &StoredJob,
    state: &JobState,
    now: Timestamp,
) -> Result<Decision, ScheduleError> {
    let plan = JobPlan::new(stored.job.clone(), stored.first_seen_at)?;
    let event = match &change.what {
        What::WakeUp => Event::WakeUp,
        What::AttemptFinished {
            occurrence,
            result,
            attempts_made,
            policies,
        } => Event::AttemptFinished {
            occurrence,
            result: *result,
            attempts_made: *attempts_made,
            policies,
        },
        What::LeaseLost {
            occurrence,
            attempts_made,
            policies,
        } => Event::LeaseLost {
            occurrence,
            attempts_made: *attempts_made,
            policies,
        },
        What::RunCancelled { occurrence } => Event::RunCancelled { occurrence },
        What::Trigger(request) => Event::ManualTrigger { request: *request },
        What::Pause(reason) => Event::Paused {
            reason: reason.clone(),
        },
        What::Resume => Event::Resumed,
        What::Define(job, _) => {
            let new = JobPlan::new((**job).clone(), stored.first_seen_at)?;
            return Ok(decide(
                &plan,
                state,
                Event::DefinitionChanged { new: &new },
                now,
            ));
        }
        What::Remove => Event::Removed,
    };
    Ok(decide(&plan, state, event, now))
}

fn commit(
    change: &Change,
    stored: &StoredJob,
    decision: Decision,
    chats: &BTreeMap<ChatName, Chat>,
) -> Draft {
    let applied = Applied {
        written: Written::default(),
        refusal: decision.refusal,
        wake_at: decision.wake_at,
        skipped: skipped(&decision.effects),
    };
    let version = stored.version;
    let target = match &change.what {
        What::Define(job, source) => Target::Redefine {
            version,
            job: job.clone(),
            source: source.clone(),
        },
        What::Remove => Target::Remove { version },
        What::WakeUp
        | What::AttemptFinished { .. }
        | What::LeaseLost { .. }
        | What::RunCancelled { .. }
        | What::Trigger(_)
        | What::Pause(_)
        | What::Resume => Target::Keep { version },
    };
    let changes_nothing = matches!(target, Target::Keep { .. })
        && change.attempt_end.is_none()
        && decision.effects.is_empty()
        && decision.state == stored.state
        && decision.wake_at == stored.wake_at;
    if changes_nothing {
        return Draft::Answer(Ok(applied));
    }
    let commit = JobCommit {
        job_id: change.job_id.clone(),
        target,
        state: decision.state,
        wake_at: decision.wake_at,
        effects: decision.effects,
        route: route(&stored.job, chats),
        attempt_end: change.attempt_end.clone(),
    };
    Draft::Commit(Box::new(commit), applied)
}

fn skipped(effects: &[Effect]) -> Vec<(SkipReason, u64)> {
    let count = |effect: &Effect| match effect {
        Effect::Skip(range) => Some((range.reason, range.count)),
        Effect::End {
            outcome: Outcome::Skipped(reason),
            ..
        } => Some((*reason, 1)),
        Effect::Wait { .. }
        | Effect::Start { .. }
        | Effect::Requeue { .. }
        | Effect::Backoff { .. }
        | Effect::End { .. } => None,
    };
    effects.iter().filter_map(count).collect()
}

fn create(
    job: &Job,
    source: &JobSource,
    chats: &BTreeMap<ChatName, Chat>,
    now: Timestamp,
) -> Draft {
    let plan = match JobPlan::new(job.clone(), now) {
        Ok(plan) => plan,
        Err(source) => {
            return Draft::Answer(Err(ChangeError::Unplannable {
                job_id: job.id.clone(),
                source,
            }));
        }
    };
    let decision = decide(&plan, &JobState::activated(now), Event::WakeUp, now);
    let applied = Applied {
        wake_at: decision.wake_at,
        ..Applied::default()
    };
    let commit = JobCommit {
        job_id: job.id.clone(),
        target: Target::Create {
            job: Box::new(job.clone()),
            source: source.clone(),
            first_seen_at: now,
        },
        state: decision.state,
        wake_at: decision.wake_at,
        effects: decision.effects,
        route: route(job, chats),
        attempt_end: None,
    };
    Draft::Commit(Box::new(commit), applied)
}

/// A stored schedule was planned when it was stored; only other zone data can spoil it. The job is
/// looked at again later, and the others go on.
fn unplannable(
    change: &Change,
    stored: &StoredJob,
    source: ScheduleError,
    now: Timestamp,
) -> Draft {
    if !matches!(change.what, What::WakeUp) {
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
            destination: None,
        },
        attempt_end: None,
    };
    Draft::Commit(Box::new(commit), Applied::default())
}
