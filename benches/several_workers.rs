//! Lifecycles a second of one, two and four workers on one PostgreSQL, beside the rate at which as
//! many connections claim rows by `SKIP LOCKED` and do nothing else.
//!
//! The jobs of each figure are all due at one instant; a lifecycle is a slot that is decided on,
//! claimed, run by an agent that answers at once, and done. `audit` must hold afterwards.
#![allow(clippy::unwrap_used, reason = "a figure that cannot be taken is none")]
#![allow(clippy::disallowed_methods, reason = "it measures real time")]

#[path = "../tests/support/cluster.rs"]
mod cluster;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use chatcron::{
    agent::{Agent, AgentError, AgentReply, AgentTurn},
    clock::Clock,
    config,
    ids::AgentName,
    outbound::Channels,
    store::{RunFilter, Store, postgres::PostgresStore, sqlite::OpenMode},
    worker::{Scope, Services, Worker},
};
use cluster::Cluster;
use jiff::{SignedDuration, Timestamp};
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const JOBS: usize = 1500;
const WORKERS: [usize; 3] = [1, 2, 4];

struct StandingClock(Mutex<Timestamp>);

#[async_trait]
impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn elapsed(&self) -> Duration {
        let since = self.now().duration_since(Timestamp::UNIX_EPOCH);
        Duration::try_from(since).unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

struct AtOnce;

#[async_trait]
impl Agent for AtOnce {
    async fn reply(&self, _: &AgentTurn, _: &CancellationToken) -> Result<AgentReply, AgentError> {
        Ok(AgentReply {
            text: "done".to_owned(),
            ..AgentReply::default()
        })
    }
}

fn services(file: &config::JobsFile) -> Services {
    let agent: Arc<dyn Agent> = Arc::new(AtOnce);
    let main: AgentName = "main".parse().unwrap();
    Services {
        directory: file.directory.clone(),
        agents: BTreeMap::from([(main, agent)]),
        channels: Arc::new(Channels::default()),
        max_concurrent: 512,
        turn_timeout: Services::TURN_TIMEOUT,
        retention: None,
        zone_data: "bench".to_owned(),
    }
}

async fn lifecycles(server: &Cluster, workers: usize) -> f64 {
    let url = server.new_database().await;
    let jobs: String = (0..JOBS)
        .map(|n| format!("[jobs.j{n}]\nevery = \"1h\"\nprompt = \"x\"\ndeliver = \"history\"\n"))
        .collect();
    let text = format!("timezone = \"UTC\"\n{jobs}\n[agents.main]\nkind = \"echo\"\n");
    let begin: Timestamp = "2026-12-01T12:00:00Z".parse().unwrap();
    let no_files = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let file = config::parse(&text, &no_files, begin).file.unwrap();
    let clock = Arc::new(StandingClock(Mutex::new(begin)));
    let mut working = Vec::new();
    for _ in 0..workers {
        let store = PostgresStore::open(&url.parse().unwrap(), OpenMode::CreateIfMissing).await;
        let store: Arc<dyn Store> = Arc::new(store.unwrap());
        let worker = Worker::begin(store, clock.clone(), services(&file), Scope::All, None)
            .await
            .unwrap();
        worker
            .apply_jobs("jobs.toml", &file.jobs, &[])
            .await
            .unwrap();
        working.push(worker);
    }
    // The first ones learn of the others by their next renewal.
    let others = if workers > 1 { 16 } else { 0 };
    tokio::time::sleep(Duration::from_secs(others)).await;
    *clock.0.lock().unwrap() = begin + SignedDuration::from_hours(1);
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for mut worker in working {
        tasks.spawn(async move {
            worker.until_quiet().await.unwrap();
            worker.end().await.unwrap();
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let took = begun.elapsed();
    let store = PostgresStore::open(&url.parse().unwrap(), OpenMode::MustExist)
        .await
        .unwrap();
    let runs = store.runs(&RunFilter::default()).await.unwrap();
    let done = runs.iter().filter(|run| run.state == "done").count();
    assert!(store.audit(None).await.unwrap().holds());
    assert_eq!(done, JOBS, "each slot has run once");
    per_second(done, took)
}

async fn raw_claims(server: &Cluster, connections: usize) -> f64 {
    let url = server.new_database().await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let make = "CREATE TABLE q AS SELECT n AS id, 0 AS taken FROM generate_series(1, 3000) AS n;
                CREATE UNIQUE INDEX ON q (id) WHERE taken = 0";
    sqlx::raw_sql(make).execute(&mut conn).await.unwrap();
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let url = url.clone();
        tasks.spawn(async move {
            let mut conn = PgConnection::connect(&url).await.unwrap();
            let claim = "UPDATE q SET taken = 1 WHERE id = (SELECT id FROM q WHERE taken = 0
                         ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)";
            let mut claimed = 0;
            while sqlx::query(claim)
                .execute(&mut conn)
                .await
                .unwrap()
                .rows_affected()
                == 1
            {
                claimed += 1;
            }
            claimed
        });
    }
    let mut claimed = 0;
    while let Some(own) = tasks.join_next().await {
        claimed += own.unwrap();
    }
    assert_eq!(claimed, 3000);
    per_second(claimed, begun.elapsed())
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand")]
fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

#[tokio::main]
async fn main() {
    let Some(server) = Cluster::shared() else {
        return;
    };
    println!("workers | lifecycles/s | raw SKIP LOCKED claims/s of as many connections");
    for workers in WORKERS {
        let raw = raw_claims(server, workers).await;
        let whole = lifecycles(server, workers).await;
        println!("{workers:>7} | {whole:>12.0} | {raw:.0}");
    }
}
