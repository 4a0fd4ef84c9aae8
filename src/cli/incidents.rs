//! Open incidents, for people.

use jiff::Timestamp;

use crate::{
    cli::{plain, words},
    directory::Chat,
    job::{Alert, Job},
    message::alert_place,
    outbound::alerts::standing,
    policy::incident::Stage,
    store::{IncidentRow, StoredJob},
};

/// One incident in a line: what fails, how often, since when, and whether a person knows.
pub(super) fn line(
    stored: &StoredJob,
    row: &IncidentRow,
    chats: &[Chat],
    now: Timestamp,
) -> String {
    let zone = words::zone(&stored.job.schedule.zone);
    let since = words::moment(row.incident.since, now, &zone);
    let mut text = format!(
        "{} ({}) since {since}",
        words::counted(row.incident.failures, "failure"),
        row.cause.as_str()
    );
    match &row.told {
        Some(chat) => text.push_str(&format!(", chat {} is told", chat.name)),
        None if row.incident.stage == Stage::Watched && !is_told(&stored.job, chats) => {
            text.push_str(", nobody is told");
        }
        None => text.push_str(&format!(", {}", standing(row))),
    }
    if let Some(error) = &row.error {
        text.push_str(&format!(": {}", plain::line(error)));
    }
    text
}

/// Whether there is somebody whom it would be told, if it goes on.
fn is_told(job: &Job, chats: &[Chat]) -> bool {
    let named = chats.iter().map(|chat| (chat.name.clone(), chat.clone()));
    job.policies.alert != Alert::Never && alert_place(job, &named.collect(), None).is_some()
}
