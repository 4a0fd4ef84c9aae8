//! The clock changes of a zone, for people who ask what comes next.

use jiff::{Timestamp, civil, tz::Offset};

use crate::schedule::{
    ScheduleError,
    calendar::{ceil_second, floor_second, wall_time},
    zone::{Segment, ZoneTable},
};

/// One change of a zone's offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockChange {
    /// The first instant with the new offset.
    pub at: Timestamp,
    /// The offset before it.
    pub from_offset: Offset,
    /// The offset from it on.
    pub to_offset: Offset,
    /// The wall time that the old offset would have shown.
    pub local_before: civil::DateTime,
    /// The wall time that the new offset shows.
    pub local_after: civil::DateTime,
}

/// What a clock change does to wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockChangeKind {
    /// Wall time is jumped over.
    Gap,
    /// Wall time is repeated.
    Overlap,
}

impl ClockChange {
    /// What it does to wall time.
    pub fn kind(&self) -> ClockChangeKind {
        if self.local_after > self.local_before {
            ClockChangeKind::Gap
        } else {
            ClockChangeKind::Overlap
        }
    }
}

/// The clock changes of a zone after `after`, up to and including `until`, in ascending order.
///
/// # Errors
/// [`ScheduleError::UnknownZone`] with the nearest name.
///
/// ```
/// use chatcron::schedule::{ClockChangeKind, clock_changes};
///
/// let year = ["2026-01-01T00:00Z".parse()?, "2026-12-31T00:00Z".parse()?];
/// let kinds: Vec<_> = clock_changes("Europe/Berlin", year[0], year[1])?
///     .map(|change| (change.at.to_string(), change.kind()))
///     .collect();
/// assert_eq!(kinds, [
///     ("2026-03-29T01:00:00Z".to_owned(), ClockChangeKind::Gap),
///     ("2026-10-25T01:00:00Z".to_owned(), ClockChangeKind::Overlap),
/// ]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn clock_changes(
    zone: &str,
    after: Timestamp,
    until: Timestamp,
) -> Result<impl Iterator<Item = ClockChange> + use<>, ScheduleError> {
    let table = ZoneTable::get(zone)?;
    let (mut index, mut before) = table.at(floor_second(after));
    let last = floor_second(until);
    // A change exactly at `after` opened the segment that the search starts in.
    debug_assert!(before.start <= ceil_second(after));
    Ok(std::iter::from_fn(move || {
        index += 1;
        if before.end > last {
            return None;
        }
        let next = table.segment(index)?;
        let change = change(&before, &next);
        before = next;
        change
    }))
}

fn change(before: &Segment, next: &Segment) -> Option<ClockChange> {
    let offset = |segment: &Segment| {
        let seconds = i32::try_from(segment.offset).ok()?;
        Offset::from_seconds(seconds).ok()
    };
    Some(ClockChange {
        at: Timestamp::from_second(next.start).ok()?,
        from_offset: offset(before)?,
        to_offset: offset(next)?,
        local_before: wall_time(before.local_end())?,
        local_after: wall_time(next.local_start())?,
    })
}
