//! The texts of a scenario. Errors say what is accepted.

use jiff::{
    SignedDuration, Timestamp,
    civil::{DateTime, Time, Weekday},
};

use super::{Given, Moment, Stretch};
use crate::{
    config,
    simulate::{Rate, RunTime},
};

/// What a moment looks like, for people.
pub const MOMENT: &str = "`2026-12-01T08:00`, `2026-12-01`, `2026-12-01T07:00:00Z` or `Tue 08:00`";
/// What a share looks like, for people.
pub const RATE: &str = "a share such as `10%` or `0.1`";

/// `2026-12-01T08:00`, `2026-12-01`, `2026-12-01T07:00:00Z`, `Tue 08:00`.
///
/// # Errors
/// What is accepted.
pub fn moment(text: &str) -> Result<Moment, String> {
    let text = text.trim();
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(Moment::Instant(instant));
    }
    let has_offset = text.ends_with(['Z', 'z', ']']) || text.contains('+');
    if let Ok(wall) = text.parse::<DateTime>()
        && !has_offset
    {
        return Ok(Moment::Wall(wall));
    }
    let of_week = text.split_once(' ').and_then(|(day, clock)| {
        let day = weekday(day)?;
        Some(Moment::Weekday(day, time(clock.trim()).ok()?))
    });
    of_week.ok_or_else(|| format!("`{text}` is not a moment; accepted: {MOMENT}"))
}

/// `A..B`.
///
/// # Errors
/// What is accepted.
pub fn stretch(text: &str) -> Result<Stretch, String> {
    let Some((from, to)) = text.split_once("..") else {
        return Err(format!(
            "`{text}` is not a stretch of time; accepted: `FROM..TO`, each {MOMENT}"
        ));
    };
    Ok(Stretch {
        from: moment(from)?,
        to: moment(to)?,
    })
}

/// `AT=+1h`, `AT=-30m`.
///
/// # Errors
/// What is accepted.
pub fn clock_step(text: &str) -> Result<(Moment, SignedDuration), String> {
    let wrong = || format!("`{text}` is not a step of the clock; accepted: `AT=+1h` or `AT=-30m`");
    let (at, by) = text.rsplit_once('=').ok_or_else(wrong)?;
    let (by, back) = match (by.trim().strip_prefix('+'), by.trim().strip_prefix('-')) {
        (Some(by), _) => (by, false),
        (None, Some(by)) => (by, true),
        (None, None) => return Err(wrong()),
    };
    let by = config::duration(by).map_err(|why| format!("`{by}` is not a duration: {why}"))?;
    Ok((moment(at)?, if back { -by } else { by }))
}

/// `30s`, `10s..2m`.
///
/// # Errors
/// What is accepted.
pub fn run_time(text: &str) -> Result<RunTime, String> {
    let duration = |text: &str| {
        let read = config::duration(text.trim());
        read.map_err(|why| format!("`{text}` is not a duration: {why}"))
    };
    let Some((shortest, longest)) = text.split_once("..") else {
        return match duration(text) {
            Ok(fixed) => Ok(RunTime::fixed(fixed)),
            Err(why) => Err(format!("{why}; accepted: `30s`, or `10s..2m`")),
        };
    };
    let time = RunTime {
        shortest: duration(shortest)?,
        longest: duration(longest)?,
    };
    if time.shortest > time.longest {
        return Err(format!("`{text}`: the shorter one comes first"));
    }
    Ok(time)
}

/// `10%`, `0.1`.
///
/// # Errors
/// What is accepted.
pub fn rate(text: &str) -> Result<Rate, String> {
    let wrong = || format!("`{text}` is not {RATE}, from 0 to 1");
    let (number, whole) = match text.trim().strip_suffix('%') {
        Some(percent) => (percent.trim(), 10_000.0),
        None => (text.trim(), 1_000_000.0),
    };
    let plain = number
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = number.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
    let parts = (number * whole).round();
    if (0.0..=1_000_000.0).contains(&parts) {
        Ok(Rate(parts as u32))
    } else {
        Err(wrong())
    }
}

/// A share, a moment, or a stretch.
///
/// # Errors
/// What is accepted.
pub fn given(text: &str) -> Result<Given, String> {
    if text.trim().parse::<f64>().is_ok() || text.trim().ends_with('%') {
        return rate(text).map(Given::Rate);
    }
    // A decimal point is no range.
    let read = if text.contains("..") {
        stretch(text).map(Given::Between)
    } else {
        moment(text).map(Given::At)
    };
    read.map_err(|why| format!("{why}; or {RATE}, or a stretch `FROM..TO`"))
}

/// `23:00..06:00`.
///
/// # Errors
/// What is accepted.
pub fn hours(text: &str) -> Result<(Time, Time), String> {
    let wrong = || format!("`{text}` is not a stretch of the day; accepted: `23:00..06:00`");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let read = |text: &str| time(text.trim()).map_err(|_| wrong());
    Ok((read(from)?, read(to)?))
}

fn time(text: &str) -> Result<Time, jiff::Error> {
    Time::strptime("%H:%M", text).or_else(|_| Time::strptime("%H:%M:%S", text))
}

fn weekday(text: &str) -> Option<Weekday> {
    let days = [
        ("mon", Weekday::Monday),
        ("tue", Weekday::Tuesday),
        ("wed", Weekday::Wednesday),
        ("thu", Weekday::Thursday),
        ("fri", Weekday::Friday),
        ("sat", Weekday::Saturday),
        ("sun", Weekday::Sunday),
    ];
    let text = text.to_ascii_lowercase();
    let found = days.iter().find(|(name, _)| text.starts_with(name));
    found.map(|(_, day)| *day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_rates_and_run_times_are_read() {
        assert!(matches!(moment("2026-12-01T08:00"), Ok(Moment::Wall(_))));
        assert!(matches!(moment("2026-12-01 08:00"), Ok(Moment::Wall(_))));
        assert!(matches!(moment("2026-12-01"), Ok(Moment::Wall(_))));
        assert!(matches!(
            moment("2026-12-01T08:00Z"),
            Ok(Moment::Instant(_))
        ));
        assert!(matches!(
            moment("2026-12-01T08:00-05:00"),
            Ok(Moment::Instant(_))
        ));
        assert!(matches!(
            moment("Tue 06:00"),
            Ok(Moment::Weekday(Weekday::Tuesday, _))
        ));
        assert_eq!(rate("10%"), Ok(Rate(100_000)));
        assert_eq!(rate("0.5"), Ok(Rate(500_000)));
        assert_eq!(rate("1"), Ok(Rate::ALWAYS));
        assert!(run_time("10s..2m").is_ok_and(|time| time.longest.as_secs() == 120));
        assert!(matches!(given("0.25"), Ok(Given::Rate(_))));
        assert!(matches!(given("2026-12-01T08:00"), Ok(Given::At(_))));
        assert!(matches!(
            given("2026-12-01..2026-12-02"),
            Ok(Given::Between(_))
        ));
        let (_, by) = clock_step("2026-12-01T08:00=-1h").unwrap();
        assert_eq!(by.as_secs(), -3_600);
    }

    #[test]
    fn what_is_not_accepted_says_what_is() {
        for (wrong, says) in [
            (moment("soon").unwrap_err(), "accepted"),
            (stretch("2026-12-01").unwrap_err(), "FROM..TO"),
            (rate("150%").unwrap_err(), "from 0 to 1"),
            (rate("nan").unwrap_err(), "from 0 to 1"),
            (run_time("2m..10s").unwrap_err(), "shorter one comes first"),
            (run_time("30").unwrap_err(), "has no unit"),
            (clock_step("2026-12-01=1h").unwrap_err(), "AT=+1h"),
            (hours("23-06").unwrap_err(), "23:00..06:00"),
            (given("often").unwrap_err(), "10%"),
        ] {
            assert!(wrong.contains(says), "{wrong}");
        }
    }
}
