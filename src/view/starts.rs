//! The next starts of a schedule.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    ids::JobId,
    job::{ScheduleSpec, When},
    occurrence::{Cause, Slot},
    policy::WaitingSlot,
    schedule::Planner,
};

/// One start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) at: Timestamp,
    pub(crate) nominal: Timestamp,
    pub(crate) slot: Slot,
    pub(crate) note: Option<String>,
}

/// The nominal after which a slot may start after `after`: with jitter a slot before `after` may be
/// drawn to start behind it, but none before the job was first seen.
pub(crate) fn begin(spec: &ScheduleSpec, seen: Option<Timestamp>, after: Timestamp) -> Timestamp {
    let first = match (&spec.when, seen) {
        (_, Some(seen)) => seen.min(after),
        (When::Every { anchor: None, .. }, None) => after,
        (_, None) => Timestamp::MIN,
    };
    let drawn = after.checked_sub(spec.jitter).unwrap_or(Timestamp::MIN);
    drawn.max(first)
}

/// The first `count` starts after `after`, of slots after `begin`. A slot that has been drawn into
/// the store keeps what was drawn.
pub(crate) fn starts(
    planner: &Planner,
    job: Option<&JobId>,
    waiting: &[WaitingSlot],
    (begin, after): (Timestamp, Timestamp),
    count: usize,
) -> Vec<Start> {
    let mut drawn: BTreeMap<&Slot, &WaitingSlot> =
        waiting.iter().map(|slot| (&slot.slot, slot)).collect();
    let planned: Vec<Start> = planner
        .firing_between(begin, Timestamp::MAX)
        .map(|planned| {
            let slot = planner.slot(&planned);
            let at = match (drawn.remove(&slot), job) {
                (Some(waiting), _) => waiting.fire_at,
                (None, Some(job)) => planner.fire_at(job, &planned),
                (None, None) => planned.nominal,
            };
            Start {
                at,
                nominal: planned.nominal,
                slot,
                note: planner.note(&planned),
            }
        })
        .filter(|start| start.at > after)
        .take(count)
        .collect();
    let mut starts: Vec<Start> = drawn
        .into_values()
        .filter(|waiting| waiting.fire_at > after)
        .map(|waiting| Start {
            at: waiting.fire_at,
            nominal: waiting.nominal,
            slot: waiting.slot.clone(),
            note: (waiting.cause == Cause::CatchUp)
                .then(|| String::from("catches up on a missed slot")),
        })
        .chain(planned)
        .collect();
    starts.sort_by_key(|start| start.at);
    starts.truncate(count);
    starts
}
