//! What programs do themselves: messages under keys of their own, and turns that they run.

use chatcron::{
    directory::Retention,
    message::{Origin, PartState, Receipt},
    store::{
        Conflict, NewMessage, OutboxScope, OwnSend, Sent, Store, TurnEnd, TurnResult, WindowOf,
    },
    transcript::Visibility,
};

use crate::{Database, fixture::*};

const DAY: i64 = 24 * 60 * 60;

fn own(key: &str, to: &str, texts: &[&str]) -> NewMessage {
    NewMessage {
        posted_by: None,
        ..message(key, Origin::Gateway, destination(to), texts)
    }
}

async fn send<S: Store>(store: &S, message: NewMessage, at_seconds: i64) -> Result<Sent, Conflict> {
    let send = OwnSend {
        message,
        created_at: at(at_seconds),
    };
    store.send_own(send, at(at_seconds)).await.unwrap()
}

pub(crate) async fn a_key_of_a_program_is_one_message<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let Ok(Sent::New(first)) = send(&bench.store, own("k", "1", &["hello", "you"]), 1).await else {
        panic!("it was new");
    };
    let again = send(&bench.store, own("k", "1", &["hello", "you"]), 2).await;
    assert_eq!(again, Ok(Sent::Again(first)));
    // The channel takes longer messages now.
    let uncut = send(&bench.store, own("k", "1", &["hello you"]), 2).await;
    assert_eq!(uncut, Ok(Sent::Again(first)));
    for other in [
        own("k", "1", &["goodbye"]),
        own("k", "2", &["hello", "you"]),
        NewMessage {
            origin: Origin::SubagentAnnouncement,
            ..own("k", "1", &["hello", "you"])
        },
    ] {
        assert_eq!(send(&bench.store, other, 3).await, Ok(Sent::Otherwise));
    }
    let reopened = database.open().await;
    let later = send(&reopened, own("k", "1", &["hello", "you"]), 4).await;
    assert_eq!(later, Ok(Sent::Again(first)));
    let parts = bench.store.outbox(OutboxScope::All).await.unwrap();
    assert_eq!(parts.len(), 2, "nothing else was enqueued");
    bench.send(&parts[0], receipt("m-1"), 5).await;
    bench.send(&parts[1], receipt("m-2"), 6).await;
    let rows = bench.store.transcript(&session("1"), WindowOf::Shown).await;
    assert_eq!(texts(&rows.unwrap()), ["hello", "you"]);
}

pub(crate) async fn a_request_from_before_the_last_pruning_is_refused<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let Ok(Sent::New(_)) = send(&bench.store, own("k", "1", &["hello"]), 1).await else {
        panic!("it was new");
    };
    let parts = bench.store.outbox(OutboxScope::All).await.unwrap();
    bench
        .store
        .cancel_part(parts[0].part_id, at(2))
        .await
        .unwrap();
    let retention = Retention::default();
    assert_eq!(
        bench.store.prune(&retention, at(89 * DAY)).await.unwrap(),
        0
    );
    assert!(bench.store.prune(&retention, at(91 * DAY)).await.unwrap() > 0);
    assert!(
        bench
            .store
            .outbox(OutboxScope::All)
            .await
            .unwrap()
            .is_empty()
    );
    // Nobody can say any more that it was sent before.
    let again = send(&bench.store, own("k", "1", &["hello"]), 1).await;
    let pruned_before = at(DAY);
    assert_eq!(again, Err(Conflict::TooOld { pruned_before }));
    let new = send(&bench.store, own("k", "1", &["hello"]), 91 * DAY).await;
    assert!(matches!(new, Ok(Sent::New(_))));
}

pub(crate) async fn what_a_program_has_shown_is_never_forgotten<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let Ok(Sent::New(id)) = send(&bench.store, own("k", "1", &["hello"]), 1).await else {
        panic!("it was new");
    };
    let parts = bench.store.outbox(OutboxScope::All).await.unwrap();
    bench.send(&parts[0], receipt("m-1"), 2).await;
    let _ = bench
        .store
        .prune(&Retention::default(), at(200 * DAY))
        .await;
    let again = send(&bench.store, own("k", "1", &["hello"]), 1).await;
    assert_eq!(again, Ok(Sent::Again(id)));
}

pub(crate) async fn a_lent_turn_keeps_the_token_of_its_program<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let store = &bench.store;
    let lent = store.request_lent_turn(inbound("1", "hi", Some("u-1")), "7:1", at(1));
    let lent = lent.await.unwrap();
    let again = store.request_lent_turn(inbound("1", "hi", Some("u-1")), "7:2", at(2));
    assert_eq!(again.await.unwrap(), lent);
    let row = store.turn(lent).await.unwrap().unwrap();
    assert_eq!(row.runner.as_deref(), Some("7:1"));
    let claimed = bench.claim_turn(&session("1"), lent, 3).await;
    assert_eq!(claimed.runner.as_deref(), Some("7:1"));
    let plain = store.request_turn(inbound("2", "hi", None), at(4)).await;
    let claimed = bench.claim_turn(&session("2"), plain.unwrap(), 5).await;
    assert_eq!(claimed.runner, None);
}

pub(crate) async fn a_reply_that_a_program_has_shown_is_history_at_once<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let key = session("1");
    let turn = bench
        .store
        .request_lent_turn(inbound("1", "hi", Some("u-1")), "7:1", at(1))
        .await
        .unwrap();
    let claimed = bench.claim_turn(&key, turn, 2).await;
    let reply = NewMessage {
        turn_id: Some(turn),
        ..own("turn", "1", &["hello", "again"])
    };
    let reply = NewMessage {
        origin: Origin::TurnReply,
        ..reply
    };
    let shown = |id: &str| Receipt {
        message_id: id.to_owned(),
        shown_at: None,
    };
    let end = TurnEnd {
        turn_id: turn,
        epoch: claimed.epoch,
        result: TurnResult::Done,
        usage: None,
        entries: Vec::new(),
        message: Some(reply),
        diagnostics: Vec::new(),
        shown: vec![shown("m-1"), shown("m-2")],
    };
    let ended = bench.store.finish_turns(vec![end], at(3)).await.unwrap();
    assert_eq!(ended, [Ok(())]);
    let rows = bench.store.transcript(&key, WindowOf::Shown).await.unwrap();
    assert_eq!(texts(&rows), ["hi", "hello", "again"]);
    assert_eq!(rows[1].channel_message_id.as_deref(), Some("m-1"));
    assert!(rows.iter().all(|row| row.visibility == Visibility::Visible));
    let parts = bench.store.turn_parts(turn).await.unwrap();
    let states: Vec<_> = parts.iter().map(|part| part.state).collect();
    assert_eq!(states, [PartState::Confirmed; 2]);
    assert!(
        bench
            .store
            .outbox(OutboxScope::Open)
            .await
            .unwrap()
            .is_empty()
    );
}
