//! What is reported of failures, what was decided about it, and what is said.

use chatcron::{
    directory::Retention,
    ids::IncidentId,
    message::{Origin, PartState},
    occurrence::{FailReason, Outcome},
    policy::{
        AttemptResult,
        incident::{Incident, IncidentCause, Stage},
        outbox::Transition,
    },
    store::{
        AttemptFate, Conflict, IncidentCommit, IncidentRow, NewMessage, OutboxScope, Reported,
        Store, Target,
    },
};

use crate::{Database, bench::Bench, fixture::*};

const DAY: i64 = 24 * 60 * 60;
const CAUSE: IncidentCause = IncidentCause::Runs(FailReason::Timeout);

/// A run of `budget` that fails.
async fn fail<S: Store>(bench: &Bench<S>, name: &str, seconds: i64) {
    let run = bench.started(name, seconds).await;
    let run = bench.claim_run(run, seconds).await;
    let failed = Outcome::Failed(FailReason::Timeout);
    let mut commit = bench.decision("budget", vec![end(name, failed)]).await;
    let fate = AttemptFate::Ended(AttemptResult::Failed(FailReason::Timeout));
    let mut attempt = attempt_end(&run, fate);
    attempt.error = Some("no answer".to_owned());
    commit.attempt_end = Some(attempt);
    bench.commit(commit, seconds).await.unwrap();
}

async fn succeed<S: Store>(bench: &Bench<S>, name: &str, seconds: i64) {
    let run = bench.started(name, seconds).await;
    let run = bench.claim_run(run, seconds).await;
    bench.finish(&run, name, None, seconds).await.unwrap();
}

/// An incident of `budget` that a person was told of.
fn alerted(id: IncidentId, seconds: i64) -> IncidentRow {
    IncidentRow {
        incident_id: id,
        job_id: job_id("budget"),
        incarnation: 1,
        cause: CAUSE,
        incident: Incident {
            since: at(seconds),
            failures: 1,
            stage: Stage::Alerted,
        },
        alerted_at: Some(at(seconds)),
        told: Some(chat("1")),
        producer: format!("store:incident:{id}"),
        error: Some("no answer".to_owned()),
        over_at: None,
    }
}

fn said(row: &IncidentRow, origin: Origin) -> NewMessage {
    message(&row.producer, origin, destination("1"), &[origin.as_str()])
}

async fn signals<S: Store>(bench: &Bench<S>) -> Vec<IncidentId> {
    let signals = bench.store.incident_signals(9).await.unwrap();
    signals.iter().map(|signal| signal.signal_id).collect()
}

/// A failure, and the alert about it.
async fn alert<S: Store>(bench: &Bench<S>, name: &str, seconds: i64) -> IncidentRow {
    fail(bench, name, seconds).await;
    let signals = signals(bench).await;
    let row = alerted(signals[0], seconds);
    let commit = IncidentCommit {
        signals,
        incidents: vec![row.clone()],
        alerts: vec![said(&row, Origin::FailureAlert)],
        ..IncidentCommit::default()
    };
    decide(bench, commit, seconds).await.unwrap();
    row
}

/// It works again, and that is said.
async fn recover<S: Store>(bench: &Bench<S>, row: &IncidentRow, name: &str, seconds: i64) {
    succeed(bench, name, seconds).await;
    let commit = IncidentCommit {
        signals: signals(bench).await,
        incidents: vec![over(row, seconds)],
        recoveries: vec![said(row, Origin::Recovery)],
        ..IncidentCommit::default()
    };
    decide(bench, commit, seconds).await.unwrap();
}

fn over(row: &IncidentRow, seconds: i64) -> IncidentRow {
    IncidentRow {
        over_at: Some(at(seconds)),
        ..row.clone()
    }
}

async fn decide<S: Store>(
    bench: &Bench<S>,
    commit: IncidentCommit,
    seconds: i64,
) -> Result<(), Conflict> {
    let decided = bench.store.commit_incidents(commit, at(seconds)).await;
    decided.unwrap()
}

async fn parts<S: Store>(bench: &Bench<S>) -> Vec<(Origin, PartState)> {
    let parts = bench.store.outbox(OutboxScope::All).await.unwrap();
    parts.iter().map(|part| (part.origin, part.state)).collect()
}

pub(crate) async fn what_works_is_reported_only_where_something_failed<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    succeed(&bench, "s1", 60).await;
    assert!(signals(&bench).await.is_empty());
    fail(&bench, "s2", 61).await;
    succeed(&bench, "s3", 62).await;
    let reported = bench.store.incident_signals(9).await.unwrap();
    let what: Vec<_> = reported.iter().map(|signal| signal.what.clone()).collect();
    let failed = Reported::Failed {
        cause: CAUSE,
        lane: None,
        error: Some("no answer".to_owned()),
        paused: None,
    };
    assert_eq!(what, [failed, Reported::Works]);
    assert_eq!(reported[0].reported_at, at(61));
    let first = bench.store.incident_signals(1).await.unwrap();
    assert_eq!(first, reported[..1]);
}

pub(crate) async fn a_signal_is_decided_on_once<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    fail(&bench, "s1", 60).await;
    let signals_then = signals(&bench).await;
    let row = alerted(signals_then[0], 60);
    let commit = IncidentCommit {
        signals: signals_then,
        incidents: vec![row.clone()],
        alerts: vec![said(&row, Origin::FailureAlert)],
        ..IncidentCommit::default()
    };
    decide(&bench, commit.clone(), 61).await.unwrap();
    assert!(signals(&bench).await.is_empty());
    let again = IncidentCommit {
        incidents: vec![over(&row, 62)],
        ..commit
    };
    assert_eq!(decide(&bench, again, 62).await, Err(Conflict::Missing));
    assert_eq!(bench.store.open_incidents().await.unwrap(), [row]);
    let pending = (Origin::FailureAlert, PartState::Pending);
    assert_eq!(parts(&bench).await, [pending]);
}

pub(crate) async fn of_incidents_that_are_over_the_last_alert_is_remembered<D: Database>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    let first = alert(&bench, "s1", 60).await;
    recover(&bench, &first, "s2", 61).await;
    let second = alert(&bench, "s3", 62).await;
    recover(&bench, &second, "s4", 63).await;
    assert_eq!(bench.store.open_incidents().await.unwrap(), []);
    let known = bench.store.incidents(&[job_id("budget")]).await.unwrap();
    assert_eq!(known, [over(&second, 63)]);
    assert_eq!(bench.store.incidents(&[job_id("other")]).await.unwrap(), []);
}

pub(crate) async fn an_alert_that_was_not_shown_is_withdrawn_and_no_recovery_follows<
    D: Database,
>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    let row = alert(&bench, "s1", 60).await;
    recover(&bench, &row, "s2", 61).await;
    let cancelled = (Origin::FailureAlert, PartState::Cancelled);
    assert_eq!(parts(&bench).await, [cancelled]);
}

pub(crate) async fn a_recovery_follows_an_alert_that_was_or_may_have_been_shown<D: Database>(
    database: &D,
) {
    let bench = Bench::with_job(database).await;
    for (alert_at, transition, shown) in [
        (60, receipt("m-1"), PartState::Confirmed),
        (70, Transition::Unknown, PartState::Unknown),
    ] {
        let (failed, works) = (format!("f{alert_at}"), format!("w{alert_at}"));
        let row = alert(&bench, &failed, alert_at).await;
        let pending = bench.store.outbox(OutboxScope::All).await.unwrap();
        let part = pending.last().unwrap();
        bench.send(part, transition, alert_at + 1).await;
        recover(&bench, &row, &works, alert_at + 2).await;
        let parts_now = parts(&bench).await;
        let (told, recovery) = (
            parts_now[parts_now.len() - 2],
            parts_now[parts_now.len() - 1],
        );
        assert_eq!(told, (Origin::FailureAlert, shown));
        assert_eq!(recovery, (Origin::Recovery, PartState::Pending));
        let pending = bench.store.outbox(OutboxScope::All).await.unwrap();
        let message_id = format!("r-{alert_at}");
        bench
            .send(pending.last().unwrap(), receipt(&message_id), alert_at + 3)
            .await;
    }
}

pub(crate) async fn the_incidents_of_a_removed_job_are_over<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    alert(&bench, "s1", 60).await;
    remove(&bench, 70).await;
    assert_eq!(bench.store.open_incidents().await.unwrap(), []);
}

async fn remove<S: Store>(bench: &Bench<S>, seconds: i64) {
    let version = bench.stored("budget").await.version;
    let mut removal = bench.decision("budget", Vec::new()).await;
    removal.target = Target::Remove { version };
    bench.commit(removal, seconds).await.unwrap();
}

pub(crate) async fn incidents_that_are_over_and_old_go<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let withdrawn = alert(&bench, "s1", 60).await;
    recover(&bench, &withdrawn, "s2", 61).await;
    let last = alert(&bench, "s3", 62).await;
    recover(&bench, &last, "s4", 63).await;
    let retention = Retention::default();
    let known = || {
        bench
            .store
            .incidents(std::slice::from_ref(&withdrawn.job_id))
    };
    bench.store.prune(&retention, at(89 * DAY)).await.unwrap();
    assert_eq!(parts(&bench).await.len(), 2, "nothing is old yet");
    // The last alert is what a cooldown counts from, however long that is.
    bench.store.prune(&retention, at(91 * DAY)).await.unwrap();
    assert_eq!(known().await.unwrap(), [over(&last, 63)]);
    assert_eq!(parts(&bench).await.len(), 1, "with what it would have said");
    // An open one stays as long as it is open.
    let open = alert(&bench, "s5", 91 * DAY).await;
    bench.store.prune(&retention, at(200 * DAY)).await.unwrap();
    assert_eq!(bench.store.open_incidents().await.unwrap(), [open]);
    remove(&bench, 200 * DAY).await;
    bench.store.prune(&retention, at(300 * DAY)).await.unwrap();
    assert_eq!(known().await.unwrap(), []);
}
