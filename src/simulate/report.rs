//! What a simulation comes to: totals per job, per destination, and over all.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::{
    ids::JobId,
    occurrence::{Cause, Outcome, SkipReason},
    policy::{AttemptFate, JobPlan, JobState},
};

use super::{Event, Happening, Histogram, Simulation, Sink, Window, event::SendState};

const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;
/// How many of the busiest minutes are named.
const BUSIEST: usize = 5;

/// What a simulation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// From when to when.
    pub window: Window,
    /// By job, in the order of their ids.
    pub jobs: Vec<JobTotals>,
    /// By destination, in the order of their names.
    pub destinations: BTreeMap<String, DestinationTotals>,
    /// The most attempts that were under way at once, and when that was so first.
    pub concurrency: Peak,
    /// Minutes in which more runs came due than may be under way at once.
    pub herd_minutes: u64,
    /// The minutes with the most starts, the busiest first; those with one start only are not told.
    pub busiest: Vec<Peak>,
}

/// A greatest number, and when it was met first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peak {
    /// How many.
    pub count: u64,
    /// When.
    pub at: Option<Timestamp>,
}

impl Peak {
    pub(super) fn meet(&mut self, count: u64, at: Timestamp) {
        let is_earlier = count == self.count && self.at.is_some_and(|met| at < met);
        if count > self.count || is_earlier {
            *self = Self {
                count,
                at: Some(at),
            };
        }
    }
}

/// What one job came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobTotals {
    /// Which job.
    pub job_id: JobId,
    /// Runs that began.
    pub starts: u64,
    /// Of these, those that made up for a missed slot.
    pub caught_up: u64,
    /// Written times that a clock change merged into another slot, which ran for them as well.
    pub merged: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// Occurrences that ran and succeeded.
    pub done: u64,
    /// Occurrences that were given up, by reason.
    pub failed: BTreeMap<&'static str, u64>,
    /// Occurrences that were called off.
    pub cancelled: u64,
    /// Slots that did not run, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    /// Occurrences that had not ended when the window did.
    pub open: u64,
    /// From the nominal instant to the start of the first attempt.
    pub lateness: Histogram,
    /// The first start.
    pub first_start: Option<Timestamp>,
    /// The last start.
    pub last_start: Option<Timestamp>,
    /// The first slot that is not before the end of the window.
    pub next: Option<Timestamp>,
}

impl JobTotals {
    fn new(job_id: JobId) -> Self {
        Self {
            job_id,
            starts: 0,
            caught_up: 0,
            merged: 0,
            retries: 0,
            done: 0,
            failed: BTreeMap::new(),
            cancelled: 0,
            skipped: BTreeMap::new(),
            open: 0,
            lateness: Histogram::default(),
            first_start: None,
            last_start: None,
            next: None,
        }
    }

    /// Slots that came in the window.
    pub fn occurrences(&self) -> u64 {
        self.done + self.failures() + self.cancelled + self.skips() + self.open
    }

    /// Occurrences that were given up.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Slots that did not run.
    pub fn skips(&self) -> u64 {
        self.skipped.values().sum()
    }

    fn begin(&mut self, at: Timestamp, nominal: Timestamp) {
        self.starts += 1;
        self.lateness.add(nominal.duration_until(at));
        self.first_start.get_or_insert(at);
        self.last_start = Some(at);
    }

    pub(super) fn skip(&mut self, reason: SkipReason, slots: u64) {
        *self.skipped.entry(reason.as_str()).or_default() += slots;
    }
}

/// What one destination came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DestinationTotals {
    /// Messages that it showed.
    pub messages: u64,
    /// Sends that were refused and tried again.
    pub retried: u64,
    /// Messages that were given up.
    pub failed: u64,
    /// Messages that were too late to be sent.
    pub withheld: u64,
    /// The most messages in one hour by the clock of UTC, and which hour.
    pub peak_hour: Peak,
    hour: i64,
    in_hour: u64,
}

impl DestinationTotals {
    fn show(&mut self, at: Timestamp) {
        self.messages += 1;
        let hour = at.as_second().div_euclid(HOUR);
        if hour != self.hour {
            self.hour = hour;
            self.in_hour = 0;
        }
        self.in_hour += 1;
        if let Ok(at) = Timestamp::from_second(hour * HOUR) {
            self.peak_hour.meet(self.in_hour, at);
        }
    }
}

/// Adds events up to a report, in space that does not grow with their number.
#[derive(Debug, Clone)]
pub struct Tally {
    report: Report,
    catching_up: Vec<bool>,
    running: u64,
    max_concurrent: u64,
    minute: i64,
    in_minute: u64,
    order: Order,
}

/// Whether events come in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    ByTime,
    /// Only those of each job do; what jobs do together is counted elsewhere.
    ByJob,
}

impl Tally {
    /// Nothing yet, of these jobs.
    pub fn new(simulation: &Simulation, window: Window) -> Self {
        let ids = simulation.plans().map(|plan| plan.job.id.clone());
        let jobs: Vec<_> = ids.map(JobTotals::new).collect();
        let destinations = simulation.destinations();
        Self {
            catching_up: vec![false; jobs.len()],
            report: Report {
                window,
                jobs,
                destinations: destinations
                    .map(|name| (name.to_owned(), DestinationTotals::default()))
                    .collect(),
                concurrency: Peak::default(),
                herd_minutes: 0,
                busiest: Vec::new(),
            },
            running: 0,
            max_concurrent: simulation.max_concurrent() as u64,
            minute: i64::MIN,
            in_minute: 0,
            order: Order::ByTime,
        }
    }

    /// Nothing yet, for the events of one job after the other.
    pub(super) fn of_totals(simulation: &Simulation, window: Window) -> Self {
        Self {
            order: Order::ByJob,
            ..Self::new(simulation, window)
        }
    }

    /// Slots that started on time and were done.
    pub(super) fn pass(
        &mut self,
        index: usize,
        count: u64,
        first: Option<Timestamp>,
        last: Option<Timestamp>,
    ) {
        let job = &mut self.report.jobs[index];
        job.starts += count;
        job.done += count;
        job.lateness.add_many(SignedDuration::ZERO, count);
        job.first_start = job.first_start.or(first);
        job.last_start = last.or(job.last_start);
    }

    /// The report, when the simulation stands at the end of the window.
    pub fn finish(mut self, simulation: &Simulation) -> Report {
        self.end_minute();
        self.finish_at(simulation.plans().zip(simulation.states()))
    }

    /// The report, with what jobs have come to.
    pub(super) fn finish_at<'j>(
        mut self,
        standing: impl Iterator<Item = (&'j JobPlan, &'j JobState)>,
    ) -> Report {
        let after = self.report.window.to;
        for (totals, (plan, state)) in self.report.jobs.iter_mut().zip(standing) {
            let goes_on = plan.job.enabled
                && state.pause.is_none()
                && state.has_runs_left(&plan.job.policies);
            totals.next = goes_on
                .then(|| plan.planner.next(super::run::before(after)))
                .flatten()
                .map(|planned| planned.nominal);
        }
        self.report
    }

    fn end_minute(&mut self) {
        if self.in_minute > self.max_concurrent {
            self.report.herd_minutes += 1;
        }
        if self.in_minute > 1
            && let Ok(at) = Timestamp::from_second(self.minute * MINUTE)
        {
            busy(&mut self.report.busiest, self.in_minute, at);
        }
        self.in_minute = 0;
    }

    fn start(&mut self, at: Timestamp) {
        if self.order == Order::ByJob {
            return;
        }
        let minute = at.as_second().div_euclid(MINUTE);
        if minute != self.minute {
            self.end_minute();
            self.minute = minute;
        }
        self.in_minute += 1;
    }

    fn send(&mut self, to: &str, state: SendState, at: Timestamp) {
        let Some(totals) = self.report.destinations.get_mut(to) else {
            return;
        };
        match state {
            SendState::Confirmed => totals.show(at),
            SendState::Again(_) => totals.retried += 1,
            SendState::Failed | SendState::Unknown => totals.failed += 1,
            SendState::Withheld => totals.withheld += 1,
        }
    }
}

/// Keeps the busiest minutes, the busiest first and of equal ones the first.
pub(super) fn busy(busiest: &mut Vec<Peak>, count: u64, at: Timestamp) {
    let place = busiest.partition_point(|peak| peak.count >= count);
    if place < BUSIEST {
        busiest.insert(
            place,
            Peak {
                count,
                at: Some(at),
            },
        );
        busiest.truncate(BUSIEST);
    }
}

impl Sink for Tally {
    fn take(&mut self, event: &Event<'_>) {
        let Some((index, _)) = event.job else {
            if event.what == Happening::Down {
                self.running = 0;
            }
            return;
        };
        let job = &mut self.report.jobs[index];
        match &event.what {
            Happening::Wait { merged, .. } => job.merged += merged.len() as u64,
            Happening::Start { cause, merged, .. } => {
                job.merged += merged.len() as u64;
                self.catching_up[index] = *cause == Cause::CatchUp;
                self.start(event.at);
            }
            Happening::Attempt {
                attempt, nominal, ..
            } => {
                if self.order == Order::ByTime {
                    self.running += 1;
                    self.report.concurrency.meet(self.running, event.at);
                }
                if *attempt == 1 {
                    job.begin(event.at, *nominal);
                    job.caught_up += u64::from(self.catching_up[index]);
                } else {
                    job.retries += 1;
                }
            }
            // It ended when its process died.
            Happening::AttemptEnd {
                fate: AttemptFate::Interrupted,
                ..
            } => {}
            Happening::AttemptEnd { .. } => self.running = self.running.saturating_sub(1),
            Happening::End { outcome, .. } => match outcome {
                Outcome::Done | Outcome::Silent => job.done += 1,
                Outcome::Failed(reason) => *job.failed.entry(reason.as_str()).or_default() += 1,
                Outcome::Cancelled => job.cancelled += 1,
                Outcome::Skipped(reason) => job.skip(*reason, 1),
            },
            Happening::Skip(range) => job.skip(range.reason, range.count),
            Happening::Send { to, state, .. } => self.send(to, *state, event.at),
            Happening::Open { .. } => job.open += 1,
            Happening::Down
            | Happening::Up
            | Happening::ClockStep(_)
            | Happening::Backoff { .. }
            | Happening::Requeue { .. } => {}
        }
    }
}

impl Report {
    /// A number summed over all jobs.
    pub fn sum(&self, of: impl Fn(&JobTotals) -> u64) -> u64 {
        self.jobs.iter().map(of).sum()
    }
}
