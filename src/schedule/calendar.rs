//! Proleptic Gregorian dates as day numbers, and local time as plain seconds.
//!
//! Local seconds count from 1970-01-01T00:00 of the wall clock, so that an instant and its local
//! time differ by exactly the offset.

use jiff::{Timestamp, civil};

/// Seconds of a day on the wall clock.
pub(crate) const DAY: i64 = 86_400;

/// The last year that `jiff` can hold.
pub(crate) const YEAR_MAX: i32 = 9999;

/// The first year that `jiff` can hold.
pub(crate) const YEAR_MIN: i32 = -9999;

/// The day number of a date.
pub(crate) fn day_number(year: i32, month: u32, day: u32) -> i64 {
    // Years are counted from March, so that the leap day is a year's last.
    let year = i64::from(year) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = i64::from((153 * ((month + 9) % 12) + 2) / 5 + day - 1);
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The date of a day number.
pub(crate) fn date_parts(day: i64) -> (i32, u32, u32) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097) as u32;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era as i32 * 400 + year_of_era as i32 + i32::from(month <= 2);
    (year, month, day)
}

/// How many days the month has.
pub(crate) fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The day of the week, counted from Sunday = 0.
pub(crate) fn weekday(day: i64) -> u32 {
    (day + 4).rem_euclid(7) as u32
}

/// The day number of a civil date.
pub(crate) fn day_of(date: civil::Date) -> i64 {
    day_number(
        i32::from(date.year()),
        date.month().unsigned_abs().into(),
        date.day().unsigned_abs().into(),
    )
}

/// The second of the day, without its fraction.
pub(crate) fn second_of_day(time: civil::Time) -> u32 {
    let [hour, minute, second] =
        [time.hour(), time.minute(), time.second()].map(|part| u32::from(part.unsigned_abs()));
    hour * 3_600 + minute * 60 + second
}

/// Local seconds of a wall time; a fraction of a second counts as a whole one.
pub(crate) fn local_ceil(wall: civil::DateTime) -> i64 {
    day_of(wall.date()) * DAY
        + i64::from(second_of_day(wall.time()))
        + i64::from(wall.subsec_nanosecond() > 0)
}

/// The wall time of local seconds, where `jiff` can hold it.
pub(crate) fn wall_time(local: i64) -> Option<civil::DateTime> {
    let (year, month, day) = date_parts(local.div_euclid(DAY));
    let second = local.rem_euclid(DAY);
    civil::DateTime::new(
        i16::try_from(year).ok()?,
        month as i8,
        day as i8,
        (second / 3_600) as i8,
        (second / 60 % 60) as i8,
        (second % 60) as i8,
        0,
    )
    .ok()
}

/// The whole second at or before the instant.
pub(crate) fn floor_second(at: Timestamp) -> i64 {
    at.as_second() - i64::from(at.subsec_nanosecond() < 0)
}

/// The whole second at or after the instant.
pub(crate) fn ceil_second(at: Timestamp) -> i64 {
    at.as_second() + i64::from(at.subsec_nanosecond() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_numbers_agree_with_jiff_over_every_day_it_knows() {
        let epoch = civil::date(1970, 1, 1);
        let mut date = civil::date(1600, 1, 1);
        while date < civil::date(2405, 1, 1) {
            let number = day_of(date);
            let span = epoch.duration_until(date).as_secs() / DAY;
            assert_eq!(number, span, "{date}");
            let (year, month, day) = date_parts(number);
            assert_eq!(
                civil::Date::new(year as i16, month as i8, day as i8).unwrap(),
                date
            );
            assert_eq!(
                weekday(number),
                date.weekday().to_sunday_zero_offset() as u32,
                "{date}"
            );
            assert_eq!(days_in_month(year, month), date.days_in_month() as u32);
            date = date.tomorrow().unwrap();
        }
    }

    #[test]
    fn seconds_round_towards_the_named_side_also_before_the_epoch() {
        let half = Timestamp::from_microsecond(-1_500_000).unwrap();
        assert_eq!((floor_second(half), ceil_second(half)), (-2, -1));
        let half = Timestamp::from_microsecond(1_500_000).unwrap();
        assert_eq!((floor_second(half), ceil_second(half)), (1, 2));
    }
}
