//! Zones and cron expressions: the planner reads them, here its answer gets its place in the file.

use std::ops::Range;

use crate::{
    config::{
        fields::Value,
        problem::{Code, Problem},
        values::quoted,
    },
    schedule::{
        cron::{self, CronError},
        zone::{ZoneTable, nearest_name},
    },
};

/// A zone, spelled as the zone database spells it.
pub(super) fn zone(text: &str, span: Range<usize>) -> Result<Value, Box<Problem>> {
    if let Ok(table) = ZoneTable::get(text) {
        return Ok(Value::Text(table.name.clone()));
    }
    let problem = Problem::error(
        Code::BadZone,
        span,
        format!("`{}` is not an IANA time zone", quoted(text)),
    )
    .help("a name such as `Europe/Berlin`, `America/New_York` or `UTC`; abbreviations and offsets know no clock changes");
    Err(Box::new(match nearest_name(text) {
        Some(near) => problem.label(format!("did you mean `{near}`?")),
        None => problem.label("not in the zone database"),
    }))
}

/// A cron expression that the planner takes, as written.
pub(super) fn cron(source: &str, text: &str, span: Range<usize>) -> Result<Value, Box<Problem>> {
    let error = match cron::parse(text) {
        Ok(_) => return Ok(Value::Text(text.to_owned())),
        Err(error) => error,
    };
    let never = matches!(error, CronError::NeverComes { .. });
    let (code, label, standard_help) = if never {
        (
            Code::Never,
            "would never run",
            "name a date that comes; `L` is the last day of any month",
        )
    } else {
        (
            Code::BadCron,
            "not understood",
            "five fields: minute hour day-of-month month day-of-week, such as `0 8 * * mon-fri`",
        )
    };
    let place = inside(source, text, &span, &error.span());
    let problem = Problem::error(code, place, error.to_string()).label(label);
    Err(Box::new(match error.hint() {
        // Some hints are what to write, others say how.
        Some(hint) if hint.contains(' ') => problem.help(hint),
        Some(hint) => problem.help(format!("write `{hint}`")),
        None => problem.help(standard_help),
    }))
}

/// A span inside a text as a span of the file; the whole text where escapes stand between.
fn inside(source: &str, text: &str, whole: &Range<usize>, part: &Range<usize>) -> Range<usize> {
    let written = source.get(whole.clone()).unwrap_or_default();
    let is_plain = written.len() == text.len() + 2 && written.get(1..=text.len()) == Some(text);
    if is_plain && !part.is_empty() {
        whole.start + 1 + part.start..whole.start + 1 + part.end
    } else {
        whole.clone()
    }
}
