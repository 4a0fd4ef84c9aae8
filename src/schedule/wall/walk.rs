//! The walk forward: written times, segment by segment.

use jiff::Timestamp;

use crate::schedule::{
    Fate, Planned,
    calendar::{DAY, ceil_second, floor_second},
    wall::{ClockRule, Scope, Wall, cursor::Cursor, gap::AtGapEnd},
    zone::Segment,
};

/// Occurrences of a wall-time schedule in ascending order.
#[derive(Debug, Clone)]
pub(crate) struct Walk<'p> {
    wall: &'p Wall,
    scope: Scope,
    cursor: Cursor<'p>,
    index: usize,
    segment: Segment,
    /// Up to here the cursor's times are occurrences of this segment.
    open_to: i64,
    /// What comes before them: the occurrences at the end of a gap.
    pending: AtGapEnd,
    after: Timestamp,
    until: Timestamp,
}

/// What a turn at the edge of a segment came to.
enum Turn {
    Found(Planned),
    Entered,
    Finished,
}

impl<'p> Walk<'p> {
    /// The occurrences after `after`, up to and including `until`.
    pub(crate) fn new(wall: &'p Wall, scope: Scope, after: Timestamp, until: Timestamp) -> Self {
        let first = floor_second(after) + 1;
        let (index, segment) = wall.zone.at(first);
        let mut walk = Self {
            wall,
            scope,
            cursor: Cursor::at(wall, scope, wall.counts_from(first, &segment)),
            index,
            segment,
            open_to: i64::MIN,
            pending: AtGapEnd::default(),
            after,
            until,
        };
        if first == segment.start {
            walk.take_gap();
        }
        walk.open();
        walk
    }

    /// All firing occurrences from the cursor on, which stands inside the segment or behind it.
    pub(crate) fn from_cursor(cursor: Cursor<'p>, index: usize, segment: Segment) -> Self {
        let mut walk = Self {
            wall: cursor.wall,
            scope: Scope::Firing,
            cursor,
            index,
            segment,
            open_to: i64::MIN,
            pending: AtGapEnd::default(),
            after: Timestamp::MIN,
            until: Timestamp::MAX,
        };
        walk.open();
        walk
    }

    /// Collects what the gap before the segment, if there is one, leaves at its end.
    fn take_gap(&mut self) {
        if self.wall.rule == ClockRule::Frequent || !self.segment.opens_with_gap() {
            return;
        }
        let wanted =
            |planned: &Planned| planned.nominal > self.after && planned.nominal <= self.until;
        let found = self.wall.at_gap_end(&self.segment, self.scope);
        self.pending = AtGapEnd {
            void: found
                .void
                .filter(wanted)
                .filter(|_| self.scope == Scope::All),
            fires: found.fires.filter(wanted),
        };
        let behind = self.segment.local_start() + 1;
        if self.cursor.local < behind {
            self.cursor.seek(behind);
        }
    }

    /// Opens the segment's own times, once nothing is pending before them.
    fn open(&mut self) {
        if self.pending.void.is_some() || self.pending.fires.is_some() {
            self.open_to = i64::MIN;
            return;
        }
        let last = floor_second(self.until) + self.segment.offset;
        self.open_to = self
            .segment
            .local_end()
            .min(self.wall.until)
            .min(last.saturating_add(1));
    }

    #[cold]
    fn turn(&mut self) -> Turn {
        let pending = self
            .pending
            .void
            .take()
            .or_else(|| self.pending.fires.take());
        if let Some(planned) = pending {
            self.open();
            return Turn::Found(planned);
        }
        if self.is_finished() {
            return Turn::Finished;
        }
        let Some(segment) = self.wall.zone.segment(self.index + 1) else {
            return Turn::Finished;
        };
        let left_at = self.segment.local_end();
        self.index += 1;
        self.segment = segment;
        let start = segment.local_start();
        match self.wall.rule {
            // What an overlap repeats is behind the cursor already.
            ClockRule::Fixed if self.cursor.local <= start => self.take_gap(),
            ClockRule::Fixed => {}
            ClockRule::Frequent if start < left_at || self.cursor.local < start => {
                self.cursor.seek(start.max(self.wall.from));
            }
            ClockRule::Frequent => {}
        }
        self.open();
        Turn::Entered
    }

    fn is_finished(&self) -> bool {
        let bounded = match self.wall.rule {
            ClockRule::Fixed => self.cursor.local >= self.wall.until,
            // An overlap may come back below the bound; no zone goes back by more than a day.
            ClockRule::Frequent => {
                self.segment.local_start() > self.wall.until.saturating_add(2 * DAY)
            }
        };
        bounded || self.segment.end > ceil_second(self.until)
    }
}

impl Iterator for Walk<'_> {
    type Item = Planned;

    #[inline]
    fn next(&mut self) -> Option<Planned> {
        loop {
            let local = self.cursor.local;
            if local < self.open_to {
                let fate = if self.cursor.excluded {
                    Fate::Excluded
                } else {
                    Fate::Fires
                };
                self.cursor.step();
                return self.wall.shown(&self.segment, local, fate);
            }
            match self.turn() {
                Turn::Found(planned) => return Some(planned),
                Turn::Entered => {}
                Turn::Finished => return None,
            }
        }
    }
}
