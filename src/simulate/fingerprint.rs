//! Which clock changes a simulation rests on.

use std::collections::BTreeSet;

use data_encoding::HEXLOWER;
use jiff::tz;
use sha2::{Digest, Sha256};

use crate::schedule::{ScheduleError, clock_changes};

use super::Window;

/// A digest of the clock changes in the window of these zones, each with its offsets: two hosts that
/// print the same have simulated with the same zone data, as far as this window is concerned.
///
/// # Errors
/// [`ScheduleError::UnknownZone`] with the nearest name.
pub fn zones_fingerprint<'a>(
    zones: impl Iterator<Item = &'a str>,
    window: Window,
) -> Result<String, ScheduleError> {
    let zones: BTreeSet<&str> = zones.collect();
    let mut hash = Sha256::new();
    for zone in zones {
        hash.update((zone.len() as u64).to_be_bytes());
        hash.update(zone.as_bytes());
        // Where the clock does not change in the window, the offset tells.
        let offset = tz::db().get(zone).ok().map(|tz| tz.to_offset(window.from));
        hash.update(offset.map_or(0, |offset| offset.seconds()).to_be_bytes());
        for change in clock_changes(zone, window.from, window.to)? {
            hash.update(change.at.as_second().to_be_bytes());
            hash.update(change.from_offset.seconds().to_be_bytes());
            hash.update(change.to_offset.seconds().to_be_bytes());
        }
    }
    Ok(HEXLOWER.encode(&hash.finalize()[..8]))
}
