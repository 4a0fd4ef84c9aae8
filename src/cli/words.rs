//! Times, spans and places in words.

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};

use crate::{
    directory::Chat,
    ids::ChatName,
    job::{Deliver, Job, Mode},
    message::{ChatAddress, Destination},
    view::{Standing, State},
};

pub(super) use crate::view::{clock, exact, schedule, with_offset, zone};

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

/// How a job stands, in words.
pub(super) fn standing(standing: &Standing, now: Timestamp) -> String {
    let mut words = state(&standing.state, now);
    if standing.pause.is_some() && standing.state != State::Paused {
        words.push_str(", paused after that");
    }
    words
}

/// What a job is doing, in words.
pub(super) fn state(state: &State, now: Timestamp) -> String {
    match state {
        State::Queued => String::from("waits for its turn"),
        State::RetryAt(at) => format!("tries again {}", from_now(*at, now)),
        State::Ready
        | State::Running
        | State::Paused
        | State::Disabled
        | State::Finished
        | State::Removed => state.word().to_owned(),
    }
}
