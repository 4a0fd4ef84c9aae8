//! The next clock change of a schedule's zone, and whether it touches the schedule.

use jiff::{SignedDuration, Timestamp, civil::DateTime};

use crate::{
    cli::words,
    job::{ScheduleSpec, When},
    schedule::{ClockChange, ClockChangeKind, Planner, ScheduleError, clock_changes},
};

/// How far ahead a change is looked for; a zone that changes its clock twice a year has one in that
/// time.
const AHEAD: SignedDuration = SignedDuration::from_hours(366 * 24);
/// A change moves only slots that are nearer to it than this.
const NEAR: SignedDuration = SignedDuration::from_hours(26);
const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// The next clock change, as a schedule sees it.
#[derive(Debug, Clone)]
pub(in crate::cli) struct NextChange {
    pub(in crate::cli) at: Timestamp,
    pub(in crate::cli) local_before: DateTime,
    pub(in crate::cli) local_after: DateTime,
    /// What happens to the schedule, where anything does.
    pub(in crate::cli) effect: Option<String>,
}

/// The first clock change in the year after `after`, if there is one.
pub(in crate::cli) fn next_change(
    spec: &ScheduleSpec,
    planner: &Planner,
    after: Timestamp,
) -> Result<Option<NextChange>, ScheduleError> {
    let until = after.saturating_add(AHEAD).unwrap_or(Timestamp::MAX);
    let Some(change) = clock_changes(&spec.zone, after, until)?.next() else {
        return Ok(None);
    };
    Ok(Some(NextChange {
        at: change.at,
        local_before: change.local_before,
        local_after: change.local_after,
        effect: effect(spec, planner, &change)?,
    }))
}

/// What a clock change does to a schedule, if anything.
pub(in crate::cli) fn effect(
    spec: &ScheduleSpec,
    planner: &Planner,
    change: &ClockChange,
) -> Result<Option<String>, ScheduleError> {
    // Elapsed time is not wall time.
    if matches!(spec.when, When::Every { .. }) || !writes_into(spec, change)? {
        return Ok(None);
    }
    let near = |at: Result<Timestamp, _>| at.unwrap_or(change.at);
    let moved = planner
        .firing_between(
            near(change.at.checked_sub(NEAR)),
            near(change.at.checked_add(NEAR)),
        )
        .filter(|planned| planned.moved.is_some())
        .find_map(|planned| planner.note(&planned));
    Ok(Some(moved.unwrap_or_else(|| {
        let (from, to, what) = match change.kind() {
            ClockChangeKind::Gap => (change.local_before, change.local_after, "do not come"),
            ClockChangeKind::Overlap => (change.local_after, change.local_before, "come twice"),
        };
        format!(
            "its times from {} to {} {what} on {}",
            words::clock(from.time()),
            words::clock(to.time()),
            from.date(),
        )
    })))
}

/// Whether any written time lies in what the change jumps over or repeats: asked of a clock that
/// never changes, on which the same times are written.
fn writes_into(spec: &ScheduleSpec, change: &ClockChange) -> Result<bool, ScheduleError> {
    let (from, to) = match change.kind() {
        ClockChangeKind::Gap => (change.local_before, change.local_after),
        ClockChangeKind::Overlap => (change.local_after, change.local_before),
    };
    let steady = ScheduleSpec {
        zone: String::from("UTC"),
        ..spec.clone()
    };
    let planner = Planner::new(&steady, Timestamp::UNIX_EPOCH)?;
    let utc = jiff::tz::TimeZone::UTC;
    let instant = |wall: DateTime| {
        let instant = utc.to_timestamp(wall).ok()?;
        instant.checked_sub(SECOND).ok()
    };
    let (Some(from), Some(to)) = (instant(from), instant(to)) else {
        return Ok(false);
    };
    Ok(planner.firing_between(from, to).next().is_some())
}
