//! First attempts that begin in the commit which starts their runs.

use chatcron::{
    ids::{RunId, SessionKey},
    message::Origin,
    occurrence::{Cause, Outcome},
    policy::{AttemptResult, Effect, Grant},
    store::{
        AttemptFate, Claimed, Conflict, JobCommit, Route, RunFilter, Store, TurnResult, Written,
    },
};

use crate::{Database, fixture::*};

impl<S: Store> Bench<S> {
    /// A decision about a job whose runs may begin at once.
    async fn beginning(&self, id: &str, effects: Vec<Effect>) -> JobCommit {
        JobCommit {
            begin: Some(self.worker),
            ..self.decision(id, effects).await
        }
    }

    /// The same, of a job whose runs take place in a chat.
    async fn beginning_in(&self, key: &SessionKey, name: &str, seconds: i64) -> Written {
        let commit = self.beginning("budget", vec![start(name, seconds)]).await;
        let route = Route {
            lane: key.clone(),
            ..route("budget")
        };
        let commit = JobCommit { route, ..commit };
        self.commit(commit, seconds).await.unwrap()
    }

    async fn states(&self) -> Vec<String> {
        let mut runs = self.store.runs(&RunFilter::default()).await.unwrap();
        runs.sort_by_key(|run| run.run_id);
        let states = runs.iter().map(|run| run.state.as_str().to_owned());
        states.collect()
    }
}

pub(crate) async fn a_run_begins_with_its_start_where_its_lane_is_free<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let commit = bench.beginning("budget", vec![start("s1", 60)]).await;
    let written = bench.commit(commit, 61).await.unwrap();
    let run = written.started[0].1;
    if D::IS_SHARED {
        assert_eq!(written.begun, [], "a claim there renews a lease");
        assert_eq!(bench.claim_run(run, 61).await.attempt, 1);
        return;
    }
    let begun = &written.begun[0];
    assert_eq!(
        (begun.run_id, begun.occurrence.clone()),
        (run, scheduled("s1"))
    );
    assert_eq!((begun.nominal_at, begun.cause), (at(60), Cause::Scheduled));
    assert_eq!(
        (&begun.lane, &begun.destination),
        (&lane(), &Some(destination("1")))
    );
    // It is as it would be after a claim.
    let under_way = bench.store.under_way(&lane()).await.unwrap().runs;
    assert_eq!(
        (under_way[0].run_id, under_way[0].epoch),
        (run, begun.epoch)
    );
    assert_eq!(
        (under_way[0].attempt, under_way[0].occurrence_id),
        (1, begun.occurrence_id)
    );
    let attempts = bench.store.attempts(run).await.unwrap();
    assert_eq!((attempts.len(), attempts[0].started_at), (1, at(61)));
    let taken = bench.claim(&lane(), Grant::Run(run), 61).await;
    assert_eq!(taken.unwrap_err(), Conflict::LaneTaken);
    // And it ends as any other.
    let finished = bench.finish(&under_way[0], "s1", None, 70).await.unwrap();
    assert_eq!(
        (finished.ended, finished.outcomes),
        (vec![run], vec![Outcome::Done])
    );
    assert_eq!(bench.states().await, ["done"]);
}

pub(crate) async fn nothing_begins_beside_what_has_its_lane_or_waits_for_it<D: Database>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    let chat = session("1");
    let hello = inbound("1", "Hello", Some("m1"));
    let turn = bench.store.request_turn(hello, at(60)).await.unwrap();
    let beside_a_turn = bench.beginning_in(&chat, "s1", 61).await;
    assert_eq!(beside_a_turn.begun, []);
    let turn = bench.claim_turn(&chat, turn, 62).await;
    bench
        .decide("budget", vec![end("s1", Outcome::Cancelled)], 62)
        .await
        .unwrap();
    let under_a_turn = bench.beginning_in(&chat, "s2", 63).await;
    assert_eq!(under_a_turn.begun, []);
    bench
        .finish_turn(&turn, TurnResult::Done, None, 64)
        .await
        .unwrap();
    let beside_a_run = bench.beginning_in(&chat, "s3", 65).await;
    assert_eq!(beside_a_run.begun, [], "the run before it waits");
    for name in ["s2", "s3"] {
        bench
            .decide("budget", vec![end(name, Outcome::Cancelled)], 66)
            .await
            .unwrap();
    }
    let run = bench.started("s4", 67).await;
    let run = bench.claim_run(run, 67).await;
    let result = message(
        "run 4",
        Origin::JobResult,
        destination("1"),
        &["The budget"],
    );
    bench.finish(&run, "s4", Some(result), 68).await.unwrap();
    let beside_a_part = bench.beginning_in(&chat, "s5", 69).await;
    assert_eq!(beside_a_part.begun, []);
    assert_eq!(bench.queues(69, 9).await.len(), 1);
}

pub(crate) async fn of_two_starts_in_one_lane_neither_begins<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let both = vec![start("s1", 60), start("s2", 61)];
    let commit = bench.beginning("budget", both).await;
    let written = bench.commit(commit, 61).await.unwrap();
    assert_eq!((written.started.len(), written.begun.len()), (2, 0));
    assert_eq!(bench.states().await, ["queued", "queued"]);
}

pub(crate) async fn a_catch_up_or_a_later_run_waits<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    bench.create("other").await;
    let Effect::Start {
        occurrence,
        nominal,
        fire_at,
        merged,
        ..
    } = start("s1", 60)
    else {
        unreachable!("a start");
    };
    let catch_up = Effect::Start {
        occurrence,
        nominal,
        fire_at,
        cause: Cause::CatchUp,
        merged,
    };
    let catch_up = bench.beginning("budget", vec![catch_up]).await;
    let later = bench.beginning("other", vec![start("s1", 90)]).await;
    let results = bench
        .store
        .commit(vec![catch_up, later], at(61))
        .await
        .unwrap();
    for written in results {
        assert_eq!(written.unwrap().begun, []);
    }
    assert_eq!(bench.states().await, ["queued", "queued"]);
}

pub(crate) async fn a_lane_that_its_commit_gives_back_is_left_to_the_policy<D: Database>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    let run = bench.started("s1", 60).await;
    let run = bench.claim_run(run, 60).await;
    let effects = vec![end("s1", Outcome::Done), start("s2", 61)];
    let commit = JobCommit {
        attempt_end: Some(attempt_end(&run, AttemptFate::Ended(AttemptResult::Done))),
        ..bench.beginning("budget", effects).await
    };
    let written = bench.commit(commit, 61).await.unwrap();
    assert_eq!((written.ended, written.begun), (vec![run.run_id], vec![]));
    let next: RunId = written.started[0].1;
    let claimed = bench.claim(&lane(), Grant::Run(next), 61).await;
    assert!(matches!(claimed, Ok(Claimed::Run(_))));
}

fn lane() -> SessionKey {
    route("budget").lane
}
