//! `backfill` on a real database: what was skipped runs again once, and its record stays.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/world.rs"]
mod world;

use std::process::{Command, Output};

use chatcron::{
    agent::AgentError,
    clock::{Clock, SystemClock},
    ids::JobId,
    occurrence::Cause,
    policy::OwnedEvent,
    worker::{Change, ChangeError},
};
use jiff::{SignedDuration, Timestamp, civil, tz::TimeZone};
use serde_json::Value;
use world::{TestAgent, TestChannel, World, last_words, words};

const JOBS: &str = r#"
timezone = "UTC"

[jobs.look]
daily    = "08:00"
catch_up = "none"
deliver  = "me"
prompt   = "Look."

[jobs.always]
every   = "1s"
anchor  = "2026-01-01T00:00:00Z"
enabled = false
deliver = "history"
prompt  = "Count."
"#;

/// A day of the past week or so, by the machine's clock, which the command reads.
fn day(ago: i64) -> civil::Date {
    let today = SystemClock.now().to_zoned_datetime(TimeZone::UTC).date();
    today - SignedDuration::from_hours(24 * ago)
}

fn at(ago: i64, time: &str) -> String {
    format!("{}T{time}Z", day(ago))
}

/// A week in which `look` ran ten days ago, was down for three, and failed on the fifth day.
async fn a_week(agent: &TestAgent, channel: &TestChannel) -> World {
    let world = World::in_my_chat(JOBS, &at(10, "00:00:00"), agent.clone(), channel.clone()).await;
    let mut worker = world.start().await;
    world.run_at(&mut worker, &at(10, "08:00:00")).await;
    drop(worker);
    world.clock.set(&at(7, "12:00:00"));
    world.store.see_clock(world.clock.now()).await.unwrap();
    let mut worker = world.start().await;
    worker.until_quiet().await.unwrap();
    world.run_at(&mut worker, &at(6, "08:00:00")).await;
    world
}

fn fails_on_the_second_run() -> TestAgent {
    let mut asked = 0;
    TestAgent::scripted(move |turn| {
        asked += 1;
        if asked == 2 {
            let why = "no such model".to_owned();
            return Err(AgentError::Permanent { why });
        }
        Ok(words(&last_words(turn)))
    })
}

fn chatcron(world: &World, arguments: &[&str]) -> Output {
    let database = format!("sqlite:{}", world.database().display());
    Command::new(env!("CARGO_BIN_EXE_chatcron"))
        .args(arguments)
        .args(["--db", &database])
        .output()
        .unwrap()
}

fn backfill(world: &World, arguments: &[&str]) -> String {
    let output = chatcron(world, &[&["backfill"], arguments].concat());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a dry run says of each slot.
fn assert_planned(world: &World, week: &[&str]) {
    let planned = backfill(world, &[week, &["--dry-run", "--json"]].concat());
    let planned: Value = serde_json::from_str(&planned).unwrap();
    let slots = planned["slots"].as_array().unwrap().iter();
    let runs: Vec<_> = slots
        .map(|slot| {
            (
                slot["was"].as_str().unwrap(),
                slot["runs"].as_bool().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        runs,
        [
            ("done", false),
            ("skipped: missed", true),
            ("skipped: missed", true),
            ("skipped: missed", true),
            ("failed: permanent", false),
        ]
    );
}

#[tokio::test]
async fn what_was_skipped_runs_again_once_and_its_record_stays() {
    let (agent, channel) = (fails_on_the_second_run(), TestChannel::keyed());
    let world = a_week(&agent, &channel).await;
    // The machine's clock is far from the one of that week.
    assert!(chatcron(&world, &["accept-clock"]).status.success());
    let (from, to) = (day(10).to_string(), day(5).to_string());
    let week = ["look", "--from", &from, "--to", &to];
    assert_planned(&world, &week);
    assert_eq!(world.runs().await.len(), 2, "a dry run changes nothing");
    let whole = ["look", "--from", "20d", "--to", &to, "--dry-run"];
    let told = backfill(&world, &whole);
    let ranges: Vec<_> = told.lines().filter(|line| line.contains(" to ")).collect();
    assert_eq!(ranges.len(), 1, "{told}");
    assert!(ranges[0].contains("no record ("), "{told}");
    assert!(told.lines().count() < 10, "{told}");

    let told = backfill(&world, &week);
    assert!(
        told.ends_with("3 of 5 slots of look run again, one after another\n"),
        "{told}"
    );
    let again = backfill(&world, &week);
    assert!(
        again.contains("nothing of look is to be run again"),
        "{again}"
    );

    world
        .clock
        .set(&(SystemClock.now() + SignedDuration::from_secs(1)).to_string());
    let mut worker = world.start().await;
    worker.until_quiet().await.unwrap();
    let runs = world.runs().await;
    let done: Vec<_> = runs
        .iter()
        .filter(|run| run.cause == Cause::Backfill)
        .map(|run| (run.nominal_at.to_string(), run.state.as_str()))
        .collect();
    let skipped = [9, 8, 7].map(|ago| (at(ago, "08:00:00"), "done"));
    assert_eq!(done, skipped);
    assert!(
        backfill(&world, &week).contains("backfill done"),
        "their records stay"
    );

    let failed = backfill(&world, &[&week[..], &["--failed"]].concat());
    assert!(
        failed.contains("1 of 5 slots of look run again"),
        "{failed}"
    );
    world.clock.advance(SignedDuration::from_secs(60));
    worker.until_quiet().await.unwrap();
    assert_eq!(agent.asked().len(), 6);
    let next = [at(0, "08:00:00"), at(-1, "08:00:00")]
        .into_iter()
        .find(|slot| slot.parse::<Timestamp>().unwrap() > world.clock.now())
        .unwrap();
    world.run_at(&mut worker, &next).await;
    let last = world.runs().await.pop().unwrap();
    assert_eq!(
        (last.cause, last.nominal_at.to_string()),
        (Cause::Scheduled, next),
        "the schedule goes on as before"
    );
    let audit = world.store.audit(None).await.unwrap();
    assert!(audit.holds(), "{:#?}", audit.findings);
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn a_stretch_that_is_too_long_or_no_stretch_is_refused_with_its_numbers() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let world = a_week(&agent, &channel).await;
    assert!(chatcron(&world, &["accept-clock"]).status.success());
    let cases = [
        (
            ["always", "--from", "2026-01-02", "--to", "2026-11-02"],
            "26265600 slots of `always` lie between",
        ),
        (
            ["look", "--from", "2026-11-02", "--to", "2026-11-01"],
            "is not before --to",
        ),
        (
            ["look", "--from", "last week", "--to", "2026-11-02"],
            "accepted: `today`",
        ),
    ];
    for (arguments, words) in cases {
        let output = chatcron(&world, &[&["backfill"], &arguments[..]].concat());
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(words), "{told}");
    }
    let unknown = chatcron(&world, &["backfill", "loook", "--from", "2d", "--to", "1d"]);
    let told = String::from_utf8(unknown.stderr).unwrap();
    assert!(told.contains("look"), "{told}");
}

#[tokio::test]
async fn two_who_ask_for_the_same_slots_at_once_get_one_run_of_each() {
    let (agent, channel) = (fails_on_the_second_run(), TestChannel::keyed());
    let world = a_week(&agent, &channel).await;
    assert!(chatcron(&world, &["accept-clock"]).status.success());
    let (from, to) = (day(10).to_string(), day(5).to_string());
    let week = ["look", "--from", &from, "--to", &to];
    let told: Vec<String> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..6)
            .map(|_| scope.spawn(|| backfill(&world, &week)))
            .collect();
        asked
            .into_iter()
            .map(|asked| asked.join().unwrap())
            .collect()
    });
    let followed = told
        .iter()
        .filter(|told| told.contains("3 of 5 slots of look run again"));
    assert_eq!(followed.count(), 1, "{told:#?}");
    world
        .clock
        .set(&(SystemClock.now() + SignedDuration::from_secs(1)).to_string());
    let mut worker = world.start().await;
    worker.until_quiet().await.unwrap();
    let runs = world.runs().await;
    let again = runs.iter().filter(|run| run.cause == Cause::Backfill);
    assert_eq!(again.count(), 3);
}

/// Somebody else may have decided about the job between the look at its records and the request.
#[tokio::test]
async fn a_change_of_what_was_looked_at_is_not_made_at_another_version() {
    let (agent, channel) = (fails_on_the_second_run(), TestChannel::keyed());
    let world = a_week(&agent, &channel).await;
    let look: JobId = "look".parse().unwrap();
    let stored = world
        .store
        .jobs(std::slice::from_ref(&look))
        .await
        .unwrap()
        .remove(0);
    let pause = || OwnedEvent::Paused {
        reason: "wait".to_owned(),
    };
    let now = world.clock.now();
    let first = Change::new(look.clone(), pause()).if_at(stored.version);
    assert!(world.decider().apply(&[first], now).await.unwrap()[0].is_ok());
    let second = Change::new(look.clone(), pause()).if_at(stored.version);
    let answers = world.decider().apply(&[second], now).await.unwrap();
    assert_eq!(answers[0], Err(ChangeError::Outdated { job_id: look }));
}
