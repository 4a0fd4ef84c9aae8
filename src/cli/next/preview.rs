//! What `next` finds out about one schedule: pure, from the job and what is stored of it.

use jiff::{Timestamp, tz::TimeZone};

use crate::{
    cli::{failure::Failure, words},
    job::{Job, ScheduleSpec, When},
    policy::{Pause, WaitingSlot},
    schedule::Planner,
    store::StoredJob,
    view::{Start, begin, starts},
};

use super::{
    Question,
    change::{self, NextChange},
    unplannable,
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
