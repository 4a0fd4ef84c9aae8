//! New zone data moves a slot, before and after it was accounted for: it runs once.
//!
//! What older data would have left is written into the database by hand; the data in use is then
//! the new one.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/world.rs"]
mod world;

use chatcron::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
use world::{TestAgent, TestChannel, World};

/// 08:00 in Berlin is 07:00 in UTC on this day, by the data in use.
const JOBS: &str = r#"
[jobs.report]
daily    = "08:00"
timezone = "Europe/Berlin"
prompt   = "Report."
deliver  = "me"
"#;

const BEFORE: &str = "2026-12-01T04:00:00Z";
const SLOT: &str = "2026-12-01T07:00:00Z";
const NEXT_SLOT: &str = "2026-12-02T07:00:00Z";

async fn world() -> (World, TestChannel) {
    let channel = TestChannel::keyed();
    let world = World::in_my_chat(JOBS, BEFORE, TestAgent::echo(), channel.clone()).await;
    (world, channel)
}

fn micros(at: &str) -> i64 {
    at.parse::<Timestamp>().unwrap().as_microsecond()
}

/// Makes the database one that a worker with older zone data has left.
async fn as_by_older_data(world: &World, more: String) {
    let options = SqliteConnectOptions::new().filename(world.database());
    let mut conn = options.connect().await.unwrap();
    let sql = format!(
        "UPDATE facts SET value = 'older' WHERE name = 'zone_data';
         UPDATE plan_stretches SET zone_data = 'older'; {more}"
    );
    let sql = sqlx::AssertSqlSafe(sql);
    sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
}

async fn assert_one_run_a_slot(world: &World, channel: &TestChannel, slots: usize) {
    let runs = world.runs().await;
    let mut named: Vec<_> = runs.iter().map(|run| run.slot.clone().unwrap()).collect();
    named.dedup();
    assert_eq!((runs.len(), named.len()), (slots, slots));
    assert!(runs.iter().all(|run| run.state == "done"));
    world.assert_verified(channel, &["me"]).await;
    let audit = world.store.audit(None).await.unwrap();
    assert!(audit.holds(), "{audit:#?}");
}

#[tokio::test]
async fn a_slot_that_moves_before_it_was_accounted_for_runs_once_at_its_new_instant() {
    for (woken_at, known_at, ran_at) in [
        // The older data had it an hour earlier, and an hour later.
        ("2026-12-01T06:00:00Z", "2026-12-01T05:00:00Z", SLOT),
        ("2026-12-01T08:00:00Z", "2026-12-01T05:00:00Z", SLOT),
        // The new data is known only when the new instant has passed.
        (
            "2026-12-01T08:00:00Z",
            "2026-12-01T07:20:00Z",
            "2026-12-01T07:20:00Z",
        ),
    ] {
        let (world, channel) = world().await;
        drop(world.start().await);
        let woken_at = micros(woken_at);
        as_by_older_data(&world, format!("UPDATE jobs SET wake_at = {woken_at};")).await;
        world.clock.set(known_at);
        let mut worker = world.start().await;
        for _ in 0..48 {
            worker.until_quiet().await.unwrap();
            world.clock.advance(SignedDuration::from_mins(5));
        }
        assert_one_run_a_slot(&world, &channel, 1).await;
        let started = world.runs().await[0].started_at.unwrap();
        let late = started.duration_since(ran_at.parse().unwrap());
        assert!(
            !late.is_negative() && late.as_mins() <= 5,
            "started {started}"
        );
    }
}

#[tokio::test]
async fn a_slot_that_moves_after_it_was_accounted_for_does_not_run_again() {
    // The older data had it an hour earlier, and an hour later; it is known half an hour after that.
    for (nominal, known_at) in [
        ("2026-12-01T06:00:00Z", "2026-12-01T06:30:00Z"),
        ("2026-12-01T08:00:00Z", "2026-12-01T08:30:00Z"),
    ] {
        let (world, channel) = world().await;
        let mut worker = world.start().await;
        world.run_at(&mut worker, SLOT).await;
        assert_one_run_a_slot(&world, &channel, 1).await;
        drop(worker);
        let at = micros(nominal);
        let moved = format!(
            "UPDATE occurrences SET nominal_at = {at}, fire_at = {at};
             UPDATE jobs SET state = json_set(state, '$.cursor', '{nominal}');"
        );
        as_by_older_data(&world, moved).await;
        world.clock.set(known_at);
        let mut worker = world.start().await;
        worker.until_quiet().await.unwrap();
        for at in [SLOT, "2026-12-01T08:45:00Z", "2026-12-01T20:00:00Z"] {
            if world.clock.now() < at.parse().unwrap() {
                world.run_at(&mut worker, at).await;
            }
        }
        assert_one_run_a_slot(&world, &channel, 1).await;
        world.run_at(&mut worker, NEXT_SLOT).await;
        assert_one_run_a_slot(&world, &channel, 2).await;
    }
}

#[tokio::test]
async fn a_skipped_slot_that_moves_past_the_end_of_its_range_does_not_run() {
    let jobs = JOBS.replace("prompt ", "catch_up = \"none\"\nprompt ");
    let channel = TestChannel::keyed();
    let world = World::in_my_chat(
        &jobs,
        "2026-11-29T20:00:00Z",
        TestAgent::echo(),
        channel.clone(),
    )
    .await;
    drop(world.start().await);
    world.clock.set("2026-12-01T07:10:00Z");
    drop(world.start().await);
    let mut worker = world.start().await;
    worker.until_quiet().await.unwrap();
    drop(worker);
    // The older data had both of the skipped slots an hour earlier.
    let hour = 3_600_000_000_i64;
    let moved = format!(
        "UPDATE occurrence_ranges SET first_nominal_at = first_nominal_at - {hour},
           last_nominal_at = last_nominal_at - {hour};
         UPDATE jobs SET state = json_set(state, '$.cursor', '2026-12-01T06:00:00Z');"
    );
    as_by_older_data(&world, moved).await;
    world.clock.set("2026-12-01T06:30:00Z");
    let mut worker = world.start().await;
    world.run_at(&mut worker, SLOT).await;
    world.run_at(&mut worker, "2026-12-01T20:00:00Z").await;
    assert_one_run_a_slot(&world, &channel, 0).await;
    world.run_at(&mut worker, NEXT_SLOT).await;
    assert_one_run_a_slot(&world, &channel, 1).await;
}
