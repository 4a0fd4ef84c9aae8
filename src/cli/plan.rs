//! What a person is told when the worker starts, reads its file again, and stops.

use jiff::{Timestamp, tz::TimeZone};

use crate::{
    cli::{run::Place, words},
    config::{JobsFile, Loaded},
    ids::JobId,
    job::Mode,
    store::{OutboxScope, Store, StoreError},
    worker::JobsChange,
};

/// Whether there is nothing in the file at all, which is told: it is half saved, or was never
/// written, more often than it is meant to be so.
pub(super) fn is_blank(place: &Place, loaded: &Loaded) -> bool {
    let is_blank = loaded.source.trim().is_empty();
    if is_blank {
        tracing::warn!(
            "{} is empty, perhaps while it is saved: nothing changes until something is in it",
            place.file.display()
        );
    }
    is_blank
}

/// What is about to run.
pub(super) fn tell_start(place: &Place, file: &JobsFile) {
    let in_chat = |job: &&crate::job::Job| matches!(job.mode, Mode::InChat { .. });
    let in_chat = file.jobs.iter().filter(in_chat).count();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        file = %place.file.display(),
        jobs = file.jobs.len(),
        in_chat,
        background = file.jobs.len() - in_chat,
        database = %place.database,
        "chatcron is running"
    );
    for bad in &file.bad_jobs {
        tracing::error!(
            job = bad.name,
            "left out: see the report above, or `chatcron check`"
        );
    }
}

/// What the file has changed, and when each changed job next runs.
pub(super) fn tell_change(file: &JobsFile, change: &JobsChange) {
    if let Some(since) = change.older_since {
        let since = since.strftime("%Y-%m-%dT%H:%M:%SZ");
        tracing::error!(
            %since,
            "this copy of the jobs file is older than the one in force, and changes nothing; to have \
             it applied, save it again"
        );
        return;
    }
    if file.jobs.is_empty() && file.bad_jobs.is_empty() {
        tracing::warn!("the jobs file has no job in it");
    }
    if change.kept > 0 {
        tracing::warn!(
            jobs = change.kept,
            "it removes none of the jobs in the database; say `enabled = false` in those that shall \
             not run"
        );
    }
    if change.is_empty() && change.refused.is_empty() {
        tracing::info!(jobs = change.unchanged, "the good jobs are as they were");
        return;
    }
    let changes = [("added", &change.added), ("changed", &change.changed)];
    for (what, jobs) in changes {
        for (job, next) in jobs {
            let next = next.map_or_else(
                || "never".to_owned(),
                |next| in_zone(next, zone_of(file, job)) + &jitter_of(file, job),
            );
            tracing::info!(%job, next, "{what}");
        }
    }
    for job in &change.removed {
        tracing::info!(%job, "removed");
    }
    for (job, why) in &change.refused {
        tracing::error!(%job, why, "left out");
    }
}

/// What is left for the next start.
pub(super) async fn tell_stop(store: &dyn Store) -> Result<(), StoreError> {
    let open = store.outbox(OutboxScope::Open).await?;
    let unsent = open.iter().filter(|part| !part.state.is_settled()).count();
    if unsent == 0 {
        tracing::info!("stopped; nothing is left to send");
    } else {
        tracing::info!(unsent, "stopped; the rest is sent after the next start");
    }
    Ok(())
}

/// `, up to 10 min later`: by how much a start may be drawn behind its slot.
fn jitter_of(file: &JobsFile, id: &JobId) -> String {
    let job = file.jobs.iter().find(|job| job.id == *id);
    match job.map(|job| job.schedule.jitter) {
        Some(jitter) if jitter.is_positive() => format!(", up to {} later", words::exact(jitter)),
        Some(_) | None => String::new(),
    }
}

fn zone_of<'a>(file: &'a JobsFile, id: &JobId) -> &'a str {
    let job = file.jobs.iter().find(|job| job.id == *id);
    job.map_or("UTC", |job| &job.schedule.zone)
}

fn in_zone(at: Timestamp, zone: &str) -> String {
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    let local = at.to_zoned_datetime(zone);
    local.strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string()
}
