//! Decisions of earlier versions: this one takes them alike. A release that changes a decision
//! changes a fixture, and so says it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{fs, path::Path};

use chatcron::policy::{JournalEntry, Recheck, recheck};

#[test]
fn every_recorded_decision_is_taken_alike() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/journals");
    let mut decisions = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        for (line, text) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            let entry: JournalEntry = serde_json::from_str(text).unwrap();
            let place = format!("{}:{}", path.display(), line + 1);
            assert_eq!(recheck(&entry).unwrap(), Recheck::Same, "{place}");
            assert_eq!(
                entry.digest,
                entry.decided.job.digest(),
                "{place}: a digest changed"
            );
            decisions += 1;
        }
    }
    assert!(decisions >= 40, "{decisions} decisions");
}
