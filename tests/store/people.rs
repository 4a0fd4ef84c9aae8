//! What a person may do about a part by hand.

use chatcron::{
    ids::PartId,
    message::{Origin, PartReason, PartState, StopsAddress},
    policy::{Grant, outbox::Transition},
    store::{Conflict, OutboxRow, OutboxScope, Resolution, Store, StoreError, TurnResult},
};

use crate::{Database, fixture::*};

fn shown() -> Resolution {
    Resolution::Shown {
        message_id: Some("m-7".to_owned()),
        posting_note: Some("<by-hand/>".to_owned()),
    }
}

async fn unknown_part<S: Store>(bench: &Bench<S>) -> OutboxRow {
    let result = message("m1", Origin::JobResult, destination("1"), &["one"]);
    let parts = bench.enqueued("s1", result, 60).await;
    bench.send(&parts[0], Transition::Unknown, 61).await;
    bench.part(parts[0].part_id).await
}

pub(crate) async fn only_an_unknown_part_can_be_resolved_and_a_pending_one_sent_now<D: Database>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    let result = message("m1", Origin::JobResult, destination("1"), &["one"]);
    let part = bench.enqueued("s1", result, 60).await[0].part_id;
    let store = &bench.store;
    let wrong = |outcome: Result<(), StoreError>| {
        matches!(
            outcome,
            Err(StoreError::WrongPartState {
                found: PartState::Pending,
                ..
            })
        )
    };
    assert!(wrong(store.resolve_part(part, shown(), at(61)).await));
    store.retry_part(part, at(61)).await.unwrap();
    let nothing = PartId(99);
    for outcome in [
        store
            .resolve_part(nothing, Resolution::NotShown, at(61))
            .await,
        store.retry_part(nothing, at(61)).await,
        store.cancel_part(nothing, at(61)).await,
    ] {
        assert!(matches!(outcome, Err(StoreError::NoSuchPart { .. })));
    }
}

pub(crate) async fn a_part_that_was_shown_joins_the_end_of_history<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let part = unknown_part(&bench).await;
    bench
        .store
        .resolve_part(part.part_id, shown(), at(70))
        .await
        .unwrap();
    let part = bench.part(part.part_id).await;
    assert_eq!(part.state, PartState::Confirmed);
    assert_eq!(part.channel_message_id.as_deref(), Some("m-7"));
    let row = bench
        .store
        .recall(&session("1"), 9)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(row.shown_at, Some(at(61)), "its first attempt");
    assert_eq!(row.provenance.posting_note.as_deref(), Some("<by-hand/>"));
    assert_eq!(
        bench.codes(part.run_id.unwrap()).await,
        ["unknown", "order"]
    );
}

pub(crate) async fn a_part_that_was_not_shown_can_be_sent_again_under_its_key<D: Database>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    let part = unknown_part(&bench).await;
    bench
        .store
        .resolve_part(part.part_id, Resolution::NotShown, at(70))
        .await
        .unwrap();
    let failed = bench.part(part.part_id).await;
    assert_eq!(
        (failed.state, failed.reason.as_deref()),
        (PartState::Failed, Some("not-shown"))
    );
    bench.store.retry_part(part.part_id, at(71)).await.unwrap();
    let again = bench.claim_part(part.part_id, &session("1"), 71).await;
    assert_eq!((again.key.clone(), again.view.in_doubt), (part.key, false));
    bench.settle(&again, receipt("m-1"), 72).await.unwrap();
    assert_eq!(bench.recalled(&session("1")).await, ["one"]);
}

pub(crate) async fn a_persons_word_waits_for_the_lane<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let key = session("1");
    let part = unknown_part(&bench).await;
    let running = bench
        .begin_turn(&key, inbound("1", "hi", None), 62, 62)
        .await;
    bench
        .store
        .resolve_part(part.part_id, shown(), at(63))
        .await
        .unwrap();
    assert_eq!(bench.part(part.part_id).await.state, PartState::Unknown);
    bench
        .finish_turn(&running, TurnResult::Done, None, 64)
        .await
        .unwrap();
    assert_eq!(bench.recalled(&key).await, ["hi", "one"]);
}

pub(crate) async fn a_retry_brings_back_the_rest_of_the_message<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let key = session("1");
    let claimed = bench.begin_turn(&key, inbound("1", "hi", None), 1, 2).await;
    let turn = claimed.turn_id;
    let reply = message("turn:1", Origin::TurnReply, destination("1"), &["a", "b"]);
    bench
        .finish_turn(&claimed, TurnResult::Done, Some(reply), 3)
        .await
        .unwrap();
    let parts = bench.store.turn_parts(turn).await.unwrap();
    let fail = Transition::Fail {
        reason: PartReason::Permanent,
        stops_address: StopsAddress::Yes,
    };
    bench.send(&parts[0], fail, 4).await;
    bench
        .store
        .retry_part(parts[0].part_id, at(5))
        .await
        .unwrap();
    let again = bench.claim_part(parts[0].part_id, &key, 5).await;
    assert_eq!(again.stopped, None);
    bench.settle(&again, receipt("m-1"), 6).await.unwrap();
    bench.send(&parts[1], receipt("m-2"), 7).await;
    assert_eq!(bench.recalled(&key).await, ["hi", "a", "b"]);
}

pub(crate) async fn a_cancelled_part_takes_the_rest_with_it<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let result = message("m1", Origin::JobResult, destination("1"), &["a", "b", "c"]);
    let parts = bench.enqueued("s1", result, 60).await;
    bench.send(&parts[0], receipt("m-1"), 61).await;
    bench
        .store
        .cancel_part(parts[1].part_id, at(62))
        .await
        .unwrap();
    for part in &parts[1..] {
        let part = bench.part(part.part_id).await;
        assert_eq!(
            (part.state, part.reason.as_deref()),
            (PartState::Cancelled, Some("by-hand"))
        );
    }
    assert!(bench.queues(63, 9).await.is_empty());
}

pub(crate) async fn the_open_outbox_lists_what_needs_something<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let result = message("m1", Origin::JobResult, destination("1"), &["a", "b", "c"]);
    let parts = bench.enqueued("s1", result, 60).await;
    bench.send(&parts[0], receipt("m-1"), 61).await;
    bench.send(&parts[1], Transition::Unknown, 62).await;
    let listed = |rows: Vec<OutboxRow>| -> Vec<u32> { rows.iter().map(|row| row.part).collect() };
    let store = &bench.store;
    assert_eq!(
        listed(store.outbox(OutboxScope::Open).await.unwrap()),
        [2, 3]
    );
    assert_eq!(
        listed(store.outbox(OutboxScope::All).await.unwrap()),
        [1, 2, 3]
    );
    let message = OutboxScope::Message(parts[0].message_id);
    assert_eq!(listed(store.outbox(message).await.unwrap()), [1, 2, 3]);
    assert!(
        store
            .outbox(OutboxScope::One(PartId(99)))
            .await
            .unwrap()
            .is_empty()
    );
}

pub(crate) async fn a_part_between_two_tries_can_be_resolved_and_one_that_is_being_sent_cannot<
    D: Database,
>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    let key = session("1");
    for (slot, word, state) in [
        ("s1", shown(), PartState::Confirmed),
        ("s2", Resolution::NotShown, PartState::Failed),
    ] {
        let result = message(slot, Origin::JobResult, destination("1"), &["one", "two"]);
        let parts = bench.enqueued(slot, result, 60).await;
        let part = parts[0].part_id;
        let sending = bench.claim_part(part, &key, 61).await;
        let early = bench.store.resolve_part(part, word.clone(), at(62)).await;
        assert!(matches!(early, Err(StoreError::PartUnderWay { .. })));
        assert!(bench.part(part).await.under_way);
        let again = Transition::TryAgain {
            state: PartState::Sending,
            at: at(300),
        };
        bench.settle(&sending, again, 63).await.unwrap();
        assert!(!bench.part(part).await.under_way);
        bench.store.resolve_part(part, word, at(64)).await.unwrap();
        assert_eq!(bench.part(part).await.state, state);
        let late = bench.claim(&key, Grant::Deliver(part), 300).await;
        assert_eq!(
            late.unwrap_err(),
            Conflict::PartSettled,
            "nobody sends it again"
        );
        let rest = bench.part(parts[1].part_id).await;
        if state == PartState::Confirmed {
            bench.send(&rest, receipt("m-8"), 65).await;
        } else {
            assert_eq!(rest.reason.as_deref(), Some("rest-of-failed"));
        }
    }
    assert_eq!(bench.recalled(&key).await, ["one", "two"]);
}

pub(crate) async fn a_word_about_a_part_waits_for_the_lane_and_nobody_sends_it_meanwhile<
    D: Database,
>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    let key = session("1");
    let result = message("m1", Origin::JobResult, destination("1"), &["one"]);
    let part = bench.enqueued("s1", result, 60).await[0].part_id;
    let sending = bench.claim_part(part, &key, 61).await;
    let again = Transition::TryAgain {
        state: PartState::Sending,
        at: at(62),
    };
    bench.settle(&sending, again, 61).await.unwrap();
    let turn = bench
        .begin_turn(&key, inbound("1", "hi", None), 62, 62)
        .await;
    bench
        .store
        .resolve_part(part, shown(), at(63))
        .await
        .unwrap();
    assert_eq!(bench.part(part).await.state, PartState::Sending);
    assert_eq!(bench.recalled(&key).await, ["hi"]);
    bench
        .finish_turn(&turn, TurnResult::Done, None, 64)
        .await
        .unwrap();
    assert_eq!(bench.part(part).await.state, PartState::Confirmed);
    assert_eq!(bench.recalled(&key).await, ["hi", "one"]);
}

pub(crate) async fn an_id_of_a_message_that_is_none_is_refused<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let part = unknown_part(&bench).await.part_id;
    let named = |id: String| Resolution::Shown {
        message_id: Some(id),
        posting_note: None,
    };
    for wrong in [String::new(), "m".repeat(257)] {
        let found = wrong.len();
        let refused = bench.store.resolve_part(part, named(wrong), at(62)).await;
        let Err(StoreError::NoMessageId { found: told }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(told, found);
    }
    assert_eq!(bench.part(part).await.state, PartState::Unknown);
    let longest = named("m".repeat(256));
    bench
        .store
        .resolve_part(part, longest, at(63))
        .await
        .unwrap();
    assert_eq!(bench.part(part).await.state, PartState::Confirmed);
}
