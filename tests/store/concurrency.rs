//! Many callers, many handles.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use chatcron::{
    policy::Grant,
    store::{ClaimRequest, Conflict, RunFilter, Store, WindowOf},
};

use crate::{Database, fixture::*};

pub(crate) async fn many_callers_share_a_transaction<D: Database>(database: &D) {
    const CALLERS: usize = 256;
    let bench = Arc::new(Bench::on(database).await);
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..CALLERS {
        let bench = Arc::clone(&bench);
        tasks.spawn(async move {
            let id = format!("job{n}");
            bench.create(&id).await;
            let key = route(&id).lane;
            let run = bench
                .decide(&id, vec![start("s1", 60)], 60)
                .await
                .unwrap()
                .started[0]
                .1;
            let other = bench.decide(&id, vec![start("s1", 60)], 60).await;
            assert!(matches!(other, Err(Conflict::SlotAccounted { .. })));
            bench.claim(&key, Grant::Run(run), 60).await.unwrap();
            run
        });
    }
    let runs: HashSet<_> = tasks.join_all().await.into_iter().collect();
    assert_eq!(runs.len(), CALLERS);
    let listed = bench.store.runs(&RunFilter::default()).await.unwrap();
    assert_eq!(listed.len(), CALLERS);
    assert!(listed.iter().all(|run| run.state == "running"));
}

pub(crate) async fn what_was_answered_is_there_after_reopening<D: Database>(database: &D) {
    let before = Bench::with_job(database).await;
    let run = before.started("s1", 60).await;
    drop(before);
    let store = database.open().await;
    assert_eq!(store.all_jobs().await.unwrap().len(), 1);
    let runs = store.runs(&RunFilter::default()).await.unwrap();
    assert_eq!(runs[0].run_id, Some(run));
}

pub(crate) async fn two_handles_on_one_database_take_turns<D: Database>(database: &D) {
    let first = Arc::new(Bench::with_job(database).await);
    let second = Arc::new(Bench {
        store: database.open().await,
        worker: first.worker,
    });
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..64 {
        let bench = Arc::clone(if n % 2 == 0 { &first } else { &second });
        tasks.spawn(async move {
            let text = format!("{n}");
            for k in 0..8 {
                bench.store.new_request().await.unwrap();
                bench.create(&format!("job{n}-{k}")).await;
            }
            let message = inbound("1", &text, Some(&text));
            bench.store.request_turn(message, at(n)).await.unwrap()
        });
    }
    let turns: HashSet<_> = tasks.join_all().await.into_iter().collect();
    assert_eq!(turns.len(), 64);
    let rows = second
        .store
        .transcript(&session("1"), WindowOf::All)
        .await
        .unwrap();
    let places: HashSet<_> = rows.iter().map(|row| row.seq).collect();
    assert_eq!(places.len(), 64);
    // Both ask for the same lane; one gets it.
    let oldest = turns.iter().min().unwrap();
    let request = || {
        vec![ClaimRequest {
            session_key: session("1"),
            grant: Grant::Turn(*oldest),
        }]
    };
    let (one, two) = tokio::join!(
        first.store.claim(first.worker.into(), request(), at(99)),
        second.store.claim(second.worker.into(), request(), at(99)),
    );
    let held = [one.unwrap().remove(0), two.unwrap().remove(0)];
    assert_eq!(held.iter().filter(|claimed| claimed.is_ok()).count(), 1);
}

pub(crate) async fn readers_go_on_beside_a_busy_writer<D: Database>(database: &D) {
    let bench = Arc::new(Bench::on(database).await);
    let done = Arc::new(AtomicBool::new(false));
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (bench, done) = (Arc::clone(&bench), Arc::clone(&done));
        readers.spawn(async move {
            let mut seen = 0;
            let mut reads = 0;
            while !done.load(Ordering::Relaxed) {
                let rows = bench
                    .store
                    .transcript(&session("1"), WindowOf::All)
                    .await
                    .unwrap();
                assert!(rows.len() >= seen, "what was read once stays");
                seen = rows.len();
                bench.queues(999, 9).await;
                reads += 1;
            }
            reads
        });
    }
    for n in 0..200 {
        let message = inbound("1", "hi", None);
        bench.store.request_turn(message, at(n)).await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    for reads in readers.join_all().await {
        assert!(reads > 0);
    }
}

pub(crate) async fn a_commit_of_another_handle_changes_the_token<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let other = database.open().await;
    let before = bench.store.change_token().await.unwrap();
    assert_eq!(bench.store.change_token().await.unwrap(), before);
    other
        .request_turn(inbound("1", "hi", None), at(1))
        .await
        .unwrap();
    assert_ne!(bench.store.change_token().await.unwrap(), before);
}

pub(crate) async fn whoever_waits_is_told_what_another_handle_commits<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let other = database.open().await;
    let before = bench.store.change_token().await.unwrap();
    let waiting = tokio::spawn(async move {
        let long = Duration::from_secs(600);
        tokio::time::timeout(Duration::from_secs(60), bench.store.await_change(long))
            .await
            .unwrap();
        bench.store.change_token().await.unwrap()
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let words = inbound("1", "hello", None);
    other.request_turn(words, at(1)).await.unwrap();
    assert_ne!(waiting.await.unwrap(), before);
}
