//! User turns.

use chatcron::{
    policy::Grant,
    store::{Conflict, Store, TurnResult, WindowOf},
    transcript::{TriggerSource, Visibility},
};

use crate::{Database, fixture::*};

pub(crate) async fn the_same_message_is_the_same_turn<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let store = &bench.store;
    let first = store
        .request_turn(inbound("1", "hi", Some("u-1")), at(1))
        .await
        .unwrap();
    let again = store
        .request_turn(inbound("1", "hi", Some("u-1")), at(2))
        .await
        .unwrap();
    assert_eq!(first, again);
    let elsewhere = store
        .request_turn(inbound("2", "hi", Some("u-1")), at(3))
        .await
        .unwrap();
    let nameless = store
        .request_turn(inbound("1", "hi", None), at(4))
        .await
        .unwrap();
    assert!(first != elsewhere && elsewhere != nameless);
    let rows = store
        .transcript(&session("1"), WindowOf::All)
        .await
        .unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].visibility, Visibility::Pending);
    assert_eq!(rows[0].provenance.trigger_source, Some(TriggerSource::User));
    assert_eq!(rows[0].provenance.sender_display.as_deref(), Some("Ada"));
    assert_eq!(rows[0].provenance.turn_id, Some(first));
}

pub(crate) async fn a_users_row_takes_its_place_when_its_turn_begins<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let key = session("1");
    let turn = bench
        .store
        .request_turn(inbound("1", "hi", None), at(1))
        .await
        .unwrap();
    let result = message(
        "m1",
        chatcron::message::Origin::JobResult,
        destination("1"),
        &["news"],
    );
    let parts = bench.enqueued("s1", result, 2).await;
    bench.send(&parts[0], receipt("m-1"), 3).await;
    assert_eq!(bench.recalled(&key).await, ["news"]);
    let claimed = bench.claim_turn(&key, turn, 4).await;
    assert_eq!((claimed.text.as_str(), claimed.attempt), ("hi", 1));
    assert_eq!(bench.recalled(&key).await, ["news", "hi"]);
    let row = bench.store.turn(turn).await.unwrap().unwrap();
    assert_eq!(
        (row.state.as_str(), row.started_at),
        ("running", Some(at(4)))
    );
}

pub(crate) async fn an_older_turn_goes_first<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let key = session("1");
    let first = bench
        .store
        .request_turn(inbound("1", "one", None), at(1))
        .await
        .unwrap();
    let second = bench
        .store
        .request_turn(inbound("1", "two", None), at(2))
        .await
        .unwrap();
    let early = bench.claim(&key, Grant::Turn(second), 3).await;
    assert_eq!(early.unwrap_err(), Conflict::NotNext);
    let claimed = bench.claim_turn(&key, first, 3).await;
    bench
        .finish_turn(&claimed, TurnResult::Done, None, 4)
        .await
        .unwrap();
    bench.claim_turn(&key, second, 5).await;
    assert_eq!(bench.recalled(&key).await, ["one", "two"]);
}

pub(crate) async fn a_finished_turn_is_fenced_by_its_epoch<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let key = session("1");
    let claimed = bench
        .begin_turn(&key, inbound("1", "one", None), 1, 2)
        .await;
    let mut stale = claimed.clone();
    stale.epoch.0 += 1;
    let refused = bench.finish_turn(&stale, TurnResult::Done, None, 3).await;
    assert_eq!(refused, Err(Conflict::LeaseLost));
    bench
        .finish_turn(&claimed, TurnResult::Done, None, 3)
        .await
        .unwrap();
    let refused = bench.finish_turn(&claimed, TurnResult::Done, None, 4).await;
    assert_eq!(refused, Err(Conflict::LeaseLost));
    let mut unknown = claimed.clone();
    unknown.turn_id.0 = 99;
    let refused = bench.finish_turn(&unknown, TurnResult::Done, None, 4).await;
    assert_eq!(refused, Err(Conflict::Missing));
    assert!(bench.store.turn(unknown.turn_id).await.unwrap().is_none());
}

pub(crate) async fn a_requeued_turn_has_used_no_attempt<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let key = session("1");
    let turn = bench
        .store
        .request_turn(inbound("1", "one", None), at(1))
        .await
        .unwrap();
    for seconds in 2..6 {
        let claimed = bench.claim_turn(&key, turn, seconds).await;
        assert_eq!(claimed.attempt, 1);
        bench
            .finish_turn(&claimed, TurnResult::Requeued, None, seconds)
            .await
            .unwrap();
    }
    let rows = bench.store.recall(&key, 9).await.unwrap();
    assert_eq!((rows.len(), rows[0].seq), (1, 2), "it took its place once");
}

pub(crate) async fn a_failed_turn_leaves_the_users_row<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let key = session("1");
    let claimed = bench
        .begin_turn(&key, inbound("1", "one", None), 1, 2)
        .await;
    let turn = claimed.turn_id;
    let failed = TurnResult::Failed {
        error: "overloaded".to_owned(),
    };
    bench.finish_turn(&claimed, failed, None, 3).await.unwrap();
    let row = bench.store.turn(turn).await.unwrap().unwrap();
    assert_eq!(
        (row.state.as_str(), row.error.as_deref()),
        ("failed", Some("overloaded"))
    );
    assert_eq!(row.ended_at, Some(at(3)));
    assert_eq!(bench.recalled(&key).await, ["one"]);
}
