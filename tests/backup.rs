//! A copy of a database that is in use, and going on from it.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/process.rs"]
mod process;

use std::{fs, os::unix::fs::PermissionsExt, thread, time::Duration};

use process::{Place, TICKING, told};

#[test]
fn a_copy_of_a_database_in_use_holds_and_can_be_gone_on_from() {
    let place = Place::new(TICKING);
    let worker = place.start();
    worker.until_printed("tock");
    for name in ["one.db", "two.db", "three.db"] {
        place.ok(&["backup", name]);
        place.ok(&["audit", "--db", name]);
        thread::sleep(Duration::from_millis(300));
    }
    let mode = fs::metadata(place.path("one.db")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600, "histories are private");
    for name in ["chatcron.db", "chatcron.db-wal", "chatcron.db.lock"] {
        let mode = fs::metadata(place.path(name)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{name}");
    }
    let runs = |db: &str| {
        let runs = place.json(&["runs", "--limit", "1000", "--db", db]);
        runs["runs"].as_array().unwrap().len()
    };
    assert!(runs("one.db") >= 1);
    assert!(runs("one.db") <= runs("three.db"));
    worker.until_printed("tock");
    assert_eq!(worker.stop(), Some(0));

    let kept = runs("one.db");
    for rest in ["chatcron.db-wal", "chatcron.db-shm"] {
        let _ = fs::remove_file(place.path(rest));
    }
    fs::rename(place.path("one.db"), place.path("chatcron.db")).unwrap();
    let restored = place.start();
    process::until("it goes on from the copy", || {
        (runs("chatcron.db") > kept)
            .then_some(())
            .ok_or_else(|| restored.log())
    });
    assert_eq!(restored.stop(), Some(0));
    place.ok(&["audit"]);
}

#[test]
fn nothing_is_written_over_and_nothing_half_is_left() {
    let place = Place::new(TICKING);
    let none = place.run(&["backup", "copy.db"]);
    assert_eq!(none.status.code(), Some(3), "{}", told(&none));
    let worker = place.start();
    worker.until_printed("tock");
    place.write("letter.txt", "dear");
    let occupied = place.run(&["backup", "letter.txt"]);
    assert_eq!(occupied.status.code(), Some(3), "{}", told(&occupied));
    assert!(told(&occupied).contains("already"), "{}", told(&occupied));
    assert_eq!(
        fs::read_to_string(place.path("letter.txt")).unwrap(),
        "dear"
    );
    place.write("copy.db.unfinished", "half");
    let held = fs::File::open(place.path("copy.db.unfinished")).unwrap();
    held.lock().unwrap();
    let other = place.run(&["backup", "copy.db"]);
    assert_eq!(other.status.code(), Some(3), "{}", told(&other));
    assert!(
        told(&other).contains("another backup is writing"),
        "{}",
        told(&other)
    );
    // One that was killed holds nothing.
    drop(held);
    place.ok(&["backup", "copy.db"]);
    assert!(!place.path("copy.db.unfinished").exists());
    let mode = fs::metadata(place.path("copy.db")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    place.ok(&["audit", "--db", "copy.db"]);
    place.write("mine.txt", "dear");
    std::os::unix::fs::symlink(place.path("mine.txt"), place.path("x.db.unfinished")).unwrap();
    let astray = place.run(&["backup", "x.db"]);
    assert_eq!(astray.status.code(), Some(3), "{}", told(&astray));
    assert_eq!(fs::read_to_string(place.path("mine.txt")).unwrap(), "dear");
    let nowhere = place.run(&["backup", "no/such/folder.db"]);
    assert_eq!(nowhere.status.code(), Some(3), "{}", told(&nowhere));
    let server = place.run(&["backup", "x.db", "--db", "postgres://nobody@localhost/x"]);
    assert_eq!(server.status.code(), Some(2), "{}", told(&server));
    assert!(told(&server).contains("pg_dump"), "{}", told(&server));
}
