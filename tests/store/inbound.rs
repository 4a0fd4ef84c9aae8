//! What channels bring in.

use chatcron::{
    message::Origin,
    store::{Conflict, InboundBatch, Store, TurnResult, WindowOf},
};

use crate::{
    Database,
    bench::{Bench, begin},
    fixture::*,
};

const BOT: &str = "https://api.example.org/bot1";

fn batch<S>(bench: &Bench<S>, position: &str, words: &[(&str, &str)]) -> InboundBatch {
    let messages = words.iter().map(|(id, text)| inbound("1", text, Some(*id)));
    InboundBatch {
        source: BOT.to_owned(),
        worker: bench.worker,
        position: position.to_owned(),
        messages: messages.collect(),
        moved: Vec::new(),
    }
}

pub(crate) async fn messages_and_the_position_behind_them_are_one_commit<D: Database>(
    database: &D,
) {
    let bench = Bench::on(database).await;
    let store = &bench.store;
    let unread = store
        .receive(batch(&bench, "2", &[("a", "hi")]), at(1))
        .await;
    assert_eq!(unread.unwrap(), Err(Conflict::LeaseLost));
    let from = store.read_source(BOT, bench.worker).await.unwrap().unwrap();
    assert_eq!(from.position, None);
    let first = batch(&bench, "3", &[("a", "hi"), ("b", "there")]);
    let turns = store.receive(first.clone(), at(2)).await.unwrap().unwrap();
    assert_eq!(turns.len(), 2);
    let from = store.read_source(BOT, bench.worker).await.unwrap().unwrap();
    let position = from.position.unwrap();
    assert_eq!((position.at.as_str(), position.moved_at), ("3", at(2)));
    // The same again is the same.
    let again = InboundBatch {
        position: "4".to_owned(),
        ..first
    };
    assert_eq!(store.receive(again, at(3)).await.unwrap().unwrap(), turns);
    let rows = store
        .transcript(&session("1"), WindowOf::All)
        .await
        .unwrap();
    assert_eq!(texts(&rows), ["hi", "there"]);
    let other = store.read_source("another", bench.worker).await.unwrap();
    assert_eq!(other.unwrap().position, None);
}

pub(crate) async fn a_source_has_one_reader_until_that_is_gone<D: Database>(database: &D) {
    let old = Bench::on(database).await;
    let read = old.store.read_source(BOT, old.worker).await.unwrap();
    assert!(read.is_ok());
    let store = database.open().await;
    let begun = begin(&store, "2026a", 1).await;
    if begun.lease.is_some() {
        // Both are alive, and the first one reads.
        let read = store.read_source(BOT, begun.id).await.unwrap();
        assert_eq!(read, Err(Conflict::LeaseLost));
        let taken = old
            .store
            .receive(batch(&old, "5", &[("z", "in time")]), at(1));
        assert_eq!(taken.await.unwrap().unwrap().len(), 1);
        old.store.end_worker(old.worker, at(2)).await.unwrap();
    }
    let before = old.store.transcript(&session("1"), WindowOf::All).await;
    let late = old.store.receive(batch(&old, "9", &[("a", "late")]), at(3));
    assert_eq!(late.await.unwrap(), Err(Conflict::LeaseLost));
    let read = store.read_source(BOT, begun.id).await.unwrap();
    assert!(read.is_ok());
    let read = old.store.read_source(BOT, old.worker).await.unwrap();
    assert_eq!(read, Err(Conflict::LeaseLost));
    let after = old.store.transcript(&session("1"), WindowOf::All).await;
    assert_eq!(after.unwrap(), before.unwrap());
}

pub(crate) async fn a_message_whose_id_another_row_has_is_kept<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let result = message("m1", Origin::JobResult, destination("1"), &["news"]);
    let parts = bench.enqueued("s1", result, 1).await;
    bench.send(&parts[0], receipt("7"), 2).await;
    let asked = bench
        .store
        .request_turn(inbound("1", "first", Some("8")), at(3));
    let reply = bench
        .claim_turn(&session("1"), asked.await.unwrap(), 4)
        .await;
    let said = message("m2", Origin::TurnReply, destination("1"), &["reply"]);
    let ended = bench.finish_turn(&reply, TurnResult::Done, Some(said), 5);
    ended.await.unwrap();
    let parts = bench.store.turn_parts(reply.turn_id).await.unwrap();
    bench.send(&parts[0], receipt("9"), 6).await;
    for (id, words) in [("7", "as the result"), ("9", "as the reply")] {
        let turn = bench
            .store
            .request_turn(inbound("1", words, Some(id)), at(7));
        assert_ne!(turn.await.unwrap(), reply.turn_id);
    }
    let rows = bench.store.transcript(&session("1"), WindowOf::All).await;
    let rows = texts(&rows.unwrap());
    assert!(rows.contains(&"as the result".to_owned()), "{rows:?}");
    assert!(rows.contains(&"as the reply".to_owned()), "{rows:?}");
}

pub(crate) async fn a_chat_that_moved_is_known_to_both_sides<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let store = &bench.store;
    store.read_source(BOT, bench.worker).await.unwrap().unwrap();
    let moved = InboundBatch {
        moved: vec![(session("1"), "-1001".to_owned())],
        ..batch(&bench, "2", &[])
    };
    store.receive(moved.clone(), at(1)).await.unwrap().unwrap();
    assert_eq!(store.moved_chats().await.unwrap(), moved.moved);
    let key = session("1");
    let turn = store
        .request_turn(inbound("1", "hi", None), at(2))
        .await
        .unwrap();
    let claimed = bench.claim_turn(&key, turn, 3).await;
    let said = message("m1", Origin::TurnReply, destination("1"), &["hello"]);
    let ended = bench.finish_turn(&claimed, TurnResult::Done, Some(said), 4);
    ended.await.unwrap();
    let part = store.turn_parts(turn).await.unwrap().remove(0);
    let part = bench.claim_part(part.part_id, &key, 5).await;
    assert_eq!(part.moved_to.as_deref(), Some("-1001"));
}
