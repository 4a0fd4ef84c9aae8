//! Long lists in pages: nothing twice, nothing left out.

use chatcron::{
    ids::PartId,
    message::{Origin, PartState},
    occurrence::SkipReason,
    policy::{Effect, SkippedRange, outbox::Transition},
    store::{OutboxScope, RangeCursor, RunCursor, RunFilter, RunRow, Store, TurnResult, WindowOf},
};

use crate::{Database, fixture::*};

/// The nominal instants, in seconds, of all pages of this size.
async fn paged<S: Store>(store: &S, filter: RunFilter, size: u32) -> Vec<Vec<RunRow>> {
    let mut pages = Vec::new();
    let mut filter = RunFilter {
        limit: Some(size),
        ..filter
    };
    loop {
        let page = store.runs(&filter).await.unwrap();
        let Some(last) = page.last() else {
            return pages;
        };
        filter.before = Some(RunCursor {
            nominal_at: last.nominal_at,
            occurrence_id: last.occurrence_id,
        });
        pages.push(page);
    }
}

pub(crate) async fn runs_come_in_pages_without_a_gap<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    // Two at one instant, and one that was planned later for earlier.
    for (slot, seconds) in [("s1", 10), ("s2", 20), ("s3", 20), ("s4", 5), ("s5", 30)] {
        bench.started(slot, seconds).await;
    }
    for filter in [
        RunFilter::default(),
        RunFilter {
            job_id: Some(job_id("budget")),
            ..RunFilter::default()
        },
    ] {
        let whole = bench.store.runs(&filter).await.unwrap();
        assert_eq!(whole.len(), 5);
        for size in 1..=3 {
            let pages = paged(&bench.store, filter.clone(), size).await;
            let most = usize::try_from(size).unwrap();
            assert!(pages.iter().all(|page| page.len() <= most));
            assert_eq!(pages.concat(), whole, "pages of {size}");
        }
    }
}

pub(crate) async fn skipped_stretches_come_in_pages_without_a_gap<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    for id in ["budget", "report"] {
        bench.create(id).await;
        for (slot, seconds) in [("s1", 100), ("s3", 300), ("s5", 500)] {
            let skip = Effect::Skip(SkippedRange {
                first: self::slot(slot),
                first_nominal: at(seconds),
                last: self::slot(&format!("{slot}b")),
                last_nominal: at(seconds + 50),
                count: 2,
                reason: SkipReason::Missed,
            });
            bench.decide(id, vec![skip], seconds + 60).await.unwrap();
        }
    }
    let whole = bench.store.ranges(&RunFilter::default()).await.unwrap();
    assert_eq!(whole.len(), 6);
    let mut filter = RunFilter {
        limit: Some(1),
        ..RunFilter::default()
    };
    let mut found = Vec::new();
    loop {
        let page = bench.store.ranges(&filter).await.unwrap();
        let Some(last) = page.last() else { break };
        filter.ranges_before = Some(RangeCursor {
            first_nominal_at: last.first_nominal_at,
            job_id: last.job_id.clone(),
        });
        found.extend(page);
    }
    assert_eq!(found, whole);
}

pub(crate) async fn a_transcript_is_read_from_its_end_in_pages<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let key = session("1");
    for n in 0..5 {
        let said = inbound("1", &format!("word {n}"), None);
        let turn = bench.begin_turn(&key, said, n * 10, n * 10 + 1).await;
        let ended = bench.finish_turn(&turn, TurnResult::Done, None, n * 10 + 2);
        ended.await.unwrap();
        if n == 2 {
            bench.reset(&key, 25).await;
        }
    }
    let store = &bench.store;
    let whole = store.transcript(&key, WindowOf::Shown).await.unwrap();
    assert_eq!(whole.len(), 5);
    for size in 1..=3 {
        let mut found = Vec::new();
        let mut before = None;
        loop {
            let page = store.transcript_before(&key, WindowOf::Shown, before, size);
            let mut page = page.await.unwrap();
            let Some(first) = page.first() else { break };
            assert!(page.len() <= size);
            before = Some((first.generation, first.seq));
            page.extend(found);
            found = page;
        }
        assert_eq!(found, whole, "pages of {size}");
    }
}

pub(crate) async fn the_outbox_comes_in_pages_and_is_counted<D: Database>(database: &D) {
    let bench = Bench::with_job(database).await;
    let mut parts = Vec::new();
    for (slot, to) in [("s1", "1"), ("s2", "2"), ("s3", "3"), ("s4", "4")] {
        let result = message(slot, Origin::JobResult, destination(to), &["one"]);
        parts.extend(bench.enqueued(slot, result, 60).await);
    }
    bench.send(&parts[0], receipt("m-1"), 61).await;
    bench.send(&parts[1], Transition::Unknown, 61).await;
    let store = &bench.store;
    let mut counts = store.open_parts().await.unwrap();
    counts.sort_by_key(|(state, _)| state.as_str());
    assert_eq!(counts, [(PartState::Pending, 2), (PartState::Unknown, 1)]);
    let ids = async |scope| {
        let rows = store.outbox(scope).await.unwrap();
        rows.iter().map(|row| row.part_id).collect::<Vec<PartId>>()
    };
    let [confirmed, unknown, third, fourth] = [0, 1, 2, 3].map(|n: usize| parts[n].part_id);
    let open = [unknown, third, fourth];
    assert_eq!(ids(OutboxScope::Open).await, open);
    assert_eq!(ids(OutboxScope::OpenAfter(PartId(0), 2)).await, open[..2]);
    assert_eq!(ids(OutboxScope::OpenAfter(third, 2)).await, open[2..]);
    let newest = OutboxScope::AllBefore(PartId(i64::MAX), 2);
    assert_eq!(ids(newest).await, [fourth, third]);
    let rest = OutboxScope::AllBefore(third, 2);
    assert_eq!(ids(rest).await, [unknown, confirmed]);
}

pub(crate) async fn jobs_come_in_pages_in_the_order_of_their_bytes<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let ids = ["B", "a-b", "a1", "a_b", "ab", "b"];
    for id in ids.iter().rev() {
        bench.create(id).await;
    }
    for size in 1..=7 {
        let mut seen = Vec::new();
        loop {
            let page = bench.store.jobs_after(seen.last(), size).await.unwrap();
            assert!(page.len() <= size);
            if page.is_empty() {
                break;
            }
            seen.extend(page.into_iter().map(|stored| stored.job.id));
        }
        assert_eq!(seen, ids.map(job_id), "pages of {size}");
    }
}
