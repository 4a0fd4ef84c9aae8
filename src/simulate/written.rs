//! A scenario as people write it, on the command line and in files: one set of forms for both.

use jiff::{
    SignedDuration, Timestamp,
    civil::{DateTime, Time, Weekday},
    tz::TimeZone,
};

use crate::ids::{ChatName, JobId};

use super::{ClockStep, Expect, Failing, Outage, Rate, RunTime, Scenario, Window};

pub mod parse;

/// The longest window.
const LONGEST: SignedDuration = SignedDuration::from_hours(100 * 366 * 24);

/// A moment as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// An instant.
    Instant(Timestamp),
    /// Wall time in the file's zone.
    Wall(DateTime),
    /// The first such time of the week in the window.
    Weekday(Weekday, Time),
}

/// From when to when, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The beginning.
    pub from: Moment,
    /// The end.
    pub to: Moment,
}

/// When attempts fail, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// So many.
    Rate(Rate),
    /// The one that is under way then.
    At(Moment),
    /// Those that are under way in this stretch.
    Between(Stretch),
}

/// A scenario as written, all of it optional.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// The beginning of the window.
    pub from: Option<Moment>,
    /// Its end.
    pub to: Option<Moment>,
    /// Its length.
    pub length: Option<SignedDuration>,
    /// What draws depend on.
    pub seed: Option<u64>,
    /// When the process is down.
    pub outages: Vec<Stretch>,
    /// When the clock is set, and by how much.
    pub clock_steps: Vec<(Moment, SignedDuration)>,
    /// How long attempts take, where nothing is said of their job.
    pub run_time: Option<RunTime>,
    /// How long they take, by job.
    pub run_times: Vec<(JobId, RunTime)>,
    /// When they fail, by job.
    pub failures: Vec<(JobId, Given)>,
    /// How often sends are refused, by chat.
    pub channel_failures: Vec<(ChatName, Rate)>,
    /// How many attempts may be under way at once.
    pub max_concurrent: Option<u32>,
    /// What it must come to.
    pub expects: Vec<Expect>,
}

/// Why there is no window, or why something is not in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WindowError {
    /// It ends before it begins, or at once.
    #[error("the window ends at {to}, which is not after its beginning, {from}")]
    Reversed {
        /// Its beginning.
        from: Timestamp,
        /// Its end.
        to: Timestamp,
    },
    /// It is longer than a hundred years.
    #[error("the window from {from} to {to} is longer than 100 years")]
    TooLong {
        /// Its beginning.
        from: Timestamp,
        /// Its end.
        to: Timestamp,
    },
    /// Both an end and a length.
    #[error("the window has an end and a length: one of the two")]
    TwoEnds,
    /// Neither an end nor a length.
    #[error("the window has no end")]
    NoEnd,
    /// A stretch ends before it begins, or at once.
    #[error("{what} ends at {to}, which is not after its beginning, {from}")]
    ReversedStretch {
        /// What kind of stretch.
        what: &'static str,
        /// Its beginning.
        from: Timestamp,
        /// Its end.
        to: Timestamp,
    },
    /// A moment that no clock shows.
    #[error("{0} is beyond the calendar")]
    OutOfRange(String),
}

impl Written {
    /// What is written here over what is written there: of single values the ones here, of lists
    /// both.
    #[must_use]
    pub fn over(mut self, under: Self) -> Self {
        let own_end = self.to.is_some() || self.length.is_some();
        self.from = self.from.or(under.from);
        if !own_end {
            (self.to, self.length) = (under.to, under.length);
        }
        self.seed = self.seed.or(under.seed);
        self.outages = joined(under.outages, self.outages);
        self.run_time = self.run_time.or(under.run_time);
        self.max_concurrent = self.max_concurrent.or(under.max_concurrent);
        self.clock_steps = joined(under.clock_steps, self.clock_steps);
        self.run_times = joined(under.run_times, self.run_times);
        self.failures = joined(under.failures, self.failures);
        self.channel_failures = joined(under.channel_failures, self.channel_failures);
        self.expects = joined(under.expects, self.expects);
        self
    }

    /// The window and the world, with wall time read in this zone. `today` is where a window begins
    /// that says nothing of it.
    ///
    /// # Errors
    /// [`WindowError`] where a stretch is none.
    pub fn resolve(
        &self,
        zone: &TimeZone,
        today: Timestamp,
    ) -> Result<(Window, Scenario), WindowError> {
        let window = self.window(zone, today)?;
        let instant = |moment: Moment| moment.resolve(zone, window.from);
        let stretch = |what, stretch: &Stretch| {
            let from = instant(stretch.from)?;
            // The second of two days of the week comes after the first.
            let to = stretch.to.resolve(zone, from)?;
            if to > from {
                Ok((from, to))
            } else {
                Err(WindowError::ReversedStretch { what, from, to })
            }
        };
        let mut scenario = Scenario {
            seed: self.seed.unwrap_or_default(),
            run_time: self.run_time.unwrap_or(RunTime::USUAL),
            run_times: self.run_times.iter().cloned().collect(),
            channel_failures: self.channel_failures.iter().cloned().collect(),
            ..Scenario::default()
        };
        for outage in &self.outages {
            let (from, to) = stretch("an outage", outage)?;
            scenario.outages.push(Outage { from, to });
        }
        for (at, by) in &self.clock_steps {
            let at = instant(*at)?;
            scenario.clock_steps.push(ClockStep { at, by: *by });
        }
        for (job, given) in &self.failures {
            let failing = match given {
                Given::Rate(rate) => Failing::Rate(*rate),
                Given::At(at) => Failing::At(instant(*at)?),
                Given::Between(between) => {
                    let (from, to) = stretch("a stretch of failures", between)?;
                    Failing::Between(from, to)
                }
            };
            let of_job = scenario.failures.entry(job.clone()).or_default();
            of_job.push(failing);
        }
        Ok((window, scenario))
    }

    fn window(&self, zone: &TimeZone, today: Timestamp) -> Result<Window, WindowError> {
        let from = match self.from {
            Some(moment) => moment.resolve(zone, today)?,
            None => today,
        };
        let to = match (self.to, self.length) {
            (Some(_), Some(_)) => return Err(WindowError::TwoEnds),
            (Some(to), None) => to.resolve(zone, from)?,
            (None, Some(length)) => after(from, length, zone)
                .ok_or_else(|| WindowError::OutOfRange(format!("{from} and {length:#}")))?,
            (None, None) => return Err(WindowError::NoEnd),
        };
        if to <= from {
            Err(WindowError::Reversed { from, to })
        } else if from.duration_until(to) > LONGEST {
            Err(WindowError::TooLong { from, to })
        } else {
            Ok(Window { from, to })
        }
    }
}

/// Whole days are those of the calendar, so that a week of daily slots is seven of them also where
/// the clock changes.
fn after(from: Timestamp, length: SignedDuration, zone: &TimeZone) -> Option<Timestamp> {
    let days = length.as_hours() / 24;
    let rest = length - SignedDuration::from_hours(days * 24);
    let wall = from.to_zoned_datetime(zone.clone()).datetime();
    let end = wall
        .checked_add(jiff::Span::new().try_days(days).ok()?)
        .ok()?;
    let end = zone.to_timestamp(end).ok()?;
    end.checked_add(rest).ok()
}

impl Moment {
    /// The instant; of a time of the week the first at or after `from`.
    fn resolve(self, zone: &TimeZone, from: Timestamp) -> Result<Timestamp, WindowError> {
        let instant = |wall: DateTime| {
            let instant = zone.to_timestamp(wall);
            instant.map_err(|_| WindowError::OutOfRange(wall.to_string()))
        };
        match self {
            Self::Instant(instant) => Ok(instant),
            Self::Wall(wall) => instant(wall),
            Self::Weekday(day, time) => {
                let mut date = from.to_zoned_datetime(zone.clone()).date();
                for _ in 0..8 {
                    let at = instant(date.to_datetime(time))?;
                    if date.weekday() == day && at >= from {
                        return Ok(at);
                    }
                    let following = date.tomorrow();
                    date = following.map_err(|_| WindowError::OutOfRange(date.to_string()))?;
                }
                Err(WindowError::OutOfRange(format!("the {day:?} after {from}")))
            }
        }
    }
}

/// Both, in this order; of a map the entries above win.
fn joined<C: IntoIterator + Extend<C::Item>>(mut below: C, above: C) -> C {
    below.extend(above);
    below
}
