//! Schedules, times and spans in words.

use jiff::{
    SignedDuration, Timestamp,
    civil::{DateTime, Time, Weekday},
    tz::{self, TimeZone},
};

use crate::job::{ScheduleSpec, Weekdays, When};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A span that was written or measured, without anything left out: `9.1 s`, `1 min 30 s`.
pub(crate) fn exact(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    if seconds < 10 && duration.subsec_millis() >= 100 {
        return format!("{seconds}.{} s", duration.subsec_millis() / 100);
    }
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (unit, length) in [("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", 1)] {
        if rest >= length {
            parts.push(format!("{} {unit}", rest / length));
            rest %= length;
        }
    }
    if parts.is_empty() {
        return String::from("0 s");
    }
    parts.join(" ")
}

/// The zone of this name; UTC where the zone data in use has none.
pub(crate) fn zone(name: &str) -> TimeZone {
    tz::db().get(name).unwrap_or(TimeZone::UTC)
}

/// `08:00`, or `08:00:30`.
pub(crate) fn clock(time: Time) -> String {
    let form = if time.second() == 0 {
        "%H:%M"
    } else {
        "%H:%M:%S"
    };
    time.strftime(form).to_string()
}

/// An instant with the offset of its zone, for programs.
pub(crate) fn with_offset(at: Timestamp, zone: &TimeZone) -> String {
    at.display_with_offset(zone.to_offset(at)).to_string()
}

/// A schedule with its zone and bounds.
pub(crate) fn schedule(spec: &ScheduleSpec) -> String {
    let zone = &spec.zone;
    let mut text = match &spec.when {
        When::Daily { times, days } => {
            let times: Vec<String> = times.iter().map(|time| clock(*time)).collect();
            format!("{} at {} ({zone})", weekdays(*days), times.join(", "))
        }
        When::Cron(expression) => format!("cron {expression} ({zone})"),
        When::Every { period, anchor } => {
            let counted = anchor.map(|anchor| {
                let local = anchor.to_zoned_datetime(self::zone(zone)).datetime();
                format!(", counted from {} {}", local.date(), clock(local.time()))
            });
            let needs_zone = counted.is_some()
                || spec.from.is_some()
                || spec.until.is_some()
                || !spec.exclude.is_empty();
            let named = if needs_zone {
                format!(" ({zone})")
            } else {
                String::new()
            };
            format!(
                "every {}{}{named}",
                exact(*period),
                counted.unwrap_or_default()
            )
        }
        When::At(at) => format!("once, {} {} ({zone})", at.date(), clock(at.time())),
    };
    let bound = |at: DateTime| {
        if at.time() == Time::midnight() {
            at.date().to_string()
        } else {
            format!("{} {}", at.date(), clock(at.time()))
        }
    };
    if let Some(from) = spec.from {
        text.push_str(&format!(", from {}", bound(from)));
    }
    if let Some(until) = spec.until {
        text.push_str(&format!(", until {}", bound(until)));
    }
    match &spec.exclude[..] {
        [] => {}
        [one] => text.push_str(&format!(", not on {one}")),
        more => text.push_str(&format!(", not on {} dates", more.len())),
    }
    if spec.jitter.is_positive() {
        text.push_str(&format!(", up to {} later", exact(spec.jitter)));
    }
    text
}

/// `every day`, `mon-fri`, `sat, sun`.
fn weekdays(days: Weekdays) -> String {
    if days == Weekdays::ALL {
        return String::from("every day");
    }
    const WEEK: [(Weekday, &str); 7] = [
        (Weekday::Monday, "mon"),
        (Weekday::Tuesday, "tue"),
        (Weekday::Wednesday, "wed"),
        (Weekday::Thursday, "thu"),
        (Weekday::Friday, "fri"),
        (Weekday::Saturday, "sat"),
        (Weekday::Sunday, "sun"),
    ];
    let mut stretches: Vec<Vec<&str>> = Vec::new();
    let mut follows = false;
    for (day, name) in WEEK {
        let named = days.contains(day);
        match stretches.last_mut() {
            Some(stretch) if named && follows => stretch.push(name),
            Some(_) | None if named => stretches.push(vec![name]),
            Some(_) | None => {}
        }
        follows = named;
    }
    let spelled = stretches.iter().map(|stretch| match stretch[..] {
        [first, _, .., last] => format!("{first}-{last}"),
        _ => stretch.join(", "),
    });
    spelled.collect::<Vec<_>>().join(", ")
}
