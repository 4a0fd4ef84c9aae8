//! Times, spans, schedules and places in words.

use jiff::{
    SignedDuration, Timestamp,
    civil::{DateTime, Time, Weekday},
    tz::{self, TimeZone},
};

use crate::{
    directory::Chat,
    ids::ChatName,
    job::{Deliver, Job, Mode, ScheduleSpec, Weekdays, When},
    message::{ChatAddress, Destination},
};

#[cfg(test)]
mod tests;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A span as a person says it: `14 s`, `4 min`, `2 h 5 min`, `1 d 12 h`.
pub(super) fn span(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().abs();
    let two = |big: (i64, &str), small: (i64, &str)| match small {
        (0, _) => format!("{} {}", big.0, big.1),
        (count, unit) => format!("{} {} {count} {unit}", big.0, big.1),
    };
    match seconds {
        0..MINUTE => format!("{seconds} s"),
        MINUTE..HOUR => format!("{} min", seconds / MINUTE),
        HOUR..DAY => two((seconds / HOUR, "h"), (seconds % HOUR / MINUTE, "min")),
        _ if seconds < 100 * DAY => two((seconds / DAY, "d"), (seconds % DAY / HOUR, "h")),
        _ if seconds < 731 * DAY => format!("{} d", seconds / DAY),
        _ => format!("{} years", seconds / (365 * DAY + DAY / 4)),
    }
}

/// A span that was written or measured, without anything left out: `9.1 s`, `1 min 30 s`.
pub(super) fn exact(duration: SignedDuration) -> String {
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

/// `in 12 h`, `3 min ago`, `now`.
pub(super) fn from_now(at: Timestamp, now: Timestamp) -> String {
    let distance = now.duration_until(at);
    if distance.as_secs() == 0 {
        String::from("now")
    } else if distance.is_negative() {
        format!("{} ago", span(distance))
    } else {
        format!("in {}", span(distance))
    }
}

/// The zone of this name; UTC where the zone data in use has none.
pub(super) fn zone(name: &str) -> TimeZone {
    tz::db().get(name).unwrap_or(TimeZone::UTC)
}

/// The zone in which times are told that belong to no one job: that of most jobs.
pub(super) fn common_zone<'a>(jobs: impl Iterator<Item = &'a Job>) -> String {
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for job in jobs {
        *counts.entry(&job.schedule.zone).or_default() += 1;
    }
    let most = counts.into_iter().rev().max_by_key(|(_, count)| *count);
    most.map_or_else(|| String::from("UTC"), |(zone, _)| zone.to_owned())
}

/// `Tue 2026-12-01 08:00`.
pub(super) fn dated(at: DateTime) -> String {
    format!("{} {}", at.strftime("%a %Y-%m-%d"), clock(at.time()))
}

/// `08:00`, or `08:00:30`.
pub(super) fn clock(time: Time) -> String {
    let form = if time.second() == 0 {
        "%H:%M"
    } else {
        "%H:%M:%S"
    };
    time.strftime(form).to_string()
}

/// A moment as it is told now: `today 08:00`, `Sat 07:00`, `2026-11-20 07:00`.
pub(super) fn moment(at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let local = at.to_zoned_datetime(zone.clone()).datetime();
    format!("{} {}", day(local, now, zone), local.strftime("%H:%M"))
}

/// The same for what a schedule names, which may run several times a minute: `today 08:00:20`.
pub(super) fn scheduled(at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let local = at.to_zoned_datetime(zone.clone()).datetime();
    format!("{} {}", day(local, now, zone), clock(local.time()))
}

fn day(at: DateTime, now: Timestamp, zone: &TimeZone) -> String {
    let today = now.to_zoned_datetime(zone.clone()).date();
    match today.duration_until(at.date()).as_hours() / 24 {
        0 => String::from("today"),
        -1 => String::from("yesterday"),
        1 => String::from("tomorrow"),
        -6..=6 => at.strftime("%a").to_string(),
        _ => at.date().to_string(),
    }
}

/// An instant with the offset of its zone, for programs.
pub(super) fn with_offset(at: Timestamp, zone: &TimeZone) -> String {
    at.display_with_offset(zone.to_offset(at)).to_string()
}

/// A schedule with its zone and bounds.
pub(super) fn schedule(spec: &ScheduleSpec) -> String {
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

/// Where a job's turn lives and where its result shows: `background -> me (telegram 5550001)`.
pub(super) fn route<'a>(mode: &Mode, chat_of: impl Fn(&ChatName) -> Option<&'a Chat>) -> String {
    let chat = |name: &ChatName| match chat_of(name) {
        Some(chat) => address(&ChatAddress::from(chat)),
        None => format!("{name} (no such chat)"),
    };
    match mode {
        Mode::InChat { chat: name, .. } => format!("in chat {}", chat(name)),
        Mode::Background { deliver, .. } => {
            let to = match deliver {
                Deliver::Chat(name) => chat(name),
                Deliver::Webhook(webhook) => format!("webhook {}", host(&webhook.url)),
                Deliver::History => String::from("run history"),
            };
            format!("background -> {to}")
        }
    }
}

/// A chat with its address: `me (telegram 5550001)`.
fn address(chat: &ChatAddress) -> String {
    let mut place = chat.channel.to_string();
    if let Some(account) = &chat.account {
        place.push_str(&format!("/{}", super::plain::line(account)));
    }
    // A console's chat has its name as address.
    if chat.address != chat.chat.as_str() {
        place.push_str(&format!(" {}", super::plain::line(&chat.address)));
    }
    if let Some(thread) = &chat.thread {
        place.push_str(&format!(" thread {}", super::plain::line(thread)));
    }
    format!("{} ({place})", chat.chat)
}

/// A destination by its short name: the chat, or the webhook's host.
pub(super) fn place(destination: &Destination) -> String {
    match destination {
        Destination::Chat(chat) => chat.chat.to_string(),
        Destination::Webhook(webhook) => host(&webhook.url),
    }
}

/// A URL without its path and query, in which some services keep a secret.
fn host(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let more = if rest.len() > authority.len() + 1 {
        "/…"
    } else {
        ""
    };
    super::plain::line(&format!("{scheme}://{host}{more}"))
}

/// `1 message`, `3 messages`.
pub(super) fn counted(count: impl Into<u64>, noun: &str) -> String {
    match count.into() {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}
