//! The search backward: the last occurrence at or before an instant.

use jiff::Timestamp;

use crate::schedule::{
    Fate, Planned,
    calendar::{DAY, YEAR_MIN, day_number, floor_second},
    day_rule::Month,
    wall::{ClockRule, Scope, Wall},
};

impl Wall {
    /// The last occurrence that fires at or before `at`.
    pub(crate) fn latest_at_or_before(&self, at: Timestamp) -> Option<Planned> {
        let second = floor_second(at);
        let (mut index, mut segment) = self.zone.at(second);
        let mut top = second + segment.offset;
        let mut searched_to = i64::MIN;
        let mut found: Option<i64> = None;
        loop {
            let top_written = top.min(self.until.saturating_sub(1));
            // What was found from a higher start is still the last one below a lower start.
            if top_written > searched_to || found.is_some_and(|local| local > top_written) {
                found = self.written_at_or_before(top_written);
                searched_to = top_written;
            }
            let opens_at = self.opens_at(&segment);
            let gap = self.rule == ClockRule::Fixed && segment.opens_with_gap();
            if let Some(local) = found
                && local >= opens_at
                && local >= self.from
                && !(gap && local == opens_at)
            {
                return self.shown(&segment, local, Fate::Fires);
            }
            if gap && let Some(fires) = self.at_gap_end(&segment, Scope::Firing).fires {
                return Some(fires);
            }
            let below = segment.local_start() < self.from.saturating_sub(2 * DAY);
            if found.is_none() || below || index == 0 {
                return None;
            }
            index -= 1;
            segment = self.zone.segment(index)?;
            top = segment.local_end() - 1;
        }
    }

    /// The last written time at or before `local` whose date is not excluded.
    fn written_at_or_before(&self, local: i64) -> Option<i64> {
        if local < day_number(YEAR_MIN, 1, 1) * DAY {
            return None;
        }
        let (start, date) = Month::containing(local.div_euclid(DAY));
        let mut second = local.rem_euclid(DAY) as u32;
        let mut from = start;
        loop {
            let (month, mut mask) = self.dates.month_back(from)?;
            if month == start {
                mask &= u32::MAX >> (31 - date);
            }
            while mask != 0 {
                let day = 31 - mask.leading_zeros();
                mask &= !(1 << day);
                let number = month.day_zero + i64::from(day);
                if month != start || day != date {
                    second = DAY as u32 - 1;
                }
                if !self.excludes(number)
                    && let Some(time) = self.times.last_to(second)
                {
                    return Some(number * DAY + i64::from(time));
                }
            }
            from = month.preceding();
        }
    }
}
