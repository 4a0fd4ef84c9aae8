//! A schedule as one sentence. A cron field that has no short words is quoted as it is written.

use jiff::civil::Time;

use crate::{
    cli::words,
    job::{ScheduleSpec, Weekdays, When},
    schedule::cron,
};

/// The most times of day that are listed.
const TIMES_MAX: usize = 8;

const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// `every weekday at 08:00, Europe/Berlin`.
pub(super) fn of(spec: &ScheduleSpec) -> String {
    match &spec.when {
        When::Cron(text) => {
            let described = cron_words(text);
            bounded(format!("{described}, {}", spec.zone), spec)
        }
        When::Daily { times, days } if is_weekdays(*days) => {
            let times: Vec<String> = times.iter().map(|time| words::clock(*time)).collect();
            let times = listed(&times, "and");
            bounded(format!("every weekday at {times}, {}", spec.zone), spec)
        }
        When::Daily { .. } | When::Every { .. } | When::At(_) => words::schedule(spec),
    }
}

/// The bounds, as every command tells them.
fn bounded(sentence: String, spec: &ScheduleSpec) -> String {
    let zone = format!("({})", spec.zone);
    let whole = words::schedule(spec);
    let bounds = whole.split_once(&zone).map_or("", |(_, bounds)| bounds);
    format!("{sentence}{bounds}")
}

fn is_weekdays(days: Weekdays) -> bool {
    days.bits() == 0b011_1110
}

fn cron_words(text: &str) -> String {
    let text = match text.trim().to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => text,
    };
    let fields: Vec<&str> = text.split_whitespace().collect();
    let (second, rest) = match fields[..] {
        [second, _, _, _, _, _] => (second, &fields[1..]),
        _ => ("0", &fields[..]),
    };
    let [minute, hour, day, month, weekday] = rest else {
        return format!("cron {text}");
    };
    let both = !is_any(day) && !is_any(weekday);
    let either = cron::parse(text).is_ok_and(|expr| expr.takes_either_day());
    let times = clock_words(second, minute, hour);
    let days = match (is_any(day), is_any(weekday)) {
        (true, true) => String::from("every day"),
        (false, true) => month_days(day),
        (true, false) => weekdays(weekday),
        (false, false) => {
            let join = if either { "or" } else { "that is also" };
            format!("{} {join} {}", month_days(day), weekdays(weekday))
        }
    };
    let months = if is_any(month) {
        String::new()
    } else {
        format!(" in {}", names(month, &MONTHS, 1))
    };
    let each = if both && !either { "only " } else { "" };
    format!("{each}{days}{months} {times}")
}

fn is_any(field: &str) -> bool {
    field == "*" || field == "?"
}

fn clock_words(second: &str, minute: &str, hour: &str) -> String {
    if let Some(times) = times(second, minute, hour) {
        return format!("at {}", listed(&times, "and"));
    }
    let seconds = match second {
        "0" => String::new(),
        "*" => String::from("every second of "),
        other => format!("at second {other} of "),
    };
    let minutes = match (minute, minute.strip_prefix("*/")) {
        ("*", _) => String::from("every minute"),
        (_, Some(step)) => format!("every {step} minutes"),
        (other, None) => format!("at minute {other}"),
    };
    let hours = match (hour, hour.strip_prefix("*/")) {
        ("*", _) if minute.starts_with('*') => String::new(),
        ("*", _) => String::from(" of every hour"),
        (_, Some(step)) => format!(" of every {}", nth(step, "hour")),
        (other, None) => format!(" of the hours {other}"),
    };
    format!("{seconds}{minutes}{hours}")
}

/// `2nd hour`.
fn nth(step: &str, unit: &str) -> String {
    let ending = match step {
        "2" => "nd",
        "3" => "rd",
        _ => "th",
    };
    format!("{step}{ending} {unit}")
}

/// All times of day, where they are a few.
fn times(second: &str, minute: &str, hour: &str) -> Option<Vec<String>> {
    let numbers = |field: &str| -> Option<Vec<i8>> {
        field.split(',').map(|part| part.parse().ok()).collect()
    };
    let (seconds, minutes, hours) = (numbers(second)?, numbers(minute)?, numbers(hour)?);
    let mut all = Vec::new();
    for hour in &hours {
        for minute in &minutes {
            for second in &seconds {
                all.push(Time::new(*hour, *minute, *second, 0).ok()?);
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    (all.len() <= TIMES_MAX).then(|| all.into_iter().map(words::clock).collect())
}

fn month_days(field: &str) -> String {
    match field.to_ascii_uppercase().as_str() {
        "L" => String::from("on the last day of the month"),
        "LW" => String::from("on the last weekday of the month"),
        _ => format!("on day {field} of the month"),
    }
}

fn weekdays(field: &str) -> String {
    let field = field.trim_start_matches('+').to_ascii_lowercase();
    match field.as_str() {
        "1-5" | "mon-fri" => String::from("every weekday"),
        "0,6" | "6,0" | "sat,sun" | "6,7" | "sat-sun" => String::from("every Saturday and Sunday"),
        _ => format!("every {}", names(&field, &DAYS, 0)),
    }
}

/// A list or a range of names, or the field as it is written.
fn names(field: &str, all: &[&str], first: usize) -> String {
    let name = |part: &str| -> Option<&str> {
        let part = part.to_ascii_lowercase();
        if let Ok(number) = part.parse::<usize>() {
            let number = if first == 0 { number % 7 } else { number };
            return all.get(number.checked_sub(first)?).copied();
        }
        let named = all.iter().find(|name| {
            let name = name.to_ascii_lowercase();
            part.len() == 3 && name.starts_with(&part)
        });
        named.copied()
    };
    let piece = |part: &str| match part.split_once('-') {
        Some((from, to)) => Some(format!("{} to {}", name(from)?, name(to)?)),
        None => Some(name(part)?.to_owned()),
    };
    let pieces: Option<Vec<String>> = field.split(',').map(piece).collect();
    pieces.map_or_else(|| format!("`{field}`"), |pieces| listed(&pieces, "and"))
}

fn listed(items: &[String], last: &str) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., end] => format!("{} {last} {end}", head.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cron_expressions_are_told_in_words() {
        for (text, told) in [
            ("0 8 * * mon-fri", "every weekday at 08:00"),
            ("0 8,20 * * *", "every day at 08:00 and 20:00"),
            ("@hourly", "every day at minute 0 of every hour"),
            ("*/5 * * * *", "every day every 5 minutes"),
            (
                "*/15 9-17 * * 1-5",
                "every weekday every 15 minutes of the hours 9-17",
            ),
            ("0 7 1 * *", "on day 1 of the month at 07:00"),
            ("0 7 L * ?", "on the last day of the month at 07:00"),
            (
                "30 6 * jun-aug sun",
                "every Sunday in June to August at 06:30",
            ),
            (
                "0 9 15 * 1",
                "on day 15 of the month or every Monday at 09:00",
            ),
            (
                "0 9 13 * +fri",
                "only on day 13 of the month that is also every Friday at 09:00",
            ),
            ("0 0 */6 * * *", "every day at minute 0 of every 6th hour"),
            ("0 8 * * 5#2", "every `5#2` at 08:00"),
        ] {
            assert_eq!(cron_words(text), told, "{text}");
        }
    }
}
