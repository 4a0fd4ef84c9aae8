//! Receipts that come late, and settlements of those who lost their lease.

use chatcron::{
    message::{Origin, PartReason, PartState, StopsAddress},
    policy::{Grant, outbox::Transition},
    store::{Conflict, Store, TurnResult},
};

use crate::{Database, fixture::*};

fn fail() -> Transition {
    Transition::Fail {
        reason: PartReason::Permanent,
        stops_address: StopsAddress::No,
    }
}

pub(crate) async fn a_settled_part_stays_as_it_is<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let result = message("m1", Origin::JobResult, destination("1"), &["one"]);
    let parts = bench.enqueued("s1", result, 60).await;
    let claimed = bench.claim_part(parts[0].part_id, &session("1"), 61).await;
    bench.settle(&claimed, receipt("m-1"), 62).await.unwrap();
    for late in [receipt("m-2"), fail(), Transition::Unknown] {
        assert_eq!(
            bench.settle(&claimed, late, 63).await,
            Err(Conflict::PartSettled)
        );
    }
    assert_eq!(
        bench.part(parts[0].part_id).await.state,
        PartState::Confirmed
    );
    assert_eq!(bench.recalled(&session("1")).await, ["one"]);
}

pub(crate) async fn a_late_receipt_of_an_unknown_part_is_written_at_a_turn_boundary<D: Database>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    let key = session("1");
    let result = message("m1", Origin::JobResult, destination("1"), &["one"]);
    let parts = bench.enqueued("s1", result, 60).await;
    let claimed = bench.claim_part(parts[0].part_id, &key, 61).await;
    bench
        .settle(&claimed, Transition::Unknown, 62)
        .await
        .unwrap();
    let running = bench
        .begin_turn(&key, inbound("1", "hi", None), 63, 63)
        .await;
    bench.settle(&claimed, receipt("m-1"), 64).await.unwrap();
    assert_eq!(bench.part(parts[0].part_id).await.state, PartState::Unknown);
    assert_eq!(bench.recalled(&key).await, ["hi"]);
    bench
        .finish_turn(&running, TurnResult::Done, None, 65)
        .await
        .unwrap();
    assert_eq!(
        bench.part(parts[0].part_id).await.state,
        PartState::Confirmed
    );
    assert_eq!(bench.recalled(&key).await, ["hi", "one"]);
    let row = bench.store.recall(&key, 1).await.unwrap().remove(0);
    assert_eq!((row.shown_at, row.created_at), (Some(at(61)), at(65)));
    assert_eq!(
        bench.codes(parts[0].run_id.unwrap()).await,
        ["unknown", "order"]
    );
}

pub(crate) async fn a_receipt_waits_while_somebody_else_has_the_lane<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let key = session("1");
    let result = message("m1", Origin::JobResult, destination("1"), &["one"]);
    let parts = bench.enqueued("s1", result, 60).await;
    let claimed = bench.claim_part(parts[0].part_id, &key, 61).await;
    let again = Transition::TryAgain {
        state: PartState::Sending,
        at: at(200),
    };
    bench.settle(&claimed, again, 62).await.unwrap();
    let running = bench
        .begin_turn(&key, inbound("1", "hi", None), 63, 63)
        .await;
    bench.settle(&claimed, receipt("m-1"), 64).await.unwrap();
    assert_eq!(bench.part(parts[0].part_id).await.state, PartState::Sending);
    bench
        .finish_turn(&running, TurnResult::Done, None, 65)
        .await
        .unwrap();
    assert_eq!(
        bench.part(parts[0].part_id).await.state,
        PartState::Confirmed
    );
    assert_eq!(bench.recalled(&key).await, ["hi", "one"]);
}

pub(crate) async fn a_stale_refusal_says_nothing_of_the_attempt_under_way<D: Database>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    let key = session("1");
    let result = message("m1", Origin::JobResult, destination("1"), &["one"]);
    let parts = bench.enqueued("s1", result, 60).await;
    let first = bench.claim_part(parts[0].part_id, &key, 61).await;
    let again = Transition::TryAgain {
        state: PartState::Sending,
        at: at(62),
    };
    bench.settle(&first, again.clone(), 61).await.unwrap();
    assert_eq!(
        bench.settle(&first, again, 61).await,
        Err(Conflict::PartSettled)
    );
    let second = bench.claim_part(parts[0].part_id, &key, 62).await;
    assert_eq!(
        bench.settle(&first, fail(), 63).await,
        Err(Conflict::LeaseLost)
    );
    // The first attempt's receipt counts, and the second frees the lane.
    bench.settle(&first, receipt("m-1"), 64).await.unwrap();
    assert_eq!(
        bench.part(parts[0].part_id).await.state,
        PartState::Confirmed
    );
    let turn = bench
        .store
        .request_turn(inbound("1", "hi", None), at(64))
        .await
        .unwrap();
    let early = bench.claim(&key, Grant::Turn(turn), 64).await;
    assert_eq!(early.unwrap_err(), Conflict::LaneTaken);
    assert_eq!(
        bench.settle(&second, receipt("m-1"), 65).await,
        Err(Conflict::PartSettled)
    );
    bench.claim_turn(&key, turn, 66).await;
    assert_eq!(bench.recalled(&key).await, ["one", "hi"]);
}

pub(crate) async fn a_receipt_that_comes_after_a_reset_joins_the_new_generation<D: Database>(
    database: &D,
) {
    let bench = Bench::on(database).await;
    let key = session("1");
    let claimed = bench.begin_turn(&key, inbound("1", "hi", None), 1, 2).await;
    let turn = claimed.turn_id;
    let reply = message("turn:1", Origin::TurnReply, destination("1"), &["a"]);
    bench
        .finish_turn(&claimed, TurnResult::Done, Some(reply), 3)
        .await
        .unwrap();
    let parts = bench.store.turn_parts(turn).await.unwrap();
    let sending = bench.claim_part(parts[0].part_id, &key, 4).await;
    assert_eq!(bench.reset(&key, 5).await, 2);
    bench.settle(&sending, receipt("m-1"), 6).await.unwrap();
    let rows = bench.store.recall(&key, 9).await.unwrap();
    assert_eq!(texts(&rows), ["a"]);
    assert_eq!((rows[0].generation, rows[0].seq), (2, 1));
}
