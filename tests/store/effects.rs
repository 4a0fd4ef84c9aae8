//! What attempts have reported of their effects.

use chatcron::{
    message::Origin,
    occurrence::FailReason,
    policy::{AttemptResult, Effect},
    store::{AttemptFate, ClaimedRun, Conflict, NewMessage, SentBy, Store},
};

use crate::{
    Database,
    bench::{Bench, begin},
    fixture::*,
};

/// The attempt fails, with this message; another one may follow.
async fn fail<S: Store>(bench: &Bench<S>, run: &ClaimedRun, message: Option<NewMessage>) {
    let backoff = Effect::Backoff {
        occurrence: scheduled("s1"),
        until: at(70),
    };
    let mut commit = bench.decision("budget", vec![backoff]).await;
    let failed = AttemptFate::Ended(AttemptResult::Failed(FailReason::Transient));
    let mut end = attempt_end(run, failed);
    end.message = message;
    commit.attempt_end = Some(end);
    bench.commit(commit, 65).await.unwrap();
}

async fn requeue<S: Store>(bench: &Bench<S>) {
    let requeue = Effect::Requeue {
        occurrence: scheduled("s1"),
    };
    bench.decide("budget", vec![requeue], 70).await.unwrap();
}

pub(crate) async fn the_first_report_of_an_attempt_stays<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let run = bench.started("s1", 60).await;
    let claimed = bench.claim_run(run, 60).await;
    let with_effects = bench.store.runs_with_effects(&[run]).await.unwrap();
    assert!(with_effects.is_empty());
    for seconds in [61, 62] {
        let reported = bench
            .store
            .report_effects(SentBy::Run(run, claimed.epoch), at(seconds))
            .await;
        assert_eq!(reported.unwrap(), Ok(()));
    }
    let attempts = bench.store.attempts(run).await.unwrap();
    assert_eq!(attempts[0].effects_at, Some(at(61)));
    // Another process sees it, also when this one has died.
    let other = database.open().await;
    database.end_leases().await;
    begin(&other, "2026a", 63).await;
    assert!(
        other
            .runs_with_effects(&[run])
            .await
            .unwrap()
            .contains(&run)
    );
}

pub(crate) async fn a_report_is_fenced_by_its_attempt<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let run = bench.started("s1", 60).await;
    let first = bench.claim_run(run, 60).await;
    bench
        .store
        .report_effects(SentBy::Run(run, first.epoch), at(61))
        .await
        .unwrap()
        .unwrap();
    fail(&bench, &first, None).await;
    let too_late = bench
        .store
        .report_effects(SentBy::Run(run, first.epoch), at(66))
        .await;
    assert_eq!(too_late.unwrap(), Err(Conflict::LeaseLost));
    requeue(&bench).await;
    let second = bench.claim_run(run, 70).await;
    let too_late = bench
        .store
        .report_effects(SentBy::Run(run, first.epoch), at(71))
        .await;
    assert_eq!(too_late.unwrap(), Err(Conflict::LeaseLost));
    // Only the last attempt matters to the next one.
    let with_effects = bench.store.runs_with_effects(&[run]).await.unwrap();
    assert!(with_effects.is_empty());
    let attempts = bench.store.attempts(run).await.unwrap();
    assert_eq!(attempts[1].effects_at, None);
    assert_eq!(second.attempt, 2);
}

pub(crate) async fn a_message_of_a_tool_is_an_effect_and_a_result_is_none<D: Database>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    let run = bench.started("s1", 60).await;
    let of_attempt = |origin: Origin, attempt: u32| NewMessage {
        run: Some((run, attempt)),
        ..message(
            origin.as_str(),
            origin,
            destination("1"),
            &["milk is ordered"],
        )
    };
    let first = bench.claim_run(run, 60).await;
    fail(&bench, &first, Some(of_attempt(Origin::JobResult, 1))).await;
    let with_effects = bench.store.runs_with_effects(&[run]).await.unwrap();
    assert!(with_effects.is_empty());
    requeue(&bench).await;
    let second = bench.claim_run(run, 70).await;
    fail(&bench, &second, Some(of_attempt(Origin::MessageTool, 2))).await;
    let with_effects = bench.store.runs_with_effects(&[run]).await.unwrap();
    assert!(with_effects.contains(&run));
}
