//! Claims, attempts and their fences.

use chatcron::{
    ids::{PartId, RunId, SessionKey},
    message::{Origin, PartState},
    occurrence::{FailReason, Outcome},
    policy::{AttemptResult, Effect, Grant, outbox::Transition},
    store::{AttemptEnd, AttemptFate, ClaimRequest, Conflict, LaneLimits, RunFilter, Store},
    transcript::{Role, Visibility},
};

use crate::{Database, fixture::*};

fn lane() -> SessionKey {
    route("budget").lane
}

pub(crate) async fn a_run_is_claimed_once_and_only_when_due<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let run = bench.started("s1", 60).await;
    let grant = Grant::Run(run);
    let early = bench.claim(&lane(), grant, 59).await;
    assert_eq!(early.unwrap_err(), Conflict::NotNext);
    let elsewhere = bench.claim(&session("1"), grant, 60).await;
    assert_eq!(elsewhere.unwrap_err(), Conflict::Missing);
    let claimed = bench.claim_run(run, 60).await;
    assert_eq!((claimed.attempt, claimed.lane.clone()), (1, lane()));
    assert_eq!(claimed.occurrence, scheduled("s1"));
    let taken = bench.claim(&lane(), grant, 60).await;
    assert_eq!(taken.unwrap_err(), Conflict::LaneTaken);
    let unknown = bench
        .claim(&session("1"), Grant::Deliver(PartId(9)), 60)
        .await;
    assert_eq!(unknown.unwrap_err(), Conflict::Missing);
    let attempts = bench.store.attempts(run).await.unwrap();
    assert_eq!((attempts.len(), attempts[0].ended_at), (1, None));
}

pub(crate) async fn a_due_run_waits_until_it_is_claimed<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let waits = async |seconds| bench.store.has_waiting_run(at(seconds)).await.unwrap();
    assert!(!waits(60).await);
    let run = bench.started("s1", 60).await;
    assert!(!waits(59).await);
    assert!(waits(60).await);
    bench.claim_run(run, 60).await;
    assert!(!waits(60).await);
}

pub(crate) async fn two_claims_of_one_lane_in_a_batch_give_one_holder<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let first = bench.started("s1", 60).await;
    let second = bench.started("s2", 61).await;
    let request = |run: RunId| ClaimRequest {
        session_key: lane(),
        grant: Grant::Run(run),
    };
    let batch = vec![request(first), request(second)];
    let results = bench
        .store
        .claim(bench.worker.into(), batch, at(61))
        .await
        .unwrap();
    assert!(results[0].is_ok());
    assert_eq!(results[1].as_ref().unwrap_err(), &Conflict::LaneTaken);
}

pub(crate) async fn a_retry_is_a_new_attempt_under_a_new_epoch<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let run = bench.started("s1", 60).await;
    let first = bench.claim_run(run, 60).await;
    let backoff = Effect::Backoff {
        occurrence: scheduled("s1"),
        until: at(90),
    };
    let mut commit = bench.decision("budget", vec![backoff]).await;
    let failed = AttemptFate::Ended(AttemptResult::Failed(FailReason::Transient));
    commit.attempt_end = Some(AttemptEnd {
        error: Some("overloaded".to_owned()),
        output: None,
        ..attempt_end(&first, failed)
    });
    bench.commit(commit, 65).await.unwrap();
    let row = bench
        .store
        .runs(&RunFilter::default())
        .await
        .unwrap()
        .remove(0);
    assert_eq!((row.state.as_str(), row.due_at), ("backoff", Some(at(90))));
    assert_eq!(row.error.as_deref(), Some("overloaded"));
    assert!(bench.queues(99, 9).await.is_empty());
    let requeue = Effect::Requeue {
        occurrence: scheduled("s1"),
    };
    bench.decide("budget", vec![requeue], 90).await.unwrap();
    let second = bench.claim_run(run, 90).await;
    assert_eq!(second.attempt, 2);
    assert_ne!(second.epoch, first.epoch);
    bench.finish(&second, "s1", None, 95).await.unwrap();
    let attempts = bench.store.attempts(run).await.unwrap();
    assert_eq!(attempts[0].result.as_deref(), Some("failed:transient"));
    assert_eq!(attempts[0].error.as_deref(), Some("overloaded"));
    assert_eq!(attempts[1].result.as_deref(), Some("done"));
    let row = bench
        .store
        .runs(&RunFilter::default())
        .await
        .unwrap()
        .remove(0);
    assert_eq!((row.started_at, row.ended_at), (Some(at(60)), Some(at(95))));
    assert_eq!(
        (row.error, row.output.as_deref(), row.attempts),
        (None, Some("said"), 2)
    );
}

pub(crate) async fn a_late_attempt_end_is_refused_and_writes_nothing<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let run = bench.started("s1", 60).await;
    let old = bench.claim_run(run, 60).await;
    let requeue = Effect::Requeue {
        occurrence: scheduled("s1"),
    };
    let mut commit = bench.decision("budget", vec![requeue]).await;
    commit.attempt_end = Some(attempt_end(&old, AttemptFate::Interrupted));
    bench.commit(commit, 61).await.unwrap();
    let new = bench.claim_run(run, 62).await;
    let late = message("late", Origin::JobResult, destination("1"), &["late"]);
    let mut commit = bench
        .decision("budget", vec![end("s1", Outcome::Done)])
        .await;
    commit.attempt_end = Some(AttemptEnd {
        entries: vec![draft(
            &lane(),
            Role::Assistant,
            "late",
            Visibility::Internal,
        )],
        message: Some(late),
        ..attempt_end(&old, AttemptFate::Ended(AttemptResult::Done))
    });
    assert_eq!(bench.commit(commit, 63).await, Err(Conflict::LeaseLost));
    assert!(bench.store.run_parts(run).await.unwrap().is_empty());
    bench.finish(&new, "s1", None, 64).await.unwrap();
    let again = bench.finish(&new, "s1", None, 65).await;
    assert_eq!(again, Err(Conflict::LeaseLost));
}

pub(crate) async fn an_attempt_end_without_a_decision_is_refused<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let run = bench.started("s1", 60).await;
    let claimed = bench.claim_run(run, 60).await;
    let mut commit = bench.decision("budget", Vec::new()).await;
    commit.attempt_end = Some(attempt_end(&claimed, AttemptFate::Cancelled));
    assert_eq!(bench.commit(commit, 61).await, Err(Conflict::Undecided));
    assert_eq!(bench.stored("budget").await.version, 2);
}

pub(crate) async fn a_cancelled_run_frees_its_lane_and_fences_its_attempt<D: Database>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    let run = bench.started("s1", 60).await;
    let claimed = bench.claim_run(run, 60).await;
    let written = bench
        .decide("budget", vec![end("s1", Outcome::Cancelled)], 61)
        .await;
    assert_eq!(written.unwrap().ended, [run]);
    let next = bench.started("s2", 62).await;
    bench.claim_run(next, 62).await;
    let late = bench.finish(&claimed, "s1", None, 63).await;
    assert_eq!(late, Err(Conflict::LeaseLost));
    let attempts = bench.store.attempts(run).await.unwrap();
    assert_eq!(attempts[0].result.as_deref(), Some("cancelled"));
}

pub(crate) async fn a_lane_shows_its_head_turn_and_run<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let key = session("1");
    let result = message("m1", Origin::JobResult, destination("1"), &["a", "b"]);
    let parts = bench.enqueued("s1", result, 60).await;
    let turn = bench
        .store
        .request_turn(inbound("1", "hi", None), at(70))
        .await
        .unwrap();
    bench
        .store
        .request_turn(inbound("1", "there", None), at(71))
        .await
        .unwrap();
    let mut commit = bench
        .decision("budget", vec![start("s2", 80), start("s3", 75)])
        .await;
    commit.route.lane = key.clone();
    let written = bench.commit(commit, 80).await.unwrap();
    let queues = bench.queues(80, 9).await;
    assert_eq!(queues.len(), 1);
    let queue = &queues[0];
    assert_eq!(queue.session_key, key);
    let delivery = queue.delivery.as_ref().unwrap();
    assert_eq!(delivery.part_id, parts[0].part_id);
    assert_eq!(
        (
            delivery.enqueued_at,
            delivery.next_attempt_at,
            delivery.first
        ),
        (at(60), at(60), false)
    );
    assert_eq!(queue.turn.as_ref().unwrap().turn_id, turn);
    let run = queue.run.as_ref().unwrap();
    assert_eq!((run.run_id, run.due_at), (written.started[1].1, at(75)));
    let before = bench.queues(74, 9).await;
    assert!(before[0].run.is_none());
    bench.claim_turn(&key, turn, 80).await;
    assert!(bench.queues(80, 9).await.is_empty());
}

pub(crate) async fn a_part_that_is_not_the_head_waits<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let result = message("m1", Origin::JobResult, destination("1"), &["a", "b"]);
    let parts = bench.enqueued("s1", result, 60).await;
    let second = bench
        .claim(&session("1"), Grant::Deliver(parts[1].part_id), 60)
        .await;
    assert_eq!(second.unwrap_err(), Conflict::NotNext);
    bench.send(&parts[0], receipt("m-1"), 60).await;
    bench.send(&parts[1], receipt("m-2"), 60).await;
    let again = bench
        .claim(&session("1"), Grant::Deliver(parts[1].part_id), 60)
        .await;
    assert_eq!(again.unwrap_err(), Conflict::PartSettled);
}

pub(crate) async fn the_next_instant_is_the_first_that_comes_due<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    assert_eq!(bench.store.next_lane_instant(at(0)).await.unwrap(), None);
    bench.started("s1", 300).await;
    assert_eq!(
        bench.store.next_lane_instant(at(0)).await.unwrap(),
        Some(at(300))
    );
    assert_eq!(bench.store.next_lane_instant(at(300)).await.unwrap(), None);
}

pub(crate) async fn the_oldest_lanes_are_listed_first<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    for (address, seconds) in [("3", 30), ("1", 10), ("2", 20)] {
        let message = inbound(address, "hi", None);
        bench
            .store
            .request_turn(message, at(seconds))
            .await
            .unwrap();
    }
    let queues = bench.queues(99, 2).await;
    let keys: Vec<_> = queues.into_iter().map(|queue| queue.session_key).collect();
    assert_eq!(keys, [session("1"), session("2")]);
}

pub(crate) async fn the_first_snapshot_of_a_run_is_kept<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let run = bench.started("s1", 60).await;
    assert_eq!(bench.store.keep_context(run, "one").await.unwrap(), "one");
    assert_eq!(bench.store.keep_context(run, "two").await.unwrap(), "one");
    assert_eq!(
        bench.claim_run(run, 60).await.context.as_deref(),
        Some("one")
    );
    assert!(bench.store.keep_context(RunId(99), "x").await.is_err());
}

pub(crate) async fn lanes_that_can_only_wait_hide_none_that_can_go_on<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    for chat in 0..4 {
        let address = chat.to_string();
        let producer = format!("m{chat}");
        let result = message(&producer, Origin::JobResult, destination(&address), &["x"]);
        let parts = bench.enqueued(&format!("s{chat}"), result, 60).await;
        let again = Transition::TryAgain {
            state: PartState::Pending,
            at: at(900),
        };
        bench.send(&parts[0], again, 61).await;
    }
    for run in 10..14 {
        bench.started(&format!("s{run}"), 62).await;
    }
    let hello = inbound("9", "hi", None);
    bench.store.request_turn(hello, at(70)).await.unwrap();
    let no_slots = LaneLimits { runs: 0, others: 2 };
    let queues = bench.store.lane_queues(at(80), no_slots).await.unwrap();
    let keys: Vec<_> = queues.into_iter().map(|queue| queue.session_key).collect();
    assert_eq!(keys, [session("9")]);
}
