//! The fields of a cron expression: their bounds and names.

use std::fmt;

/// A field of a cron expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// 0 to 59.
    Second,
    /// 0 to 59.
    Minute,
    /// 0 to 23.
    Hour,
    /// 1 to 31.
    DayOfMonth,
    /// 1 to 12, or names.
    Month,
    /// 0 to 7, where both ends are Sunday, or names.
    DayOfWeek,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const WEEKDAYS: [&str; 7] = [
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
];

impl Field {
    /// The smallest value.
    pub(crate) fn min(self) -> u32 {
        match self {
            Self::Second | Self::Minute | Self::Hour | Self::DayOfWeek => 0,
            Self::DayOfMonth | Self::Month => 1,
        }
    }

    /// The largest value.
    pub(crate) fn max(self) -> u32 {
        match self {
            Self::Second | Self::Minute => 59,
            Self::Hour => 23,
            Self::DayOfMonth => 31,
            Self::Month => 12,
            Self::DayOfWeek => 7,
        }
    }

    /// The end of `*`, and of `a-END/n`: Sunday is not counted twice.
    pub(crate) fn star_max(self) -> u32 {
        match self {
            Self::DayOfWeek => 6,
            Self::Second | Self::Minute | Self::Hour | Self::DayOfMonth | Self::Month => self.max(),
        }
    }

    /// The largest step: beyond it no second value is ever reached.
    pub(crate) fn step_max(self) -> u32 {
        self.max()
    }

    /// Whether the field names dates rather than times.
    pub(crate) fn is_day(self) -> bool {
        match self {
            Self::DayOfMonth | Self::DayOfWeek => true,
            Self::Second | Self::Minute | Self::Hour | Self::Month => false,
        }
    }

    /// The value of an English name, short or in full, in any case.
    pub(crate) fn named(self, text: &str) -> Option<u32> {
        let (names, first): (&[&str], u32) = match self {
            Self::Month => (&MONTHS, 1),
            Self::DayOfWeek => (&WEEKDAYS, 0),
            Self::Second | Self::Minute | Self::Hour | Self::DayOfMonth => return None,
        };
        let wanted = text.to_ascii_lowercase();
        let place = names
            .iter()
            .position(|name| *name == wanted || name[..3] == wanted)?;
        u32::try_from(place).ok().map(|place| place + first)
    }

    /// What may stand in the field, for a message.
    pub fn accepted(self) -> &'static str {
        match self {
            Self::Second | Self::Minute => "0-59 with `*`, `,`, `-` and `/`",
            Self::Hour => "0-23 with `*`, `,`, `-` and `/`",
            Self::DayOfMonth => "1-31 with `*`, `?`, `,`, `-`, `/`, and `L`, `LW`, `15W`",
            Self::Month => "1-12 or JAN-DEC with `*`, `,`, `-` and `/`",
            Self::DayOfWeek => {
                "0-7 or SUN-SAT (0 and 7 are Sunday) with `*`, `?`, `,`, `-`, `/`, and `MON#1`, `FRIL`"
            }
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day-of-month",
            Self::Month => "month",
            Self::DayOfWeek => "day-of-week",
        })
    }
}
