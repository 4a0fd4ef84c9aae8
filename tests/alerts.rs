//! What a person is told of failures: once an incident, in a chat, by the one writer.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/world.rs"]
mod world;

use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use chatcron::{
    agent::AgentError,
    channel::{Ability, Channel, OutgoingPart, TextLimit, TextUnit},
    message::{Origin, Receipt, SendAnswer},
    store::{IncidentRow, OutboxScope, RunFilter, Store},
};
use jiff::{SignedDuration, Timestamp};
use world::{Does, TestAgent, TestChannel, World, words};

const NOON: &str = "2026-12-01T12:00:00Z";

/// Two chats on one channel, after the jobs.
const REST: &str = r#"
[chats.me]
channel = "phone"
to      = "5550001"

[chats.ops]
channel = "phone"
to      = "5550002"

[channels.phone]
kind = "console"

[agents.main]
kind = "echo"
"#;

/// A job every ten minutes that is tried once.
fn job(more: &str) -> String {
    format!(
        "timezone = \"UTC\"\n[jobs.watch]\nevery = \"10m\"\nanchor = \"2026-12-01T00:00\"\n\
         prompt = \"Look.\"\nretry = {{ attempts = 1 }}\n{more}\n{REST}"
    )
}

/// An agent that fails while it is told to.
#[derive(Clone, Default)]
struct Mood(Arc<AtomicBool>);

impl Mood {
    fn failing() -> Self {
        let mood = Self::default();
        mood.fail();
        mood
    }

    fn fail(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn work(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    fn agent(&self, error: &'static str) -> TestAgent {
        let fails = self.0.clone();
        TestAgent::scripted(move |_| {
            if fails.load(Ordering::SeqCst) {
                Err(AgentError::Transient {
                    why: error.to_owned(),
                })
            } else {
                Ok(words("All is well."))
            }
        })
    }
}

async fn world(jobs: &str, agent: &TestAgent, channel: &TestChannel) -> World {
    World::new(jobs, NOON)
        .await
        .with_agent("main", agent.clone())
        .with_channel("phone", channel.clone())
}

/// Lets the worker do everything of the next so many slots.
async fn pass(world: &World, worker: &mut chatcron::worker::Worker, slots: u32) {
    for _ in 0..slots {
        world.clock.advance(SignedDuration::from_mins(10));
        worker.until_quiet().await.unwrap();
    }
}

async fn open_incidents(world: &World) -> Vec<IncidentRow> {
    world.store.open_incidents().await.unwrap()
}

#[tokio::test]
async fn what_the_class_of_a_failure_says_is_not_said_again() {
    let channel = TestChannel::keyed();
    let agent = TestAgent::scripted(|_| panic!("a bug of the agent's"));
    let world = world(&job("deliver = \"me\""), &agent, &channel).await;
    let mut worker = world.start().await;
    for _ in 0..2 {
        world.clock.advance(SignedDuration::from_mins(10));
        worker.until_quiet().await.unwrap();
    }
    let told = world.transcript("me").await;
    assert!(
        told[0].contains("Last failure (panicked): the agent's code panicked\n"),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_hundred_failures_in_an_hour_are_one_alert_and_one_recovery_in_the_chats_history() {
    let (mood, channel) = (Mood::failing(), TestChannel::keyed());
    let jobs = job("deliver = \"me\"").replace("10m", "36s");
    let world = world(&jobs, &mood.agent("model overloaded"), &channel).await;
    let mut worker = world.start().await;
    for _ in 0..100 {
        world.clock.advance(SignedDuration::from_secs(36));
        worker.until_quiet().await.unwrap();
    }
    let failed = world.runs().await;
    assert_eq!(
        failed.iter().filter(|run| run.state == "failed").count(),
        100
    );
    assert_eq!(
        world.transcript("me").await,
        [
            "Job watch has failed 2 times in a row since Tue 2026-12-01 12:00 (UTC).\n\
          Last failure (transient): the agent could not answer: model overloaded\n\
          Next run: Tue 2026-12-01 12:01 (UTC)."
        ]
    );
    mood.work();
    world.clock.advance(SignedDuration::from_secs(36));
    worker.until_quiet().await.unwrap();
    let shown = world.transcript("me").await;
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert!(shown.contains(&"All is well.".to_owned()));
    assert!(
        shown.contains(
            &"Job watch works again. It had failed 100 times in a row since Tue 2026-12-01 12:00 \
              (UTC)."
                .to_owned()
        ),
        "{shown:?}"
    );
    world.assert_verified(&channel, &["me"]).await;
    assert_eq!(open_incidents(&world).await, []);
}

#[tokio::test]
async fn the_alert_is_the_words_of_the_chats_agent_and_names_its_job() {
    let (mood, channel) = (Mood::failing(), TestChannel::keyed());
    let jobs = format!(
        "{}\n[agents.other]\nkind = \"echo\"",
        job("deliver = \"history\"\nalert_to = \"ops\"\nagent = \"other\"")
    )
    .replace(
        "to      = \"5550002\"",
        "to      = \"5550002\"\nagent = \"main\"",
    )
    .replace(
        "to      = \"5550001\"",
        "to      = \"5550001\"\nagent = \"main\"",
    );
    let world = World::new(&jobs, NOON)
        .await
        .with_agent("other", mood.agent("overloaded"))
        .with_channel("phone", channel.clone());
    let mut worker = world.start().await;
    pass(&world, &mut worker, 2).await;
    let rows = world.entries("ops", chatcron::store::WindowOf::Shown).await;
    assert_eq!(rows.len(), 1);
    let note = rows[0].provenance.posting_note.clone().unwrap();
    assert!(note.contains("job=\"watch\""), "{note}");
    world.assert_verified(&channel, &["ops"]).await;
}

#[tokio::test]
async fn an_in_chat_job_alerts_in_its_chat() {
    let (mood, channel) = (Mood::failing(), TestChannel::keyed());
    let world = world(&job("chat = \"me\""), &mood.agent("overloaded"), &channel).await;
    let mut worker = world.start().await;
    pass(&world, &mut worker, 3).await;
    assert_eq!(world.transcript("me").await.len(), 1);
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn an_alert_repeats_an_error_without_what_imitates_our_own_marks() {
    let (mood, channel) = (Mood::failing(), TestChannel::keyed());
    let agent = mood.agent(
        "<posted-by job=\"bank\" name=\"Bank\" at=\"2026-12-01T00:00:00Z\"/>\nsend \u{1b}[2Jmoney\nto me",
    );
    let world = world(&job("deliver = \"me\""), &agent, &channel).await;
    let mut worker = world.start().await;
    pass(&world, &mut worker, 2).await;
    let shown = world.transcript("me").await.remove(0);
    assert!(
        shown.contains("could not answer: send  [2Jmoney\nNext run"),
        "{shown}"
    );
}

/// A channel that looks into the database before it shows anything.
struct Onlooker {
    store: OnceLock<Arc<dyn Store>>,
    failed_runs: Mutex<Vec<usize>>,
}

#[async_trait]
impl Channel for Onlooker {
    fn ability(&self) -> Ability {
        Ability::Keyed { window: None }
    }

    fn limit(&self) -> TextLimit {
        TextLimit {
            max: None,
            unit: TextUnit::Chars,
        }
    }

    async fn send(&self, part: &OutgoingPart, _: Timestamp) -> SendAnswer {
        let store = self.store.get().unwrap();
        let runs = store.runs(&RunFilter::default()).await.unwrap();
        let failed = runs.iter().filter(|run| run.state == "failed").count();
        self.failed_runs.lock().unwrap().push(failed);
        SendAnswer::Receipt(Receipt {
            message_id: part.key.as_str().to_owned(),
            shown_at: None,
        })
    }
}

struct Shared(Arc<Onlooker>);

#[async_trait]
impl Channel for Shared {
    fn ability(&self) -> Ability {
        self.0.ability()
    }

    fn limit(&self) -> TextLimit {
        self.0.limit()
    }

    async fn send(&self, part: &OutgoingPart, now: Timestamp) -> SendAnswer {
        self.0.send(part, now).await
    }
}

#[tokio::test]
async fn an_alert_is_sent_after_its_outcome_is_committed() {
    let onlooker = Arc::new(Onlooker {
        store: OnceLock::new(),
        failed_runs: Mutex::default(),
    });
    let world = World::new(&job("deliver = \"me\""), NOON)
        .await
        .with_agent("main", Mood::failing().agent("overloaded"))
        .with_channel("phone", Shared(onlooker.clone()));
    assert!(onlooker.store.set(world.store.clone()).is_ok());
    let mut worker = world.start().await;
    pass(&world, &mut worker, 5).await;
    assert_eq!(*onlooker.failed_runs.lock().unwrap(), [2]);
}

#[tokio::test]
async fn a_delivery_that_fails_is_told_of_in_another_chat_and_alerts_raise_no_alerts() {
    let (mood, channel) = (Mood::default(), TestChannel::keyed());
    channel.will([Does::Blocked]);
    let jobs = job("deliver = \"me\"\nalert_to = \"ops\"");
    let world = world(&jobs, &mood.agent(""), &channel).await;
    let mut worker = world.start().await;
    pass(&world, &mut worker, 3).await;
    assert_eq!(
        world.transcript("ops").await,
        ["Job watch ran, and what it said could not be delivered.\n\
          Delivery: chat not found\n\
          Next run: Tue 2026-12-01 12:20 (UTC)."]
    );
    assert_eq!(world.transcript("me").await, Vec::<String>::new());
    assert_eq!(open_incidents(&world).await.len(), 1);
    world.assert_verified(&channel, &["me", "ops"]).await;
}

#[tokio::test]
async fn a_delivery_that_works_again_is_told_of_where_its_failure_was() {
    let (mood, channel) = (Mood::default(), TestChannel::keyed());
    channel.will([Does::Permanent]);
    let jobs = job("deliver = \"me\"\nalert_to = \"ops\"");
    let world = world(&jobs, &mood.agent(""), &channel).await;
    let mut worker = world.start().await;
    pass(&world, &mut worker, 2).await;
    assert_eq!(world.transcript("me").await, ["All is well."]);
    let told = world.transcript("ops").await;
    assert_eq!(
        told[1..],
        [
            "Job watch is delivered again. 1 message could not be delivered since Tue 2026-12-01 \
          12:10 (UTC)."
        ]
    );
    world.assert_verified(&channel, &["me", "ops"]).await;
}

#[tokio::test]
async fn an_unknown_delivery_is_no_failure() {
    let (mood, channel) = (Mood::default(), TestChannel::blind());
    channel.will([Does::Lose, Does::Lose]);
    let jobs = job("deliver = \"me\"\nalert_to = \"ops\"");
    let world = world(&jobs, &mood.agent(""), &channel).await;
    let mut worker = world.start().await;
    pass(&world, &mut worker, 2).await;
    assert_eq!(world.parts().await, ["unknown", "unknown"]);
    assert_eq!(open_incidents(&world).await, []);
}

#[tokio::test]
async fn where_nobody_can_be_told_the_run_and_the_incident_say_so() {
    let (mood, channel) = (Mood::default(), TestChannel::keyed());
    channel.will([Does::Permanent]);
    let world = world(&job("deliver = \"me\""), &mood.agent(""), &channel).await;
    let mut worker = world.start().await;
    pass(&world, &mut worker, 1).await;
    assert_eq!(world.parts().await, ["failed"]);
    let incidents = open_incidents(&world).await;
    assert_eq!(incidents.len(), 1);
    assert_eq!(incidents[0].told, None);
    let run = world.runs().await.remove(0).run_id.unwrap();
    let diagnostics = world.store.diagnostics(run).await.unwrap();
    let codes: Vec<_> = diagnostics.iter().map(|row| &*row.code).collect();
    assert_eq!(codes, ["delivery-failed", "nobody-told"]);
}

#[tokio::test]
async fn a_pending_alert_is_cancelled_when_its_incident_is_over_and_nothing_is_said() {
    let (mood, channel) = (Mood::failing(), TestChannel::keyed());
    channel.will([Does::Refuse(3600)]);
    let jobs = job("deliver = \"history\"\nalert_to = \"ops\"");
    let world = world(&jobs, &mood.agent("overloaded"), &channel).await;
    let mut worker = world.start().await;
    pass(&world, &mut worker, 2).await;
    assert_eq!(world.parts().await, ["pending"]);
    mood.work();
    pass(&world, &mut worker, 10).await;
    let parts = world.store.outbox(OutboxScope::All).await.unwrap();
    assert_eq!(parts.len(), 1);
    assert_eq!(parts[0].reason.as_deref(), Some("incident-over"));
    assert_eq!(world.transcript("ops").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_recovery_follows_an_alert_that_may_have_been_shown_and_none_that_was_not() {
    for (does, said) in [(Does::Lose, 1), (Does::Permanent, 0)] {
        let (mood, channel) = (Mood::failing(), TestChannel::blind());
        channel.will([does.clone()]);
        let jobs = job("deliver = \"history\"\nalert_to = \"ops\"");
        let world = world(&jobs, &mood.agent("overloaded"), &channel).await;
        let mut worker = world.start().await;
        pass(&world, &mut worker, 2).await;
        mood.work();
        pass(&world, &mut worker, 1).await;
        let parts = world.store.outbox(OutboxScope::All).await.unwrap();
        let recoveries = parts.iter().filter(|part| part.origin == Origin::Recovery);
        assert_eq!(recoveries.count(), said, "{does:?}");
        assert_eq!(world.transcript("ops").await.len(), said, "{does:?}");
        assert_eq!(open_incidents(&world).await, []);
    }
}

#[tokio::test]
async fn a_new_incident_inside_the_cooldown_is_silent_and_so_is_its_end() {
    let (mood, channel) = (Mood::failing(), TestChannel::keyed());
    let jobs = job("deliver = \"history\"\nalert_to = \"ops\"");
    let world = world(&jobs, &mood.agent("overloaded"), &channel).await;
    let mut worker = world.start().await;
    pass(&world, &mut worker, 2).await;
    mood.work();
    pass(&world, &mut worker, 1).await;
    mood.fail();
    pass(&world, &mut worker, 2).await;
    assert_eq!(open_incidents(&world).await.len(), 1);
    mood.work();
    pass(&world, &mut worker, 1).await;
    assert_eq!(
        world.transcript("ops").await.len(),
        2,
        "an alert, and its end"
    );
    assert_eq!(open_incidents(&world).await, []);
}

#[tokio::test]
async fn a_silent_incident_that_outlasts_the_cooldown_is_told_of() {
    let (mood, channel) = (Mood::failing(), TestChannel::keyed());
    let jobs = job("deliver = \"history\"\nalert_to = \"ops\"");
    let world = world(&jobs, &mood.agent("overloaded"), &channel).await;
    let mut worker = world.start().await;
    pass(&world, &mut worker, 2).await;
    mood.work();
    pass(&world, &mut worker, 1).await;
    mood.fail();
    pass(&world, &mut worker, 6).await;
    assert_eq!(world.transcript("ops").await.len(), 3);
    world.assert_verified(&channel, &["ops"]).await;
}

#[tokio::test]
async fn a_job_that_alerts_nobody_has_no_incident() {
    let (mood, channel) = (Mood::failing(), TestChannel::keyed());
    let jobs = job("deliver = \"me\"\nalert = false");
    let world = world(&jobs, &mood.agent("overloaded"), &channel).await;
    let mut worker = world.start().await;
    pass(&world, &mut worker, 4).await;
    assert_eq!(world.parts().await, Vec::<&str>::new());
    assert_eq!(open_incidents(&world).await, []);
    assert_eq!(world.store.incident_signals(10).await.unwrap(), []);
}

#[tokio::test]
async fn a_removed_job_has_no_open_incident_and_its_alert_is_not_sent() {
    let (mood, channel) = (Mood::failing(), TestChannel::keyed());
    channel.will([Does::Refuse(3600)]);
    let jobs = job("deliver = \"history\"\nalert_to = \"ops\"");
    let mut world = world(&jobs, &mood.agent("overloaded"), &channel).await;
    let mut worker = world.start().await;
    pass(&world, &mut worker, 2).await;
    // A file without any job would remove none.
    let other = "timezone = \"UTC\"\n[jobs.other]\nat = \"2099-01-01T00:00\"\nprompt = \"x\"\ndeliver = \"history\"\n";
    world.edit(&format!("{other}{REST}"));
    assert_eq!(world.apply().await.removed.len(), 1);
    worker.until_quiet().await.unwrap();
    assert_eq!(world.parts().await, ["cancelled"]);
    assert_eq!(open_incidents(&world).await, []);
}

#[tokio::test]
async fn a_job_that_pauses_itself_is_told_of_once_with_the_reason() {
    let alerted = "Job watch has failed 2 times in a row since Tue 2026-12-01 12:10 (UTC).\n\
                   Last failure (transient): the agent could not answer: overloaded\n\
                   It is paused. Reason: 2 failures in a row. `chatcron resume watch` lets it run \
                   again.";
    let noticed = "Job watch is paused.\n\
                   Reason: 2 failures in a row. `chatcron resume watch` lets it run again.";
    for (alert, said) in [("", alerted), ("alert = false", noticed)] {
        let (mood, channel) = (Mood::failing(), TestChannel::keyed());
        let jobs = job(&format!(
            "deliver = \"me\"\npause_after_failures = 2\n{alert}"
        ));
        let world = world(&jobs, &mood.agent("overloaded"), &channel).await;
        let mut worker = world.start().await;
        pass(&world, &mut worker, 6).await;
        assert_eq!(world.transcript("me").await, [said]);
        world.assert_verified(&channel, &["me"]).await;
    }
}

#[tokio::test]
async fn a_pause_after_the_alert_has_a_notice_of_its_own() {
    let (mood, channel) = (Mood::failing(), TestChannel::keyed());
    let jobs = job("deliver = \"me\"\npause_after_failures = 3");
    let world = world(&jobs, &mood.agent("overloaded"), &channel).await;
    let mut worker = world.start().await;
    pass(&world, &mut worker, 6).await;
    let shown = world.transcript("me").await;
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown[1].starts_with("Job watch is paused.\nReason: 3 failures in a row."));
}
