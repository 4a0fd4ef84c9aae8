//! Reading the last entries of a session of 1,000, of 10,000 and of 100,000 entries.
//!
//! The aim is at most 2 ms, and the same for each. Run with `cargo bench --bench recall`.
#![allow(clippy::unwrap_used, reason = "a bench that cannot go on has failed")]

use std::hint::black_box;

use chatcron::{
    ids::SessionKey,
    store::{
        Store,
        sqlite::{OpenMode, SqliteStore},
    },
};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};

const LENGTHS: [u32; 3] = [1_000, 10_000, 100_000];
/// What a turn is given at most.
const LAST: usize = 500;

const FILL: &str = "\
INSERT INTO ctx_sessions (session_id, session_key, generation, next_seq, created_at)
SELECT 'chat:' || x.value, 'chat:' || x.value, 1, x.value + 1, '2026-01-01 00:00:00'
FROM json_each('[1000, 10000, 100000]') AS x;
INSERT INTO ctx_session_entries (session_id, seq, role, message, content_kind, created_at, visibility)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
SELECT s.session_id, i, iif(i % 2, 'user', 'assistant'), 'This is message ' || i, 'text',
  '2026-01-01 00:00:00', 'visible'
FROM ctx_sessions AS s JOIN n ON i < s.next_seq";

fn recall(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chatcron.db");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let store = runtime.block_on(async {
        let store = SqliteStore::open(&path, OpenMode::CreateIfMissing).await;
        let options = SqliteConnectOptions::new().filename(&path);
        let mut conn = options.connect().await.unwrap();
        sqlx::raw_sql(FILL).execute(&mut conn).await.unwrap();
        store.unwrap()
    });
    let mut group = c.benchmark_group("recall of the last 500");
    for length in LENGTHS {
        let key = SessionKey::from_stored(format!("chat:{length}"));
        group.bench_function(BenchmarkId::from_parameter(length), |b| {
            b.iter(|| {
                runtime
                    .block_on(store.recall(black_box(&key), LAST))
                    .unwrap()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, recall);
criterion_main!(benches);
