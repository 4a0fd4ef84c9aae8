//! Reads what is written as text: times, dates, zones, words, addresses.

use std::ops::Range;

use jiff::civil;
use toml::{Spanned, de::DeValue};

use super::{
    durations,
    fields::Value,
    keys::Shape,
    problem::{Code, Problem},
    reader::Reader,
    secrets,
    values::{bad_word, long_enough, quoted, wrong_type},
};
use crate::job::Weekdays;

mod moments;
mod plans;

/// The name of an environment variable, as a pattern.
pub(super) const ENV_NAME: &str = "^[A-Za-z_][A-Za-z0-9_]*$";
/// A time of day, as a pattern.
pub(super) const TIME: &str = r"^([01]\d|2[0-3]):[0-5]\d(:[0-5]\d)?$";
/// A date, as a pattern.
pub(super) const DATE: &str = r"^\d{4}-\d{2}-\d{2}$";
/// A date with a time of day, as a pattern.
pub(super) const DATE_TIME: &str = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2})?$";
/// A date with a time of day and possibly an offset, as a pattern.
pub(super) const INSTANT: &str = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2})?(Z|[+-]\d{2}:\d{2})?$";
/// A date, possibly with a time of day, as a pattern.
pub(super) const MOMENT: &str = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2})?)?$";
/// An absolute URL, as a pattern.
pub(super) const URL: &str = r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s/]+\S*$";

/// What became of a text.
pub(super) enum Read {
    Value(Value),
    /// It is wrong, and that has been reported.
    Reported,
    /// The shape is not one that is written as text.
    NotText,
}

/// Reads a text by its shape.
pub(super) fn read(
    reader: &mut Reader<'_>,
    key: &'static str,
    shape: &'static Shape,
    text: &str,
    span: Range<usize>,
) -> Read {
    if matches!(shape, Shape::EnvName) && !secrets::shapes(text).is_empty() {
        // It has been told that this is a secret; that it is no name either helps nobody.
        return Read::Reported;
    }
    let result = match shape {
        Shape::Text | Shape::ChatName | Shape::AgentName | Shape::ChannelName => {
            Ok(Value::Text(text.to_owned()))
        }
        Shape::Prompt => prompt(key, text, span),
        Shape::Path => path(key, text, span),
        Shape::EnvName => env_name(reader, key, text, span),
        Shape::Url => url(key, text, span),
        Shape::Word { accepted } => {
            if accepted.contains(&text) {
                Ok(Value::Text(text.to_owned()))
            } else {
                Err(Box::new(bad_word(key, text, span, accepted)))
            }
        }
        Shape::Duration(shortest) => match durations::parse(text) {
            Ok(duration) => long_enough(key, duration, *shortest, span),
            Err(why) => Err(malformed(
                (Code::BadDuration, "a duration"),
                text,
                span,
                why,
                shape,
            )),
        },
        Shape::Time => moments::time(text)
            .map(Value::Time)
            .map_err(|why| why.problem((Code::BadTime, "a time of day"), text, shape, span)),
        Shape::Date => moments::date(text)
            .map(Value::Date)
            .map_err(|why| why.problem((Code::BadDate, "a date"), text, shape, span)),
        Shape::DateTime => moments::date_time(text)
            .map(Value::DateTime)
            .map_err(|why| why.problem((Code::BadDate, "a date with a time"), text, shape, span)),
        Shape::Moment => moments::moment(text)
            .map(Value::DateTime)
            .map_err(|why| why.problem((Code::BadDate, "a date"), text, shape, span)),
        Shape::Instant => moments::instant(text)
            .map_err(|why| why.problem((Code::BadDate, "a date with a time"), text, shape, span)),
        Shape::Days => days(text, span, shape),
        Shape::Zone => plans::zone(text, span),
        Shape::Cron => plans::cron(reader.source, text, span),
        Shape::Integer { .. }
        | Shape::Number { .. }
        | Shape::Flag
        | Shape::Argv
        | Shape::ListOrEmpty(_)
        | Shape::OneOrList(_)
        | Shape::Table(_)
        | Shape::TextOrTable(..)
        | Shape::FalseOrTable(_)
        | Shape::TextMap
        | Shape::Entries { .. } => return Read::NotText,
    };
    match result {
        Ok(value) => Read::Value(value),
        Err(problem) => {
            reader.report(*problem);
            Read::Reported
        }
    }
}

fn malformed(
    (code, what): (Code, &str),
    text: &str,
    span: Range<usize>,
    why: String,
    shape: &Shape,
) -> Box<Problem> {
    let problem = Problem::error(code, span, format!("`{}` is not {what}", quoted(text)))
        .label(why)
        .help(format!("accepted: {}", shape.accepted()));
    Box::new(problem)
}

fn prompt(key: &str, text: &str, span: Range<usize>) -> Result<Value, Box<Problem>> {
    if !text.trim().is_empty() {
        return Ok(Value::Text(text.to_owned()));
    }
    Err(Box::new(if key == "prompt" {
        Problem::error(Code::EmptyPrompt, span, "the prompt is empty")
            .label("nothing to ask the agent")
    } else {
        Problem::error(Code::BadValue, span, format!("`{key}` is empty")).label("nothing in it")
    }))
}

fn path(key: &str, text: &str, span: Range<usize>) -> Result<Value, Box<Problem>> {
    if text.trim().is_empty() {
        let problem = Problem::error(Code::BadValue, span, format!("`{key}` is empty"))
            .label("no path in it")
            .help("a path relative to this file, or an absolute one");
        return Err(Box::new(problem));
    }
    Ok(Value::Text(text.to_owned()))
}

fn env_name(
    reader: &mut Reader<'_>,
    key: &str,
    text: &str,
    span: Range<usize>,
) -> Result<Value, Box<Problem>> {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let all_allowed = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if starts_well && all_allowed {
        return Ok(Value::Text(text.to_owned()));
    }
    // People paste the secret itself here, so the text is not shown.
    reader.hidden.push(span.clone());
    let problem = Problem::error(
        Code::BadEnvName,
        span,
        format!("`{key}` is not the name of an environment variable"),
    )
    .label("not shown, in case it is the secret itself")
    .help(format!(
        "a name of letters, digits and `_`, such as `{key} = \"MY_SECRET\"`; set the variable where chatcron runs"
    ));
    Err(Box::new(problem))
}

fn url(key: &str, text: &str, span: Range<usize>) -> Result<Value, Box<Problem>> {
    let lower = text.to_ascii_lowercase();
    let rest = lower
        .strip_prefix("https://")
        .or_else(|| lower.strip_prefix("http://"));
    let why = match rest {
        None => "does not begin with `http://` or `https://`",
        Some(rest) if rest.starts_with(['/', ':', '?', '#']) || rest.is_empty() => "names no host",
        Some(_) if text.contains(|c: char| c.is_whitespace() || c.is_control()) => {
            "has a space in it"
        }
        Some(_) => return Ok(Value::Text(text.to_owned())),
    };
    let problem = Problem::error(
        Code::BadUrl,
        span,
        format!("`{key}` is not an absolute URL: `{}`", quoted(text)),
    )
    .label(why)
    .help("such as `https://example.org/hook`");
    Err(Box::new(problem))
}

/// Full names are fine too: what counts is how a day begins.
const DAYS: [(&str, civil::Weekday); 7] = [
    ("monday", civil::Weekday::Monday),
    ("tuesday", civil::Weekday::Tuesday),
    ("wednesday", civil::Weekday::Wednesday),
    ("thursday", civil::Weekday::Thursday),
    ("friday", civil::Weekday::Friday),
    ("saturday", civil::Weekday::Saturday),
    ("sunday", civil::Weekday::Sunday),
];

fn day(text: &str) -> Result<civil::Weekday, String> {
    let lower = text.trim().to_ascii_lowercase();
    DAYS.iter()
        .find(|(name, _)| lower == *name || lower == name[..3])
        .map(|(_, day)| *day)
        .ok_or_else(|| format!("`{}` is not a day: `mon` to `sun`", quoted(text.trim())))
}

fn days_in(text: &str) -> Result<Weekdays, String> {
    let mut days = Weekdays::NONE;
    for part in text.split(',') {
        let Some((first, last)) = part.split_once('-') else {
            days = days.with(day(part)?);
            continue;
        };
        let (mut at, last) = (day(first)?, day(last)?);
        days = days.with(at);
        while at != last {
            at = at.next();
            days = days.with(at);
        }
    }
    Ok(days)
}

fn days(text: &str, span: Range<usize>, shape: &Shape) -> Result<Value, Box<Problem>> {
    days_in(text)
        .map(Value::Days)
        .map_err(|why| malformed((Code::BadDays, "a set of days"), text, span, why, shape))
}

/// Days as a list: `["mon", "wed-fri"]`.
pub(super) fn days_of_list(
    reader: &mut Reader<'_>,
    key: &'static str,
    found: &Spanned<DeValue<'_>>,
) -> Option<Value> {
    let array = found.get_ref().as_array()?;
    if array.is_empty() {
        reader.report(
            Problem::error(Code::BadDays, found.span(), "`days` is an empty list")
                .label("would never run")
                .help("leave `days` out for every day"),
        );
        return None;
    }
    let mut all = Some(Weekdays::NONE);
    for item in array.iter() {
        let Some(text) = item.get_ref().as_str() else {
            wrong_type(reader, key, &Shape::Days, item);
            all = None;
            continue;
        };
        match days_in(text) {
            Ok(days) => all = all.map(|all| all.union(days)),
            Err(why) => {
                reader.report(*malformed(
                    (Code::BadDays, "a set of days"),
                    text,
                    item.span(),
                    why,
                    &Shape::Days,
                ));
                all = None;
            }
        }
    }
    all.map(Value::Days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_sets_however_they_are_written() {
        let bits = |text| days_in(text).unwrap().bits();
        assert_eq!(bits("mon-fri"), 0b011_1110);
        assert_eq!(bits("Monday - FRIDAY"), 0b011_1110);
        assert_eq!(bits("sat,sun"), 0b100_0001);
        assert_eq!(bits("fri-mon"), 0b110_0011);
        assert_eq!(bits("wed"), 0b000_1000);
        assert_eq!(
            days_in("mon-fri").unwrap(),
            days_in("mon,tue,wed,thu,fri").unwrap()
        );
        for text in ["", "mo", "1-5", "mon-", "weekdays"] {
            assert!(days_in(text).is_err(), "{text}");
        }
    }

    #[test]
    fn urls_are_absolute_and_have_a_host() {
        for good in [
            "https://example.org/hook",
            "http://[::1]:8080/",
            "HTTPS://x",
        ] {
            assert!(url("url", good, 0..1).is_ok(), "{good}");
        }
        for bad in [
            "",
            "example.org",
            "ftp://x",
            "https://",
            "https:///x",
            "http://a b",
        ] {
            assert!(url("url", bad, 0..1).is_err(), "{bad}");
        }
    }
}
