//! The real binary on a database of a server: every command, and what a server and a worker do to
//! each other when they die.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/cluster.rs"]
mod cluster;
#[path = "support/process.rs"]
mod process;

use std::{collections::HashSet, time::Duration};

use cluster::Cluster;
use process::{Place, Worker, told, until};

const JOBS: &str = r#"
timezone = "UTC"

[jobs.tick]
every   = "1s"
prompt  = "tock"
deliver = "ops"

[jobs.yearly]
cron    = "0 0 1 1 *"
prompt  = "happy new year"
deliver = "ops"

[chats.ops]
channel = "terminal"
agent   = "main"

[channels.terminal]
kind = "console"

[agents.main]
kind = "echo"
"#;

/// A worker that others take over from soon.
const RUN: [&str; 3] = ["run", "--lease", "3"];

/// A folder with a jobs file, and an empty database of this server.
async fn place_on(server: &Cluster) -> (Place, String) {
    let url = server.new_database().await;
    let place = Place::new(JOBS).with_env("CHATCRON_DB", &url);
    (place, url)
}

/// What a worker shows from now on.
fn until_it_goes_on(worker: &Worker) {
    let shown = worker.out().matches("tock").count();
    until("the chat shows more", || {
        let more = worker.out().matches("tock").count() > shown + 1;
        more.then_some(()).ok_or_else(|| worker.log())
    });
}

/// Every slot of the database ran once, and was shown once.
fn nothing_twice_and_no_hole(place: &Place) {
    place.ok(&["audit"]);
    place.ok(&["verify"]);
    let runs = place.json(&["runs", "--limit", "10000"]);
    let slots: Vec<String> = runs["runs"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|run| Some(format!("{} {}", run["job"], run["slot"].as_str()?)))
        .collect();
    let different: HashSet<&String> = slots.iter().collect();
    assert_eq!(different.len(), slots.len(), "a slot has two runs");
    assert!(!slots.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_works_on_a_server() {
    let Some(server) = Cluster::shared() else {
        return;
    };
    let (place, url) = place_on(server).await;
    let early = place.run(&["list"]);
    assert_eq!(early.status.code(), Some(3), "{}", told(&early));
    let words = told(&early);
    assert!(words.contains("nothing has been applied to"), "{words}");
    assert!(words.contains("help: `chatcron run`"), "{words}");
    let worker = place.start();
    worker.until_printed("tock");
    // A second one shares the work.
    let second = place.start();
    assert_eq!(second.stop(), Some(0));
    let list = place.ok(&["list"]);
    assert!(
        list.contains("tick") && list.contains("at work: worker "),
        "{list}"
    );
    let said = place.ok(&["say", "ops", "how are you?"]);
    assert!(said.contains("how are you?"), "{said}");
    place.ok(&["trigger", "yearly", "--wait"]);
    place.ok(&["pause", "tick"]);
    assert!(place.ok(&["list"]).contains("paused"));
    place.ok(&["resume", "tick"]);
    for command in [
        &["show", "tick"][..],
        &["next"],
        &["runs"],
        &["transcript", "ops"],
        &["outbox", "--all"],
        &["stats"],
        &["reset", "ops"],
        &["accept-clock"],
    ] {
        assert_ne!(place.ok(command), "", "{command:?}");
    }
    assert_eq!(worker.stop(), Some(0));
    assert!(place.ok(&["list"]).contains("not running"));
    // Where no worker runs, a command does its own errand.
    place.ok(&["say", "ops", "still there?"]);
    nothing_twice_and_no_hole(&place);
    let elsewhere = url.replace("/test", "/nowhere");
    let wrong = place.run(&["list", "--db", &elsewhere]);
    assert_eq!(wrong.status.code(), Some(3), "{}", told(&wrong));
    assert!(told(&wrong).contains("does not exist"), "{}", told(&wrong));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_doubled_when_the_server_and_the_worker_die() {
    let Some(server) = Cluster::start() else {
        return;
    };
    let (place, url) = place_on(&server).await;
    let worker = place.start_with(&RUN);
    worker.until_printed("tock");
    server.restart();
    until_it_goes_on(&worker);
    let database = url.split(['/', '?']).nth(3).unwrap();
    let mut conn = server.connect(database).await;
    for _ in 0..3 {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE application_name LIKE 'chatcron%'";
        sqlx::query(end).execute(&mut conn).await.unwrap();
        until_it_goes_on(&worker);
    }
    assert!(worker.is_alive(), "{}", worker.log());
    worker.kill();
    // Killed at other moments each time, with nobody to tidy up.
    for round in 0..8 {
        let worker = place.start_with(&RUN);
        worker.until_logged("chatcron is running");
        tokio::time::sleep(Duration::from_millis(150 + 170 * round)).await;
        worker.kill();
    }
    let worker = place.start_with(&RUN);
    until_it_goes_on(&worker);
    assert_eq!(worker.stop(), Some(0));
    nothing_twice_and_no_hole(&place);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_when_the_worker_is_killed() {
    let Some(server) = Cluster::shared() else {
        return;
    };
    let (place, _) = place_on(server).await;
    let first = place.start_with(&RUN);
    first.until_printed("tock");
    let second = place.start_with(&["run", "--standby", "--lease", "3"]);
    second.until_logged("standing by: another chatcron is running");
    assert_eq!(second.out(), "");
    first.kill();
    second.until_printed("tock");
    until_it_goes_on(&second);
    assert_eq!(second.stop(), Some(0));
    nothing_twice_and_no_hole(&place);
}

/// As docs/operations.md says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_only_read_can_read_everything_and_write_nothing() {
    let Some(server) = Cluster::shared() else {
        return;
    };
    let (place, url) = place_on(server).await;
    let worker = place.start();
    worker.until_printed("tock");
    let database = url.split(['/', '?']).nth(3).unwrap().to_owned();
    let mut conn = server.connect(&database).await;
    let role = format!("reader_{}", std::process::id());
    for statement in [
        format!("CREATE ROLE {role} LOGIN"),
        format!("GRANT CONNECT ON DATABASE {database} TO {role}"),
        format!("GRANT USAGE ON SCHEMA public TO {role}"),
        format!("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}"),
    ] {
        let grant = sqlx::query(sqlx::AssertSqlSafe(statement));
        grant.execute(&mut conn).await.unwrap();
    }
    let (scheme, rest) = url.split_once("://").unwrap();
    let (_, at) = rest.split_once('@').unwrap();
    let reading = format!("{scheme}://{role}@{at}");
    for command in [
        &["list"][..],
        &["show", "tick"],
        &["runs"],
        &["audit"],
        &["outbox"],
    ] {
        let mut arguments = command.to_vec();
        arguments.extend(["--db", &reading]);
        assert_ne!(place.ok(&arguments), "", "{command:?}");
    }
    let pause = place.run(&["pause", "tick", "--db", &reading]);
    assert_eq!(pause.status.code(), Some(3), "{}", told(&pause));
    assert!(
        told(&pause).contains("permission denied"),
        "{}",
        told(&pause)
    );
    assert_eq!(worker.stop(), Some(0));
}
