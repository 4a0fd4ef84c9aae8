//! Times of day, dates, and the two together.

use std::ops::Range;

use jiff::{Timestamp, civil};

use crate::config::{
    fields::Value,
    keys::Shape,
    problem::{Code, Problem},
    values::quoted,
};

/// Why a text is not a time or date.
pub(super) enum Why {
    /// It is spelled in another way.
    Spelling,
    /// It is spelled right, and the calendar or the clock does not have it.
    NotThere,
    /// It has an offset from UTC where wall time is meant.
    Offset,
}

impl Why {
    pub(super) fn problem(
        self,
        (code, what): (Code, &str),
        text: &str,
        shape: &Shape,
        span: Range<usize>,
    ) -> Box<Problem> {
        let label = match self {
            Self::Spelling => format!("not {what} as it is written here"),
            Self::NotThere => String::from("the calendar or the clock does not have it"),
            Self::Offset => String::from("wall time has no offset: its zone is the job's"),
        };
        let problem = Problem::error(code, span, format!("`{}` is not {what}", quoted(text)))
            .label(label)
            .help(format!("accepted: {}", shape.accepted()));
        Box::new(problem)
    }
}

/// `08:00` or `08:00:30`.
pub(super) fn time(text: &str) -> Result<civil::Time, Why> {
    let parts = numbers(text, ':', &[2, 2, 2])?;
    let (hour, minute, second) = match parts[..] {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return Err(Why::Spelling),
    };
    let small = |number: i16| i8::try_from(number).map_err(|_| Why::NotThere);
    civil::Time::new(small(hour)?, small(minute)?, small(second)?, 0).map_err(|_| Why::NotThere)
}

/// `2026-12-24`.
pub(super) fn date(text: &str) -> Result<civil::Date, Why> {
    let parts = numbers(text, '-', &[4, 2, 2])?;
    let [year, month, day] = parts[..] else {
        return Err(Why::Spelling);
    };
    let small = |number: i16| i8::try_from(number).map_err(|_| Why::NotThere);
    civil::Date::new(year, small(month)?, small(day)?).map_err(|_| Why::NotThere)
}

/// `2026-12-24T18:00`, with a `T` or a space.
pub(super) fn date_time(text: &str) -> Result<civil::DateTime, Why> {
    let (day, clock) = text.split_once(['T', ' ']).ok_or(Why::Spelling)?;
    let day = date(day)?;
    if clock.ends_with(['Z', 'z']) || clock.contains(['+', '-']) {
        return Err(Why::Offset);
    }
    Ok(day.to_datetime(time(clock)?))
}

/// A date means its first moment.
pub(super) fn moment(text: &str) -> Result<civil::DateTime, Why> {
    date(text)
        .map(|date| date.to_datetime(civil::Time::midnight()))
        .or_else(|_| date_time(text))
}

/// With an offset it is an instant at once; without, wall time in the job's zone.
pub(super) fn instant(text: &str) -> Result<Value, Why> {
    match date_time(text) {
        Ok(moment) => Ok(Value::DateTime(moment)),
        Err(Why::Offset) => text
            .parse::<Timestamp>()
            .map(Value::Instant)
            .map_err(|_| Why::Spelling),
        Err(why) => Err(why),
    }
}

/// Numbers of exactly these widths.
fn numbers(text: &str, separator: char, widths: &[usize]) -> Result<Vec<i16>, Why> {
    let parts: Vec<&str> = text.split(separator).collect();
    if parts.len() > widths.len() {
        return Err(Why::Spelling);
    }
    parts
        .iter()
        .zip(widths)
        .map(|(part, width)| {
            let digits = part.len() == *width && part.bytes().all(|byte| byte.is_ascii_digit());
            if digits {
                part.parse().map_err(|_| Why::NotThere)
            } else {
                Err(Why::Spelling)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_dates_are_read_as_they_are_written_and_in_no_other_way() {
        assert!(time("08:00").is_ok_and(|at| at == civil::time(8, 0, 0, 0)));
        assert!(time("23:59:59").is_ok_and(|at| at == civil::time(23, 59, 59, 0)));
        for (text, there) in [
            ("8:00", true),
            ("8pm", true),
            ("08", true),
            ("24:00", false),
            ("08:60", false),
        ] {
            let why = time(text).unwrap_err();
            assert_eq!(matches!(why, Why::Spelling), there, "{text}");
        }
        assert!(date("2026-12-24").is_ok());
        assert!(matches!(date("2026-02-30"), Err(Why::NotThere)));
        assert!(matches!(date("24.12.2026"), Err(Why::Spelling)));
        assert!(date_time("2026-12-24T18:00").is_ok());
        assert!(date_time("2026-12-24 18:00:05").is_ok());
        assert!(matches!(date_time("2026-12-24T18:00Z"), Err(Why::Offset)));
        assert!(matches!(
            date_time("2026-12-24T18:00+01:00"),
            Err(Why::Offset)
        ));
        assert!(matches!(
            instant("2026-12-24T18:00:00Z"),
            Ok(Value::Instant(_))
        ));
        assert!(matches!(
            instant("2026-12-24T18:00:00+01:00"),
            Ok(Value::Instant(_))
        ));
        assert!(matches!(
            instant("2026-12-24T18:00"),
            Ok(Value::DateTime(_))
        ));
        assert!(moment("2026-12-24").is_ok());
    }
}
