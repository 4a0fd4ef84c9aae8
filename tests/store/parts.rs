//! Parts that are not confirmed at once.

use chatcron::{
    ids::SessionKey,
    message::{Origin, PartReason, PartState, StopsAddress},
    occurrence::Outcome,
    policy::{Grant, outbox::Transition},
    store::{Conflict, NewMessage, OutboxRow, RunFilter, Store, Target, TurnResult, WindowOf},
    transcript::Visibility,
};

use crate::{Database, fixture::*};

fn result(texts: &[&str]) -> NewMessage {
    message("occurrence:1", Origin::JobResult, destination("1"), texts)
}

fn failure(stops_address: StopsAddress) -> Transition {
    Transition::Fail {
        reason: PartReason::Permanent,
        stops_address,
    }
}

fn again(state: PartState, seconds: i64) -> Transition {
    Transition::TryAgain {
        state,
        at: at(seconds),
    }
}

async fn history<S: Store>(bench: &Bench<S>, key: &SessionKey) -> Vec<String> {
    texts(&bench.store.transcript(key, WindowOf::Shown).await.unwrap())
}

fn states(parts: &[OutboxRow]) -> Vec<PartState> {
    parts.iter().map(|part| part.state).collect()
}

pub(crate) async fn a_refused_part_backs_off_and_keeps_its_first_attempt<D: Database>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    let parts = bench.enqueued("s1", result(&["one"]), 60).await;
    bench
        .send(&parts[0], again(PartState::Pending, 75), 61)
        .await;
    let early = bench
        .claim(&session("1"), Grant::Deliver(parts[0].part_id), 74)
        .await;
    assert_eq!(early.unwrap_err(), Conflict::NotNext);
    assert_eq!(
        bench.store.next_lane_instant(at(61)).await.unwrap(),
        Some(at(75))
    );
    let second = bench.claim_part(parts[0].part_id, &session("1"), 75).await;
    assert_eq!((second.view.attempts, second.view.in_doubt), (2, false));
    assert_eq!(second.view.first_attempt_at, Some(at(61)));
    assert_eq!(second.key, parts[0].key);
    bench
        .settle(&second, again(PartState::Sending, 80), 76)
        .await
        .unwrap();
    assert_eq!(bench.part(parts[0].part_id).await.state, PartState::Sending);
    let third = bench.claim_part(parts[0].part_id, &session("1"), 80).await;
    assert!(third.view.in_doubt);
    assert_eq!(third.view.first_attempt_at, Some(at(61)));
}

pub(crate) async fn a_failed_part_cancels_the_rest_and_may_stop_the_address<D: Database>(
    database: &D,
) {
    let bench = Bench::on(database).await;
    let key = session("1");
    let claimed = bench.begin_turn(&key, inbound("1", "hi", None), 1, 2).await;
    let turn = claimed.turn_id;
    let reply = message(
        "turn:1",
        Origin::TurnReply,
        destination("1"),
        &["a", "b", "c"],
    );
    bench
        .finish_turn(&claimed, TurnResult::Done, Some(reply), 3)
        .await
        .unwrap();
    let parts = bench.store.turn_parts(turn).await.unwrap();
    bench.send(&parts[0], receipt("m-1"), 4).await;
    bench.send(&parts[1], failure(StopsAddress::Yes), 5).await;
    let parts = bench.store.turn_parts(turn).await.unwrap();
    assert_eq!(
        states(&parts),
        [
            PartState::Confirmed,
            PartState::Failed,
            PartState::Cancelled
        ]
    );
    assert_eq!(parts[1].reason.as_deref(), Some("permanent"));
    assert_eq!(parts[2].reason.as_deref(), Some("rest-of-failed"));
    let all = bench.store.turn_entries(turn).await.unwrap();
    let seen: Vec<_> = all.iter().map(|row| row.visibility).collect();
    assert_eq!(
        seen,
        [
            Visibility::Visible,
            Visibility::Withheld,
            Visibility::Withheld,
            Visibility::Visible
        ]
    );
    let claimed = bench
        .begin_turn(&key, inbound("1", "still there?", None), 6, 7)
        .await;
    let next = claimed.turn_id;
    let reply = message("turn:2", Origin::TurnReply, destination("1"), &["yes"]);
    bench
        .finish_turn(&claimed, TurnResult::Done, Some(reply), 8)
        .await
        .unwrap();
    let parts = bench.store.turn_parts(next).await.unwrap();
    let stopped = bench.claim_part(parts[0].part_id, &key, 9).await;
    assert_eq!(stopped.stopped.as_deref(), Some("said so"));
}

pub(crate) async fn a_confirmation_lifts_the_stop_of_its_address<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let first = bench.enqueued("s1", result(&["one"]), 60).await;
    bench.send(&first[0], failure(StopsAddress::Yes), 61).await;
    assert_eq!(
        bench.codes(first[0].run_id.unwrap()).await,
        ["delivery-failed"]
    );
    let two = message("m2", Origin::JobResult, destination("1"), &["two"]);
    let second = bench.enqueued("s2", two, 62).await;
    let claimed = bench.claim_part(second[0].part_id, &session("1"), 63).await;
    assert!(claimed.stopped.is_some());
    bench.settle(&claimed, receipt("m-1"), 63).await.unwrap();
    let three = message("m3", Origin::JobResult, destination("1"), &["three"]);
    let third = bench.enqueued("s3", three, 64).await;
    let claimed = bench.claim_part(third[0].part_id, &session("1"), 65).await;
    assert_eq!(claimed.stopped, None);
}

pub(crate) async fn a_chat_that_moved_is_sent_to_at_once<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let parts = bench.enqueued("s1", result(&["one"]), 60).await;
    let moved = Transition::Readdress {
        to: "-1001".to_owned(),
    };
    bench.send(&parts[0], moved, 61).await;
    assert_eq!(bench.part(parts[0].part_id).await.state, PartState::Pending);
    let again = bench.claim_part(parts[0].part_id, &session("1"), 61).await;
    assert_eq!(again.moved_to.as_deref(), Some("-1001"));
    assert_eq!(again.destination, destination("1"));
    assert_eq!(bench.codes(parts[0].run_id.unwrap()).await, ["moved"]);
}

pub(crate) async fn an_unknown_part_is_not_visible_and_the_rest_goes_on<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let parts = bench.enqueued("s1", result(&["one", "two"]), 60).await;
    let sending = bench.claim_part(parts[0].part_id, &session("1"), 61).await;
    let shown = bench.store.shown_parts(&session("1")).await.unwrap();
    assert_eq!(
        shown.iter().map(|part| part.state).collect::<Vec<_>>(),
        [PartState::Sending],
        "it may be shown by now"
    );
    bench
        .settle(&sending, Transition::Unknown, 61)
        .await
        .unwrap();
    bench.send(&parts[1], receipt("m-2"), 62).await;
    assert_eq!(history(&bench, &session("1")).await, ["two"]);
    assert_eq!(bench.codes(parts[0].run_id.unwrap()).await, ["unknown"]);
    let run = bench
        .store
        .runs(&RunFilter::default())
        .await
        .unwrap()
        .remove(0);
    assert_eq!((run.delivery.unknown, run.delivery.confirmed), (1, 1));
    assert_eq!(
        bench.store.shown_parts(&session("1")).await.unwrap().len(),
        2
    );
}

pub(crate) async fn a_removed_jobs_parts_are_cancelled_unless_begun<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let begun = bench.enqueued("s1", result(&["one", "two"]), 60).await;
    let waiting = message("m2", Origin::JobResult, destination("1"), &["later"]);
    let waiting = bench.enqueued("s2", waiting, 61).await;
    // An in-chat job's reply is marked to go first, and is cancelled all the same.
    let reply = message("m3", Origin::TurnReply, destination("2"), &["reply"]);
    let reply = bench.enqueued("s3", reply, 62).await;
    bench.send(&begun[0], receipt("m-1"), 63).await;
    let mut removal = bench.decision("budget", Vec::new()).await;
    let version = bench.stored("budget").await.version;
    removal.target = Target::Remove { version };
    bench.commit(removal, 64).await.unwrap();
    assert_eq!(bench.part(begun[1].part_id).await.state, PartState::Pending);
    for cancelled in [&waiting[0], &reply[0]] {
        let part = bench.part(cancelled.part_id).await;
        assert_eq!(
            (part.state, part.reason.as_deref()),
            (PartState::Cancelled, Some("job-removed"))
        );
    }
    let rows = bench
        .store
        .transcript(&session("2"), WindowOf::All)
        .await
        .unwrap();
    assert_eq!(rows[0].visibility, Visibility::Withheld);
    let ended = bench
        .decide("budget", vec![end("s1", Outcome::Done)], 65)
        .await;
    assert_eq!(ended, Err(Conflict::Missing));
}

pub(crate) async fn a_message_that_was_begun_goes_first<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let key = session("1");
    let parts = bench.enqueued("s1", result(&["one", "two"]), 60).await;
    bench.send(&parts[0], receipt("m-1"), 61).await;
    let head = bench.queues(61, 9).await.remove(0);
    let delivery = head.delivery.unwrap();
    assert_eq!((delivery.part_id, delivery.first), (parts[1].part_id, true));
    let claimed = bench
        .begin_turn(&key, inbound("1", "hi", None), 62, 62)
        .await;
    let reply = message("turn:1", Origin::TurnReply, destination("1"), &["reply"]);
    bench
        .finish_turn(&claimed, TurnResult::Done, Some(reply), 63)
        .await
        .unwrap();
    let head = bench.queues(63, 9).await.remove(0);
    assert_eq!(head.delivery.unwrap().part_id, parts[1].part_id);
}
