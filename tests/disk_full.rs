//! A disk that is full: the worker says so, starts nothing that it cannot record, lets others read,
//! and goes on when there is room again.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/fakes.rs"]
mod fakes;
#[path = "../examples/chaos/place.rs"]
mod place;

use std::{
    thread,
    time::{Duration, Instant},
};

use place::Place;
use serde_json::Value;

const JOBS: &str = r#"
[jobs.beat]
every   = "1s"
deliver = "history"
prompt  = "beat"

[agents.main]
kind = "command"
argv = ["sh", "-c", "echo asked >> \"$ASKED\"; cat"]
"#;

/// What the worker's log says.
const SAID: &str = "nothing begins until it works again";

#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(
            begun.elapsed() < Duration::from_secs(40),
            "never came: {what}"
        );
        thread::sleep(Duration::from_millis(50));
    }
}

fn runs(place: &Place) -> Vec<Value> {
    let listed = place.run(&["runs", "--json", "--limit", "1000"]);
    assert!(
        listed.status.success(),
        "{}",
        String::from_utf8_lossy(&listed.stderr)
    );
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    listed["runs"].as_array().unwrap().clone()
}

/// The worker gives back what SQLite's log takes, and that is taken too.
fn keep_full(place: &Place) {
    for _ in 0..25 {
        place.fill_disk();
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn on_a_full_disk_the_worker_says_so_starts_nothing_and_goes_on_when_there_is_room() {
    let asked = tempfile::NamedTempFile::new().unwrap();
    let jobs = JOBS.replace("$ASKED", &asked.path().display().to_string());
    let mut place = Place::new(env!("CARGO_BIN_EXE_chatcron").as_ref(), &jobs);
    let asked = || {
        std::fs::read_to_string(asked.path())
            .unwrap()
            .lines()
            .count()
    };
    place.start();
    until("the first run", || asked() > 0);

    keep_full(&place);
    until("the worker says so", || place.log().contains(SAID));
    // What it gave back just then may have been enough for one more.
    keep_full(&place);
    let (asked_before, runs_before) = (asked(), runs(&place).len());
    keep_full(&place);
    assert_eq!(
        asked(),
        asked_before,
        "nothing begins that cannot be recorded"
    );
    assert_eq!(runs(&place).len(), runs_before, "and reading goes on");
    let listed = place.run(&["list"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(
        listed.contains("chatcron is running, and nothing begins"),
        "{listed}"
    );
    assert!(listed.contains(place.full_in_words()), "{listed}");
    let told = || place.log().matches(SAID).count();
    let told_before = told();
    keep_full(&place);
    assert_eq!(told(), told_before, "it is told once: {}", place.log());

    place.free_disk();
    until("the next run", || asked() > asked_before);
    until("the worker says so", || {
        place.log().contains("the store works again")
    });
    let listed = place.run(&["list"]);
    assert!(
        !String::from_utf8(listed.stdout)
            .unwrap()
            .contains("nothing begins")
    );
    assert_eq!(
        place.stop(Duration::from_secs(30)).as_deref(),
        Some("exit status: 0")
    );
    let audit = place.run(&["audit"]);
    assert!(
        audit.status.success(),
        "{}",
        String::from_utf8_lossy(&audit.stdout)
    );
    // Each slot has its record, and each run was asked for once.
    let runs = runs(&place);
    assert!(runs.iter().all(|run| run["state"] != "running"), "{runs:?}");
    let ran = runs.iter().filter(|run| run["attempts"] == 1).count();
    assert_eq!(ran, asked());
}
