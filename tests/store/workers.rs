//! What a worker finds that another left.

use chatcron::{
    message::{Origin, PartState},
    policy::{Effect, outbox::Transition},
    store::{AttemptFate, Store},
};

use crate::{Database, fixture::*};

pub(crate) async fn a_new_worker_finds_what_was_under_way<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let key = session("1");
    let result = message("m1", Origin::JobResult, destination("1"), &["one"]);
    let parts = bench.enqueued("s1", result, 60).await;
    let sending = bench.claim_part(parts[0].part_id, &key, 61).await;
    let run = bench.started("s2", 62).await;
    let running = bench.claim_run(run, 62).await;
    let (worker, found) = bench.store.begin_worker("2026b", at(70)).await.unwrap();
    assert_ne!(worker, bench.worker);
    assert_eq!(found.runs, vec![running.clone()]);
    assert_eq!(found.parts.len(), 1);
    assert_eq!(found.parts[0], sending);
    let requeue = Effect::Requeue {
        occurrence: scheduled("s2"),
    };
    let mut commit = bench.decision("budget", vec![requeue]).await;
    commit.attempt_end = Some(attempt_end(&found.runs[0], AttemptFate::Interrupted));
    bench.commit(commit, 71).await.unwrap();
    assert_eq!(bench.claim_run(run, 72).await.attempt, 2);
    bench
        .settle(&found.parts[0], Transition::Unknown, 72)
        .await
        .unwrap();
    let attempts = bench.store.attempts(run).await.unwrap();
    assert_eq!(attempts[0].result.as_deref(), Some("interrupted"));
    bench.store.end_worker(worker, at(80)).await.unwrap();
}

pub(crate) async fn a_new_worker_finds_it_again_if_nobody_decided<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let result = message("m1", Origin::JobResult, destination("1"), &["one"]);
    let parts = bench.enqueued("s1", result, 60).await;
    bench.claim_part(parts[0].part_id, &session("1"), 61).await;
    let run = bench.started("s2", 62).await;
    bench.claim_run(run, 62).await;
    for seconds in 70..73 {
        let (_, found) = bench
            .store
            .begin_worker("2026a", at(seconds))
            .await
            .unwrap();
        assert_eq!((found.runs.len(), found.parts.len()), (1, 1));
        // Nobody takes it for a part between two tries.
        let early = bench
            .claim(
                &session("1"),
                chatcron::policy::Grant::Deliver(parts[0].part_id),
                99,
            )
            .await;
        assert!(early.is_err());
    }
}

pub(crate) async fn a_turn_that_was_interrupted_twice_has_failed<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let key = session("1");
    let turn = bench
        .store
        .request_turn(inbound("1", "hi", None), at(1))
        .await
        .unwrap();
    bench.claim_turn(&key, turn, 2).await;
    bench.store.begin_worker("2026a", at(3)).await.unwrap();
    assert_eq!(
        bench.store.turn(turn).await.unwrap().unwrap().state,
        "waiting"
    );
    assert_eq!(bench.claim_turn(&key, turn, 4).await.attempt, 2);
    bench.store.begin_worker("2026a", at(5)).await.unwrap();
    let row = bench.store.turn(turn).await.unwrap().unwrap();
    assert_eq!(
        (row.state.as_str(), row.error.as_deref()),
        ("failed", Some("interrupted twice"))
    );
    assert_eq!(bench.recalled(&key).await, ["hi"]);
}

pub(crate) async fn a_part_between_two_tries_was_not_in_flight<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let result = message("m1", Origin::JobResult, destination("1"), &["one"]);
    let parts = bench.enqueued("s1", result, 60).await;
    let again = Transition::TryAgain {
        state: PartState::Sending,
        at: at(90),
    };
    bench.send(&parts[0], again, 61).await;
    let (_, found) = bench.store.begin_worker("2026a", at(70)).await.unwrap();
    assert!(found.parts.is_empty());
    bench.claim_part(parts[0].part_id, &session("1"), 90).await;
}

pub(crate) async fn other_zone_data_makes_every_job_look_again<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let wake = async || bench.store.next_wake().await.unwrap();
    assert_eq!(wake().await, Some(at(60)));
    bench.store.begin_worker("2026a", at(10)).await.unwrap();
    assert_eq!(wake().await, Some(at(60)), "the same data changes nothing");
    bench.store.begin_worker("2026b", at(20)).await.unwrap();
    assert_eq!(wake().await, Some(at(20)));
}
