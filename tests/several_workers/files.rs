//! One jobs file in the hands of several workers.

use chatcron::{
    ids::JobId,
    store::Accepts,
    worker::{JobsCopy, OtherFiles, apply_copy},
};

use crate::{
    REPORT, daily,
    world::{ME, TestAgent, TestChannel, World, cluster::Cluster},
    world_or_skip,
};

const ONE: &str = "timezone = \"UTC\"\n";

fn file(ids: &[&str]) -> String {
    let jobs: String = ids.iter().map(|id| daily(id, "")).collect();
    format!("{ONE}{jobs}{ME}")
}

async fn jobs_of(world: &World) -> Vec<String> {
    let jobs = world.store.all_jobs().await.unwrap();
    jobs.iter().map(|job| job.job.id.to_string()).collect()
}

fn ids(jobs: &[(JobId, Option<jiff::Timestamp>)]) -> Vec<&str> {
    jobs.iter().map(|(id, _)| id.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_copy_undoes_nothing_until_it_is_saved_again() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let mut world = world_or_skip!(&format!("{ONE}{}", daily("a", "")), agent, channel);
    let worker = world.start().await;
    let old = world.file.clone();
    world.clock.set("2026-12-01T12:10:00Z");
    world.edit(&file(&["a", "b"]));
    let change = world.apply().await;
    assert_eq!((ids(&change.added), change.unchanged), (vec!["b"], 1));

    // One that starts with the copy of before.
    let start = async |edited_at: Option<&str>| {
        let edited_at = edited_at.map(|at| at.parse().unwrap());
        let started = world.join().await;
        let applied = started.apply_jobs_edited_at("jobs.toml", &old.jobs, &[], edited_at);
        applied.await.unwrap()
    };
    for edited_at in [
        None,
        Some("2026-12-01T12:00:00Z"),
        Some("2026-12-01T12:10:00Z"),
    ] {
        let change = start(edited_at).await;
        assert_eq!(
            change.older_since,
            Some("2026-12-01T12:10:00Z".parse().unwrap())
        );
        assert!(change.is_empty());
        assert_eq!(jobs_of(&world).await, ["a", "b"]);
    }
    // Somebody has taken the edit back, knowingly.
    let change = start(Some("2026-12-01T12:11:00Z")).await;
    assert_eq!(change.removed, [JobId::new("b").unwrap()]);
    assert_eq!(change.older_since, None);
    // Now the other content is the older one.
    let change = worker
        .apply_jobs("jobs.toml", &world.file.jobs, &[])
        .await
        .unwrap();
    assert!(change.older_since.is_some());
    assert_eq!(jobs_of(&world).await, ["a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_plan_is_told_by_the_one_who_applied_it() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let world = world_or_skip!(REPORT, agent, channel);
    world.end_leases().await;
    let copy = JobsCopy {
        file: "jobs.toml",
        jobs: &world.file.jobs,
        bad: &[],
        accepts: Accepts::Any,
        others: OtherFiles::Stay,
    };
    let now = jiff::Timestamp::from_second(1_800_000_000).unwrap();
    let apply = || apply_copy(world.decider(), copy, now);
    let (one, two, three) = tokio::join!(apply(), apply(), apply());
    let all = [one.unwrap(), two.unwrap(), three.unwrap()];
    let told: Vec<_> = all.iter().flat_map(|change| ids(&change.added)).collect();
    assert_eq!(told, ["report"]);
    assert!(all.iter().all(|change| change.changed.is_empty()));
    let unchanged: usize = all.iter().map(|change| change.unchanged).sum();
    assert_eq!(unchanged, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_that_are_applied_at_once_leave_one_of_them_as_a_whole() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let mut world = world_or_skip!(REPORT, agent, channel);
    world.start().await;
    let copies: Vec<Vec<String>> = (0..6)
        .map(|copy| (0..12).map(|n| format!("c{copy}-{n}")).collect())
        .collect();
    let files: Vec<_> = copies
        .iter()
        .map(|names| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            world.edit(&file(&names));
            world.file.clone()
        })
        .collect();
    let applying = files.iter().map(|file| {
        let copy = JobsCopy {
            file: "jobs.toml",
            jobs: &file.jobs,
            bad: &[],
            accepts: Accepts::Any,
            others: OtherFiles::Stay,
        };
        apply_copy(world.decider(), copy, world_now())
    });
    for applied in futures_util::future::join_all(applying).await {
        applied.unwrap();
    }
    let mut left = jobs_of(&world).await;
    left.sort();
    let whole = copies.iter().any(|names| {
        let mut names = names.clone();
        names.sort();
        names == left
    });
    assert!(whole, "a mixture is left: {left:?}");
}

fn world_now() -> jiff::Timestamp {
    "2026-12-01T12:00:00Z".parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_file_is_left_to_the_worker_that_follows_it_while_that_is_alive() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let mut world = world_or_skip!(REPORT, agent, channel);
    let first = world.start().await;
    world.edit(&file(&["a"]));
    let second = world.join_with("other.toml").await;
    assert_eq!(jobs_of(&world).await, ["a", "report"]);
    // Renamed, while nobody else works: the jobs that the file no longer has are gone.
    first.end().await.unwrap();
    second.end().await.unwrap();
    let third = world.join_with("renamed.toml").await;
    assert_eq!(jobs_of(&world).await, ["a"]);
    drop(third);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_without_jobs_removes_none() {
    let (agent, channel) = (TestAgent::echo(), TestChannel::keyed());
    let mut world = world_or_skip!(REPORT, agent, channel);
    drop(world.start().await);
    world.edit(&format!("{ONE}{ME}"));
    world.end_leases().await;
    let worker = world.join_with("jobs.toml").await;
    assert_eq!(jobs_of(&world).await, ["report"]);
    let change = world.apply().await;
    assert_eq!((change.kept, change.removed.len()), (1, 0));
    drop(worker);
}
