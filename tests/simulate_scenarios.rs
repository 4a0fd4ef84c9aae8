//! Reports about schedulers and gateways, as scenarios with their right outcome: each file has its
//! jobs, its world and what it must come to.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is missing"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use chatcron::{
    config::{self, Level, Loaded, Problem},
    simulate::{Checker, Log, Simulation, Tally, Unmet},
};
use jiff::{Timestamp, tz};

fn scenarios() -> Vec<PathBuf> {
    let entries = fs::read_dir("tests/fixtures/scenarios").unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    paths.sort();
    paths
}

fn load(path: &Path) -> Loaded {
    let source = fs::read_to_string(path).unwrap();
    let no_files = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    // Long before all of them, so that nothing is past.
    config::parse(&source, &no_files, "2000-01-01T00:00:00Z".parse().unwrap())
}

fn simulate(path: &Path, log: &mut Log<Vec<u8>>) -> Vec<Unmet> {
    let loaded = load(path);
    let errors = errors(&loaded);
    assert!(errors.is_empty(), "{}: {errors:?}", path.display());
    let file = loaded.file.unwrap();
    let written = file.simulate.unwrap();
    let name = path.display();
    assert!(!written.expects.is_empty(), "{name} expects nothing");
    let zone = file.timezone.unwrap_or_else(|| "UTC".to_owned());
    let zone = tz::db().get(&zone).unwrap();
    let resolved = written.resolve(&zone, Timestamp::UNIX_EPOCH).unwrap();
    let (window, scenario) = (resolved.window, resolved.scenario);
    let room = usize::try_from(file.max_concurrent).unwrap();
    let chats = &file.directory.chats;
    let mut simulation = Simulation::new(file.jobs, chats, room, &scenario, window.from).unwrap();
    let checker = Checker::new(&written.expects, &simulation);
    let mut sinks = ((Tally::new(&simulation, window), checker), log);
    simulation.run_until(window.to, &mut sinks);
    simulation.close(&mut sinks);
    let ((tally, checker), _) = sinks;
    checker.finish(&tally.finish(&simulation))
}

fn errors(loaded: &Loaded) -> Vec<&Problem> {
    let of_level = |problem: &&Problem| problem.level == Level::Error;
    loaded.problems.iter().filter(of_level).collect()
}

#[test]
fn the_events_are_the_same_bytes_in_every_build_and_on_every_machine() {
    let mut log = Log::new(Vec::new());
    for path in scenarios() {
        simulate(&path, &mut log);
    }
    let (_, sum) = log.finish().unwrap();
    let kept = fs::read_to_string("tests/fixtures/scenarios/events.sha256").unwrap();
    // Written anew with every new scenario, and with every rule that changes.
    assert_eq!(format!("{}\n", sum.sha256), kept);
}

#[test]
fn every_report_has_its_right_outcome() {
    let paths = scenarios();
    assert!(paths.len() >= 33, "{}", paths.len());
    let mut wrong = Vec::new();
    for path in paths {
        let unmet = simulate(&path, &mut Log::new(Vec::new()));
        if !unmet.is_empty() {
            wrong.push(format!("{}: {unmet:#?}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
