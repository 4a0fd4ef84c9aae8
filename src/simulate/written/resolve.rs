//! From what is written to instants.

use jiff::{
    SignedDuration, Timestamp,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone},
};

use super::{Given, Moment, Resolved, Stretch, WindowError, Written};
use crate::simulate::{ClockStep, Failing, Outage, RunTime, Scenario, Window};

/// The longest window.
const LONGEST: SignedDuration = SignedDuration::from_hours(100 * 366 * 24);

impl Written {
    /// The window and the world, with wall time read in this zone. `today` is where a window begins
    /// that says nothing of it.
    ///
    /// # Errors
    /// [`WindowError`] where a stretch is none, or where something lies outside of the window.
    pub fn resolve(&self, zone: &TimeZone, today: Timestamp) -> Result<Resolved, WindowError> {
        let mut clock = WallClock {
            zone,
            moved: Vec::new(),
        };
        let window = self.window(&mut clock, today)?;
        let mut scenario = Scenario {
            seed: self.seed.unwrap_or_default(),
            run_time: self.run_time.unwrap_or(RunTime::USUAL),
            run_times: self.run_times.iter().cloned().collect(),
            channel_failures: self.channel_failures.iter().cloned().collect(),
            ..Scenario::default()
        };
        for outage in &self.outages {
            let (from, to) = clock.stretch("an outage", outage, window)?;
            scenario.outages.push(Outage { from, to });
        }
        for (at, by) in &self.clock_steps {
            let at = clock.moment_in("a clock step at", *at, window)?;
            scenario.clock_steps.push(ClockStep { at, by: *by });
        }
        for (job, given) in &self.failures {
            let failing = match given {
                Given::Rate(rate) => Failing::Rate(*rate),
                Given::At(at) => Failing::At(clock.moment_in("a failure at", *at, window)?),
                Given::Between(between) => {
                    let what = "a stretch of failures";
                    let (from, to) = clock.stretch(what, between, window)?;
                    Failing::Between(from, to)
                }
            };
            let of_job = scenario.failures.entry(job.clone()).or_default();
            of_job.push(failing);
        }
        Ok(Resolved {
            window,
            scenario,
            moved: clock.moved,
        })
    }

    fn window(&self, clock: &mut WallClock<'_>, today: Timestamp) -> Result<Window, WindowError> {
        let from = match self.from {
            Some(moment) => clock.moment(moment, today)?,
            None => today,
        };
        let to = match (self.to, self.length) {
            (Some(_), Some(_)) => return Err(WindowError::TwoEnds),
            (Some(to), None) => clock.moment(to, from)?,
            (None, Some(length)) => after(from, length, clock.zone)
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

/// Reads moments, and keeps what a clock change skips.
struct WallClock<'z> {
    zone: &'z TimeZone,
    moved: Vec<(DateTime, Timestamp)>,
}

impl WallClock<'_> {
    /// The instant; of a time of the week the first at or after `from`.
    fn moment(&mut self, moment: Moment, from: Timestamp) -> Result<Timestamp, WindowError> {
        match moment {
            Moment::Instant(instant) => Ok(instant),
            Moment::Wall(wall) => self.wall(wall),
            Moment::Weekday(day, time) => {
                let mut date = from.to_zoned_datetime(self.zone.clone()).date();
                for _ in 0..8 {
                    if date.weekday() == day {
                        let wall = date.to_datetime(time);
                        let at = self.zone.to_timestamp(wall);
                        if at.is_ok_and(|at| at >= from) {
                            return self.wall(wall);
                        }
                    }
                    let following = date.tomorrow();
                    date = following.map_err(|_| WindowError::OutOfRange(date.to_string()))?;
                }
                Err(WindowError::OutOfRange(format!("the {day:?} after {from}")))
            }
        }
    }

    fn wall(&mut self, wall: DateTime) -> Result<Timestamp, WindowError> {
        let ambiguous = self.zone.to_ambiguous_timestamp(wall);
        let is_gap = matches!(ambiguous.offset(), AmbiguousOffset::Gap { .. });
        let instant = ambiguous.compatible();
        let instant = instant.map_err(|_| WindowError::OutOfRange(wall.to_string()))?;
        if is_gap {
            self.moved.push((wall, instant));
        }
        Ok(instant)
    }

    /// A moment in the window.
    fn moment_in(
        &mut self,
        what: &str,
        moment: Moment,
        window: Window,
    ) -> Result<Timestamp, WindowError> {
        let at = self.moment(moment, window.from)?;
        if window.has(at) {
            Ok(at)
        } else {
            Err(outside(format!("{what} {moment}"), window))
        }
    }

    /// A stretch of which something is in the window.
    fn stretch(
        &mut self,
        what: &'static str,
        stretch: &Stretch,
        window: Window,
    ) -> Result<(Timestamp, Timestamp), WindowError> {
        let from = self.moment(stretch.from, window.from)?;
        // The second of two days of the week comes after the first.
        let to = self.moment(stretch.to, from)?;
        if to <= from {
            Err(WindowError::ReversedStretch { what, from, to })
        } else if from >= window.to || to <= window.from {
            Err(outside(format!("{what} {stretch}"), window))
        } else {
            Ok((from, to))
        }
    }
}

fn outside(what: String, window: Window) -> WindowError {
    let Window { from, to } = window;
    WindowError::Outside { what, from, to }
}
