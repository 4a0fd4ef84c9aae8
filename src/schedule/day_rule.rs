//! Which dates a schedule names: a month at a time, as a bit mask.

use crate::schedule::calendar::{
    YEAR_MAX, YEAR_MIN, date_parts, day_number, days_in_month, weekday,
};

/// How far a search goes: after this many years the calendar repeats, weekdays included.
const YEARS_OF_A_CYCLE: i32 = 400;

/// Multiplies a week of seven bits into five weeks of them.
const EVERY_WEEK: u64 = 0x1020_4081;

/// How the two day fields combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combine {
    /// A date that either field names.
    Or,
    /// A date that both fields name.
    And,
}

/// The day fields of a cron expression, or the weekdays of a `daily` job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DayRule {
    /// Bit `m` for month `m`.
    pub(crate) months: u16,
    /// Bit `d` for day `d` of the month.
    pub(crate) month_days: u32,
    /// Bit `d` for `dW`: the weekday nearest to day `d`, inside the month.
    pub(crate) nearest: u32,
    /// `L`: the month's last day.
    pub(crate) last_day: bool,
    /// `LW`: the month's last weekday from Monday to Friday.
    pub(crate) last_workday: bool,
    /// Bit `w` for weekday `w`, counted from Sunday = 0.
    pub(crate) weekdays: u8,
    /// The same for the first, second, ... such weekday of the month.
    pub(crate) nth: [u8; 5],
    /// The same for the last such weekday of the month.
    pub(crate) last: u8,
    /// How days of the month and days of the week combine.
    pub(crate) combine: Combine,
}

impl DayRule {
    /// Every date on one of these weekdays.
    pub(crate) fn weekdays(bits: u8) -> Self {
        Self {
            months: 0x1ffe,
            month_days: 0,
            nearest: 0,
            last_day: false,
            last_workday: false,
            weekdays: bits,
            nth: [0; 5],
            last: 0,
            combine: Combine::Or,
        }
    }

    /// Whether any date at all is named.
    pub(crate) fn ever_comes(&self) -> bool {
        let mut month = Month::of(2000, 1);
        while month.year <= 2000 + YEARS_OF_A_CYCLE {
            if self.mask(&month) != 0 {
                return true;
            }
            month = self.month_after(month);
        }
        false
    }

    /// The next month that the rule names.
    fn month_after(&self, month: Month) -> Month {
        let later = self.months & (u16::MAX << 1) << month.month;
        if (later >> month.month) & 2 != 0 {
            month.following()
        } else if later == 0 {
            Month::of(month.year + 1, self.months.trailing_zeros().clamp(1, 12))
        } else {
            Month::of(month.year, later.trailing_zeros())
        }
    }

    /// The last month before it that the rule names.
    fn month_before(&self, month: Month) -> Month {
        let earlier = self.months & ((1 << month.month) - 1);
        if earlier >> (month.month - 1) == 1 {
            month.preceding()
        } else if earlier == 0 {
            let last = u16::BITS - 1 - (self.months | 1).leading_zeros();
            Month::of(month.year - 1, last.clamp(1, 12))
        } else {
            Month::of(month.year, u16::BITS - 1 - earlier.leading_zeros())
        }
    }

    /// Bit `d` for each named day `d` of the month.
    fn mask(&self, month: &Month) -> u32 {
        if self.months & (1 << month.month) == 0 {
            return 0;
        }
        let length = days_in_month(month.year, month.month);
        let first = weekday(month.day_zero + 1);
        let by_week = self.week_mask(first, length);
        let by_month = self.month_mask(first, length);
        let named = match self.combine {
            Combine::Or => by_week | by_month,
            Combine::And => by_week & by_month,
        };
        named & (u32::MAX >> (31 - length))
    }

    fn month_mask(&self, first: u32, length: u32) -> u32 {
        let mut mask = self.month_days;
        if self.last_day {
            mask |= 1 << length;
        }
        if self.last_workday {
            mask |= 1 << nearest_workday(length, first, length);
        }
        let mut nearest = self.nearest;
        while nearest != 0 {
            let day = nearest.trailing_zeros();
            nearest &= nearest - 1;
            if day <= length {
                mask |= 1 << nearest_workday(day, first, length);
            }
        }
        mask
    }

    fn week_mask(&self, first: u32, length: u32) -> u32 {
        // Bit 0 of a turned week is the weekday of the month's first day.
        let turn = |bits: u8| -> u64 {
            let twice = u64::from(bits) | u64::from(bits) << 7;
            (twice >> first) & 0x7f
        };
        let mut mask = (turn(self.weekdays) * EVERY_WEEK) << 1;
        if self.nth != [0; 5] {
            for (week, bits) in self.nth.into_iter().enumerate() {
                mask |= turn(bits) << (7 * week + 1);
            }
        }
        if self.last != 0 {
            let every = (turn(self.last) * EVERY_WEEK) << 1;
            mask |= every & (0x7f << (length - 6));
        }
        mask as u32
    }
}

/// The day from Monday to Friday nearest to `day`, without leaving the month.
fn nearest_workday(day: u32, first: u32, length: u32) -> u32 {
    match (first + day - 1) % 7 {
        6 if day > 1 => day - 1,
        6 => day + 2,
        0 if day < length => day + 1,
        0 => day - 2,
        _ => day,
    }
}

/// The dates of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Dates {
    /// All that a rule names.
    Rule(DayRule),
    /// This one day number.
    One(i64),
}

impl Dates {
    /// The first named date in the month or after it, as the month and the mask of its named days.
    pub(crate) fn month_from(&self, mut month: Month) -> Option<(Month, u32)> {
        match self {
            Self::Rule(rule) => {
                let last_year = YEAR_MAX.min(month.year + YEARS_OF_A_CYCLE);
                while month.year <= last_year {
                    let mask = rule.mask(&month);
                    if mask != 0 {
                        return Some((month, mask));
                    }
                    month = rule.month_after(month);
                }
                None
            }
            Self::One(day) => {
                let (own, date) = Month::containing(*day);
                (own.day_zero >= month.day_zero).then_some((own, 1 << date))
            }
        }
    }

    /// The mirror of [`Dates::month_from`]: the last month at or before this one.
    pub(crate) fn month_back(&self, mut month: Month) -> Option<(Month, u32)> {
        match self {
            Self::Rule(rule) => {
                let first_year = YEAR_MIN.max(month.year - YEARS_OF_A_CYCLE);
                while month.year >= first_year {
                    let mask = rule.mask(&month);
                    if mask != 0 {
                        return Some((month, mask));
                    }
                    month = rule.month_before(month);
                }
                None
            }
            Self::One(day) => {
                let (own, date) = Month::containing(*day);
                (own.day_zero <= month.day_zero).then_some((own, 1 << date))
            }
        }
    }
}

/// A month of a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Month {
    year: i32,
    month: u32,
    /// The day number of the day before its first.
    pub(crate) day_zero: i64,
}

impl Month {
    pub(crate) fn of(year: i32, month: u32) -> Self {
        Self {
            year,
            month,
            day_zero: day_number(year, month, 1) - 1,
        }
    }

    /// The month of a day number, and the day of the month.
    pub(crate) fn containing(day: i64) -> (Self, u32) {
        let (year, month, date) = date_parts(day);
        let month = Self {
            year,
            month,
            day_zero: day - i64::from(date),
        };
        (month, date)
    }

    pub(crate) fn following(self) -> Self {
        let day_zero = self.day_zero + i64::from(days_in_month(self.year, self.month));
        match self.month {
            12 => Self {
                year: self.year + 1,
                month: 1,
                day_zero,
            },
            month => Self {
                year: self.year,
                month: month + 1,
                day_zero,
            },
        }
    }

    pub(crate) fn preceding(self) -> Self {
        let (year, month) = match self.month {
            1 => (self.year - 1, 12),
            month => (self.year, month - 1),
        };
        Self {
            year,
            month,
            day_zero: self.day_zero - i64::from(days_in_month(year, month)),
        }
    }
}
