//! What is forgotten, and what never is.

use chatcron::{
    directory::Retention,
    job::When,
    message::{Origin, PartReason, PartState, StopsAddress},
    occurrence::Outcome,
    policy::outbox::Transition,
    store::{OutboxScope, RunFilter, Store, Target, WindowOf},
};

use crate::{Database, fixture::*};

const DAY: i64 = 24 * 60 * 60;

pub(crate) async fn old_runs_go_and_what_a_chat_showed_stays<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let mut kept = Vec::new();
    for (name, key, transition) in [
        ("s1", "m1", receipt("m-1")),
        ("s2", "m2", Transition::Unknown),
        (
            "s3",
            "m3",
            Transition::Fail {
                reason: PartReason::Permanent,
                stops_address: StopsAddress::No,
            },
        ),
    ] {
        let result = message(key, Origin::JobResult, destination("1"), &[key]);
        let parts = bench.enqueued(name, result, 60).await;
        bench.send(&parts[0], transition, 61).await;
        kept.push(parts[0].part_id);
    }
    bench.started("s4", 62).await;
    let retention = Retention::default();
    assert_eq!(
        bench.store.prune(&retention, at(89 * DAY)).await.unwrap(),
        0
    );
    assert!(bench.store.prune(&retention, at(91 * DAY)).await.unwrap() > 0);
    let runs = bench.store.runs(&RunFilter::default()).await.unwrap();
    assert_eq!(runs.len(), 1, "the one that has not ended");
    let parts = bench.store.outbox(OutboxScope::All).await.unwrap();
    let states: Vec<_> = parts.iter().map(|part| part.state).collect();
    assert_eq!(states, [PartState::Confirmed, PartState::Unknown]);
    let rows = bench
        .store
        .transcript(&session("1"), WindowOf::Shown)
        .await
        .unwrap();
    assert_eq!(texts(&rows), ["m1"]);
    assert_eq!(
        bench.store.prune(&retention, at(91 * DAY)).await.unwrap(),
        0
    );
    let again = message("m1", Origin::JobResult, destination("1"), &["m1"]);
    bench
        .decide("budget", vec![end("s4", Outcome::Cancelled)], 63)
        .await
        .unwrap();
    assert!(
        bench.enqueued("s5", again, 64).await.is_empty(),
        "its key is known for ever"
    );
}

pub(crate) async fn a_one_shot_that_ran_is_removed_in_the_end<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let mut creation = Bench::<D::Store>::creation("budget");
    if let Target::Create { job, .. } = &mut creation.target {
        job.schedule.when = When::At(jiff::civil::date(2027, 1, 15).at(8, 0, 0, 0));
    }
    bench.commit(creation, 0).await.unwrap();
    bench.create("daily").await;
    bench
        .decide("daily", vec![start("s1", 60), end("s1", Outcome::Done)], 60)
        .await
        .unwrap();
    let retention = Retention::default();
    bench.started("once", 60).await;
    assert_eq!(
        bench.store.prune(&retention, at(30 * DAY)).await.unwrap(),
        0
    );
    bench
        .decide("budget", vec![end("once", Outcome::Cancelled)], 61)
        .await
        .unwrap();
    assert_eq!(bench.store.prune(&retention, at(6 * DAY)).await.unwrap(), 0);
    assert_eq!(bench.store.prune(&retention, at(8 * DAY)).await.unwrap(), 1);
    let left = bench.store.all_jobs().await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].job.id, job_id("daily"));
}
