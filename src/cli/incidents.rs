//! Open incidents, for people and for programs.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    cli::{names::unreadable, plain, words},
    ids::JobId,
    outbound::alerts::standing,
    store::{IncidentRow, Store, StoredJob},
};

use super::failure::Failure;

/// The open incidents of all jobs.
///
/// # Errors
/// Where the store cannot be read.
pub(super) async fn load(store: &dyn Store) -> Result<Vec<IncidentRow>, Failure> {
    store.open_incidents().await.map_err(unreadable)
}

/// Those of one job.
pub(super) fn of_job(all: &[IncidentRow], id: &JobId) -> Vec<IncidentRow> {
    let of_it = all.iter().filter(|row| row.job_id == *id);
    of_it.cloned().collect()
}

/// One incident in a line: what fails, how often, since when, and whether a person knows.
pub(super) fn line(stored: &StoredJob, row: &IncidentRow, now: Timestamp) -> String {
    let zone = words::zone(&stored.job.schedule.zone);
    let since = words::moment(row.incident.since, now, &zone);
    let mut text = format!(
        "{} ({}) since {since}",
        words::counted(row.incident.failures, "failure"),
        row.cause.as_str()
    );
    match &row.told {
        Some(chat) => text.push_str(&format!(", chat {} is told", chat.name)),
        None => text.push_str(&format!(", {}", standing(row))),
    }
    if let Some(error) = &row.error {
        text.push_str(&format!(": {}", plain::line(error)));
    }
    text
}

/// The documented fields.
pub(super) fn json(row: &IncidentRow) -> Value {
    json!({
        "cause": row.cause.as_str(),
        "since": row.incident.since,
        "failures": row.incident.failures,
        "stage": row.incident.stage.as_str(),
        "alerted_at": row.alerted_at,
        "told": row.told.as_ref().map(|chat| &chat.name),
        "error": row.error,
    })
}
