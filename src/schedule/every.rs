//! Elapsed time: the grid `anchor + k * period`, which no clock change moves.

use std::{ops::Range, sync::Arc};

use jiff::{SignedDuration, Timestamp, civil};

use crate::schedule::{
    Fate, Planned, ScheduleError, Series,
    calendar::{DAY, day_of, local_ceil, second_of_day},
    wall::Scope,
    zone::ZoneTable,
};

/// An `every` schedule, compiled; instants in microseconds.
#[derive(Debug, Clone)]
pub(crate) struct Every {
    zone: Arc<ZoneTable>,
    anchor: i64,
    period: i64,
    /// The first instant that counts, and the first that no longer does.
    from: i64,
    until: i64,
    exclude: Box<[i64]>,
}

impl Every {
    pub(crate) fn new(
        zone: Arc<ZoneTable>,
        period: SignedDuration,
        anchor: Timestamp,
        bounds: [Option<civil::DateTime>; 2],
        exclude: Box<[i64]>,
    ) -> Result<Self, ScheduleError> {
        let refused = || ScheduleError::Period { found: period };
        let micros = i64::try_from(period.as_micros()).map_err(|_| refused())?;
        if micros < 1_000_000 || period.subsec_nanos() % 1_000 != 0 {
            return Err(refused());
        }
        let [from, until] = bounds.map(|bound| bound.map(|wall| instant_of(&zone, wall)));
        Ok(Self {
            zone,
            anchor: anchor.as_microsecond(),
            period: micros,
            from: from.unwrap_or(i64::MIN),
            until: until.unwrap_or(i64::MAX),
            exclude,
        })
    }

    /// The grid instants after `after`, up to and including `until`.
    pub(crate) fn walk(&self, scope: Scope, after: Timestamp, until: Timestamp) -> Grid<'_> {
        let first = floor_micro(after).saturating_add(1).max(self.from);
        Grid {
            every: self,
            scope,
            next: self.at_or_after(first),
            last: floor_micro(until).min(self.until.saturating_sub(1)),
        }
    }

    /// The grid instants after `after`, up to and including `until`, by arithmetic. Nothing where
    /// there are none, or where one may lie on an excluded date.
    pub(crate) fn series(&self, after: Timestamp, until: Timestamp) -> Option<Series> {
        let grid = self.walk(Scope::All, after, until);
        let first = grid.next.filter(|first| *first <= grid.last)?;
        if let Some(excluded) = self.exclude.last() {
            let second = first.div_euclid(1_000_000);
            let (_, segment) = self.zone.at(second);
            let day = (second + segment.offset).div_euclid(DAY);
            // No zone goes back by more than a day.
            if day - excluded < 2 {
                return None;
            }
        }
        let last = self.at_or_before(grid.last)?;
        Some(Series {
            first: planned(first, Fate::Fires)?,
            last: planned(last, Fate::Fires)?,
            count: u64::try_from((last - first) / self.period).ok()? + 1,
        })
    }

    /// The last grid instant at or before `at` that fires.
    pub(crate) fn latest_at_or_before(&self, at: Timestamp) -> Option<Planned> {
        let mut last = floor_micro(at).min(self.until.saturating_sub(1));
        loop {
            let micros = self.at_or_before(last)?;
            if micros < self.from {
                return None;
            }
            match self.excluded_span(micros) {
                None => return planned(micros, Fate::Fires),
                Some(span) => last = span.start - 1,
            }
        }
    }

    fn at_or_after(&self, micros: i64) -> Option<i64> {
        let steps = micros
            .checked_sub(self.anchor)?
            .checked_add(self.period - 1)?;
        self.grid(steps.div_euclid(self.period))
    }

    fn at_or_before(&self, micros: i64) -> Option<i64> {
        self.grid(micros.checked_sub(self.anchor)?.div_euclid(self.period))
    }

    fn grid(&self, step: i64) -> Option<i64> {
        step.checked_mul(self.period)?.checked_add(self.anchor)
    }

    /// The stretch of an excluded date around the instant, if it lies on one in the job's zone.
    ///
    /// It ends with the zone's segment, because a clock that goes back over midnight shows a part
    /// of the date, then the date before, then the date again.
    fn excluded_span(&self, micros: i64) -> Option<Range<i64>> {
        if self.exclude.is_empty() {
            return None;
        }
        let second = micros.div_euclid(1_000_000);
        let (_, segment) = self.zone.at(second);
        let day = (second + segment.offset).div_euclid(DAY);
        self.exclude.binary_search(&day).ok()?;
        let start = segment.start.max(day * DAY - segment.offset);
        let end = segment.end.min((day + 1) * DAY - segment.offset);
        Some(start * 1_000_000..end * 1_000_000)
    }
}

/// The microsecond of a wall time: in a gap its end, in an overlap the first pass.
fn instant_of(zone: &ZoneTable, wall: civil::DateTime) -> i64 {
    let whole = day_of(wall.date()) * DAY + i64::from(second_of_day(wall.time()));
    let fraction = i64::from(wall.subsec_nanosecond() + 999) / 1_000;
    let exact = zone.first_instant(whole) * 1_000_000 + fraction;
    exact.min(zone.first_instant(local_ceil(wall)) * 1_000_000)
}

/// The whole microsecond at or before the instant.
fn floor_micro(at: Timestamp) -> i64 {
    at.as_nanosecond().div_euclid(1_000) as i64
}

fn planned(micros: i64, fate: Fate) -> Option<Planned> {
    Some(Planned {
        nominal: Timestamp::from_microsecond(micros).ok()?,
        fate,
        moved: None,
        local: 0,
    })
}

/// Grid instants in ascending order.
#[derive(Debug, Clone)]
pub(crate) struct Grid<'p> {
    every: &'p Every,
    scope: Scope,
    next: Option<i64>,
    last: i64,
}

impl Iterator for Grid<'_> {
    type Item = Planned;

    #[inline]
    fn next(&mut self) -> Option<Planned> {
        loop {
            let micros = self.next.filter(|micros| *micros <= self.last)?;
            let excluded = self.every.excluded_span(micros);
            if let (Some(span), Scope::Firing) = (&excluded, self.scope) {
                self.next = self.every.at_or_after(span.end);
                continue;
            }
            self.next = micros.checked_add(self.every.period);
            let fate = excluded.map_or(Fate::Fires, |_| Fate::Excluded);
            return planned(micros, fate);
        }
    }
}
