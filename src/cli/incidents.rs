//! Open incidents, for people.

use jiff::Timestamp;

use crate::{
    cli::{plain, words},
    outbound::alerts::standing,
    store::{IncidentRow, StoredJob},
};

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
