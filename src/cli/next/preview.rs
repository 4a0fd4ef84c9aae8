//! What `next` finds out about one schedule: pure, from the job and what is stored of it.

use std::collections::BTreeMap;

use jiff::{Timestamp, tz::TimeZone};

use crate::{
    cli::{Exit, failure::Failure, words},
    ids::JobId,
    job::{Job, ScheduleSpec, When},
    occurrence::{Cause, Slot},
    policy::{Pause, WaitingSlot},
    schedule::{Planner, ScheduleError},
    store::StoredJob,
};

use super::{
    Question,
    change::{self, NextChange},
};

/// What a database remembers of a job.
#[derive(Debug, Clone)]
pub(super) struct History {
    pub(super) first_seen_at: Timestamp,
    pub(super) started_runs: u32,
    pub(super) pause: Option<Pause>,
    pub(super) waiting: Vec<WaitingSlot>,
}

impl From<&StoredJob> for History {
    fn from(stored: &StoredJob) -> Self {
        Self {
            first_seen_at: stored.first_seen_at,
            started_runs: stored.state.started_runs,
            pause: stored.state.pause.clone(),
            waiting: stored.state.waiting.clone(),
        }
    }
}

/// What comes next of one schedule.
#[derive(Debug)]
pub(super) struct Preview<'a> {
    pub(super) job: Option<&'a Job>,
    pub(super) schedule: String,
    /// Where its turn lives and where its result shows.
    pub(super) route: String,
    pub(super) tz: String,
    pub(super) zone: TimeZone,
    pub(super) after: Timestamp,
    /// From where an `every` schedule is counted.
    pub(super) counted_from: Option<CountedFrom>,
    /// Why it does not run at all.
    pub(super) stop: Option<Stop>,
    pub(super) times: Vec<Start>,
    pub(super) change: Option<NextChange>,
}

/// From where an `every` schedule is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CountedFrom {
    Anchor(Timestamp),
    FirstSeen(Timestamp),
    After(Timestamp),
}

/// Why a job does not run at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stop {
    Disabled,
    Paused(Pause),
    MaxRuns(u32),
}

/// One start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Start {
    pub(in crate::cli) at: Timestamp,
    pub(in crate::cli) nominal: Timestamp,
    pub(in crate::cli) slot: Slot,
    pub(in crate::cli) note: Option<String>,
}

impl<'a> Preview<'a> {
    /// Of a schedule that belongs to no job.
    pub(super) fn of_schedule(
        spec: &ScheduleSpec,
        question: &Question,
    ) -> Result<Preview<'static>, Failure> {
        Preview::new(spec, question, None)
    }

    /// Of a job of the file.
    pub(super) fn of_job(
        job: &'a Job,
        route: String,
        history: Option<History>,
        question: &Question,
    ) -> Result<Self, Failure> {
        let stop = stop(job, history.as_ref());
        let mut limited = *question;
        if let Some(max_runs) = job.policies.max_runs {
            let started = history.as_ref().map_or(0, |history| history.started_runs);
            let left = usize::try_from(max_runs.saturating_sub(started)).unwrap_or(usize::MAX);
            limited.count = limited.count.min(left);
        }
        if stop.is_some() {
            limited.count = 0;
        }
        let preview = Preview::new(&job.schedule, &limited, Some((job, history)))?;
        Ok(Self {
            job: Some(job),
            route,
            stop,
            ..preview
        })
    }

    fn new(
        spec: &ScheduleSpec,
        question: &Question,
        job: Option<(&Job, Option<History>)>,
    ) -> Result<Self, Failure> {
        let after = question.after(&spec.zone)?;
        let history = job.as_ref().and_then(|(_, history)| history.as_ref());
        let seen = history.map(|history| history.first_seen_at);
        let planner = Planner::new(spec, seen.unwrap_or(after)).map_err(unplannable)?;
        let counted_from = match (&spec.when, seen) {
            (
                When::Every {
                    anchor: Some(at), ..
                },
                _,
            ) => Some(CountedFrom::Anchor(*at)),
            (When::Every { anchor: None, .. }, Some(at)) => Some(CountedFrom::FirstSeen(at)),
            (When::Every { anchor: None, .. }, None) => Some(CountedFrom::After(after)),
            (When::Daily { .. } | When::Cron(_) | When::At(_), _) => None,
        };
        let id = job.as_ref().map(|(job, _)| &job.id);
        let waiting = history.map_or(&[][..], |history| &history.waiting);
        let begin = begin(spec, seen, after);
        let times = starts(&planner, id, waiting, (begin, after), question.count);
        Ok(Self {
            job: None,
            schedule: words::schedule(spec),
            route: String::new(),
            tz: spec.zone.clone(),
            zone: words::zone(&spec.zone),
            after,
            counted_from,
            stop: None,
            times,
            change: change::next_change(spec, &planner, after).map_err(unplannable)?,
        })
    }
}

fn unplannable(error: ScheduleError) -> Failure {
    Failure::new(Exit::DoesNotHold, format!("cannot be planned: {error}"))
}

fn stop(job: &Job, history: Option<&History>) -> Option<Stop> {
    if !job.enabled {
        return Some(Stop::Disabled);
    }
    let history = history?;
    if let Some(pause) = &history.pause {
        return Some(Stop::Paused(pause.clone()));
    }
    let max_runs = job.policies.max_runs?;
    (history.started_runs >= max_runs).then_some(Stop::MaxRuns(max_runs))
}

/// The nominal after which a slot may start after `after`: with jitter a slot before `after` may be
/// drawn to start behind it, but none before the job was first seen.
pub(in crate::cli) fn begin(
    spec: &ScheduleSpec,
    seen: Option<Timestamp>,
    after: Timestamp,
) -> Timestamp {
    let first = match (&spec.when, seen) {
        (_, Some(seen)) => seen.min(after),
        (When::Every { anchor: None, .. }, None) => after,
        (_, None) => Timestamp::MIN,
    };
    let drawn = after.checked_sub(spec.jitter).unwrap_or(Timestamp::MIN);
    drawn.max(first)
}

/// The first `count` starts after `after`, of slots after `begin`. A slot that has been drawn into
/// the store keeps what was drawn.
pub(in crate::cli) fn starts(
    planner: &Planner,
    job: Option<&JobId>,
    waiting: &[WaitingSlot],
    (begin, after): (Timestamp, Timestamp),
    count: usize,
) -> Vec<Start> {
    let mut drawn: BTreeMap<&Slot, &WaitingSlot> =
        waiting.iter().map(|slot| (&slot.slot, slot)).collect();
    let planned: Vec<Start> = planner
        .firing_between(begin, Timestamp::MAX)
        .map(|planned| {
            let slot = planner.slot(&planned);
            let at = match (drawn.remove(&slot), job) {
                (Some(waiting), _) => waiting.fire_at,
                (None, Some(job)) => planner.fire_at(job, &planned),
                (None, None) => planned.nominal,
            };
            Start {
                at,
                nominal: planned.nominal,
                slot,
                note: planner.note(&planned),
            }
        })
        .filter(|start| start.at > after)
        .take(count)
        .collect();
    let mut starts: Vec<Start> = drawn
        .into_values()
        .filter(|waiting| waiting.fire_at > after)
        .map(|waiting| Start {
            at: waiting.fire_at,
            nominal: waiting.nominal,
            slot: waiting.slot.clone(),
            note: (waiting.cause == Cause::CatchUp)
                .then(|| String::from("catches up on a missed slot")),
        })
        .chain(planned)
        .collect();
    starts.sort_by_key(|start| start.at);
    starts.truncate(count);
    starts
}
