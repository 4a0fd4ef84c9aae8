//! Clocks that are wrong and put right: nothing fires twice, and nothing falls silent.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/world.rs"]
mod world;

use std::collections::BTreeSet;

use chatcron::{
    clock::Clock,
    store::RunFilter,
    worker::{Worker, clock_doubt},
};
use jiff::Timestamp;
use world::{ME, TestAgent, TestChannel, World};

const JOBS: &str = r#"
timezone = "Europe/Berlin"

[jobs.morning]
daily   = "08:00"
prompt  = "morning"
deliver = "me"

[jobs.often]
every   = "30m"
anchor  = "2026-01-01T00:00"
prompt  = "often"
deliver = "history"
"#;

async fn world(now: &str) -> World {
    World::in_my_chat(JOBS, now, TestAgent::echo(), TestChannel::keyed()).await
}

/// Lets the worker do everything that comes due, as time passes.
async fn live(world: &World, worker: &mut Worker, to: &str) {
    let to: Timestamp = to.parse().unwrap();
    loop {
        let next = worker.until_quiet().await.unwrap();
        let Some(next) = next.filter(|next| *next < to) else {
            break;
        };
        world.clock.move_to(next.max(world.clock.now()));
    }
    world.clock.move_to(to);
    worker.until_quiet().await.unwrap();
}

/// The slots of a job that ran, each once, and all that it has recorded.
async fn ran(world: &World, job: &str) -> BTreeSet<String> {
    let filter = RunFilter {
        job_id: Some(job.parse().unwrap()),
        ..RunFilter::default()
    };
    let mut slots = BTreeSet::new();
    for run in world.store.runs(&filter).await.unwrap() {
        if run.run_id.is_some() {
            assert!(
                slots.insert(run.slot.unwrap().to_string()),
                "a slot has two runs"
            );
        }
    }
    slots
}

async fn assert_in_order(world: &World) {
    let report = world.store.audit(None).await.unwrap();
    assert!(report.holds(), "{:#?}", report.findings);
}

fn day(day: u32) -> String {
    format!("2026-12-{day:02}T08:00:00[Europe/Berlin]")
}

#[tokio::test]
async fn a_clock_that_is_set_back_an_hour_fires_nothing_twice_and_silences_nothing() {
    for (back, name) in [("06:35:00", "under an hour"), ("04:40:00", "over an hour")] {
        let world = world("2026-12-01T06:00:00Z").await;
        let mut worker = world.start().await;
        live(&world, &mut worker, "2026-12-01T07:31:00Z").await;
        let before = ran(&world, "often").await;
        world.clock.step(&format!("2026-12-01T{back}Z"));
        live(&world, &mut worker, "2026-12-01T07:31:00Z").await;
        assert_eq!(
            ran(&world, "often").await.len() - before.len(),
            match name {
                // What has a record does not come again; from before it was first seen three have none.
                "under an hour" => 0,
                _ => 3,
            }
        );
        live(&world, &mut worker, "2026-12-02T08:00:00Z").await;
        let morning = ran(&world, "morning").await;
        assert_eq!(morning, BTreeSet::from([day(1), day(2)]), "{name}");
        assert_in_order(&world).await;
    }
}

#[tokio::test]
async fn a_clock_that_jumps_by_years_starts_nothing_until_it_is_put_right() {
    let world = world("2026-12-01T06:00:00Z").await;
    let mut worker = world.start().await;
    live(&world, &mut worker, "2026-12-01T08:00:00Z").await;
    let before = (ran(&world, "often").await, ran(&world, "morning").await);
    world.clock.step("2036-12-01T09:00:00Z");
    live(&world, &mut worker, "2036-12-01T20:00:00Z").await;
    assert_eq!(worker.until_quiet().await.unwrap(), None, "nothing is due");
    let after = (ran(&world, "often").await, ran(&world, "morning").await);
    assert_eq!(before, after, "nothing starts, and nothing is recorded");
    world.clock.step("2026-12-01T19:00:00Z");
    live(&world, &mut worker, "2026-12-02T08:00:00Z").await;
    assert_eq!(
        ran(&world, "morning").await,
        BTreeSet::from([day(1), day(2)])
    );
    assert!(ran(&world, "often").await.len() > before.0.len() + 20);
    assert_in_order(&world).await;
}

#[tokio::test]
async fn what_an_agent_answers_while_the_clock_is_doubted_is_kept_until_it_is_right() {
    let agent = TestAgent::echo();
    let world = world("2026-12-01T06:00:00Z")
        .await
        .with_agent("main", agent.clone());
    let mut worker = world.start().await;
    agent.close();
    world.clock.set("2026-12-01T07:00:00Z");
    worker.step().await.unwrap();
    agent.until_asked(2).await;
    world.clock.step("2036-12-01T07:00:00Z");
    agent.open();
    worker.until_quiet().await.unwrap();
    assert!(world.runs().await.iter().any(|run| run.state == "running"));
    world.clock.step("2026-12-01T07:01:00Z");
    worker.until_quiet().await.unwrap();
    let runs = world.runs().await;
    assert!(runs.iter().all(|run| run.state != "running"), "{runs:#?}");
    assert_eq!(world.transcript("me").await, ["morning"]);
    assert_in_order(&world).await;
}

#[tokio::test]
async fn a_clock_that_is_confirmed_is_believed_and_downtime_is_caught_up_with() {
    let world = world("2026-12-01T06:00:00Z").await;
    let mut worker = world.start().await;
    live(&world, &mut worker, "2026-12-01T08:00:00Z").await;
    let before = ran(&world, "often").await.len();
    world.clock.step("2026-12-05T07:10:00Z");
    worker.until_quiet().await.unwrap();
    assert_eq!(ran(&world, "often").await.len(), before);
    // As `chatcron accept-clock` does, from another process.
    world.store.see_clock(world.clock.now()).await.unwrap();
    live(&world, &mut worker, "2026-12-05T07:12:00Z").await;
    assert_eq!(
        ran(&world, "morning").await,
        BTreeSet::from([day(1), day(5)]),
        "the newest slot is made up for"
    );
    assert_in_order(&world).await;
}

#[tokio::test]
async fn a_start_more_than_a_day_after_the_last_one_is_doubted_and_one_within_a_day_is_not() {
    let world = world("2026-12-01T06:00:00Z").await;
    let doubt = async |now: &str| {
        clock_doubt(&*world.store, now.parse().unwrap())
            .await
            .unwrap()
    };
    assert_eq!(
        doubt("2036-01-01T00:00:00Z").await,
        None,
        "nothing is known yet"
    );
    drop(world.start().await);
    assert_eq!(doubt("2026-12-02T06:00:00Z").await, None);
    assert!(doubt("2026-12-02T06:00:01Z").await.is_some());
    assert_eq!(doubt("2016-12-01T06:00:00Z").await, None, "it is behind");
    world
        .store
        .see_clock("2026-12-03T00:00:00Z".parse().unwrap())
        .await
        .unwrap();
    assert_eq!(doubt("2026-12-03T06:00:00Z").await, None);
}

/// The first boot of a machine whose clock says 2036; then it is put right.
#[tokio::test]
async fn a_database_that_was_made_by_a_wrong_clock_goes_on_when_it_is_put_right() {
    let world = world("2036-05-01T05:00:00Z").await;
    let mut worker = world.start().await;
    live(&world, &mut worker, "2036-05-02T12:10:00Z").await;
    let then = ran(&world, "morning").await;
    assert_eq!(then.len(), 2);
    // While it runs.
    world.clock.step("2026-12-01T06:00:00Z");
    live(&world, &mut worker, "2026-12-02T08:00:00Z").await;
    let mut expected = then.clone();
    expected.extend([day(1), day(2)]);
    assert_eq!(ran(&world, "morning").await, expected);
    assert_in_order(&world).await;
    // And while it was down.
    drop(worker);
    world.clock.set("2026-12-02T05:00:00Z");
    let mut worker = world.start().await;
    live(&world, &mut worker, "2026-12-03T08:00:00Z").await;
    expected.insert(day(3));
    assert_eq!(ran(&world, "morning").await, expected);
    assert_in_order(&world).await;
}

/// The wrong clock was confirmed: what it left stands, and what comes after is as it should be.
#[tokio::test]
async fn slots_that_a_wrong_clock_left_with_a_record_do_not_come_again() {
    let world = world("2026-12-01T06:00:00Z").await;
    let mut worker = world.start().await;
    live(&world, &mut worker, "2026-12-01T08:00:00Z").await;
    // Ahead by twenty hours, which is believed.
    world.clock.step("2026-12-02T05:00:00Z");
    live(&world, &mut worker, "2026-12-02T08:00:00Z").await;
    world.clock.step("2026-12-01T12:10:00Z");
    worker.until_quiet().await.unwrap();
    let jobs = world.store.all_jobs().await.unwrap();
    assert!(jobs.iter().all(|job| !job.state.accounted.is_empty()));
    let before = ran(&world, "often").await;
    live(&world, &mut worker, "2026-12-02T07:45:00Z").await;
    assert_eq!(
        ran(&world, "often").await,
        before,
        "all of them have records"
    );
    live(&world, &mut worker, "2026-12-03T08:00:00Z").await;
    assert_eq!(
        ran(&world, "morning").await,
        BTreeSet::from([day(1), day(2), day(3)])
    );
    let jobs = world.store.all_jobs().await.unwrap();
    assert!(jobs.iter().all(|job| job.state.accounted.is_empty()));
    assert_in_order(&world).await;
}

#[tokio::test]
async fn an_edit_while_a_clock_is_put_right_leaves_a_ledger_in_order() {
    let mut world = world("2026-12-01T06:00:00Z").await;
    let mut worker = world.start().await;
    live(&world, &mut worker, "2026-12-01T08:00:00Z").await;
    world.clock.step("2026-12-02T05:00:00Z");
    live(&world, &mut worker, "2026-12-02T08:00:00Z").await;
    world.clock.step("2026-12-01T12:10:00Z");
    let twice = JOBS.replace("\"08:00\"", "[\"08:00\", \"09:00\"]");
    world.edit(&format!("{twice}{ME}"));
    world.apply().await;
    live(&world, &mut worker, "2026-12-03T08:30:00Z").await;
    let ran = ran(&world, "morning").await;
    let nine = |day: u32| format!("2026-12-{day:02}T09:00:00[Europe/Berlin]");
    // The slot of the second has its record from the wrong clock, by the old definition.
    let expected = [day(1), day(2), nine(2), day(3), nine(3)];
    assert_eq!(ran, BTreeSet::from(expected));
    assert_in_order(&world).await;
}
