//! Wall-time schedules: dates and times as written, over the segments of a zone.

use std::sync::Arc;

use jiff::Timestamp;

use crate::schedule::{
    Fate, Moved, Planned,
    calendar::{DAY, floor_second},
    day_rule::Dates,
    day_times::DayTimes,
    zone::{Segment, ZoneTable},
};

mod back;
mod cursor;
mod gap;
mod walk;

use cursor::Cursor;
pub(crate) use walk::Walk;

/// Which rule for clock changes a schedule follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClockRule {
    /// Once for what is written: after a gap, and on the first pass of an overlap.
    Fixed,
    /// At every matching instant there is: nothing for a gap, both passes of an overlap.
    Frequent,
}

/// Which slots are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those that fire.
    Firing,
    /// Void ones too.
    All,
}

/// A `daily`, `cron` or `at` schedule, compiled.
#[derive(Debug, Clone)]
pub(crate) struct Wall {
    pub(crate) zone: Arc<ZoneTable>,
    pub(crate) dates: Dates,
    pub(crate) times: DayTimes,
    pub(crate) rule: ClockRule,
    /// The first local second that counts.
    pub(crate) from: i64,
    /// The first local second that no longer counts.
    pub(crate) until: i64,
    /// Day numbers, ascending.
    pub(crate) exclude: Box<[i64]>,
}

impl Wall {
    fn excludes(&self, day: i64) -> bool {
        self.exclude.binary_search(&day).is_ok()
    }

    /// The first local time from which a segment holds occurrences of its own.
    fn opens_at(&self, segment: &Segment) -> i64 {
        match self.rule {
            ClockRule::Fixed => segment.local_start().max(segment.shown_to),
            ClockRule::Frequent => segment.local_start(),
        }
    }

    /// The first local time that counts at or after the second, which lies in the segment.
    fn counts_from(&self, second: i64, segment: &Segment) -> i64 {
        (second + segment.offset)
            .max(self.opens_at(segment))
            .max(self.from)
    }

    /// The first occurrence that fires after `after`.
    pub(crate) fn next(&self, after: Timestamp) -> Option<Planned> {
        let first = floor_second(after) + 1;
        let (index, segment) = self.zone.at(first);
        if first == segment.start {
            return Walk::new(self, Scope::Firing, after, Timestamp::MAX).next();
        }
        let cursor = Cursor::at(self, Scope::Firing, self.counts_from(first, &segment));
        // Nearly always it lies in the same segment; the walk knows what happens at the edges.
        if cursor.local < segment.local_end().min(self.until) {
            return self.shown(&segment, cursor.local, Fate::Fires);
        }
        Walk::from_cursor(cursor, index, segment).next()
    }

    /// The fate of a written time that a gap swallowed, or that is the gap's end.
    fn fate_in_gap(&self, segment: &Segment, local: i64) -> Fate {
        let day = local.div_euclid(DAY);
        let skipped_whole =
            day * DAY >= segment.shown_to && (day + 1) * DAY <= segment.local_start();
        if self.excludes(day) {
            Fate::Excluded
        } else if skipped_whole {
            Fate::NoSuchDate
        } else {
            Fate::Fires
        }
    }

    /// An occurrence at a local time that the segment shows.
    #[inline]
    fn shown(&self, segment: &Segment, local: i64, fate: Fate) -> Option<Planned> {
        let twice = self.rule == ClockRule::Fixed && local >= segment.repeats_from;
        Some(Planned {
            nominal: Timestamp::from_second(local - segment.offset).ok()?,
            fate,
            moved: twice.then_some(Moved::FirstPass),
            local,
        })
    }
}
