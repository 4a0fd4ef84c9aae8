//! Messages, parts, and the rows that a chat's history gets.

use chatcron::{
    ids::{AgentName, SessionKey},
    message::{Origin, PartState},
    store::{NewMessage, RunFilter, Store, TurnResult, WindowOf},
    transcript::{Role, TriggerSource, Visibility},
};

use crate::{Database, fixture::*};

fn result(texts: &[&str]) -> NewMessage {
    message("occurrence:1", Origin::JobResult, destination("1"), texts)
}

async fn history<S: Store>(bench: &Bench<S>, key: &SessionKey) -> Vec<String> {
    texts(&bench.store.transcript(key, WindowOf::Shown).await.unwrap())
}

pub(crate) async fn a_confirmed_result_is_one_visible_row_of_the_chat<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    bench.store.set_chats(vec![chat("1")], at(0)).await.unwrap();
    let parts = bench.enqueued("s1", result(&["All good"]), 60).await;
    assert!(history(&bench, &session("1")).await.is_empty());
    bench.send(&parts[0], receipt("m-1"), 61).await;
    let rows = bench
        .store
        .transcript(&session("1"), WindowOf::All)
        .await
        .unwrap();
    assert_eq!(texts(&rows), ["All good"]);
    let row = &rows[0];
    assert_eq!(
        (row.role, row.visibility, row.generation),
        (Role::Assistant, Visibility::Visible, 1)
    );
    assert_eq!((row.shown_at, row.created_at), (Some(at(61)), at(61)));
    assert_eq!(row.channel_message_id.as_deref(), Some("m-1"));
    let from = &row.provenance;
    assert_eq!(from.trigger_source, Some(TriggerSource::Cron));
    assert_eq!(
        (from.origin, from.attempt),
        (Some(Origin::JobResult), Some(1))
    );
    assert_eq!(from.posted_by_job, Some(job_id("budget")));
    assert_eq!(from.posting_note.as_deref(), Some("<posted-by/>"));
    assert_eq!(
        (from.run_id, from.idempotency_key.as_ref()),
        (parts[0].run_id, Some(&parts[0].key))
    );
    let part = bench.part(parts[0].part_id).await;
    assert_eq!(
        (part.state, part.attempts, part.settled_at),
        (PartState::Confirmed, 1, Some(at(61)))
    );
    assert_eq!(part.channel_message_id.as_deref(), Some("m-1"));
    let run = bench
        .store
        .runs(&RunFilter::default())
        .await
        .unwrap()
        .remove(0);
    assert_eq!(
        (run.delivery.confirmed, run.delivery.open, run.warnings),
        (1, 0, 0)
    );
    assert_eq!(
        bench.store.shown_parts(&session("1")).await.unwrap(),
        [part]
    );
}

pub(crate) async fn a_reply_is_pending_until_it_is_confirmed<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let key = session("1");
    let claimed = bench.begin_turn(&key, inbound("1", "hi", None), 1, 2).await;
    let turn = claimed.turn_id;
    let reply = message("turn:1", Origin::TurnReply, destination("1"), &["a", "b"]);
    bench
        .finish_turn(&claimed, TurnResult::Done, Some(reply), 3)
        .await
        .unwrap();
    assert_eq!(bench.recalled(&key).await, ["hi"]);
    let all = bench.store.transcript(&key, WindowOf::All).await.unwrap();
    assert_eq!(texts(&all), ["hi", "a", "b"]);
    assert_eq!(all[1].visibility, Visibility::Pending);
    let parts = bench.store.turn_parts(turn).await.unwrap();
    let queue = bench.queues(3, 9).await.remove(0);
    assert!(
        queue.delivery.unwrap().first,
        "a reply goes before everything else of its lane"
    );
    bench.send(&parts[0], receipt("m-1"), 4).await;
    assert_eq!(bench.recalled(&key).await, ["hi", "a"]);
    bench.send(&parts[1], receipt("m-2"), 5).await;
    let rows = bench.store.turn_entries(turn).await.unwrap();
    assert_eq!(texts(&rows), ["hi", "a", "b"]);
    assert!(rows.is_sorted_by_key(|row| row.seq));
    assert_eq!(rows[2].provenance.origin, Some(Origin::TurnReply));
    assert_eq!(
        (rows[2].shown_at, rows[2].visibility),
        (Some(at(5)), Visibility::Visible)
    );
}

pub(crate) async fn a_message_whose_key_is_known_is_not_enqueued_again<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let first = bench.enqueued("s1", result(&["one"]), 60).await;
    let second = bench.enqueued("s2", result(&["another text"]), 70).await;
    assert_eq!((first.len(), second.len()), (1, 0));
    let runs = bench.store.runs(&RunFilter::default()).await.unwrap();
    assert_eq!(runs[0].state, "done");
    assert_eq!(bench.codes(runs[0].run_id.unwrap()).await, ["deduplicated"]);
}

pub(crate) async fn a_webhook_gets_no_row<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let posted = message("occurrence:1", Origin::JobResult, webhook(), &["payload"]);
    let parts = bench.enqueued("s1", posted, 60).await;
    bench.send(&parts[0], receipt("w-1"), 61).await;
    assert_eq!(
        bench.part(parts[0].part_id).await.state,
        PartState::Confirmed
    );
    assert!(history(&bench, &webhook().session_key()).await.is_empty());
    assert!(bench.codes(parts[0].run_id.unwrap()).await.is_empty());
}

pub(crate) async fn a_native_part_without_text_is_confirmed_without_a_row<D: Database>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    let mut native = result(&["x"]);
    native.parts[0].text = None;
    native.parts[0].native = Some(serde_json::json!({ "sticker": 7 }));
    let parts = bench.enqueued("s1", native, 60).await;
    let claimed = bench.claim_part(parts[0].part_id, &session("1"), 61).await;
    assert_eq!(claimed.native, Some(serde_json::json!({ "sticker": 7 })));
    bench.settle(&claimed, receipt("m-1"), 61).await.unwrap();
    assert!(history(&bench, &session("1")).await.is_empty());
    assert_eq!(bench.codes(parts[0].run_id.unwrap()).await, ["native-only"]);
}

pub(crate) async fn another_agents_words_are_shown_without_a_row<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let mut theirs = chat("1");
    theirs.agent = AgentName::new("other").unwrap();
    let parts = bench.enqueued("s1", result(&["one"]), 60).await;
    // Whose the chat is counts at the confirmation, not when the message was made.
    bench.store.set_chats(vec![theirs], at(61)).await.unwrap();
    bench.send(&parts[0], receipt("m-1"), 62).await;
    assert_eq!(
        bench.part(parts[0].part_id).await.state,
        PartState::Confirmed
    );
    assert!(history(&bench, &session("1")).await.is_empty());
    assert_eq!(bench.codes(parts[0].run_id.unwrap()).await, ["other-agent"]);
    let run = bench
        .store
        .runs(&RunFilter::default())
        .await
        .unwrap()
        .remove(0);
    assert_eq!(run.warnings, 1);
}

pub(crate) async fn a_second_row_by_one_message_id_has_none<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let parts = bench.enqueued("s1", result(&["one", "two"]), 60).await;
    bench.send(&parts[0], receipt("m-1"), 61).await;
    bench.send(&parts[1], receipt("m-1"), 62).await;
    assert_eq!(
        bench.part(parts[1].part_id).await.state,
        PartState::Confirmed
    );
    let rows = bench
        .store
        .transcript(&session("1"), WindowOf::Shown)
        .await
        .unwrap();
    let ids: Vec<_> = rows
        .iter()
        .map(|row| row.channel_message_id.as_deref())
        .collect();
    assert_eq!(ids, [Some("m-1"), None]);
    assert_eq!(
        bench.codes(parts[1].run_id.unwrap()).await,
        ["message-id-conflict"]
    );
}
