//! Several workers on one database of a server: leases, what they claim, and who takes over.

use std::time::Duration;

use chatcron::{
    message::{Origin, PartState},
    policy::{Effect, Grant, outbox::Transition},
    store::{
        AttemptFate, BegunWorker, ClaimRequest, Claimant, Claimed, Conflict, DueClaimant, DueKinds,
        NewWorker, Role, Store, WorkerId,
        postgres::{PostgresStore, who_works},
        sqlite::{Holder, OpenMode},
    },
};
use sqlx::{Connection, PgConnection};

use crate::{
    Database, PostgresDatabase,
    bench::{Bench, begin},
    cluster::Cluster,
    fixture::*,
};

macro_rules! bench_or_skip {
    () => {{
        let Some(server) = Cluster::shared() else {
            return;
        };
        let database = PostgresDatabase::on(server).await;
        let bench = Bench::with_job(&database).await;
        (database, bench)
    }};
}

/// Ends one worker's lease, as if it had been silent for so long.
async fn end_lease(database: &PostgresDatabase, worker: WorkerId) {
    let mut conn = PgConnection::connect(&database.url).await.unwrap();
    let end = "UPDATE workers SET lease_until = 0 WHERE worker_id = $1";
    let ended = sqlx::query(end).bind(worker.0).execute(&mut conn).await;
    assert_eq!(ended.unwrap().rows_affected(), 1);
}

async fn claim(
    bench: &Bench<PostgresStore>,
    by: Claimant,
    grant: Grant,
    lane: &chatcron::ids::SessionKey,
) -> Result<Claimed, Conflict> {
    let request = ClaimRequest {
        session_key: lane.clone(),
        grant,
    };
    let claimed = bench.store.claim(by, vec![request], at(99)).await.unwrap();
    claimed.into_iter().next().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_living_worker_holds_is_left_to_it() {
    let (_, bench) = bench_or_skip!();
    let run = bench.started("s2", 62).await;
    bench.claim_run(run, 62).await;
    let second = begin(&bench.store, "2026a", 63).await;
    assert!(second.interrupted.runs.is_empty());
    assert_eq!(second.others.len(), 1);
    let found = bench.store.take_over(second.id, at(64)).await.unwrap();
    assert!(found.runs.is_empty());
    assert_eq!(bench.store.running_runs().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_a_program_runs_is_left_to_the_worker_beside_it_while_that_lives() {
    let (database, bench) = bench_or_skip!();
    let second = begin(&bench.store, "2026a", 63).await.id;
    let token = format!("{}:0", bench.worker.0);
    let lent = bench
        .store
        .request_lent_turn(inbound("1", "hi", None), &token, at(64));
    let grant = Grant::Turn(lent.await.unwrap());
    let key = session("1");
    let refused = claim(&bench, second.into(), grant, &key).await;
    assert_eq!(refused.unwrap_err(), Conflict::NotNext);
    end_lease(&database, bench.worker).await;
    bench.store.take_over(second, at(70)).await.unwrap();
    // It is dead: the turn is closed, or handed back, by whoever comes first.
    let claimed = claim(&bench, second.into(), grant, &key).await;
    assert!(matches!(claimed, Ok(Claimed::Turn(_))), "{claimed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_the_living_takes_over_and_the_dead_one_is_refused_except_for_its_receipt() {
    let (database, bench) = bench_or_skip!();
    let key = session("1");
    let result = message("m1", Origin::JobResult, destination("1"), &["one"]);
    let parts = bench.enqueued("s1", result, 60).await;
    let sending = bench.claim_part(parts[0].part_id, &key, 61).await;
    let run = bench.started("s2", 62).await;
    let running = bench.claim_run(run, 62).await;
    let second = begin(&bench.store, "2026a", 63).await.id;
    let third = begin(&bench.store, "2026a", 63).await.id;
    end_lease(&database, bench.worker).await;
    let found = bench.store.take_over(second, at(70)).await.unwrap();
    assert_eq!((found.runs.len(), found.parts.len()), (1, 1));
    let again = bench.store.take_over(third, at(70)).await.unwrap();
    assert_eq!((again.runs.len(), again.parts.len()), (0, 0));
    // Frozen and thawed: it neither goes on nor begins anything, and knows why.
    assert_eq!(bench.store.renew_lease(bench.worker).await.unwrap(), None);
    let refused = claim(&bench, bench.worker.into(), Grant::Run(run), &running.lane).await;
    assert_eq!(refused.unwrap_err(), Conflict::LeaseLost);
    let requeue = || Effect::Requeue {
        occurrence: scheduled("s2"),
    };
    let mut late = bench.decision("budget", vec![requeue()]).await;
    late.attempt_end = Some(attempt_end(&running, AttemptFate::Interrupted));
    let refused = bench.commit(late, 71).await;
    assert_eq!(refused.unwrap_err(), Conflict::LeaseLost);
    let again = Transition::TryAgain {
        state: PartState::Pending,
        at: at(72),
    };
    let refused = bench.settle(&sending, again, 71).await;
    assert_eq!(refused.unwrap_err(), Conflict::LeaseLost);
    // What its successor decided stands, until the receipt says better.
    bench
        .settle(&found.parts[0], Transition::Unknown, 72)
        .await
        .unwrap();
    bench.settle(&sending, receipt("7"), 73).await.unwrap();
    assert_eq!(
        bench.part(sending.part_id).await.state,
        PartState::Confirmed
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_over_is_renewed_while_nobody_has_taken_over() {
    let (database, bench) = bench_or_skip!();
    let second = begin(&bench.store, "2026a", 1).await.id;
    end_lease(&database, bench.worker).await;
    let seen = bench.store.renew_lease(second).await.unwrap().unwrap();
    assert_eq!(seen.next_over, Some(Duration::ZERO));
    assert!(seen.others.is_empty(), "it is not alive");
    assert!(
        bench
            .store
            .renew_lease(bench.worker)
            .await
            .unwrap()
            .is_some()
    );
    let seen = bench.store.renew_lease(second).await.unwrap().unwrap();
    assert_eq!(seen.others.len(), 1);
    assert!(seen.next_over > Some(Duration::from_secs(30)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_by_one_that_took_over_and_died_is_found_by_the_next() {
    let (database, bench) = bench_or_skip!();
    let run = bench.started("s2", 62).await;
    bench.claim_run(run, 62).await;
    let second = begin(&bench.store, "2026a", 63).await.id;
    end_lease(&database, bench.worker).await;
    let taken = bench.store.take_over(second, at(64)).await.unwrap();
    end_lease(&database, second).await;
    let third = begin(&bench.store, "2026a", 65).await;
    assert_eq!(third.interrupted.runs.len(), 1);
    assert_ne!(third.interrupted.runs[0].epoch, taken.runs[0].epoch);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_worker_leaves_that_ends_in_order_is_taken_over_at_once() {
    let (_, bench) = bench_or_skip!();
    let run = bench.started("s2", 62).await;
    bench.claim_run(run, 62).await;
    let second = begin(&bench.store, "2026a", 63).await.id;
    bench.store.end_worker(bench.worker, at(64)).await.unwrap();
    let seen = bench.store.renew_lease(second).await.unwrap().unwrap();
    assert_eq!(seen.next_over, Some(Duration::ZERO));
    let found = bench.store.take_over(second, at(65)).await.unwrap();
    assert_eq!(found.runs.len(), 1);
    let living = bench.store.living_workers().await.unwrap();
    assert_eq!(
        living.iter().map(|worker| worker.id).collect::<Vec<_>>(),
        [second]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_runs_holds_over_all_workers() {
    let (_, bench) = bench_or_skip!();
    bench.create("other").await;
    let run = bench.started("s2", 62).await;
    let running = bench.claim_run(run, 62).await;
    let second = begin(&bench.store, "2026a", 63).await.id;
    let other = bench.decide("other", vec![start("s2", 62)], 62).await;
    let other = other.unwrap().started[0].1;
    let lane = chatcron::ids::SessionKey::job(&job_id("other"));
    let by = |max_concurrent| Claimant {
        worker: second,
        max_concurrent,
    };
    let refused = claim(&bench, by(1), Grant::Run(other), &lane).await;
    assert_eq!(refused.unwrap_err(), Conflict::NoSlot);
    assert_ne!(running.lane, lane);
    assert!(claim(&bench, by(2), Grant::Run(other), &lane).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn due_jobs_are_decided_about_by_one_worker_at_a_time() {
    let (database, bench) = bench_or_skip!();
    for n in 0..9 {
        bench.create(&format!("job{n}")).await;
    }
    let second = begin(&bench.store, "2026a", 1).await.id;
    let by = |worker| DueClaimant {
        worker,
        kinds: DueKinds::All,
    };
    let due = async |worker, most| {
        let found = bench
            .store
            .claim_due_jobs(by(worker), jiff::Timestamp::MIN, at(60), most)
            .await
            .unwrap();
        found
            .into_iter()
            .map(|stored| stored.job.id.to_string())
            .collect::<Vec<_>>()
    };
    let first_batch = due(bench.worker, 4).await;
    assert_eq!(first_batch, ["budget", "job0", "job1", "job2"]);
    assert_eq!(
        due(bench.worker, 4).await,
        first_batch,
        "its own it gets again"
    );
    let second_batch = due(second, 100).await;
    assert_eq!(second_batch.len(), 6);
    assert!(second_batch.iter().all(|id| !first_batch.contains(id)));
    assert!(due(second, 100).await.len() == 6 && due(bench.worker, 100).await.len() == 4);
    // Another decision ends the claim, and so does the death of who claimed.
    let mut decided = bench.decision("budget", Vec::new()).await;
    decided.wake_at = Some(at(60));
    bench.commit(decided, 61).await.unwrap();
    assert!(due(second, 100).await.contains(&"budget".to_owned()));
    end_lease(&database, bench.worker).await;
    bench.store.take_over(second, at(62)).await.unwrap();
    assert_eq!(due(second, 100).await.len(), 10);
    let next = bench.store.next_wake_of(by(second)).await.unwrap();
    assert_eq!(next, Some(at(60)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_with_older_zone_data_neither_claims_wall_time_jobs_nor_teaches_others() {
    let (database, bench) = bench_or_skip!();
    let of_release = async |zone_data: &str, release: &str| -> BegunWorker {
        let worker = NewWorker {
            role: Role::Worker,
            zone_data: zone_data.to_owned(),
            zone_release: Some(release.to_owned()),
        };
        bench.store.begin_worker(worker, at(10)).await.unwrap()
    };
    let newer = of_release("new", "2026b").await;
    let wake = async || bench.store.next_wake().await.unwrap();
    assert_eq!(wake().await, Some(at(10)), "other data: looked at anew");
    let mut decided = bench.decision("budget", Vec::new()).await;
    decided.wake_at = Some(at(60));
    bench.commit(decided, 11).await.unwrap();
    let older = of_release("old", "2026a").await;
    assert!(older.others.iter().any(|other| other.id == newer.id));
    assert_eq!(wake().await, Some(at(60)), "older data change nothing");
    let by = DueClaimant {
        worker: older.id,
        kinds: DueKinds::WithoutZones,
    };
    let due = bench
        .store
        .claim_due_jobs(by, jiff::Timestamp::MIN, at(60), 9)
        .await;
    assert!(due.unwrap().is_empty(), "it is a daily job");
    assert_eq!(bench.store.next_wake_of(by).await.unwrap(), None);
    // A second start with the newer data finds nothing changed.
    of_release("new", "2026b").await;
    assert_eq!(wake().await, Some(at(60)));
    drop(database);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_works_is_told_before_the_database_is_opened() {
    let Some(server) = Cluster::shared() else {
        return;
    };
    let database = PostgresDatabase::on(server).await;
    let address = database.address();
    let working = async || who_works(&address).await.unwrap();
    assert_eq!(working().await, None, "there are no tables");
    let store = database.open().await;
    assert_eq!(working().await, None);
    let worker = |role| NewWorker {
        role,
        zone_data: "2026a".to_owned(),
        zone_release: None,
    };
    store
        .begin_worker(worker(Role::Errand), at(1))
        .await
        .unwrap();
    assert_eq!(working().await, Some(Holder::Errand));
    let begun = store
        .begin_worker(worker(Role::Worker), at(1))
        .await
        .unwrap();
    assert_eq!(working().await, Some(Holder::Worker));
    store.end_worker(begun.id, at(2)).await.unwrap();
    assert_eq!(working().await, Some(Holder::Errand));
    database.end_leases().await;
    assert_eq!(working().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_lasts_as_long_as_the_address_says() {
    let Some(server) = Cluster::shared() else {
        return;
    };
    let database = PostgresDatabase::on(server).await;
    let lease = Duration::from_secs(7);
    let address = database.address().with_lease(lease);
    let store = PostgresStore::open(&address, OpenMode::CreateIfMissing)
        .await
        .unwrap();
    let begun = begin(&store, "2026a", 1).await;
    assert_eq!(begun.lease, Some(lease));
    let renewed = store.renew_lease(begun.id).await.unwrap().unwrap();
    assert_eq!(renewed.lasts, lease);
}
