//! The tables against `jiff`, for every zone there is.

use jiff::{Timestamp, tz};

use crate::schedule::{
    ScheduleError,
    zone::{Segment, ZoneTable, names::is_no_place, zone_fingerprint},
};

#[test]
fn every_zone_of_the_database_has_the_offsets_that_jiff_has() {
    for name in tz::db()
        .available()
        .filter(|name| !is_no_place(name.as_str()))
    {
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
                assert_eq!(table.at(second), table.search(second), "{name} {at}");
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
        ("localtime", None),
        ("right/Europe/Berlin", Some("Europe/Berlin")),
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
    assert_eq!(
        ZoneTable::get("europe/berlin").unwrap().name,
        "Europe/Berlin"
    );
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
