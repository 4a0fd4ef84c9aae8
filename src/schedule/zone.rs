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

/// 2105-01-01T00:00:00Z: no job of today looks further, except to find out that it never comes.
const HORIZON: i64 = 4_260_211_200;

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
        let zone = tz::db()
            .get(name)
            .ok()
            .filter(|zone| !zone.is_unknown())
            .ok_or_else(|| ScheduleError::UnknownZone {
                found: name.to_owned(),
                nearest: nearest_name(name),
            })?;
        Ok(Self {
            name: zone.iana_name().unwrap_or(name).to_owned(),
            near: segments(&zone, HORIZON),
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
    pub(crate) fn at(&self, second: i64) -> (usize, Segment) {
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

/// The name in the zone database that is most like this one.
pub fn nearest_name(found: &str) -> Option<String> {
    let wanted = found.to_ascii_lowercase().replace(' ', "_");
    let likeness = |name: &str| {
        let name = name.to_ascii_lowercase();
        let city = name.rsplit('/').next().unwrap_or(&name);
        let own_city = wanted.rsplit('/').next().unwrap_or(&wanted);
        // A wrong region with the right city is the likelier slip, so the city weighs more.
        strsim::jaro_winkler(&wanted, &name).max(0.98 * strsim::jaro_winkler(own_city, city))
    };
    tz::db()
        .available()
        .map(|name| (likeness(name.as_str()), name.as_str().to_owned()))
        .filter(|(score, _)| *score >= 0.8)
        .max_by(|(a, left), (b, right)| a.total_cmp(b).then_with(|| right.cmp(left)))
        .map(|(_, name)| name)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_zone_of_the_database_has_the_offsets_that_jiff_has() {
        for name in tz::db().available() {
            let table = ZoneTable::get(name.as_str()).unwrap();
            let list: Vec<Segment> = table.near.clone();
            for pair in list.windows(2) {
                assert_eq!(pair[0].end, pair[1].start, "{name}");
            }
            for segment in list {
                for second in [segment.start, segment.end - 1] {
                    let at = Timestamp::from_second(second).unwrap();
                    let offset = table.zone.to_offset(at).seconds();
                    assert_eq!(segment.offset, i64::from(offset), "{name} {at}");
                }
            }
        }
    }

    #[test]
    fn the_short_list_is_a_prefix_of_the_long_one() {
        for name in [
            "Europe/Berlin",
            "Africa/Casablanca",
            "UTC",
            "Asia/Kathmandu",
        ] {
            let table = ZoneTable::get(name).unwrap();
            assert_eq!(table.near, table.far()[..table.near.len()], "{name}");
        }
    }

    #[test]
    fn an_unknown_zone_names_the_nearest_right_one() {
        for (found, nearest) in [
            ("Europe/Berln", Some("Europe/Berlin")),
            ("Berlin", Some("Europe/Berlin")),
            ("America/New York", Some("America/New_York")),
            ("America/Berlin", Some("Europe/Berlin")),
            ("Etc/Unknown", None),
            ("qqqq", None),
        ] {
            let error = ZoneTable::get(found).unwrap_err();
            let ScheduleError::UnknownZone { nearest: got, .. } = error else {
                panic!("{error}");
            };
            if nearest.is_some() {
                assert_eq!(got.as_deref(), nearest, "{found}");
            }
        }
    }

    #[test]
    fn fingerprints_are_stable_and_differ_between_clocks() {
        let berlin = zone_fingerprint("Europe/Berlin").unwrap();
        assert_eq!(berlin.len(), 16);
        assert_eq!(berlin, zone_fingerprint("europe/berlin").unwrap());
        assert_ne!(berlin, zone_fingerprint("Europe/London").unwrap());
    }

    #[test]
    fn passes_are_counted_and_found_again() {
        let berlin = ZoneTable::get("Europe/Berlin").unwrap();
        // 2026-10-25T02:30 comes at 00:30Z and at 01:30Z.
        let first = 1_792_888_200;
        let local = first + 7_200;
        assert_eq!(berlin.first_instant(local), first);
        assert_eq!(berlin.pass(first, local), 1);
        assert_eq!(berlin.pass(first + 3_600, local), 2);
        assert_eq!(berlin.instant_of_pass(local, 2), Some(first + 3_600));
        assert_eq!(berlin.instant_of_pass(local, 3), None);
        assert_eq!(berlin.instant_of_pass(local + 7_200, 2), None);
    }
}
