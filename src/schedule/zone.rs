//! Zones as segments of constant offset, cached for the life of the process.
//!
//! A segment list is exact up to about the year 2105; instants beyond it use a longer list that is
//! built when first needed, of which the short one is a prefix.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use data_encoding::HEXLOWER;
use jiff::{
    Timestamp,
    tz::{self, TimeZone},
};
use sha2::{Digest, Sha256};

use crate::schedule::ScheduleError;

mod names;

#[cfg(test)]
mod tests;

use names::is_no_place;
pub use names::nearest_name;

/// 2105-01-01T00:00:00Z: no job of today looks further, except to find out that it never comes.
const HORIZON: i64 = 4_260_211_200;

/// The width of a hint's stretch, as a power of two.
const STRETCH: u32 = 24;

/// A stretch of time with one offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Its first instant, in seconds.
    pub(crate) start: i64,
    /// The first instant after it.
    pub(crate) end: i64,
    /// Local seconds minus instant seconds.
    pub(crate) offset: i64,
    /// The end of all local time shown before it: what is below has been shown already, and where
    /// its own start is above, the zone jumped over what lies between.
    pub(crate) shown_to: i64,
    /// From this local time on, the following segment shows its local times again.
    pub(crate) repeats_from: i64,
}

impl Segment {
    /// The local time of its first instant.
    pub(crate) fn local_start(&self) -> i64 {
        self.start + self.offset
    }

    /// The first local time that it no longer shows.
    pub(crate) fn local_end(&self) -> i64 {
        self.end + self.offset
    }

    /// Whether the zone jumped over local time at its start.
    pub(crate) fn opens_with_gap(&self) -> bool {
        self.local_start() > self.shown_to
    }

    /// Whether it shows this local time.
    pub(crate) fn shows(&self, local: i64) -> bool {
        (self.local_start()..self.local_end()).contains(&local)
    }
}

/// The clock of one zone.
#[derive(Debug)]
pub(crate) struct ZoneTable {
    /// Its IANA name, spelled as the database spells it.
    pub(crate) name: String,
    zone: TimeZone,
    near: Vec<Segment>,
    /// For each stretch of 2^24 s (194 days) since `hints_from`, the segment in which it begins:
    /// from there it is one or two steps to any instant in it, where a search would take ten.
    hints: Vec<u16>,
    hints_from: i64,
    far: OnceLock<Vec<Segment>>,
}

impl ZoneTable {
    /// The table of a zone, from the cache where it is there.
    ///
    /// # Errors
    /// [`ScheduleError::UnknownZone`] with the nearest name.
    pub(crate) fn get(name: &str) -> Result<Arc<Self>, ScheduleError> {
        static TABLES: OnceLock<RwLock<HashMap<String, Arc<ZoneTable>>>> = OnceLock::new();
        let tables = TABLES.get_or_init(RwLock::default);
        if let Some(table) = tables
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
        {
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(Self::build(name)?);
        let mut tables = tables.write().unwrap_or_else(PoisonError::into_inner);
        let kept = tables.entry(name.to_owned()).or_insert(table);
        Ok(Arc::clone(kept))
    }

    fn build(name: &str) -> Result<Self, ScheduleError> {
        let zone = Some(name)
            .filter(|name| !is_no_place(name))
            .and_then(|name| tz::db().get(name).ok())
            .filter(|zone| !zone.is_unknown())
            .ok_or_else(|| ScheduleError::UnknownZone {
                found: name.to_owned(),
                nearest: nearest_name(name),
            })?;
        let near = segments(&zone, HORIZON);
        let hints_from = near.get(1).map_or(HORIZON, |segment| segment.start);
        Ok(Self {
            name: zone.iana_name().unwrap_or(name).to_owned(),
            hints: hints(&near, hints_from),
            hints_from,
            near,
            zone,
            far: OnceLock::new(),
        })
    }

    fn far(&self) -> &[Segment] {
        self.far.get_or_init(|| segments(&self.zone, i64::MAX))
    }

    /// The segment with this index, while there is one.
    pub(crate) fn segment(&self, index: usize) -> Option<Segment> {
        match self.near.get(index) {
            Some(segment) => Some(*segment),
            None => self.far().get(index).copied(),
        }
    }

    /// The segment in which the second lies, and its index.
    #[inline]
    pub(crate) fn at(&self, second: i64) -> (usize, Segment) {
        let stretch = second.wrapping_sub(self.hints_from) >> STRETCH;
        let hint = usize::try_from(stretch)
            .ok()
            .and_then(|stretch| self.hints.get(stretch));
        let Some(hint) = hint else {
            return self.search(second);
        };
        let mut index = usize::from(*hint);
        while let Some(segment) = self.near.get(index) {
            if second < segment.end {
                return (index, *segment);
            }
            index += 1;
        }
        self.search(second)
    }

    fn search(&self, second: i64) -> (usize, Segment) {
        let list = match self.near.last() {
            Some(last) if second < last.end => &self.near,
            Some(_) | None => self.far(),
        };
        let index = list
            .partition_point(|segment| segment.start <= second)
            .saturating_sub(1);
        (index, list[index])
    }

    /// The first instant at which the clock shows this local time, or would have shown it: in a
    /// gap the first instant after it.
    pub(crate) fn first_instant(&self, local: i64) -> i64 {
        let list = match self.near.last() {
            Some(last) if local < last.shown_to => &self.near,
            Some(_) | None => self.far(),
        };
        let index = list
            .partition_point(|segment| segment.shown_to <= local)
            .saturating_sub(1);
        let segment = list[index];
        segment.start.max(local - segment.offset)
    }

    /// How many times the clock has shown this local time, the instant's own included.
    pub(crate) fn pass(&self, second: i64, local: i64) -> u32 {
        let (mut index, mut segment) = self.at(second);
        let mut pass = 1;
        while local < segment.shown_to && index > 0 {
            index -= 1;
            let Some(before) = self.segment(index) else {
                break;
            };
            segment = before;
            pass += u32::from(segment.shows(local));
        }
        pass
    }

    /// The instant of the given pass over a local time, if the clock makes that pass.
    pub(crate) fn instant_of_pass(&self, local: i64, pass: u32) -> Option<i64> {
        let first = self.first_instant(local);
        let (mut index, mut segment) = self.at(first);
        let mut left = pass.checked_sub(1)?;
        while left > 0 {
            index += 1;
            segment = self.segment(index)?;
            if segment.local_start() > local {
                return None;
            }
            left -= u32::from(segment.shows(local));
        }
        Some(if pass == 1 {
            first
        } else {
            local - segment.offset
        })
    }
}

/// A stable digest of a zone's clock changes up to the year 2105: two hosts that print the same
/// agree on every instant of the zone.
///
/// # Errors
/// [`ScheduleError::UnknownZone`] with the nearest name.
pub fn zone_fingerprint(name: &str) -> Result<String, ScheduleError> {
    let table = ZoneTable::get(name)?;
    let mut hash = Sha256::new();
    for segment in &table.near {
        hash.update(segment.start.to_be_bytes());
        hash.update(segment.offset.to_be_bytes());
    }
    Ok(HEXLOWER.encode(&hash.finalize()[..8]))
}

/// The segment in which each stretch begins, up to the horizon.
fn hints(near: &[Segment], from: i64) -> Vec<u16> {
    let stretches = (HORIZON - from).max(0) >> STRETCH;
    (0..=stretches)
        .map(|stretch| from + (stretch << STRETCH))
        .map(|second| near.partition_point(|segment| segment.end <= second))
        .map_while(|index| u16::try_from(index).ok())
        .collect()
}

/// The segments up to and including the one in which `horizon` lies.
fn segments(zone: &TimeZone, horizon: i64) -> Vec<Segment> {
    let first = Timestamp::MIN.as_second();
    let mut starts = vec![(first, i64::from(zone.to_offset(Timestamp::MIN).seconds()))];
    for change in zone.following(Timestamp::MIN) {
        let offset = i64::from(change.offset().seconds());
        // A change of abbreviation only is no clock change.
        if starts.last().is_some_and(|(_, before)| *before == offset) {
            continue;
        }
        let at = change.timestamp().as_second();
        starts.push((at, offset));
        if at >= horizon {
            break;
        }
    }
    let mut segments = Vec::with_capacity(starts.len());
    let mut shown_to = first + starts[0].1;
    for (index, &(start, offset)) in starts.iter().enumerate() {
        let next = starts.get(index + 1).copied();
        let end = next.map_or(Timestamp::MAX.as_second() + 1, |(at, _)| at);
        let repeats_from = next
            .filter(|(_, after)| *after < offset)
            .map_or(i64::MAX, |(at, after)| at + after);
        segments.push(Segment {
            start,
            end,
            offset,
            shown_to,
            repeats_from,
        });
        shown_to = shown_to.max(end + offset);
    }
    // The change that lies beyond the horizon only closed the segment before it.
    if starts.last().is_some_and(|(at, _)| *at >= horizon) {
        segments.pop();
    }
    segments
}
