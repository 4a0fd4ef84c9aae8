//! Expectations: what a simulation must come to, and the first event that goes against one.

use jiff::{
    SignedDuration, Timestamp,
    civil::{DateTime, Time},
    tz::{self, TimeZone},
};

use crate::{ids::JobId, occurrence::SkipReason, policy::AttemptFate};

use super::{Event, Happening, Report, Simulation, Sink, Window, log::write_line};

mod found;
mod slots;

use found::Found;
use slots::Started;

/// One entry of `[[expect]]`. Without a job, counts are those of all jobs together, and everything
/// else must hold of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expect {
    /// Of this job only.
    pub job: Option<JobId>,
    /// Exactly so many starts.
    pub starts: Option<u64>,
    /// At least so many.
    pub starts_min: Option<u64>,
    /// At most so many.
    pub starts_max: Option<u64>,
    /// Exactly so many occurrences that were given up.
    pub failed: Option<u64>,
    /// Exactly so many slots that did not run.
    pub skipped: Option<u64>,
    /// No start is later after its slot than this.
    pub max_lateness: Option<SignedDuration>,
    /// No start in these hours of the job's zone; the end is exclusive, and may be on the next day.
    pub never_between: Option<(Time, Time)>,
    /// At most so many attempts are under way at once, of all jobs.
    pub peak_concurrency_max: Option<u64>,
    /// No slot is skipped for these reasons.
    pub no_skips: Vec<SkipReason>,
    /// These slots start, as wall time in the job's zone, and no other. One that is named twice
    /// starts twice, as both passes of a repeated hour do.
    pub slots: Option<Vec<DateTime>>,
}

/// An expectation that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet {
    /// Its place in the list, from 0.
    pub index: usize,
    /// Of which job.
    pub job: Option<JobId>,
    /// The key that does not hold.
    pub key: &'static str,
    /// What was expected.
    pub expected: String,
    /// What happened.
    pub found: String,
    /// The first event that goes against it, as a line of the log.
    pub event: Option<String>,
}

impl Expect {
    /// The keys that are given, each with what it says.
    pub fn conditions(&self) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        let numbers = [
            ("starts", self.starts),
            ("starts_min", self.starts_min),
            ("starts_max", self.starts_max),
            ("failed", self.failed),
            ("skipped", self.skipped),
            ("peak_concurrency_max", self.peak_concurrency_max),
        ];
        all.extend(numbers.map(|(key, number)| (key, number.map(|number| number.to_string()))));
        let lateness = self.max_lateness.map(|lateness| format!("{lateness:#}"));
        all.push(("max_lateness", lateness));
        let hours = self.never_between.map(|(from, to)| hours(from, to));
        all.push(("never_between", hours));
        let reasons = (!self.no_skips.is_empty()).then(|| words(&self.no_skips));
        all.push(("no_skips", reasons));
        let slots = self.slots.as_ref();
        all.push(("slots", slots.map(|slots| slots::spelled(slots))));
        let given = all.into_iter();
        given.filter_map(|(key, what)| Some((key, what?))).collect()
    }

    /// Why nothing could ever meet it, if so.
    pub fn impossible(&self) -> Option<String> {
        let (least, most) = (self.starts_min, self.starts_max);
        if let (Some(least), Some(most)) = (least, most)
            && least > most
        {
            return Some(format!("no number is at least {least} and at most {most}"));
        }
        if let Some(starts) = self.starts
            && (least.is_some_and(|least| starts < least) || most.is_some_and(|most| starts > most))
        {
            return Some(format!(
                "{starts} is outside of `starts_min` and `starts_max`"
            ));
        }
        if let (Some(slots), Some(starts)) = (&self.slots, self.starts)
            && slots.len() as u64 != starts
        {
            return Some(format!("{starts} starts cannot be {} slots", slots.len()));
        }
        if self.slots.is_some() && self.job.is_none() {
            return Some(String::from(
                "`slots` are those of one job: name it with `job`",
            ));
        }
        let empty = self.never_between.filter(|(from, to)| from == to);
        empty.map(|(from, _)| format!("from {from} to {from} is no time at all"))
    }

    /// A slot that it names and that cannot come in this window of this zone.
    pub fn slot_outside(&self, window: Window, zone: &TimeZone) -> Option<DateTime> {
        let is_outside = |slot: &&DateTime| {
            let slot = zone.to_ambiguous_timestamp(**slot);
            let earlier = slot.earlier().is_ok_and(|at| at < window.to);
            let later = slot.later().is_ok_and(|at| at >= window.from);
            !(earlier && later)
        };
        self.slots.iter().flatten().find(is_outside).copied()
    }

    fn concerns(&self, job: &JobId) -> bool {
        self.job.as_ref().is_none_or(|own| own == job)
    }
}

fn hours(from: Time, to: Time) -> String {
    format!("{}..{}", from.strftime("%H:%M"), to.strftime("%H:%M"))
}

fn words(reasons: &[SkipReason]) -> String {
    let words: Vec<_> = reasons.iter().map(|reason| reason.as_str()).collect();
    words.join(", ")
}

/// Watches events for the first that goes against each expectation.
#[derive(Debug, Clone)]
pub struct Checker<'e> {
    expects: &'e [Expect],
    zones: Vec<TimeZone>,
    first: Vec<First>,
    started: Vec<Started>,
    /// By expectation: attempts under way of the jobs that it concerns.
    running: Vec<u64>,
    starts: Vec<u64>,
}

/// The first event against each key of one expectation.
#[derive(Debug, Clone, Default)]
struct First {
    lateness: Option<(SignedDuration, String)>,
    between: Option<String>,
    concurrency: Option<String>,
    /// The most attempts at once.
    peak: u64,
    skip: Option<String>,
    too_many: Option<String>,
    failed: Option<String>,
    skipped: Option<String>,
    other_slot: Option<String>,
}

impl<'e> Checker<'e> {
    /// Watches for these.
    pub fn new(expects: &'e [Expect], simulation: &Simulation) -> Self {
        let zone = |name: &str| tz::db().get(name).unwrap_or(TimeZone::UTC);
        let plans = simulation.plans();
        Self {
            expects,
            zones: plans.map(|plan| zone(&plan.job.schedule.zone)).collect(),
            first: vec![First::default(); expects.len()],
            started: expects
                .iter()
                .map(|expect| Started::new(expect.slots.as_deref().unwrap_or_default()))
                .collect(),
            running: vec![0; expects.len()],
            starts: vec![0; expects.len()],
        }
    }

    /// The expectations that do not hold, in their order.
    pub fn finish(self, report: &Report) -> Vec<Unmet> {
        let mut unmet = Vec::new();
        let watched = self.first.into_iter().zip(self.started);
        for (index, (expect, (first, started))) in self.expects.iter().zip(watched).enumerate() {
            let mut found = Found {
                index,
                expect,
                unmet: &mut unmet,
            };
            found.counts(report, &first);
            found.rules(report, first, started);
        }
        unmet
    }

    fn begin(&mut self, index: usize, event: &Event<'_>, nominal: Timestamp) {
        let Some((job, id)) = event.job else { return };
        let expect = &self.expects[index];
        let first = &mut self.first[index];
        self.starts[index] += 1;
        let most = expect.starts.or(expect.starts_max);
        if most == self.starts[index].checked_sub(1) {
            first.too_many.get_or_insert_with(|| line(event));
        }
        let late = nominal.duration_until(event.at);
        if expect.max_lateness.is_some_and(|most| late > most) && first.lateness.is_none() {
            first.lateness = Some((late, line(event)));
        }
        let wall = event
            .at
            .to_zoned_datetime(self.zones[job].clone())
            .datetime();
        if let Some((from, to)) = expect.never_between
            && is_between(wall.time(), from, to)
        {
            first.between.get_or_insert_with(|| line(event));
        }
        if expect.slots.is_some()
            && expect.concerns(id)
            && let Some(slot) = slots::written(event, &self.zones[job])
            && !self.started[index].take(slot)
        {
            first.other_slot.get_or_insert_with(|| line(event));
        }
    }
}

impl Sink for Checker<'_> {
    fn take(&mut self, event: &Event<'_>) {
        if matches!(event.what, Happening::Down) {
            self.running.fill(0);
        }
        let Some((_, id)) = event.job else { return };
        let skip = event.what.skip_reason();
        for index in 0..self.expects.len() {
            let expect = &self.expects[index];
            if !expect.concerns(id) {
                continue;
            }
            let (first, running) = (&mut self.first[index], &mut self.running[index]);
            if let Happening::Attempt { .. } = event.what {
                if expect.peak_concurrency_max == Some(*running) {
                    first.concurrency.get_or_insert_with(|| line(event));
                }
                *running += 1;
                first.peak = first.peak.max(*running);
            }
            // What a kill interrupted was counted with the kill.
            if let Happening::AttemptEnd { fate, .. } = event.what
                && fate != AttemptFate::Interrupted
            {
                *running = running.saturating_sub(1);
            }
            if let Some(reason) = skip {
                first.skipped.get_or_insert_with(|| line(event));
                if expect.no_skips.contains(&reason) {
                    first.skip.get_or_insert_with(|| line(event));
                }
            }
            if let Happening::End { outcome, .. } = &event.what
                && outcome.state() == "failed"
            {
                first.failed.get_or_insert_with(|| line(event));
            }
            if let Happening::Attempt {
                attempt: 1,
                nominal,
                ..
            } = event.what
            {
                self.begin(index, event, nominal);
            }
        }
    }
}

fn line(event: &Event<'_>) -> String {
    let mut text = String::new();
    write_line(&mut text, event);
    text.trim_end().to_owned()
}

fn is_between(time: Time, from: Time, to: Time) -> bool {
    if from < to {
        from <= time && time < to
    } else {
        time >= from || time < to
    }
}
