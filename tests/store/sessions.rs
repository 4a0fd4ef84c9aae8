//! Readings of history, and resets.

use chatcron::{
    message::{Origin, PartState},
    occurrence::{FailReason, Outcome},
    policy::{AttemptResult, Effect},
    store::{AttemptEnd, AttemptFate, EntryDraft, Store, TurnEnd, TurnResult, WindowOf},
    transcript::{Block, Content, NewEntry, Role, TriggerSource, Visibility},
};

use crate::{Database, fixture::*};

fn blocks() -> Vec<Block> {
    vec![
        Block::Text {
            text: "let me look".to_owned(),
        },
        Block::ToolUse {
            id: "t1".to_owned(),
            name: "search".to_owned(),
            input: serde_json::json!({ "q": "x" }),
        },
    ]
}

pub(crate) async fn recall_is_the_visible_and_interior_rows_of_the_newest_generation<
    D: Database,
>(
    database: &D,
) {
    let bench = Bench::on(database).await;
    let key = session("1");
    let claimed = bench
        .begin_turn(&key, inbound("1", "one", None), 1, 2)
        .await;
    let turn = claimed.turn_id;
    let end = TurnEnd {
        turn_id: turn,
        epoch: claimed.epoch,
        result: TurnResult::Done,
        usage: None,
        entries: vec![
            draft(&key, Role::Assistant, "tool call", Visibility::Interior),
            draft(&key, Role::Assistant, "silence", Visibility::Internal),
        ],
        message: None,
        diagnostics: Vec::new(),
        shown: Vec::new(),
    };
    bench.store.finish_turns(vec![end], at(3)).await.unwrap()[0]
        .as_ref()
        .unwrap();
    assert_eq!(bench.recalled(&key).await, ["one", "tool call"]);
    assert_eq!(
        texts(&bench.store.recall(&key, 1).await.unwrap()),
        ["tool call"]
    );
    bench.reset(&key, 4).await;
    assert!(bench.recalled(&key).await.is_empty());
    let shown = bench.store.transcript(&key, WindowOf::Shown).await.unwrap();
    assert_eq!(texts(&shown), ["one"]);
    let all = bench.store.transcript(&key, WindowOf::All).await.unwrap();
    assert_eq!(texts(&all), ["one", "tool call", "silence"]);
}

pub(crate) async fn the_last_texts_are_oldest_first<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let key = session("1");
    for (seconds, words) in [(1, "one"), (2, ""), (3, "three"), (4, "four")] {
        let claimed = bench
            .begin_turn(&key, inbound("1", words, None), seconds, seconds)
            .await;
        bench
            .finish_turn(&claimed, TurnResult::Done, None, seconds)
            .await
            .unwrap();
    }
    let last = bench.store.visible_texts(&key, 2).await.unwrap();
    assert_eq!(texts(&last), ["three", "four"]);
    let all = bench.store.visible_texts(&key, 9).await.unwrap();
    assert_eq!(texts(&all), ["one", "three", "four"]);
}

pub(crate) async fn job_memory_holds_committed_attempts_only<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let lane = route("budget").lane;
    for (name, words, result) in [
        ("s1", "good", AttemptResult::Done),
        ("s2", "bad", AttemptResult::Failed(FailReason::Permanent)),
        ("s3", "nothing", AttemptResult::Silent),
    ] {
        let run = bench.started(name, 60).await;
        let run = bench.claim_run(run, 60).await;
        let outcome = match result {
            AttemptResult::Done => Outcome::Done,
            AttemptResult::Silent => Outcome::Silent,
            AttemptResult::Failed(reason) => Outcome::Failed(reason),
        };
        let effects: Vec<Effect> = vec![end(name, outcome)];
        let mut commit = bench.decision("budget", effects).await;
        commit.attempt_end = Some(AttemptEnd {
            entries: vec![draft(&lane, Role::Assistant, words, Visibility::Internal)],
            ..attempt_end(&run, AttemptFate::Ended(result))
        });
        bench.commit(commit, 61).await.unwrap();
    }
    let memory = bench.store.job_memory(&job_id("budget"), 9).await.unwrap();
    assert_eq!(texts(&memory), ["good", "nothing"]);
    let last = bench.store.job_memory(&job_id("budget"), 1).await.unwrap();
    assert_eq!(texts(&last), ["nothing"]);
    assert!(
        bench.recalled(&lane).await.is_empty(),
        "a job's own session recalls as empty"
    );
}

pub(crate) async fn rows_keep_their_blocks<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let key = session("1");
    let claimed = bench
        .begin_turn(&key, inbound("1", "one", None), 1, 2)
        .await;
    let turn = claimed.turn_id;
    let entry = EntryDraft {
        session_key: key.clone(),
        entry: NewEntry {
            role: Role::Assistant,
            content: Content::Blocks(blocks()),
            framed: None,
        },
        visibility: Visibility::Interior,
        trigger_source: TriggerSource::User,
    };
    let end = TurnEnd {
        turn_id: turn,
        epoch: claimed.epoch,
        result: TurnResult::Done,
        usage: None,
        entries: vec![entry],
        message: None,
        diagnostics: Vec::new(),
        shown: Vec::new(),
    };
    bench.store.finish_turns(vec![end], at(3)).await.unwrap()[0]
        .as_ref()
        .unwrap();
    let rows = bench.store.recall(&key, 9).await.unwrap();
    assert_eq!(rows[1].content, Content::Blocks(blocks()));
    assert_eq!(rows[1].provenance.turn_id, Some(turn));
}

pub(crate) async fn a_reset_raises_the_generation_and_cancels_what_its_turn_had_not_sent<
    D: Database,
>(
    database: &D,
) {
    let bench = Bench::on(database).await;
    let key = session("1");
    let claimed = bench
        .begin_turn(&key, inbound("1", "one", None), 1, 2)
        .await;
    let turn = claimed.turn_id;
    let reply = message("turn:1", Origin::TurnReply, destination("1"), &["a", "b"]);
    bench
        .finish_turn(&claimed, TurnResult::Done, Some(reply), 3)
        .await
        .unwrap();
    let parts = bench.store.turn_parts(turn).await.unwrap();
    bench.send(&parts[0], receipt("m-1"), 4).await;
    let running = bench
        .begin_turn(&key, inbound("1", "two", None), 5, 5)
        .await;
    bench.store.request_reset(&key, at(6)).await.unwrap();
    bench.store.request_reset(&key, at(7)).await.unwrap();
    assert_eq!(
        bench.store.pending_resets().await.unwrap(),
        vec![key.clone()]
    );
    assert_eq!(bench.reset(&key, 8).await, 2);
    assert!(bench.store.pending_resets().await.unwrap().is_empty());
    let part = bench.part(parts[1].part_id).await;
    assert_eq!(
        (part.state, part.reason.as_deref()),
        (PartState::Cancelled, Some("reset"))
    );
    let late = bench.finish_turn(&running, TurnResult::Done, None, 9).await;
    assert!(late.is_err());
    let row = bench.store.turn(running.turn_id).await.unwrap().unwrap();
    assert_eq!(row.state, "cancelled");
    let next = bench
        .store
        .request_turn(inbound("1", "three", None), at(10))
        .await
        .unwrap();
    bench.claim_turn(&key, next, 10).await;
    assert_eq!(bench.recalled(&key).await, ["three"]);
    let shown = bench.store.transcript(&key, WindowOf::Shown).await.unwrap();
    assert_eq!(texts(&shown), ["one", "a", "two", "three"]);
    assert_eq!(bench.reset(&session("new"), 11).await, 1);
}

pub(crate) async fn what_was_waiting_at_a_reset_goes_on_in_the_new_generation<D: Database>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    let key = session("1");
    let turn = bench
        .store
        .request_turn(inbound("1", "one", None), at(1))
        .await
        .unwrap();
    let result = message("m1", Origin::JobResult, destination("1"), &["news"]);
    let parts = bench.enqueued("s1", result, 2).await;
    assert_eq!(bench.reset(&key, 3).await, 2);
    bench.send(&parts[0], receipt("m-1"), 4).await;
    bench.claim_turn(&key, turn, 5).await;
    let rows = bench.store.recall(&key, 9).await.unwrap();
    assert_eq!(texts(&rows), ["news", "one"]);
    assert!(rows.iter().all(|row| row.generation == 2));
}

pub(crate) async fn words_come_back_exactly_as_they_were<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let key = session("1");
    let odd = [
        "quotes \" ' \\ and \n\r\t lines",
        "👩‍👩‍👧 ﷽ \u{2028} \u{feff} \u{10ffff}",
        "control \u{1} \u{7f} \u{1b}[0m",
        "nul \0 inside",
        "[\"looks like blocks\"]",
        "{\"a\":1}",
        "1e5",
        " null ",
    ];
    for (n, words) in odd.into_iter().enumerate() {
        let seconds = i64::try_from(n).unwrap();
        let message = inbound("1", words, None);
        let turn = bench
            .store
            .request_turn(message, at(seconds))
            .await
            .unwrap();
        let claimed = bench.claim_turn(&key, turn, seconds).await;
        assert_eq!(claimed.text, words);
        bench
            .finish_turn(&claimed, TurnResult::Done, None, seconds)
            .await
            .unwrap();
    }
    assert_eq!(bench.recalled(&key).await, odd);
}
