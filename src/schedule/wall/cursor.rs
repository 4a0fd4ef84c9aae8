//! Steps through the written local times of a schedule, blind to clock changes.

use crate::schedule::{
    calendar::{DAY, YEAR_MAX, YEAR_MIN, day_number},
    day_rule::Month,
    wall::{Scope, Wall},
};

/// A place in the ascending sequence of written local times.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'p> {
    pub(crate) wall: &'p Wall,
    scope: Scope,
    offsets: &'p [u16],
    /// The written time that is next; `i64::MAX` behind the last.
    pub(crate) local: i64,
    /// Whether its date is excluded.
    pub(crate) excluded: bool,
    month: Month,
    /// The named days of the month after the current one.
    mask: u32,
    /// The first second of the current day, and of the current block.
    day: i64,
    base: i64,
    block: usize,
    offset: usize,
}

impl<'p> Cursor<'p> {
    /// At the first written time at or after `local`.
    pub(crate) fn at(wall: &'p Wall, scope: Scope, local: i64) -> Self {
        let mut cursor = Self {
            wall,
            scope,
            offsets: &wall.times.offsets,
            local,
            excluded: false,
            month: Month::of(1970, 1),
            mask: 0,
            day: 0,
            base: 0,
            block: 0,
            offset: 0,
        };
        cursor.seek(local);
        cursor
    }

    /// Moves to the first written time at or after `local`, in either direction.
    pub(crate) fn seek(&mut self, local: i64) {
        let local = local.max(day_number(YEAR_MIN, 1, 1) * DAY);
        if local >= day_number(YEAR_MAX + 1, 1, 1) * DAY {
            self.local = i64::MAX;
            return;
        }
        let day = local.div_euclid(DAY);
        let (month, date) = Month::containing(day);
        let Some((found, mask)) = self.wall.dates.month_from(month) else {
            self.local = i64::MAX;
            return;
        };
        self.month = found;
        self.mask = mask;
        if found != month {
            self.next_day();
            return;
        }
        self.mask &= u32::MAX << date;
        if self.mask & (1 << date) != 0
            && let Some((block, offset)) = self.wall.times.first_from(local.rem_euclid(DAY) as u32)
            && self.enter_day(date)
        {
            self.block = block;
            self.offset = offset;
            self.base = self.day + i64::from(self.wall.times.blocks[block]);
            self.local = self.base + i64::from(self.offsets[offset]);
            return;
        }
        self.mask &= (u32::MAX << date) << 1;
        self.next_day();
    }

    /// Moves to the following written time.
    #[inline]
    pub(crate) fn step(&mut self) {
        self.offset += 1;
        match self.offsets.get(self.offset) {
            Some(offset) => self.local = self.base + i64::from(*offset),
            None => self.next_block(),
        }
    }

    #[inline]
    fn next_block(&mut self) {
        self.block += 1;
        match self.wall.times.blocks.get(self.block) {
            Some(start) => self.enter_block(*start),
            None => self.next_day(),
        }
    }

    #[inline]
    fn enter_block(&mut self, start: u32) {
        self.offset = 0;
        self.base = self.day + i64::from(start);
        self.local = self.base + i64::from(self.offsets[0]);
    }

    fn next_day(&mut self) {
        loop {
            if self.mask == 0 {
                let following = self.month.following();
                let Some((month, mask)) = self.wall.dates.month_from(following) else {
                    self.local = i64::MAX;
                    return;
                };
                self.month = month;
                self.mask = mask;
            }
            let date = self.mask.trailing_zeros();
            if self.enter_day(date) {
                self.block = 0;
                self.enter_block(self.wall.times.blocks[0]);
                return;
            }
        }
    }

    /// Makes this day of the month the current one, unless it is out of scope.
    #[inline]
    fn enter_day(&mut self, date: u32) -> bool {
        let day = self.month.day_zero + i64::from(date);
        self.mask &= (u32::MAX << date) << 1;
        self.excluded = !self.wall.exclude.is_empty() && self.wall.excludes(day);
        self.day = day * DAY;
        !(self.excluded && self.scope == Scope::Firing)
    }
}
