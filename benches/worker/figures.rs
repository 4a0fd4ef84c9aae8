//! One function a figure.

use std::{
    fs,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use sqlx::Row;

use crate::{
    machine::{processor_time, resident},
    service::{Service, To, job, now},
};

const STARTED: &str = "SELECT count(*) FROM runs WHERE started_at IS NOT NULL";
const ENDED: &str = "SELECT count(*) FROM runs WHERE state = 'done'";
const SHOWN: &str = "SELECT count(*) FROM outbox_parts WHERE state = 'confirmed'";

/// 10,000 jobs whose slots lie evenly in one second.
pub(crate) fn lateness_spread() {
    lateness("spread over the second", |index| {
        SignedDuration::from_micros(index * 100)
    });
}

/// 10,000 jobs with one and the same slot.
pub(crate) fn lateness_burst() {
    lateness("all at one instant", |_| SignedDuration::ZERO);
}

#[tokio::main]
async fn lateness(how: &str, after: fn(i64) -> SignedDuration) {
    const JOBS: usize = 10_000;
    let mut service = Service::new(0).await;
    let first = now() + SignedDuration::from_secs(20);
    let jobs: Vec<_> = (0..JOBS)
        .map(|index| job(index, first + after(index as i64), To::History))
        .collect();
    service.run(&jobs).await;
    service.until(ENDED, JOBS).await;
    let mut conn = service.look().await;
    // A run is started when the commit that claims it is durable; its attempt begins after that.
    let rows = sqlx::query(
        "SELECT a.started_at - o.nominal_at AS late FROM attempts AS a \
         JOIN runs AS r USING (run_id) JOIN occurrences AS o USING (occurrence_id)",
    )
    .fetch_all(&mut conn)
    .await
    .expect("the runs");
    let mut late: Vec<i64> = rows.iter().map(|row| row.get("late")).collect();
    late.sort_unstable();
    let at = |share: f64| late[((late.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    println!(
        "lateness, {JOBS} jobs {how}: p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms, lost {}",
        at(0.5),
        at(0.99),
        at(1.0),
        JOBS - late.len()
    );
    service.stop_and_prove().await;
}

/// Fire, run, outcome, outbox, confirmation and transcript, of distinct jobs with a chat each.
pub(crate) fn lifecycles() {
    throughput("lifecycles", 20_000, To::Chat);
}

/// Fire, run and outcome.
pub(crate) fn history() {
    throughput("runs without delivery", 40_000, To::History);
}

#[tokio::main]
async fn throughput(what: &str, count: usize, to: To) {
    let chats = if to == To::Chat { count } else { 0 };
    let mut service = Service::new(chats).await;
    let first = now() + SignedDuration::from_secs(60);
    let jobs: Vec<_> = (0..count).map(|index| job(index, first, to)).collect();
    let worker = service.begin().await;
    let changed = worker.apply_jobs("bench.toml", &jobs, &[]).await;
    assert!(changed.expect("the jobs").refused.is_empty());
    let wait = first.duration_since(now());
    assert!(wait.is_positive(), "the jobs were applied too slowly");
    service.spawn(worker);
    tokio::time::sleep(Duration::try_from(wait).expect("a wait")).await;
    let begun = Instant::now();
    let (done, column) = match to {
        To::Chat => (SHOWN, "SELECT max(settled_at) FROM outbox_parts"),
        To::History => (ENDED, "SELECT max(ended_at) FROM runs"),
    };
    service.until(done, count).await;
    let elapsed = begun.elapsed();
    let mut conn = service.look().await;
    let last: i64 = sqlx::query_scalar(column)
        .fetch_one(&mut conn)
        .await
        .expect("an instant");
    let last = Timestamp::from_microsecond(last).expect("an instant");
    let by_the_rows = last.duration_since(first).as_secs_f64();
    println!(
        "{what}: {:.0} a second ({count} distinct jobs in {by_the_rows:.2} s; {:.2} s until seen)",
        count as f64 / by_the_rows,
        elapsed.as_secs_f64()
    );
    service.stop_and_prove().await;
}

/// 100,000 jobs that missed a day: from the start of a worker to its first claim, and the catch-up.
#[tokio::main]
pub(crate) async fn start() {
    const JOBS: usize = 100_000;
    let service = Service::new(0).await;
    let midnight = now() - SignedDuration::from_hours(48);
    // All through the day, and none in the minute to come.
    let jobs: Vec<_> = (0..JOBS)
        .map(|index| {
            let offset = SignedDuration::from_secs(index as i64 * 85_000 / JOBS as i64 + 700);
            job(index, midnight + offset, To::History)
        })
        .collect();
    let worker = service.begin().await;
    let changed = worker.apply_jobs("bench.toml", &jobs, &[]).await;
    assert!(changed.expect("the jobs").refused.is_empty());
    drop(worker);
    // As if a day had passed: the cursor of each job lies a day back.
    let mut conn = service.look().await;
    let day = 24 * 3600 * 1_000_000_i64;
    sqlx::query(
        "UPDATE jobs SET wake_at = wake_at - $1, state = json_set(state, '$.cursor', \
         strftime('%Y-%m-%dT%H:%M:%SZ', state ->> '$.cursor', '-1 day'))",
    )
    .bind(day)
    .execute(&mut conn)
    .await
    .expect("a day");
    let mut service = service;
    let begun = Instant::now();
    let worker = service.begin().await;
    let changed = worker.apply_jobs("bench.toml", &jobs, &[]).await;
    assert!(changed.expect("the jobs").is_empty());
    let applied = begun.elapsed();
    service.spawn(worker);
    service.until(STARTED, 1).await;
    let first = begun.elapsed();
    loop {
        let due: i64 =
            sqlx::query_scalar("SELECT count(*) FROM jobs WHERE wake_at <= unixepoch() * 1000000")
                .fetch_one(&mut conn)
                .await
                .expect("a count");
        if due == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let all = begun.elapsed();
    println!(
        "start, {JOBS} jobs after a day: jobs file compared in {:.2} s, first dispatch after {:.2} s, \
         all accounted after {:.2} s",
        applied.as_secs_f64(),
        first.as_secs_f64(),
        all.as_secs_f64()
    );
}

/// What a worker keeps of 100,000 jobs.
#[tokio::main]
pub(crate) async fn memory() {
    const JOBS: usize = 100_000;
    let mut service = Service::new(0).await;
    service.run(&[]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let base = resident("self");
    let mut service = prepared(JOBS).await;
    let worker = service.begin().await;
    service.spawn(worker);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let full = resident("self");
    println!(
        "memory: {base} KiB with no job, {full} KiB with {JOBS}: {:.2} KiB a job",
        (full.saturating_sub(base)) as f64 / JOBS as f64
    );
}

/// The processor time of a worker with 100,000 jobs, none of which is due.
#[tokio::main]
pub(crate) async fn idle() {
    const JOBS: usize = 100_000;
    const WHILE: Duration = Duration::from_secs(60);
    let mut service = prepared(JOBS).await;
    let worker = service.begin().await;
    service.spawn(worker);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = processor_time();
    tokio::time::sleep(WHILE).await;
    let used = processor_time() - before;
    println!(
        "idle: {:.1} ms of processor time in {} s with {JOBS} jobs: {:.3} % of a core",
        used.as_secs_f64() * 1e3,
        WHILE.as_secs(),
        100.0 * used.as_secs_f64() / WHILE.as_secs_f64()
    );
}

/// A database with jobs, made by a process of its own so that it leaves nothing in this one.
async fn prepared(jobs: usize) -> Service {
    let service = Service::new(0).await;
    if jobs > 0 {
        let program = std::env::current_exe().expect("the path of this program");
        let made = Command::new(program)
            .env("CHATCRON_FIGURE", "prepare")
            .env("CHATCRON_DATABASE", service.path())
            .status()
            .expect("this program runs");
        assert!(made.success());
    }
    service
}

/// Fills a database for [`prepared`].
#[tokio::main]
pub(crate) async fn prepare() {
    let path = std::env::var("CHATCRON_DATABASE").expect("a path");
    let service = Service::at(path.as_ref(), None).await;
    let tomorrow = now() + SignedDuration::from_hours(12);
    let jobs: Vec<_> = (0..100_000)
        .map(|index| job(index, tomorrow, To::History))
        .collect();
    let worker = service.begin().await;
    let changed = worker.apply_jobs("bench.toml", &jobs, &[]).await;
    assert!(changed.expect("the jobs").refused.is_empty());
    service.store.close().await;
}

/// The binary with the file of the README: from its start to its first word that it works.
pub(crate) fn boot() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let file = folder.path().join("jobs.toml");
    fs::copy("jobs.example.toml", &file).expect("the example");
    let begun = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_chatcron"))
        .arg("run")
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary");
    let stderr = child.stderr.take().expect("a pipe");
    let lines = std::io::BufRead::lines(std::io::BufReader::new(stderr));
    let mut lines = lines.map_while(Result::ok);
    let ready = lines.find(|line| line.contains("chatcron is running"));
    let elapsed = begun.elapsed();
    assert!(ready.is_some(), "it never said that it is ready");
    std::thread::sleep(Duration::from_millis(500));
    let rss = resident(&child.id().to_string());
    println!(
        "boot: ready after {:.3} s, {:.1} MB",
        elapsed.as_secs_f64(),
        rss as f64 / 1024.0
    );
    let _ = child.kill();
    let _ = child.wait();
}
