//! Rule 1, as facts: after every scenario the transcript is what the channel's own log says.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/world.rs"]
mod world;

use chatcron::{
    agent::{AgentError, AgentReply},
    clock::Clock,
    ids::ChatName,
    job::OnUnknown,
    message::{Destination, Origin, Payload},
    outbound::{Author, compose},
    policy::Grant,
    store::{
        ClaimRequest, Claimed, ClaimedTurn, OutboxScope, Resolution, TurnEnd, TurnResult, WindowOf,
    },
    transcript::{Block, Content, NewEntry, Role, TriggerSource, Visibility},
};
use jiff::SignedDuration;
use world::{Does, TestAgent, TestChannel, World, last_words, texts, words};

/// A background job at 08:00 and an in-chat job at 21:00, in Berlin.
const JOBS: &str = r#"
timezone = "Europe/Berlin"

[jobs.budget]
name    = "Budget report"
daily   = "08:00"
prompt  = "Summarise yesterday's spending."
deliver = "me"

[jobs.check-in]
daily  = "21:00"
chat   = "me"
prompt = "Ask how the day went."
"#;

/// Before the first slot of that day.
const MORNING: &str = "2026-12-01T06:59:00Z";
const AT_EIGHT: &str = "2026-12-01T07:00:00Z";
const AT_NINE_PM: &str = "2026-12-01T20:00:00Z";

async fn world(agent: &TestAgent, channel: &TestChannel) -> World {
    World::in_my_chat(JOBS, MORNING, agent.clone(), channel.clone()).await
}

#[tokio::test]
async fn a_background_result_is_shown_once_and_is_history_once() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::blind());
    let world = world(&agent, &channel).await;
    let mut worker = world.start().await;
    world.run_at(&mut worker, AT_EIGHT).await;
    assert_eq!(
        world.transcript("me").await,
        ["Summarise yesterday's spending."]
    );
    assert_eq!(channel.lines(&world.session("me")).len(), 1);
    let row = &world.entries("me", WindowOf::All).await[0];
    assert_eq!(row.role, Role::Assistant);
    assert_eq!(row.provenance.trigger_source, Some(TriggerSource::Cron));
    assert_eq!(
        row.provenance.posting_note.as_deref(),
        Some(r#"<posted-by job="budget" name="Budget report" at="2026-12-01T08:00:00+01:00"/>"#)
    );
    let own = chatcron::ids::SessionKey::job(&"budget".to_owned().try_into().unwrap());
    assert_eq!(
        world.store.recall(&own, 10).await.unwrap(),
        [],
        "its own session recalls as empty"
    );
    assert_eq!(
        world
            .store
            .transcript(&own, WindowOf::All)
            .await
            .unwrap()
            .len(),
        2
    );
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn an_in_chat_prompt_is_not_history_and_no_user_turn_but_its_reply_is_once() {
    let agent = TestAgent::scripted(|turn| {
        Ok(words(if turn.job.is_some() {
            "How was your day?"
        } else {
            "Good to hear."
        }))
    });
    let channel = TestChannel::blind();
    let world = world(&agent, &channel).await;
    let mut worker = world.start().await;
    world.run_at(&mut worker, AT_NINE_PM).await;
    world.clock.advance(SignedDuration::from_mins(1));
    worker.until_quiet().await.unwrap();
    // The morning's slot was missed by 13 hours and was caught up, which its message says: two messages by two jobs.
    world.say("me", "It was fine.").await;
    worker.until_quiet().await.unwrap();
    let asked = agent.last_asked();
    let history = texts(&asked.history);
    assert_eq!(
        history
            .iter()
            .filter(|text| text.ends_with("How was your day?"))
            .count(),
        2
    );
    assert!(
        !history
            .iter()
            .any(|text| text.contains("Ask how the day went"))
    );
    assert_eq!(last_words(&asked), "It was fine.");
    let users: Vec<_> = world
        .entries("me", WindowOf::All)
        .await
        .into_iter()
        .filter(|row| {
            row.role == Role::User && row.provenance.trigger_source == Some(TriggerSource::User)
        })
        .collect();
    assert_eq!(texts(&users), ["It was fine."]);
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn a_result_that_meets_a_turn_with_tool_calls_is_shown_after_its_reply() {
    let agent = TestAgent::scripted(|turn| {
        if turn.job.is_some() {
            return Ok(words("The budget."));
        }
        let call = Block::ToolUse {
            id: "call1".to_owned(),
            name: "look".to_owned(),
            input: serde_json::json!({}),
        };
        let result = Block::ToolResult {
            tool_use_id: "call1".to_owned(),
            content: "42".to_owned(),
            is_error: false,
        };
        Ok(AgentReply {
            interior: vec![
                NewEntry {
                    role: Role::Assistant,
                    content: Content::Blocks(vec![call]),
                    framed: None,
                },
                NewEntry {
                    role: Role::Tool,
                    content: Content::Blocks(vec![result]),
                    framed: None,
                },
            ],
            ..words("It is 42.")
        })
    });
    let channel = TestChannel::blind();
    let world = world(&agent, &channel).await;
    let mut worker = world.start().await;
    world.say("me", "How much?").await;
    agent.close();
    worker.step().await.unwrap();
    agent.until_asked(1).await;
    world.clock.set(AT_EIGHT);
    worker.step().await.unwrap();
    agent.until_asked(2).await;
    assert_eq!(channel.lines(&world.session("me")), []);
    agent.open();
    worker.until_quiet().await.unwrap();
    let shown: Vec<_> = channel
        .lines(&world.session("me"))
        .into_iter()
        .map(|line| line.text)
        .collect();
    assert_eq!(shown, ["It is 42.", "The budget."]);
    assert_eq!(
        world.transcript("me").await,
        ["How much?", "It is 42.", "The budget."]
    );
    let recalled = world.store.recall(&world.session("me"), 10).await.unwrap();
    let seen: Vec<_> = recalled.iter().map(|row| row.visibility).collect();
    use Visibility::{Interior, Visible};
    assert_eq!(seen, [Visible, Interior, Interior, Visible, Visible]);
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn the_same_text_of_two_occurrences_is_two_messages_and_two_rows() {
    let agent = TestAgent::scripted(|_| Ok(words("All good")));
    let channel = TestChannel::keyed();
    let world = world(&agent, &channel).await;
    let mut worker = world.start().await;
    world.run_at(&mut worker, AT_EIGHT).await;
    world.run_at(&mut worker, "2026-12-02T07:00:00Z").await;
    world.clock.advance(SignedDuration::from_mins(1));
    worker.until_quiet().await.unwrap();
    let all_good = world
        .transcript("me")
        .await
        .iter()
        .filter(|text| *text == "All good")
        .count();
    assert_eq!(all_good, channel.lines(&world.session("me")).len());
    assert_eq!(
        all_good, 3,
        "two mornings, and the evening between them, caught up"
    );
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn an_occurrence_that_is_replayed_after_a_crash_is_shown_once() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let world = world(&agent, &channel).await;
    let mut worker = world.start().await;
    channel.will([Does::ShowAndLose]);
    world.clock.set(AT_EIGHT);
    worker.step().await.unwrap();
    agent.until_asked(1).await;
    drop(worker);
    let mut worker = world.start().await;
    worker.until_quiet().await.unwrap();
    world.clock.advance(SignedDuration::from_mins(1));
    worker.until_quiet().await.unwrap();
    assert_eq!(world.parts().await, ["confirmed"]);
    assert_eq!(channel.lines(&world.session("me")).len(), 1);
    assert_eq!(
        agent.asked().len(),
        2,
        "the interrupted attempt was made again"
    );
    assert_eq!(world.runs().await[0].attempts, 2);
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn a_reply_in_doubt_is_not_seen_by_the_next_turn_until_a_person_says_it_was_shown() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::blind());
    let world = world(&agent, &channel).await;
    let mut worker = world.start().await;
    channel.will([Does::ShowAndLose]);
    world.say("me", "one").await;
    worker.until_quiet().await.unwrap();
    assert_eq!(world.parts().await, ["unknown"]);
    world.say("me", "two").await;
    worker.until_quiet().await.unwrap();
    assert_eq!(texts(&agent.last_asked().history), ["one"]);
    world.assert_verified(&channel, &["me"]).await;
    let unknown = world.store.outbox(OutboxScope::All).await.unwrap()[0].part_id;
    let shown = Resolution::Shown {
        message_id: Some("1".to_owned()),
        posting_note: None,
    };
    world
        .store
        .resolve_part(unknown, shown, world.clock.now())
        .await
        .unwrap();
    world.say("me", "three").await;
    worker.until_quiet().await.unwrap();
    assert_eq!(
        texts(&agent.last_asked().history),
        ["one", "two", "two", "one"]
    );
    assert_eq!(channel.attempts(), 3, "nothing was sent a second time");
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn another_agents_chat_gets_the_message_and_no_row_and_the_run_says_so() {
    let jobs = JOBS.replace("deliver = \"me\"", "deliver = \"me\"\nagent = \"other\"")
        + "\n[agents.other]\nkind = \"echo\"\n";
    let (agent, channel) = (TestAgent::echo(), TestChannel::blind());
    let world = World::in_my_chat(&jobs, MORNING, agent.clone(), channel.clone())
        .await
        .with_agent("other", agent.clone());
    let mut worker = world.start().await;
    world.run_at(&mut worker, AT_EIGHT).await;
    assert_eq!(channel.lines(&world.session("me")).len(), 1);
    assert_eq!(world.transcript("me").await, [""; 0]);
    let run = world.runs().await[0].clone();
    assert_eq!(run.warnings, 1);
    let diagnostics = world.store.diagnostics(run.run_id.unwrap()).await.unwrap();
    assert_eq!(diagnostics[0].code, "other-agent");
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn a_long_result_arrives_whole_in_order_one_row_a_message() {
    let family = "👩‍👩‍👧‍👦 é\u{301} ";
    let long = format!(
        "{}\n\n```rust\n{}```\n\nEnd.",
        family.repeat(200),
        "let x = \"combining e\u{301}\";\n".repeat(250)
    );
    let answer = long.clone();
    let agent = TestAgent::scripted(move |_| Ok(words(&answer)));
    let channel = TestChannel::blind();
    let world = world(&agent, &channel).await;
    let mut worker = world.start().await;
    world.run_at(&mut worker, AT_EIGHT).await;
    world.say("me", "Say it all again.").await;
    worker.until_quiet().await.unwrap();
    let lines = channel.lines(&world.session("me"));
    assert!(
        lines
            .iter()
            .all(|line| line.text.encode_utf16().count() <= 4096)
    );
    assert_eq!(lines.len() % 2, 0);
    let half = lines.len() / 2;
    assert!(half >= 3, "{half} parts");
    for shown in [&lines[..half], &lines[half..]] {
        let visible = |text: &str| {
            text.chars()
                .filter(|c| !c.is_whitespace())
                .collect::<String>()
        };
        let whole: String = shown
            .iter()
            .map(|line| line.text.replace("```rust", "").replace("```", ""))
            .collect();
        assert_eq!(
            visible(&whole),
            visible(&long.replace("```rust", "").replace("```", ""))
        );
    }
    let rows = world.transcript("me").await;
    assert_eq!(
        rows.len(),
        lines.len() + 1,
        "one row a message, and the person's"
    );
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn what_is_refused_for_good_is_withheld_with_the_rest_of_its_message() {
    let long = "word ".repeat(1200);
    let agent = TestAgent::scripted(move |_| Ok(words(&long)));
    let channel = TestChannel::blind();
    let world = world(&agent, &channel).await;
    let mut worker = world.start().await;
    channel.will([Does::Show, Does::Blocked]);
    world.say("me", "hello").await;
    worker.until_quiet().await.unwrap();
    assert_eq!(world.parts().await[..2], ["confirmed", "failed"]);
    assert_eq!(world.transcript("me").await.len(), 2);
    let all = world.entries("me", WindowOf::All).await;
    assert!(all.iter().any(|row| row.visibility == Visibility::Withheld));
    world.say("me", "and now?").await;
    worker.until_quiet().await.unwrap();
    assert_eq!(
        channel.attempts(),
        2,
        "the address is stopped until it is confirmed again"
    );
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn a_long_wait_yields_to_a_person_and_its_rest_goes_before_the_next_reply() {
    let long = "word ".repeat(1200);
    let agent =
        TestAgent::scripted(move |turn| Ok(words(if turn.job.is_some() { &long } else { "Yes?" })));
    let channel = TestChannel::blind();
    let world = world(&agent, &channel).await;
    let mut worker = world.start().await;
    channel.will([Does::Show, Does::Refuse(60)]);
    world.run_at(&mut worker, AT_EIGHT).await;
    world.say("me", "hello").await;
    worker.until_quiet().await.unwrap();
    assert_eq!(
        world.transcript("me").await.len(),
        2,
        "part 1, and the person's words"
    );
    world.clock.advance(SignedDuration::from_secs(61));
    worker.until_quiet().await.unwrap();
    let rows = world.transcript("me").await;
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[1], "hello");
    assert_eq!(rows[3], "Yes?");
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn a_reset_calls_off_the_turn_and_begins_a_new_generation() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::blind());
    let world = world(&agent, &channel).await;
    let mut worker = world.start().await;
    world.say("me", "before").await;
    worker.until_quiet().await.unwrap();
    world.say("me", "during").await;
    agent.close();
    worker.step().await.unwrap();
    agent.until_asked(2).await;
    let session = world.session("me");
    world
        .store
        .request_reset(&session, world.clock.now())
        .await
        .unwrap();
    agent.open();
    worker.until_quiet().await.unwrap();
    assert_eq!(
        channel.lines(&session).len(),
        1,
        "nothing more of the turn was sent"
    );
    world.say("me", "after").await;
    worker.until_quiet().await.unwrap();
    assert_eq!(texts(&agent.last_asked().history), [""; 0]);
    assert_eq!(
        world.transcript("me").await,
        ["before", "before", "during", "after", "after"]
    );
    world.assert_verified(&channel, &["me"]).await;
}

#[tokio::test]
async fn a_silent_run_shows_nothing_and_is_done() {
    let agent = TestAgent::scripted(|_| Ok(words("NO_REPLY")));
    let channel = TestChannel::blind();
    let world = world(&agent, &channel).await;
    let mut worker = world.start().await;
    world.run_at(&mut worker, AT_EIGHT).await;
    let run = &world.runs().await[0];
    assert_eq!(
        (run.state.as_str(), run.reason.as_deref()),
        ("done", Some("silent"))
    );
    assert_eq!(channel.attempts(), 0);
    assert_eq!(world.transcript("me").await, [""; 0]);
}

#[tokio::test]
async fn a_failing_agent_is_tried_again_inside_the_occurrence() {
    let mut failures = 2;
    let agent = TestAgent::scripted(move |_| {
        if failures > 0 {
            failures -= 1;
            return Err(AgentError::Transient {
                why: "overloaded".to_owned(),
            });
        }
        Ok(words("At last."))
    });
    let channel = TestChannel::blind();
    let world = world(&agent, &channel).await;
    let mut worker = world.start().await;
    world.run_at(&mut worker, AT_EIGHT).await;
    assert_eq!(world.runs().await[0].state, "backoff");
    world.clock.advance(SignedDuration::from_secs(30));
    worker.until_quiet().await.unwrap();
    world.clock.advance(SignedDuration::from_mins(2));
    worker.until_quiet().await.unwrap();
    let run = &world.runs().await[0];
    assert_eq!((run.state.as_str(), run.attempts), ("done", 3));
    assert_eq!(world.transcript("me").await, ["At last."]);
    let attempts = world.store.attempts(run.run_id.unwrap()).await.unwrap();
    let results: Vec<_> = attempts
        .iter()
        .map(|attempt| attempt.result.as_deref().unwrap())
        .collect();
    assert_eq!(results, ["failed:transient", "failed:transient", "done"]);
    world.assert_verified(&channel, &["me"]).await;
}

/// A person's turn that has begun, as a gateway's own runner would begin it.
async fn turn_under_way(world: &World, text: &str) -> ClaimedTurn {
    let grant = Grant::Turn(world.say("me", text).await);
    let now = world.clock.now();
    let by = world.begin_worker().await;
    let request = ClaimRequest {
        session_key: world.session("me"),
        grant,
    };
    let claims = world
        .store
        .claim(by.into(), vec![request], now)
        .await
        .unwrap();
    match claims.into_iter().next() {
        Some(Ok(Claimed::Turn(turn))) => *turn,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_native_payload_without_text_is_sent_and_has_no_row_and_that_is_told() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::blind());
    let world = world(&agent, &channel).await;
    let turn = turn_under_way(&world, "Show me a picture.").await;
    let author = Author {
        producer: "a gateway".to_owned(),
        origin: Origin::Gateway,
        agent: "main".parse().unwrap(),
        trigger_source: None,
        posted_by: None,
        run: None,
        turn_id: Some(turn.turn_id),
        on_unknown: OnUnknown::Hold,
        late: None,
    };
    let chat = &world.file.directory.chats[&"me".parse::<ChatName>().unwrap()];
    let picture = Payload::Native {
        body: serde_json::json!({ "photo": "cat" }),
        text: None,
    };
    let services = world.services();
    let message = compose(
        author,
        0,
        Destination::Chat(chat.into()),
        picture,
        &services.channels,
    );
    let end = TurnEnd {
        turn_id: turn.turn_id,
        epoch: turn.epoch,
        result: TurnResult::Done,
        usage: None,
        entries: Vec::new(),
        message,
        diagnostics: Vec::new(),
        shown: Vec::new(),
    };
    world
        .store
        .finish_turns(vec![end], world.clock.now())
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    let mut worker = world.start().await;
    worker.until_quiet().await.unwrap();
    assert_eq!(
        channel.lines(&world.session("me"))[0].text,
        r#"{"photo":"cat"}"#
    );
    assert_eq!(world.parts().await, ["confirmed"]);
    assert_eq!(world.transcript("me").await, ["Show me a picture."]);
    let report = world.verify(&channel, &["me"]).await;
    assert!(report.holds(), "{:#?}", report.findings);
    assert!(
        report
            .findings
            .iter()
            .any(|finding| finding.what.contains("no text of its own"))
    );
}
