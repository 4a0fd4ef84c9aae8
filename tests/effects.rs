//! What an attempt has changed outside is not changed a second time by itself.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/world.rs"]
mod world;

use std::{
    collections::BTreeMap,
    future,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use chatcron::{
    agent::{
        Agent, AgentError, AgentReply, AgentTurn, EffectReporter, ReportError, command::Command,
    },
    directory::CommandAgent,
    worker::{Stop, Ticks, Worker, WorkerHandle},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use world::{TestChannel, World, texts, words};

const NOON: &str = "2026-12-01T12:00:00Z";
const SLOT: &str = "2026-12-01T13:00:00Z";

/// How an attempt ends after its effect.
#[derive(Debug, Clone, Copy)]
enum Then {
    Answers,
    Fails,
    FailsForGood,
    Hangs,
}

/// An agent that orders something whenever it is asked. What it ordered is kept outside.
#[derive(Clone)]
struct Shopper {
    reports: bool,
    then: Then,
    orders: watch::Sender<usize>,
    reporter: Arc<Mutex<Option<EffectReporter>>>,
}

impl Shopper {
    /// Says what it is about to do.
    fn honest(then: Then) -> Self {
        Self {
            reports: true,
            then,
            orders: watch::channel(0).0,
            reporter: Arc::default(),
        }
    }

    /// Changes nothing, and says nothing.
    fn harmless(then: Then) -> Self {
        Self {
            reports: false,
            ..Self::honest(then)
        }
    }

    /// The same, whose next attempt has an answer.
    fn that_answers(&self) -> Self {
        Self {
            then: Then::Answers,
            ..self.clone()
        }
    }

    fn orders(&self) -> usize {
        *self.orders.borrow()
    }

    async fn until_it_has_ordered(&self) {
        let mut orders = self.orders.subscribe();
        let ordered = orders.wait_for(|orders| *orders > 0);
        tokio::time::timeout(Duration::from_secs(10), ordered)
            .await
            .unwrap()
            .unwrap();
    }
}

#[async_trait]
impl Agent for Shopper {
    async fn reply(
        &self,
        turn: &AgentTurn,
        _: &CancellationToken,
    ) -> Result<AgentReply, AgentError> {
        *self.reporter.lock().unwrap() = Some(turn.effects.clone());
        if self.reports {
            turn.effects.report().await.unwrap();
        }
        self.orders.send_modify(|orders| *orders += 1);
        let why = "the shop does not answer".to_owned();
        match self.then {
            Then::Answers => Ok(words("ordered")),
            Then::Fails => Err(AgentError::Transient { why }),
            Then::FailsForGood => Err(AgentError::Permanent { why }),
            Then::Hangs => future::pending().await,
        }
    }
}

async fn world(more: &str, agent: &Shopper) -> (World, TestChannel) {
    let jobs = format!(
        r#"
timezone = "UTC"

[jobs.order]
daily   = "13:00"
prompt  = "Order milk."
deliver = "me"
timeout = "1m"
alert   = {{ after = 1 }}
{more}
"#
    );
    let channel = TestChannel::keyed();
    let world = World::in_my_chat(&jobs, NOON, agent.clone(), channel.clone()).await;
    (world, channel)
}

/// Lets everything come due that may, up to half an hour after the slot.
async fn half_an_hour(world: &World, worker: &mut Worker) {
    for minute in 0..30 {
        let at = format!("2026-12-01T13:{minute:02}:30Z");
        world.run_at(worker, &at).await;
    }
}

/// The only run: its state, its reason, and how many attempts it had.
async fn run(world: &World) -> (String, Option<String>, u32) {
    let mut runs = world.runs().await;
    assert_eq!(runs.len(), 1);
    let run = runs.remove(0);
    (run.state, run.reason, run.attempts)
}

fn ended(state: &str, reason: Option<&str>, attempts: u32) -> (String, Option<String>, u32) {
    (state.to_owned(), reason.map(str::to_owned), attempts)
}

#[tokio::test]
async fn an_attempt_that_reported_an_effect_and_failed_is_not_repeated_and_a_person_is_told() {
    let agent = Shopper::honest(Then::Fails);
    let (world, channel) = world("", &agent).await;
    let mut worker = world.start().await;
    world.run_at(&mut worker, SLOT).await;
    half_an_hour(&world, &mut worker).await;
    assert_eq!(agent.orders(), 1);
    assert_eq!(run(&world).await, ended("failed", Some("after-effects"), 1));
    let run_id = world.runs().await[0].run_id.unwrap();
    let attempts = world.store.attempts(run_id).await.unwrap();
    assert_eq!(attempts[0].effects_at, Some(SLOT.parse().unwrap()));
    assert_eq!(attempts[0].result.as_deref(), Some("failed:transient"));
    let told = world.transcript("me").await;
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("had effects already"), "{}", told[0]);
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn an_attempt_without_effects_is_repeated_as_ever() {
    let agent = Shopper::harmless(Then::Fails);
    let (world, _) = world("", &agent).await;
    let mut worker = world.start().await;
    world.run_at(&mut worker, SLOT).await;
    half_an_hour(&world, &mut worker).await;
    assert_eq!(run(&world).await, ended("failed", Some("transient"), 3));
    assert_eq!(agent.orders(), 3);
}

#[tokio::test]
async fn a_program_that_has_effects_is_run_once_and_another_again() {
    for (has_effects, reason, attempts) in [(true, "after-effects", 1), (false, "transient", 3)] {
        let (world, _) = world("", &Shopper::harmless(Then::Fails)).await;
        let folder = tempfile::tempdir().unwrap();
        let script = "echo ordered >> orders; exit 75".to_owned();
        let settings = CommandAgent {
            argv: vec!["sh".to_owned(), "-c".to_owned(), script],
            env: BTreeMap::new(),
            env_pass: Vec::new(),
            cwd: None,
            has_effects,
        };
        let program = Command::new(settings, None, folder.path().to_owned());
        let world = world.with_agent("main", program);
        let mut worker = world.start().await;
        world.run_at(&mut worker, SLOT).await;
        half_an_hour(&world, &mut worker).await;
        assert_eq!(run(&world).await, ended("failed", Some(reason), attempts));
        let orders = std::fs::read_to_string(folder.path().join("orders")).unwrap();
        assert_eq!(orders.lines().count(), usize::try_from(attempts).unwrap());
    }
}

#[tokio::test]
async fn a_job_may_ask_for_retries_after_effects() {
    let agent = Shopper::honest(Then::Fails);
    let (world, _) = world("retry_after_effects = true", &agent).await;
    let mut worker = world.start().await;
    world.run_at(&mut worker, SLOT).await;
    half_an_hour(&world, &mut worker).await;
    assert_eq!(run(&world).await, ended("failed", Some("transient"), 3));
    assert_eq!(agent.orders(), 3);
}

#[tokio::test]
async fn effects_are_no_failure_and_hide_none() {
    for (then, state, reason) in [
        (Then::Answers, "done", None),
        (Then::FailsForGood, "failed", Some("permanent")),
    ] {
        let agent = Shopper::honest(then);
        let (world, _) = world("", &agent).await;
        let mut worker = world.start().await;
        world.run_at(&mut worker, SLOT).await;
        assert_eq!(run(&world).await, ended(state, reason, 1), "{then:?}");
    }
}

#[tokio::test]
async fn a_run_that_was_killed_after_its_report_is_not_repeated() {
    for (more, orders, then) in [
        ("", 1, ended("failed", Some("after-effects"), 1)),
        ("retry_after_effects = true", 2, ended("done", None, 2)),
        (
            "on_interrupt = \"fail\"",
            1,
            ended("failed", Some("interrupted"), 1),
        ),
    ] {
        let agent = Shopper::honest(Then::Hangs);
        let (mut world, _) = world(more, &agent).await;
        let mut worker = world.start().await;
        world.clock.set(SLOT);
        worker.step().await.unwrap();
        agent.until_it_has_ordered().await;
        // Its process dies.
        drop(worker);
        world = world.with_agent("main", agent.that_answers());
        let mut worker = world.start().await;
        half_an_hour(&world, &mut worker).await;
        assert_eq!(agent.orders(), orders, "{more}");
        assert_eq!(run(&world).await, then, "{more}");
    }
}

#[tokio::test]
async fn a_run_that_was_killed_before_any_report_is_repeated() {
    let agent = Shopper::harmless(Then::Hangs);
    let (mut world, channel) = world("", &agent).await;
    let mut worker = world.start().await;
    world.clock.set(SLOT);
    worker.step().await.unwrap();
    agent.until_it_has_ordered().await;
    drop(worker);
    world = world.with_agent("main", Shopper::harmless(Then::Answers));
    let mut worker = world.start().await;
    worker.until_quiet().await.unwrap();
    assert_eq!(run(&world).await, ended("done", None, 2));
    let shown = channel.lines(&world.session("me"));
    assert_eq!(shown.len(), 1);
    assert_eq!(world.transcript("me").await, ["ordered"]);
}

#[tokio::test]
async fn an_agent_that_was_abandoned_can_report_no_more() {
    let agent = Shopper::harmless(Then::Hangs);
    let (world, _) = world("retry = { attempts = 2, backoff = \"5m\" }", &agent).await;
    let mut worker = world.start().await;
    world.clock.set(SLOT);
    worker.step().await.unwrap();
    agent.until_it_has_ordered().await;
    let reporter = agent.reporter.lock().unwrap().clone().unwrap();
    world.clock.set("2026-12-01T13:01:00Z");
    worker.until_quiet().await.unwrap();
    assert_eq!(run(&world).await.0, "backoff");
    let late = reporter.report().await;
    assert!(matches!(late, Err(ReportError::Over)), "{late:?}");
}

#[tokio::test]
async fn a_turn_of_a_person_may_report_and_is_answered() {
    let agent = Shopper::honest(Then::Answers);
    let (world, _) = world("", &agent).await;
    let mut worker = world.start().await;
    world.say("me", "order milk").await;
    worker.until_quiet().await.unwrap();
    let entries = world.entries("me", chatcron::store::WindowOf::Shown).await;
    assert_eq!(texts(&entries), ["order milk", "ordered"]);
}

#[tokio::test]
async fn a_turn_of_a_person_that_was_interrupted_after_its_report_is_not_repeated() {
    for stops_in_order in [false, true] {
        for (agent, orders, state, error) in [
            (
                Shopper::honest(Then::Hangs),
                1,
                "failed",
                Some("interrupted after effects"),
            ),
            (Shopper::harmless(Then::Hangs), 2, "done", None),
        ] {
            let (mut world, _) = world("", &agent).await;
            let mut worker = world.start().await;
            let turn = world.say("me", "order milk").await;
            worker.step().await.unwrap();
            agent.until_it_has_ordered().await;
            if stops_in_order {
                let (_handle, requests) = WorkerHandle::new();
                let stop = Stop::default();
                stop.now.cancel();
                let grace = Duration::from_secs(8);
                let ended = worker.run(requests, stop, Ticks::Off, grace).await;
                ended.unwrap();
            } else {
                drop(worker);
            }
            world = world.with_agent("main", agent.that_answers());
            let mut worker = world.start().await;
            worker.until_quiet().await.unwrap();
            let row = world.store.turn(turn).await.unwrap().unwrap();
            let case = (stops_in_order, agent.reports);
            assert_eq!(agent.orders(), orders, "{case:?}");
            assert_eq!(
                (row.state.as_str(), row.error.as_deref()),
                (state, error),
                "{case:?}"
            );
        }
    }
}
