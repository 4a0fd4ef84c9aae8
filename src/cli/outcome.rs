//! What became of a run, in words.

use jiff::Timestamp;

use crate::{
    cli::{
        plain,
        table::{Cell, Tone},
        words,
    },
    occurrence::{Cause, FailReason, SkipReason},
    store::RunRow,
};

#[cfg(test)]
mod tests;

/// How much of an error a line of a list shows, in characters.
const ERROR_SHOWN: usize = 80;

/// How it ended, or where it stands.
pub(super) fn outcome(run: &RunRow, now: Timestamp) -> Cell {
    let took = run
        .started_at
        .zip(run.ended_at)
        .map(|(start, end)| words::exact(start.duration_until(end)));
    let (text, tone) = match run.state.as_str() {
        "done" if run.reason.as_deref() == Some("silent") => {
            (String::from("done, silent"), Tone::Usual)
        }
        "done" => match took {
            Some(took) => (format!("done in {took}"), Tone::Usual),
            None => (String::from("done"), Tone::Usual),
        },
        "failed" => (format!("failed: {}", why_failed(run)), Tone::Bad),
        "skipped" => (format!("skipped: {}", why_skipped(run)), Tone::Warn),
        "running" => match run.started_at {
            Some(start) => {
                let since = words::span(start.duration_until(now));
                (format!("running for {since}"), Tone::Strong)
            }
            None => (String::from("running"), Tone::Strong),
        },
        "backoff" => {
            let again = run
                .due_at
                .map_or_else(String::new, |at| format!(" {}", words::from_now(at, now)));
            (
                format!("tries again{again}: {}", why_failed(run)),
                Tone::Warn,
            )
        }
        "queued" => (String::from("waits for its turn"), Tone::Strong),
        "waiting" if run.fire_at <= now => (String::from("waits for its turn"), Tone::Strong),
        "waiting" => (
            format!("starts {}", words::from_now(run.fire_at, now)),
            Tone::Usual,
        ),
        other => (plain::line(other), Tone::Usual),
    };
    match undelivered(run) {
        Some(what) => Cell::toned(format!("{text}, {what}"), Tone::Bad),
        None => Cell::toned(text, tone),
    }
}

/// What of a finished run's result did not arrive, if anything.
pub(super) fn undelivered(run: &RunRow) -> Option<&'static str> {
    let delivery = run.delivery;
    if delivery.failed + delivery.cancelled > 0 {
        Some("not delivered")
    } else if delivery.unknown > 0 {
        Some("delivery in doubt")
    } else if delivery.open > 0 && run.ended_at.is_some() {
        Some("not delivered yet")
    } else {
        None
    }
}

fn why_failed(run: &RunRow) -> String {
    if let Some(error) = &run.error {
        return plain::beginning(error, ERROR_SHOWN);
    }
    let reason = run.reason.as_deref().unwrap_or_default();
    let known = FailReason::from_stored(reason).map(|reason| match reason {
        FailReason::Transient | FailReason::Permanent => "the agent gave no reason",
        FailReason::Timeout => "it took too long",
        FailReason::Interrupted => "chatcron ended during it",
        FailReason::AfterEffects => "it had effects already, and is not repeated by itself",
        FailReason::Paused => "the job was paused before the next attempt",
        FailReason::Panicked => "the agent's code panicked",
    });
    known.map_or_else(|| plain::line(reason), str::to_owned)
}

fn why_skipped(run: &RunRow) -> String {
    let reason = run.reason.as_deref().unwrap_or_default();
    match SkipReason::from_stored(reason) {
        Some(reason) => skip(reason).to_owned(),
        None => plain::line(reason),
    }
}

/// The reason of a skip as a word or two.
pub(super) fn skip(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Paused => "paused",
        SkipReason::Overlap => "overlap",
        SkipReason::Missed => "missed",
        SkipReason::Superseded => "superseded",
        SkipReason::Excluded => "excluded",
        SkipReason::NoSuchDate => "no such date",
    }
}

/// What lies behind it.
pub(super) fn skip_note(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Paused => "the job was paused",
        SkipReason::Overlap => "a run of the job was active",
        SkipReason::Missed => "chatcron was not running, or not in time",
        SkipReason::Superseded => "a newer slot ran instead",
        SkipReason::Excluded => "the date is in `exclude`",
        SkipReason::NoSuchDate => "the zone has no such date",
    }
}

/// What of it was shown, and where.
pub(super) fn delivered(run: &RunRow) -> Cell {
    let counts = run.delivery;
    let total = counts.confirmed + counts.unknown + counts.failed + counts.cancelled + counts.open;
    if total == 0 {
        return "-".into();
    }
    let place = run
        .destination
        .as_ref()
        .map_or_else(String::new, |place| format!("{}, ", words::place(place)));
    if counts.confirmed == total {
        return format!("{place}{}", words::counted(total, "message")).into();
    }
    let mut said = Vec::new();
    if counts.confirmed > 0 {
        let total = words::counted(total, "message");
        said.push(format!("{} of {total}", counts.confirmed));
    }
    for (count, what) in [
        (counts.unknown, "unknown"),
        (counts.failed, "failed"),
        (counts.cancelled, "cancelled"),
        (counts.open, "to come"),
    ] {
        if count > 0 {
            said.push(format!("{count} {what}"));
        }
    }
    let tone = if counts.failed + counts.unknown > 0 {
        Tone::Bad
    } else {
        Tone::Warn
    };
    Cell::toned(format!("{place}{}", said.join(", ")), tone)
}

/// What else a person would want to know.
pub(super) fn note(run: &RunRow) -> String {
    let mut notes = Vec::new();
    match run.cause {
        Cause::Scheduled => {}
        Cause::CatchUp => notes.push(match run.started_at {
            Some(start) => format!(
                "caught up {} late",
                words::span(run.nominal_at.duration_until(start))
            ),
            None => String::from("catches up"),
        }),
        Cause::Manual => notes.push(String::from("by hand")),
        Cause::Backfill => notes.push(String::from("backfill")),
    }
    if run.attempts > 1 {
        notes.push(words::counted(run.attempts, "attempt"));
    }
    if run.warnings > 0 {
        notes.push(words::counted(run.warnings, "warning"));
    }
    notes.join("; ")
}
