//! Every clock change in the window, and what it does to each job.

use std::collections::BTreeMap;

use jiff::{Timestamp, civil::DateTime};

use crate::{
    cli::{
        failure::Failure,
        next::{change::effect, unplannable},
    },
    ids::JobId,
    job::Job,
    schedule::{Planner, ScheduleError, clock_changes},
    simulate::Window,
};

/// A clock change of a zone.
pub(super) struct Change<'a> {
    pub(super) zone: &'a str,
    pub(super) at: Timestamp,
    pub(super) local_before: DateTime,
    pub(super) local_after: DateTime,
    /// The jobs in the zone, each with what the change does to it if anything.
    pub(super) jobs: Vec<(&'a JobId, Option<String>)>,
}

/// The clock changes that the jobs meet, in the order of time.
///
/// # Errors
/// Where a schedule cannot be planned.
pub(super) fn met(jobs: &[Job], window: Window) -> Result<Vec<Change<'_>>, Failure> {
    let mut changes: BTreeMap<(Timestamp, &str), Change<'_>> = BTreeMap::new();
    for job in jobs.iter().filter(|job| job.enabled) {
        of_job(job, window, &mut changes).map_err(unplannable)?;
    }
    Ok(changes.into_values().collect())
}

fn of_job<'a>(
    job: &'a Job,
    window: Window,
    changes: &mut BTreeMap<(Timestamp, &'a str), Change<'a>>,
) -> Result<(), ScheduleError> {
    let planner = Planner::new(&job.schedule, window.from)?;
    let zone = job.schedule.zone.as_str();
    let met = clock_changes(zone, window.from, window.to)?;
    for change in met.take_while(|change| change.at < window.to) {
        let known = changes.entry((change.at, zone)).or_insert(Change {
            zone,
            at: change.at,
            local_before: change.local_before,
            local_after: change.local_after,
            jobs: Vec::new(),
        });
        known
            .jobs
            .push((&job.id, effect(&job.schedule, &planner, &change)?));
    }
    Ok(())
}
