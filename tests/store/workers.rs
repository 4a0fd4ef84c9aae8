//! What a worker finds that another left.

use chatcron::{
    ids::Epoch,
    message::{Origin, PartState},
    policy::{Effect, outbox::Transition},
    store::{AttemptFate, Conflict, SentBy, Store},
};

use crate::{Database, bench::begin, fixture::*};

pub(crate) async fn a_new_worker_finds_what_was_under_way<D: Database>(database: &D) {
    let mut bench = Bench::with_job(database).await;
    let key = session("1");
    let result = message("m1", Origin::JobResult, destination("1"), &["one"]);
    let parts = bench.enqueued("s1", result, 60).await;
    let sending = bench.claim_part(parts[0].part_id, &key, 61).await;
    let run = bench.started("s2", 62).await;
    let running = bench.claim_run(run, 62).await;
    database.end_leases().await;
    let begun = begin(&bench.store, "2026b", 70).await;
    let (worker, found) = (begun.id, begun.interrupted);
    assert_ne!(worker, bench.worker);
    bench.worker = worker;
    // Under leases of its own: whoever was taken for dead writes nothing more.
    let under = |epoch| (found.runs[0].epoch != epoch, found.parts[0].epoch != epoch);
    assert_eq!(under(running.epoch), (true, true));
    let (mut run_left, mut part_left) = (running.clone(), sending);
    run_left.epoch = found.runs[0].epoch;
    part_left.epoch = found.parts[0].epoch;
    assert_eq!(found.runs, vec![run_left]);
    assert_eq!(found.parts, vec![part_left]);
    let requeue = || Effect::Requeue {
        occurrence: scheduled("s2"),
    };
    let mut late = bench.decision("budget", vec![requeue()]).await;
    late.attempt_end = Some(attempt_end(&running, AttemptFate::Interrupted));
    let refused = bench.commit(late, 71).await;
    assert_eq!(refused.unwrap_err(), Conflict::LeaseLost);
    let mut commit = bench.decision("budget", vec![requeue()]).await;
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
        database.end_leases().await;
        let found = begin(&bench.store, "2026a", seconds).await.interrupted;
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
    let mut bench = Bench::on(database).await;
    let key = session("1");
    let turn = bench
        .store
        .request_turn(inbound("1", "hi", None), at(1))
        .await
        .unwrap();
    bench.claim_turn(&key, turn, 2).await;
    database.end_leases().await;
    bench.worker = begin(&bench.store, "2026a", 3).await.id;
    assert_eq!(
        bench.store.turn(turn).await.unwrap().unwrap().state,
        "waiting"
    );
    assert_eq!(bench.claim_turn(&key, turn, 4).await.attempt, 2);
    database.end_leases().await;
    begin(&bench.store, "2026a", 5).await;
    let row = bench.store.turn(turn).await.unwrap().unwrap();
    assert_eq!(
        (row.state.as_str(), row.error.as_deref()),
        ("failed", Some("interrupted twice"))
    );
    assert_eq!(bench.recalled(&key).await, ["hi"]);
}

pub(crate) async fn a_turn_that_had_effects_is_not_tried_again<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let key = session("1");
    let hello = inbound("1", "order it", None);
    let turn = bench.begin_turn(&key, hello, 1, 2).await;
    let by = SentBy::Turn(turn.turn_id, turn.epoch);
    let stale = SentBy::Turn(turn.turn_id, Epoch(turn.epoch.0 + 1));
    let too_late = bench.store.report_effects(stale, at(3)).await;
    assert_eq!(too_late.unwrap(), Err(Conflict::LeaseLost));
    let reported = bench.store.report_effects(by, at(3)).await;
    assert_eq!(reported.unwrap(), Ok(()));
    database.end_leases().await;
    begin(&bench.store, "2026a", 4).await;
    let row = bench.store.turn(turn.turn_id).await.unwrap().unwrap();
    assert_eq!(
        (row.state.as_str(), row.error.as_deref()),
        ("failed", Some("interrupted after effects"))
    );
    let after = bench.store.report_effects(by, at(5)).await;
    assert_eq!(after.unwrap(), Err(Conflict::LeaseLost));
    assert_eq!(bench.recalled(&key).await, ["order it"]);
}

pub(crate) async fn a_part_between_two_tries_was_not_in_flight<D: Database>(database: &D) {
    let mut bench = Bench::with_job(database).await;
    let result = message("m1", Origin::JobResult, destination("1"), &["one"]);
    let parts = bench.enqueued("s1", result, 60).await;
    let again = Transition::TryAgain {
        state: PartState::Sending,
        at: at(90),
    };
    bench.send(&parts[0], again, 61).await;
    database.end_leases().await;
    let begun = begin(&bench.store, "2026a", 70).await;
    assert!(begun.interrupted.parts.is_empty());
    bench.worker = begun.id;
    bench.claim_part(parts[0].part_id, &session("1"), 90).await;
}

pub(crate) async fn other_zone_data_makes_every_job_look_again<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let wake = async || bench.store.next_wake().await.unwrap();
    assert_eq!(wake().await, Some(at(60)));
    database.end_leases().await;
    begin(&bench.store, "2026a", 10).await;
    assert_eq!(wake().await, Some(at(60)), "the same data changes nothing");
    database.end_leases().await;
    begin(&bench.store, "2026b", 20).await;
    assert_eq!(wake().await, Some(at(20)));
}
