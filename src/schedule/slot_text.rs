//! Slots as text, and back to instants.

use std::fmt::Write as _;

use jiff::{Timestamp, civil};

use crate::{
    occurrence::Slot,
    schedule::{
        Planned,
        calendar::{ceil_second, local_ceil, wall_time},
        wall::{ClockRule, Scope, Wall},
        zone::ZoneTable,
    },
};

/// The slot of a wall-time occurrence.
pub(crate) fn of_wall(wall: &Wall, planned: &Planned) -> Slot {
    let pass = match wall.rule {
        ClockRule::Fixed => 1,
        ClockRule::Frequent => wall.zone.pass(ceil_second(planned.nominal), planned.local),
    };
    spelled(wall, planned.local, pass)
}

/// The slots of the written times that a gap merged into this occurrence.
pub(crate) fn merged(wall: &Wall, planned: &Planned) -> Vec<Slot> {
    // A void slot may stand a microsecond before the gap's end.
    let second = ceil_second(planned.nominal);
    let (_, segment) = wall.zone.at(second);
    let at_gap_end = segment.start == second && segment.opens_with_gap();
    if wall.rule == ClockRule::Frequent || !at_gap_end {
        return Vec::new();
    }
    wall.gap_times(&segment, Scope::All)
        .filter(|(local, fate)| {
            planned.fires() == (*fate == crate::schedule::Fate::Fires) && *local != planned.local
        })
        .map(|(local, _)| spelled(wall, local, 1))
        .collect()
}

/// The instant of a slot by the zone data in use.
pub(crate) fn resolve(slot: &Slot) -> Option<Timestamp> {
    let text = slot.as_str();
    let Some((local, zone)) = text.strip_suffix(']').and_then(|text| text.split_once('[')) else {
        return text.parse().ok();
    };
    let (local, pass) = match local.split_once('/') {
        Some((local, pass)) => (local, pass.parse().ok()?),
        None => (local, 1),
    };
    let local = local_ceil(local.parse::<civil::DateTime>().ok()?);
    let table = ZoneTable::get(zone).ok()?;
    Timestamp::from_second(table.instant_of_pass(local, pass)?).ok()
}

fn spelled(wall: &Wall, local: i64, pass: u32) -> Slot {
    let zone = &wall.zone.name;
    let mut text = String::with_capacity(zone.len() + "2027-03-28T02:30:00/2[]".len());
    // Writing to a string does not fail.
    let _ = match wall_time(local) {
        Some(written) => write!(text, "{written}"),
        None => write!(text, "{local}"),
    };
    if pass > 1 {
        let _ = write!(text, "/{pass}");
    }
    for piece in ["[", zone, "]"] {
        text.push_str(piece);
    }
    Slot::from_text(text)
}
