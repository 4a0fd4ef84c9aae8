//! Jobs, versions and the ledger of slots.

use chatcron::{
    ids::SessionKey,
    job::Job,
    occurrence::{Cause, OccurrenceRef, Outcome, SkipReason},
    policy::{Effect, JobState, SkippedRange, WaitingSlot, WaitsFor},
    store::{Conflict, JobCommit, JobSource, Route, RunFilter, Store, Target},
};
use jiff::Timestamp;

use crate::{Database, fixture::*};

pub(crate) async fn a_job_comes_back_as_it_was_committed<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let stored = bench.stored("budget").await;
    assert_eq!(stored.job, job("budget", "report"));
    assert_eq!(
        (stored.incarnation, stored.revision, stored.version),
        (1, 1, 1)
    );
    assert_eq!(stored.source, JobSource::File("jobs.toml".to_owned()));
    assert_eq!(stored.state, JobState::activated(at(0)));
    assert_eq!(stored.wake_at, Some(at(60)));
    assert_eq!(bench.store.all_jobs().await.unwrap(), [stored]);
}

pub(crate) async fn a_stale_version_fails_its_own_item_and_nobody_elses<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    bench.create("other").await;
    let mut stale = bench.decision("budget", vec![start("s1", 60)]).await;
    stale.target = Target::Keep { version: 7 };
    let good = bench.decision("other", vec![start("s1", 60)]).await;
    let unknown = JobCommit {
        target: Target::Keep { version: 1 },
        ..Bench::<D::Store>::creation("nobody")
    };
    let again = Bench::<D::Store>::creation("other");
    let results = bench
        .store
        .commit(vec![stale, good, unknown, again], at(60))
        .await
        .unwrap();
    assert_eq!(results[0], Err(Conflict::StaleVersion));
    assert!(results[1].is_ok());
    assert_eq!(results[2], Err(Conflict::Missing));
    assert_eq!(results[3], Err(Conflict::StaleVersion));
    let runs = bench.store.runs(&RunFilter::default()).await.unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].job_id, job_id("other"));
}

pub(crate) async fn the_second_item_for_a_job_in_one_batch_is_stale<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let first = bench.decision("budget", vec![start("s1", 60)]).await;
    let second = bench.decision("budget", vec![start("s2", 61)]).await;
    let results = bench
        .store
        .commit(vec![first, second], at(60))
        .await
        .unwrap();
    assert!(results[0].is_ok());
    assert_eq!(results[1], Err(Conflict::StaleVersion));
    assert_eq!(bench.stored("budget").await.version, 2);
}

pub(crate) async fn a_removed_id_that_is_created_again_is_another_incarnation<D: Database>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    bench.started("s1", 60).await;
    let skipped = skip("s2", "s4", 61, 63, 3);
    bench.decide("budget", vec![skipped], 63).await.unwrap();
    let mut removal = bench
        .decision("budget", vec![end("s1", Outcome::Cancelled)])
        .await;
    removal.target = Target::Remove { version: 3 };
    let removed = bench.commit(removal, 61).await.unwrap();
    assert_eq!(removed.ended.len(), 1);
    assert_eq!(bench.stored("budget").await.removed_at, Some(at(61)));
    assert!(bench.store.all_jobs().await.unwrap().is_empty());
    assert!(
        bench
            .store
            .due_jobs(Timestamp::MIN, at(999), 10)
            .await
            .unwrap()
            .is_empty()
    );
    bench.create("budget").await;
    let again = bench.stored("budget").await;
    assert_eq!(
        (again.incarnation, again.revision, again.removed_at),
        (2, 1, None)
    );
    assert!(again.version > 4, "a decision about the old job is stale");
    bench.started("s1", 60).await;
    bench.started("s3", 62).await;
}

pub(crate) async fn a_redefinition_leaves_what_was_planned_with_the_old_definition<D: Database>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    let changed = job("budget", "another prompt");
    let mut commit = bench.decision("budget", vec![start("s1", 60)]).await;
    commit.target = Target::Redefine {
        version: 1,
        job: Box::new(changed.clone()),
        source: JobSource::Runtime("api".to_owned()),
    };
    let run = bench.commit(commit, 60).await.unwrap().started[0].1;
    let stored = bench.stored("budget").await;
    assert_eq!((stored.job, stored.revision), (changed.clone(), 2));
    assert_eq!(stored.source, JobSource::Runtime("api".to_owned()));
    let claimed = bench.claim_run(run, 60).await;
    assert_eq!(claimed.job, job("budget", "report"));
    bench.finish(&claimed, "s1", None, 61).await.unwrap();
    let run = bench.started("s2", 62).await;
    assert_eq!(bench.claim_run(run, 62).await.job, changed);
}

pub(crate) async fn a_waiting_slot_keeps_its_route_and_definition_when_it_starts<D: Database>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    let waiting = WaitingSlot {
        slot: slot("s1"),
        nominal: at(60),
        fire_at: at(70),
        cause: Cause::CatchUp,
        waits_for: WaitsFor::Instant,
        outdated: false,
    };
    let wait = Effect::Wait {
        waiting,
        merged: vec![slot("s0")],
    };
    bench.decide("budget", vec![wait], 60).await.unwrap();
    let listed = bench.store.runs(&RunFilter::default()).await.unwrap();
    assert_eq!(
        (listed[0].state.as_str(), listed[0].run_id),
        ("waiting", None)
    );
    let mut redefine = bench.decision("budget", Vec::new()).await;
    redefine.target = Target::Redefine {
        version: 2,
        job: Box::new(job("budget", "new")),
        source: JobSource::File("jobs.toml".to_owned()),
    };
    bench.commit(redefine, 61).await.unwrap();
    let mut begin = bench.decision("budget", vec![start("s1", 70)]).await;
    begin.route = Route {
        lane: SessionKey::from_stored("elsewhere"),
        lane_per_run: false,
        destination: None,
    };
    let run = bench.commit(begin, 70).await.unwrap().started[0].1;
    let claimed = bench.claim_run(run, 70).await;
    let expected: Job = job("budget", "report");
    assert_eq!(claimed.job, expected);
    assert_eq!(claimed.destination, Some(destination("1")));
    assert_eq!(claimed.nominal_at, at(60));
}

fn skip(first: &str, last: &str, from: i64, to: i64, count: u64) -> Effect {
    Effect::Skip(SkippedRange {
        first: slot(first),
        first_nominal: at(from),
        last: slot(last),
        last_nominal: at(to),
        count,
        reason: SkipReason::Missed,
    })
}

fn accounted(name: &str) -> Conflict {
    Conflict::SlotAccounted { slot: slot(name) }
}

pub(crate) async fn a_slot_is_accounted_once<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    bench.started("s1", 60).await;
    let wait = Effect::Wait {
        waiting: WaitingSlot {
            slot: slot("s1"),
            nominal: at(60),
            fire_at: at(60),
            cause: Cause::Scheduled,
            waits_for: WaitsFor::Instant,
            outdated: false,
        },
        merged: Vec::new(),
    };
    for again in [start("s1", 60), wait, skip("s1", "s1", 60, 60, 1)] {
        // The slot that comes before it in the decision is not recorded either.
        let effects = vec![start("s2", 120), again];
        assert_eq!(
            bench.decide("budget", effects, 120).await,
            Err(accounted("s1"))
        );
    }
    assert_eq!(
        bench.store.runs(&RunFilter::default()).await.unwrap().len(),
        1
    );
    assert_eq!(bench.stored("budget").await.version, 2);
    bench
        .decide("budget", vec![skip("s3", "s3", 180, 180, 1)], 180)
        .await
        .unwrap();
    let newest = &bench.store.runs(&RunFilter::default()).await.unwrap()[0];
    assert_eq!(
        (newest.state.as_str(), newest.reason.as_deref()),
        ("skipped", Some("missed"))
    );
    assert_eq!(newest.ended_at, Some(at(180)));
}

pub(crate) async fn a_slot_inside_a_skipped_range_is_accounted<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    bench
        .decide("budget", vec![skip("s1", "s9", 100, 900, 9)], 900)
        .await
        .unwrap();
    for inside in [
        start("s1", 100),
        start("s5", 500),
        skip("s9", "s9", 900, 900, 1),
    ] {
        let refused = bench.decide("budget", vec![inside], 900).await;
        assert!(
            matches!(refused, Err(Conflict::SlotAccounted { .. })),
            "{refused:?}"
        );
    }
    bench
        .decide("budget", vec![start("s10", 1000)], 1000)
        .await
        .unwrap();
    let ranges = bench.store.ranges(&RunFilter::default()).await.unwrap();
    assert_eq!((ranges[0].slots, ranges[0].reason), (9, SkipReason::Missed));
    assert_eq!(
        (&ranges[0].first_slot, &ranges[0].last_slot),
        (&slot("s1"), &slot("s9"))
    );
}

pub(crate) async fn a_range_that_meets_a_row_or_a_range_is_refused<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    bench.started("s5", 500).await;
    let over_row = skip("s4", "s6", 400, 600, 3);
    assert_eq!(
        bench.decide("budget", vec![over_row], 600).await,
        Err(accounted("s5"))
    );
    bench
        .decide("budget", vec![skip("s6", "s8", 600, 800, 3)], 800)
        .await
        .unwrap();
    for (first, from, to) in [("s7", 700, 900), ("s55", 550, 650), ("s55", 550, 900)] {
        let over_range = skip(first, "sx", from, to, 3);
        assert_eq!(
            bench.decide("budget", vec![over_range], 900).await,
            Err(accounted(first))
        );
    }
}

pub(crate) async fn an_occurrence_ends_once<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    bench.started("s1", 60).await;
    let cancel = || vec![end("s1", Outcome::Cancelled)];
    bench.decide("budget", cancel(), 61).await.unwrap();
    assert_eq!(
        bench.decide("budget", cancel(), 62).await,
        Err(Conflict::Missing)
    );
    let requeue = Effect::Requeue {
        occurrence: scheduled("s1"),
    };
    assert_eq!(
        bench.decide("budget", vec![requeue], 62).await,
        Err(Conflict::Missing)
    );
    let twice = vec![
        start("s2", 63),
        end("s2", Outcome::Cancelled),
        end("s2", Outcome::Done),
    ];
    assert_eq!(
        bench.decide("budget", twice, 63).await,
        Err(Conflict::Missing)
    );
    let run = &bench.store.runs(&RunFilter::default()).await.unwrap()[0];
    assert_eq!(
        (run.state.as_str(), run.ended_at),
        ("cancelled", Some(at(61)))
    );
}

pub(crate) async fn a_slot_may_wait_and_start_in_one_decision<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let wait = Effect::Wait {
        waiting: WaitingSlot {
            slot: slot("s1"),
            nominal: at(60),
            fire_at: at(60),
            cause: Cause::Scheduled,
            waits_for: WaitsFor::Instant,
            outdated: false,
        },
        merged: Vec::new(),
    };
    let written = bench
        .decide("budget", vec![wait, start("s1", 60)], 60)
        .await
        .unwrap();
    assert_eq!(written.started.len(), 1);
    assert_eq!(written.started[0].0, scheduled("s1"));
    bench.claim_run(written.started[0].1, 60).await;
}

pub(crate) async fn due_jobs_come_in_order_of_wake_up_and_id<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    for (id, wake) in [
        ("c", Some(50)),
        ("a", Some(50)),
        ("b", Some(40)),
        ("d", None),
        ("e", Some(90)),
    ] {
        let mut creation = Bench::<D::Store>::creation(id);
        creation.wake_at = wake.map(at);
        bench.commit(creation, 0).await.unwrap();
    }
    let ids = |jobs: Vec<chatcron::store::StoredJob>| -> Vec<String> {
        jobs.into_iter().map(|job| job.job.id.to_string()).collect()
    };
    assert_eq!(
        ids(bench
            .store
            .due_jobs(Timestamp::MIN, at(50), 10)
            .await
            .unwrap()),
        ["b", "a", "c"]
    );
    assert_eq!(
        ids(bench
            .store
            .due_jobs(Timestamp::MIN, at(50), 2)
            .await
            .unwrap()),
        ["b", "a"]
    );
    assert_eq!(
        ids(bench.store.due_jobs(at(40), at(50), 10).await.unwrap()),
        ["a", "c"]
    );
    assert_eq!(bench.store.next_wake().await.unwrap(), Some(at(40)));
    let named = [job_id("e"), job_id("nobody"), job_id("a")];
    assert_eq!(ids(bench.store.jobs(&named).await.unwrap()), ["e", "a"]);
}

pub(crate) async fn requests_are_told_apart_by_their_ids<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let manual = |request| Effect::Start {
        occurrence: OccurrenceRef::Manual(request),
        nominal: at(60),
        fire_at: at(60),
        cause: Cause::Manual,
        merged: Vec::new(),
    };
    let first = bench.store.new_request().await.unwrap();
    let second = bench.store.new_request().await.unwrap();
    assert_ne!(first, second);
    bench
        .decide("budget", vec![manual(first)], 60)
        .await
        .unwrap();
    let again = bench.decide("budget", vec![manual(first)], 60).await;
    assert_eq!(again, Err(Conflict::StaleVersion));
    let run = bench
        .decide("budget", vec![manual(second)], 60)
        .await
        .unwrap()
        .started[0]
        .1;
    assert_eq!(
        bench.claim_run(run, 60).await.occurrence,
        OccurrenceRef::Manual(second)
    );
    let cancel = Effect::End {
        occurrence: OccurrenceRef::Manual(first),
        outcome: Outcome::Cancelled,
    };
    bench.decide("budget", vec![cancel], 61).await.unwrap();
}

pub(crate) async fn the_chats_of_the_jobs_file_are_replaced_as_a_whole<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let (mut one, mut two) = (chat("1"), chat("2"));
    bench
        .store
        .set_chats(vec![one.clone(), two.clone()], at(0))
        .await
        .unwrap();
    std::mem::swap(&mut one.name, &mut two.name);
    bench
        .store
        .set_chats(vec![one.clone(), two.clone()], at(1))
        .await
        .unwrap();
    assert_eq!(bench.store.chats().await.unwrap(), [two.clone(), one]);
    bench
        .store
        .set_chats(vec![two.clone()], at(2))
        .await
        .unwrap();
    assert_eq!(bench.store.chats().await.unwrap(), [two]);
    bench.store.set_chats(Vec::new(), at(3)).await.unwrap();
    assert!(bench.store.chats().await.unwrap().is_empty());
}
