//! Results that are shown long after their slot: they say so, or are withheld.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/world.rs"]
mod world;

use chatcron::store::OutboxScope;
use world::{Does, TestAgent, TestChannel, World, words};

fn jobs(more: &str) -> String {
    format!(
        r#"
timezone = "Europe/Berlin"
[jobs.report]
daily = "08:00"
prompt = "Report."
deliver = "me"
catch_up_spread = "0s"
{more}
[chats.me]
channel = "phone"
[channels.phone]
kind = "console"
[agents.main]
kind = "echo"
"#
    )
}

/// Before the slot of 08:00, which is 07:00 UTC.
const MORNING: &str = "2026-12-01T06:00:00Z";

async fn world(jobs: &str, answer: &'static str, channel: &TestChannel) -> World {
    World::new(jobs, MORNING)
        .await
        .with_agent("main", TestAgent::scripted(move |_| Ok(words(answer))))
        .with_channel("phone", channel.clone())
}

async fn codes(world: &World) -> Vec<String> {
    let run = world.runs().await.remove(0).run_id.unwrap();
    let rows = world.store.diagnostics(run).await.unwrap();
    rows.into_iter().map(|row| row.code).collect()
}

#[tokio::test]
async fn a_result_caught_up_long_after_its_slot_says_so_in_its_first_line() {
    for (at, shown, noted) in [
        ("2026-12-01T10:00:00Z", "All is well.", vec![]),
        (
            "2026-12-01T10:00:01Z",
            "(late: this was due Tue 2026-12-01 08:00)\nAll is well.",
            vec!["late".to_owned()],
        ),
    ] {
        let channel = TestChannel::keyed();
        let world = world(&jobs(""), "All is well.", &channel).await;
        drop(world.start().await);
        world.clock.set(at);
        let mut worker = world.start().await;
        worker.until_quiet().await.unwrap();
        assert_eq!(world.transcript("me").await, [shown], "{at}");
        assert_eq!(codes(&world).await, noted, "{at}");
        world.assert_verified(&channel, &["me"]).await;
    }
}

#[tokio::test]
async fn the_label_has_room_in_the_first_part_and_stands_in_no_other() {
    let channel = TestChannel::keyed().with_limit(100);
    let answer = "One sentence that is long enough. And another one that has to go elsewhere. \
                  And a third one, which is there to fill the second part of it all.";
    assert!(answer.len() > 100 && "(late: this was due Tue 2026-12-01 08:00)".len() < 50);
    let world = world(&jobs(""), answer, &channel).await;
    drop(world.start().await);
    world.clock.set("2026-12-01T12:00:00Z");
    let mut worker = world.start().await;
    worker.until_quiet().await.unwrap();
    let shown = world.transcript("me").await;
    assert!(shown[0].starts_with("(late: this was due Tue 2026-12-01 08:00)\nOne"));
    assert!(
        shown.iter().all(|part| part.encode_utf16().count() <= 100),
        "{shown:?}"
    );
    assert_eq!(
        shown.iter().filter(|part| part.contains("(late:")).count(),
        1
    );
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn a_result_that_was_in_time_at_its_first_try_is_the_same_at_every_later_one() {
    let channel = TestChannel::keyed();
    channel.will([Does::Refuse(4 * 3600)]);
    let world = world(&jobs(""), "All is well.", &channel).await;
    let mut worker = world.start().await;
    world.run_at(&mut worker, "2026-12-01T07:00:00Z").await;
    world.run_at(&mut worker, "2026-12-01T11:00:00Z").await;
    assert_eq!(world.transcript("me").await, ["All is well."]);
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn a_labelled_part_that_is_tried_again_has_its_label_once() {
    let channel = TestChannel::keyed();
    channel.will([Does::Refuse(1), Does::ShowAndLose]);
    let world = world(&jobs(""), "All is well.", &channel).await;
    drop(world.start().await);
    world.clock.set("2026-12-01T12:00:00Z");
    let mut worker = world.start().await;
    worker.until_quiet().await.unwrap();
    for at in ["2026-12-01T12:00:05Z", "2026-12-01T12:10:00Z"] {
        world.run_at(&mut worker, at).await;
    }
    assert_eq!(
        world.transcript("me").await,
        ["(late: this was due Tue 2026-12-01 08:00)\nAll is well."]
    );
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn a_late_result_that_is_to_be_withheld_is_not_sent_and_the_run_says_so() {
    let channel = TestChannel::keyed().with_limit(20);
    let world = world(
        &jobs("late = \"withhold\"\nlate_after = \"90m\""),
        "One sentence. And another one, which is longer.",
        &channel,
    )
    .await;
    drop(world.start().await);
    world.clock.set("2026-12-01T09:00:00Z");
    let mut worker = world.start().await;
    worker.until_quiet().await.unwrap();
    let parts = world.store.outbox(OutboxScope::All).await.unwrap();
    assert!(parts.len() > 1);
    for part in parts {
        assert_eq!(part.reason.as_deref(), Some("late"));
    }
    assert_eq!(channel.attempts(), 0);
    assert_eq!(world.transcript("me").await, Vec::<String>::new());
    assert_eq!(codes(&world).await, ["late"]);
    assert_eq!(world.runs().await[0].state, "done");
    // The next one is in time, and nothing stands in its way.
    world.run_at(&mut worker, "2026-12-02T07:00:00Z").await;
    assert!(!world.transcript("me").await.is_empty());
    world.assert_verified(&channel, &["me"]).await;
}
