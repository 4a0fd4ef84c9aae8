//! Turns, sends and events of a gateway: who may do what in a chat, and in which order it shows.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "other events are of no interest"
)]

use std::time::Duration;

use chatcron::{
    agent::{ToolCall, ToolOutput},
    config::JobDraft,
    embed::{Ended, OutboundMessage, OwnOrigin, SendError, TurnError, UserMessage},
    message::Origin,
    store::{OutboxScope, WindowOf},
    transcript::{Content, Visibility},
    worker::{Event, EventReader, Happened, JobChange},
};
use jiff::Timestamp;
use serde_json::json;

#[path = "embed/place.rs"]
mod place;

use place::Place;

fn now() -> Timestamp {
    #[expect(
        clippy::disallowed_methods,
        reason = "a gateway has a clock of its own"
    )]
    Timestamp::now()
}

fn background(id: &str, chat: &str) -> JobDraft {
    JobDraft::new(id)
        .set("every", "24h")
        .set("deliver", chat)
        .set("agent", "main")
        .set("prompt", format!("news of {id}"))
}

async fn event(events: &mut EventReader, is_it: impl Fn(&Happened) -> bool) -> Event {
    let found = async {
        loop {
            let event = events.next().await.unwrap().unwrap();
            if is_it(&event.what) {
                return event;
            }
        }
    };
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, found)
        .await
        .expect("it happens")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_answers_what_is_said() {
    let place = Place::new().await;
    let chatcron = place.build().await;
    let worker = chatcron.start().await.unwrap();
    let hello = place.writes("me", "Hello?");
    let reply = chatcron.sessions().say("me", hello).await.unwrap();
    assert_eq!(reply.text(), "Hello?");
    assert_eq!(place.history(&chatcron, "me").await, ["Hello?", "Hello?"]);
    let unknown = chatcron.sessions().say("mee", "Hello?").await.unwrap_err();
    assert!(unknown.to_string().contains("`me`"), "{unknown}");
    let nothing = chatcron.sessions().say("me", "  ").await.unwrap_err();
    assert!(matches!(nothing, TurnError::Nothing), "{nothing}");
    worker.shutdown().await;
    place.assert_verified(&chatcron).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_comes_during_a_long_turn_waits_for_its_end_and_blocks_nobody_else() {
    let place = Place::new().await;
    let chatcron = place.build().await;
    let worker = chatcron.start().await.unwrap();
    let jobs = chatcron.jobs();
    jobs.create(background("mine", "me"), "test").await.unwrap();
    jobs.create(background("theirs", "team"), "test")
        .await
        .unwrap();
    let asked = place.writes("me", "Think hard.");
    let turn = chatcron.sessions().begin_turn("me", asked).await.unwrap();
    let mut events = chatcron.events();
    let mine = jobs.trigger("mine").await.unwrap();
    event(
        &mut events,
        |what| matches!(what, Happened::RunFinished { run_id, .. } if *run_id == mine),
    )
    .await;
    jobs.trigger("theirs").await.unwrap();
    // The other chat goes on, and is answered too.
    place.until_shown("team", &["news of theirs"]).await;
    let theirs = place.writes("team", "And you?");
    chatcron.sessions().say("team", theirs).await.unwrap();
    assert_eq!(place.board.texts(&place.session("me")), ["Think hard."]);
    turn.reply("I have thought.").await.unwrap();
    let shown = ["Think hard.", "I have thought.", "news of mine"];
    place.until_shown("me", &shown).await;
    assert!(matches!(worker.shutdown().await, Ended::Stopped));
    assert_eq!(place.history(&chatcron, "me").await, shown);
    place.assert_verified(&chatcron).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_while_a_result_is_sent_waits_for_it() {
    let place = Place::new().await;
    let chatcron = place.build().await;
    let worker = chatcron.start().await.unwrap();
    let jobs = chatcron.jobs();
    jobs.create(background("mine", "me"), "test").await.unwrap();
    place.board.gate.send_replace(false);
    jobs.trigger("mine").await.unwrap();
    let outbox = chatcron.outbox();
    let mut is_sending = false;
    for _ in 0..2000 {
        let parts = outbox.list(OutboxScope::Open).await.unwrap();
        is_sending = parts.iter().any(|part| part.state.as_str() == "sending");
        if is_sending {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(is_sending);
    let begun = tokio::spawn({
        let chatcron = chatcron.clone();
        async move { chatcron.sessions().begin_turn("me", "And?").await.unwrap() }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!begun.is_finished(), "the lane is taken");
    place.board.gate.send_replace(true);
    let turn = begun.await.unwrap();
    let seen: Vec<_> = turn
        .history()
        .iter()
        .map(|row| row.content.text())
        .collect();
    assert_eq!(seen, ["news of mine"]);
    turn.reply("That is all.").await.unwrap();
    place
        .until_shown("me", &["news of mine", "That is all."])
        .await;
    worker.shutdown().await;
    let history = place.history(&chatcron, "me").await;
    assert_eq!(history, ["news of mine", "And?", "That is all."]);
    place.assert_verified(&chatcron).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateways_turn_keeps_its_calls_and_a_reply_that_it_showed_itself() {
    let place = Place::new().await;
    let chatcron = place.build().await;
    let worker = chatcron.start().await.unwrap();
    let asked = place.writes("me", "What is the weather?");
    let mut turn = chatcron.sessions().begin_turn("me", asked).await.unwrap();
    assert_eq!(
        turn.request().prompt[0].content,
        Content::Text("What is the weather?".to_owned())
    );
    let call = ToolCall {
        id: "c1".to_owned(),
        name: "weather".to_owned(),
        input: json!({"city": "Paris"}),
    };
    turn.record_call(&call);
    turn.record_result("c1", &ToolOutput::done("sunny"));
    let shown = place.board.show(&place.session("me"), None, "It is sunny.");
    let id = turn.reply_shown("It is sunny.", shown).await.unwrap();
    let rows = chatcron.transcripts().of_chat("me", WindowOf::All).await;
    let rows: Vec<_> = rows.unwrap();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row.provenance.turn_id == Some(id)));
    let interior = rows.iter();
    let interior = interior.filter(|row| row.visibility == Visibility::Interior);
    assert_eq!(interior.count(), 2);
    let texts = place.board.texts(&place.session("me"));
    assert_eq!(texts, ["What is the weather?", "It is sunny."], "not again");
    let next = chatcron
        .sessions()
        .begin_turn("me", "Thanks.")
        .await
        .unwrap();
    assert_eq!(next.history().len(), 4);
    next.fail("no answer").await.unwrap();
    worker.shutdown().await;
    place.assert_verified(&chatcron).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_dropped_has_failed_and_its_lane_is_free() {
    let place = Place::new().await;
    let chatcron = place.build().await;
    let worker = chatcron.start().await.unwrap();
    let turn = chatcron.sessions().begin_turn("me", "One?").await.unwrap();
    let id = turn.id();
    drop(turn);
    let error = chatcron.sessions().reply(id).await.unwrap_err();
    assert!(matches!(error, TurnError::Failed { .. }), "{error}");
    let reply = chatcron.sessions().say("me", "Two?").await.unwrap();
    assert_eq!(reply.text(), "Two?");
    assert_eq!(
        place.history(&chatcron, "me").await,
        ["One?", "Two?", "Two?"]
    );
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_message_begins_one_turn() {
    let place = Place::new().await;
    let chatcron = place.build().await;
    let worker = chatcron.start().await.unwrap();
    let message = UserMessage::new("Hello?").with_message_id("u-1");
    let first = chatcron.sessions().begin_turn("me", message.clone()).await;
    let first = first.unwrap();
    let again = chatcron.sessions().begin_turn("me", message).await;
    let again = again.err().unwrap();
    assert!(
        matches!(&again, TurnError::AlreadyReceived { turn_id, .. } if *turn_id == first.id()),
        "{again}"
    );
    first.reply("Hello.").await.unwrap();
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_a_gateways_turn_is_handed_back_and_no_agent_answers_it() {
    let place = Place::new().await;
    let chatcron = place.build().await;
    let worker = chatcron.start().await.unwrap();
    let turn = chatcron
        .sessions()
        .begin_turn("me", "Hello?")
        .await
        .unwrap();
    let id = turn.id();
    drop(worker);
    turn.over().cancelled().await;
    let error = turn.reply("too late").await.unwrap_err();
    assert!(matches!(error, TurnError::Over { .. }), "{error}");
    let mut handed_back = chatcron.sessions().take_up();
    let worker = chatcron.start().await.unwrap();
    let turn = handed_back.next().await.unwrap();
    assert_eq!(turn.id(), id);
    turn.reply("Here I am.").await.unwrap();
    place.until_shown("me", &["Here I am."]).await;
    // And where nobody takes them up, they are closed.
    let turn = chatcron
        .sessions()
        .begin_turn("team", "Hello?")
        .await
        .unwrap();
    let id = turn.id();
    drop(handed_back);
    drop(worker);
    let worker = chatcron.start().await.unwrap();
    let error = chatcron.sessions().reply(id).await.unwrap_err();
    assert!(error.to_string().contains("interrupted"), "{error}");
    assert!(place.agent.asked.lock().unwrap().is_empty());
    worker.shutdown().await;
    place.assert_verified(&chatcron).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_worker_nobody_holds_a_lane() {
    let place = Place::new().await;
    let chatcron = place.build().await;
    let error = chatcron.sessions().begin_turn("me", "Hello?").await;
    assert!(matches!(error.err().unwrap(), TurnError::NoWorker));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_the_gateway_is_one_message() {
    let place = Place::new().await;
    let chatcron = place.build().await;
    let outbound = chatcron.outbound();
    let at = now();
    let message = OutboundMessage::to_chat("order-7", "me", "It is on its way.", at)
        .as_origin(OwnOrigin::SubagentAnnouncement);
    let first = outbound.send(message.clone()).await.unwrap();
    let again = outbound.send(message.clone()).await.unwrap();
    assert_eq!(
        (first.message_id, true),
        (again.message_id, again.was_there)
    );
    let other = OutboundMessage::to_chat("order-7", "me", "It is lost.", at);
    let other = outbound.send(other).await.unwrap_err();
    assert!(matches!(&other, SendError::OtherMessage { key } if key == "order-7"));
    let nobody = OutboundMessage::to_chat("order-8", "nobody", "Hello.", at);
    let nobody = outbound.send(nobody).await.unwrap_err();
    assert!(nobody.to_string().contains("`team`"), "{nobody}");
    let keyless = OutboundMessage::to_chat("", "me", "Hello.", at);
    assert!(matches!(
        outbound.send(keyless).await,
        Err(SendError::Key { found: 0 })
    ));
    let blank = OutboundMessage::to_chat("order-9", "me", " \n", at);
    assert!(matches!(
        outbound.send(blank).await,
        Err(SendError::Nothing)
    ));
    let worker = chatcron.start().await.unwrap();
    place.until_shown("me", &["It is on its way."]).await;
    worker.shutdown().await;
    let rows = chatcron.transcripts().of_chat("me", WindowOf::Shown).await;
    let rows = rows.unwrap();
    assert_eq!(
        rows[0].provenance.origin,
        Some(Origin::SubagentAnnouncement)
    );
    let late = outbound.send(message).await.unwrap();
    assert_eq!(late.message_id, first.message_id);
    place.assert_verified(&chatcron).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_tell_what_is_committed() {
    let place = Place::new().await;
    let chatcron = place.build().await;
    let mut events = chatcron.events();
    let jobs = chatcron.jobs();
    jobs.create(background("mine", "me"), "test").await.unwrap();
    let worker = chatcron.start().await.unwrap();
    let run = jobs.trigger("mine").await.unwrap();
    jobs.pause("mine", "enough").await.unwrap();
    event(&mut events, |what| {
        matches!(
            what,
            Happened::JobChanged {
                change: JobChange::Defined,
                ..
            }
        )
    })
    .await;
    let mut seen = Vec::new();
    let mut is_paused = false;
    while !(is_paused && seen.len() == 4) {
        let event = event(&mut events, |_| true).await;
        let word = match &event.what {
            Happened::RunStarted { run_id, .. } if *run_id == run => "started",
            Happened::AttemptFinished { run_id, .. } if *run_id == run => "tried",
            Happened::RunFinished { run_id, state, .. } if *run_id == run => state,
            Happened::Delivered { run_id, state, .. } if *run_id == Some(run) => {
                // After the commit: whoever looks now finds it.
                let found = chatcron.runs().get(run).await.unwrap().unwrap();
                assert_eq!(found.parts[0].state, *state);
                "delivered"
            }
            Happened::JobChanged {
                change: JobChange::Paused,
                ..
            } => {
                is_paused = true;
                continue;
            }
            _ => continue,
        };
        seen.push(word);
    }
    assert_eq!(seen, ["started", "tried", "done", "delivered"]);
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_worker_loses_nothing() {
    let place = Place::new().await;
    let chatcron = place.build().await;
    let jobs = chatcron.jobs();
    jobs.create(background("mine", "me"), "test").await.unwrap();
    place.agent.gate.send_replace(false);
    let worker = chatcron.start().await.unwrap();
    jobs.trigger("mine").await.unwrap();
    let turn_id = chatcron.sessions().request("team", "Hello?").await.unwrap();
    place.agent.until_asked(2).await;
    drop(worker);
    place.agent.gate.send_replace(true);
    let worker = chatcron.start().await.unwrap();
    let reply = chatcron.sessions().reply(turn_id).await.unwrap();
    assert_eq!(reply.text(), "Hello?");
    place.until_shown("me", &["news of mine"]).await;
    place.until_shown("team", &["Hello?"]).await;
    worker.shutdown().await;
    place.assert_verified(&chatcron).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_lets_go_of_its_turn_when_the_worker_stops_gets_it_handed_back() {
    let place = Place::new().await;
    let grace = Duration::from_secs(1);
    let chatcron = place.builder().shutdown_grace(grace).build().await.unwrap();
    let worker = chatcron.start().await.unwrap();
    let sessions = chatcron.sessions();
    let message = UserMessage::new("Are you there?").with_message_id("in-9");
    let turn = sessions.begin_turn("me", message).await.unwrap();
    let turn_id = turn.id();
    let program = tokio::spawn(async move {
        turn.over().cancelled().await;
        drop(turn);
    });
    worker.shutdown().await;
    program.await.unwrap();
    let row = chatcron.transcripts().turn(turn_id).await.unwrap().unwrap();
    assert_eq!((row.state.as_str(), row.error), ("waiting", None));
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_returns_within_its_grace_though_an_agent_ignores_it() {
    let place = Place::new().await;
    let grace = Duration::from_secs(2);
    let chatcron = place.builder().shutdown_grace(grace).build().await.unwrap();
    let jobs = chatcron.jobs();
    jobs.create(background("mine", "me"), "test").await.unwrap();
    place.agent.gate.send_replace(false);
    let worker = chatcron.start().await.unwrap();
    jobs.trigger("mine").await.unwrap();
    place.agent.until_asked(1).await;
    let limit = grace + Duration::from_millis(500);
    tokio::time::timeout(limit, worker.shutdown())
        .await
        .expect("it returns within its grace");
    place.agent.gate.send_replace(true);
    let worker = chatcron.start().await.unwrap();
    place.until_shown("me", &["news of mine"]).await;
    worker.shutdown().await;
    place.assert_verified(&chatcron).await;
}
