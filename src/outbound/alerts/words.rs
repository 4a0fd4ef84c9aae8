//! The words of alerts: short, for a person, in the job's zone.

use jiff::{Timestamp, tz::TimeZone};

use crate::{
    hygiene,
    job::Job,
    occurrence::FailReason,
    policy::incident::IncidentCause,
    replay,
    schedule::Planner,
    store::{IncidentRow, StoredJob},
};

use super::Failure;

/// How much of an error is told, in characters.
const ERROR_MAX: usize = 200;

/// That a job fails, and what comes next.
pub(super) fn alert(
    stored: &StoredJob,
    row: &IncidentRow,
    failure: Failure<'_>,
    now: Timestamp,
) -> String {
    let job = &stored.job;
    let mut text = match row.cause {
        IncidentCause::Runs(_) => format!("{} has failed {}", title(job), times(row, job)),
        IncidentCause::Delivery => format!(
            "{} ran, and what it said could not be delivered",
            title(job)
        ),
    };
    let class = class(row.cause);
    text.push_str(&format!(".\n{class}"));
    // What the class says already is not said again.
    let error = failure.error.map(short);
    if let Some(error) = error.filter(|error| !error.is_empty() && !class.ends_with(error)) {
        text.push_str(&format!(": {error}"));
    }
    text.push('\n');
    text.push_str(&next(stored, failure.paused, now));
    text
}

/// That it works again.
pub(super) fn recovery(job: &Job, row: &IncidentRow) -> String {
    match row.cause {
        IncidentCause::Runs(_) => {
            format!(
                "{} works again. It had failed {}.",
                title(job),
                times(row, job)
            )
        }
        IncidentCause::Delivery => format!(
            "{} is delivered again. {} could not be delivered since {}.",
            title(job),
            counted(row.incident.failures, "message"),
            moment(row.incident.since, job),
        ),
    }
}

/// That a policy has paused it.
pub(super) fn paused(job: &Job, reason: &str) -> String {
    format!("{} is paused.\n{}", title(job), resumed(job, reason))
}

/// An error as an alert tells it. It comes from outside, so what imitates our own marks is taken
/// out of it, and of several lines the first one that says something is told.
pub(super) fn short(error: &str) -> String {
    let stripped = replay::strip_echoed_note(error);
    let words = hygiene::strip(&stripped).words;
    let line = words.lines().map(str::trim).find(|line| !line.is_empty());
    let line: String = line
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let line = replay::neutralise(&line);
    match line.char_indices().nth(ERROR_MAX) {
        Some((end, _)) => format!("{}...", line[..end].trim_end()),
        None => line.into_owned(),
    }
}

fn title(job: &Job) -> String {
    let name = job.display_name();
    if name == job.id.as_str() {
        format!("Job {name}")
    } else {
        format!("Job {} ({name})", job.id)
    }
}

fn times(row: &IncidentRow, job: &Job) -> String {
    let since = moment(row.incident.since, job);
    match row.incident.failures {
        1 => format!("once, at {since}"),
        failures => format!("{failures} times in a row since {since}"),
    }
}

fn counted(count: u32, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// The error's class: the word that `runs` has, and what it means.
fn class(cause: IncidentCause) -> String {
    let means = match cause {
        IncidentCause::Delivery => return String::from("Delivery"),
        IncidentCause::Runs(reason) => match reason {
            FailReason::Transient => "the agent could not answer",
            FailReason::Permanent => "the agent cannot answer",
            FailReason::Timeout => "the agent took too long",
            FailReason::Interrupted => "chatcron stopped during the run",
            FailReason::AfterEffects => "not tried again, because it had effects already",
            FailReason::Paused => "paused before it was tried again",
            FailReason::Panicked => "the agent's code panicked",
        },
    };
    format!("Last failure ({}): {means}", cause.as_str())
}

/// What happens next.
fn next(stored: &StoredJob, paused: Option<&str>, now: Timestamp) -> String {
    let job = &stored.job;
    let reason = stored.state.pause.as_ref().map(|pause| &*pause.reason);
    if let Some(reason) = reason.or(paused) {
        return format!("It is paused. {}", resumed(job, reason));
    }
    let planner = Planner::new(&job.schedule, stored.first_seen_at).ok();
    let goes_on = job.enabled && stored.state.has_runs_left(&job.policies);
    let upcoming = planner
        .filter(|_| goes_on)
        .and_then(|planner| planner.next(stored.state.cursor.max(now)));
    match upcoming {
        Some(slot) => format!("Next run: {}.", moment(slot.nominal, job)),
        None => String::from("It does not run again."),
    }
}

fn resumed(job: &Job, reason: &str) -> String {
    format!(
        "Reason: {}. `chatcron resume {}` lets it run again.",
        short(reason),
        job.id
    )
}

fn moment(at: Timestamp, job: &Job) -> String {
    let zone = TimeZone::get(&job.schedule.zone).unwrap_or(TimeZone::UTC);
    let at = at.to_zoned_datetime(zone);
    format!(
        "{} ({})",
        at.strftime("%a %Y-%m-%d %H:%M"),
        job.schedule.zone
    )
}
