//! `audit`: what long runs of the worker leave is in order, and each kind of corruption is found.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/world.rs"]
mod world;

use std::path::{Path, PathBuf};

use chatcron::{
    agent::AgentError,
    audit::{AuditReport, FindingKind},
    clock::Clock,
    policy::OwnedEvent,
    store::{
        Store,
        sqlite::{OpenMode, SqliteStore},
    },
    worker::Change,
};
use jiff::Timestamp;
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
use world::{ME, TestAgent, TestChannel, World, last_words, words};

const JOBS: &str = r#"
timezone = "Europe/Berlin"

[jobs.morning]
daily   = ["02:30", "08:00"]
jitter  = "5m"
prompt  = "morning"
deliver = "me"

[jobs.often]
cron    = "*/20 * * * *"
prompt  = "often"
deliver = "history"
catch_up = "none"

[jobs.grid]
every   = "45m"
exclude = ["2027-03-29"]
prompt  = "grid"
deliver = "history"

[jobs.thrice]
every    = "2h"
max_runs = 3
prompt   = "thrice"
deliver  = "history"

[jobs.once]
at      = "2027-03-28T12:00"
prompt  = "once"
deliver = "me"
"#;

const FROM: &str = "2027-03-27T10:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

async fn world(jobs: &str) -> World {
    // Every seventh answer is an error that another try cures.
    let mut asked = 0;
    let agent = TestAgent::scripted(move |turn| {
        asked += 1;
        match asked % 7 {
            0 => Err(AgentError::Transient {
                why: "busy".to_owned(),
            }),
            _ => Ok(words(&last_words(turn))),
        }
    });
    World::in_my_chat(jobs, FROM, agent, TestChannel::keyed()).await
}

/// Runs a worker from where the clock stands, to each next instant at which something is due.
async fn live(world: &World, to: &str) {
    let mut worker = world.start().await;
    loop {
        let next = worker.until_quiet().await.unwrap();
        let Some(next) = next.filter(|next| *next < at(to)) else {
            break;
        };
        world.clock.move_to(next.max(world.clock.now()));
    }
    world.clock.set(to);
    worker.until_quiet().await.unwrap();
}

async fn tell(world: &World, job: &str, event: OwnedEvent) {
    let change = Change::new(job.parse().unwrap(), event);
    let now = world.clock.now();
    let answers = world.decider().apply(&[change], now).await.unwrap();
    assert!(answers[0].is_ok(), "{answers:?}");
}

/// A week over a clock change, with an outage, a pause, edits, a job that is removed and made again,
/// and one that is off for a while.
async fn a_week() -> World {
    let mut world = world(JOBS).await;
    live(&world, "2027-03-27T16:10:00Z").await;
    // Down over the night, and over the clock change.
    world.clock.set("2027-03-28T06:01:00Z");
    live(&world, "2027-03-28T15:00:00Z").await;
    let pause = OwnedEvent::Paused {
        reason: "test".to_owned(),
    };
    tell(&world, "often", pause).await;
    live(&world, "2027-03-28T17:30:00Z").await;
    tell(&world, "often", OwnedEvent::Resumed).await;
    let edited = JOBS
        .replace("\"08:00\"]", "\"09:15\"]")
        .replace("every   = \"45m\"", "every   = \"50m\"")
        .replace("max_runs = 3", "max_runs = 5");
    world.edit(&format!("{edited}{ME}"));
    live(&world, "2027-03-29T20:00:00Z").await;
    // One is removed, and one is switched off.
    let fewer = edited
        .replace("[jobs.often]", "[jobs.another]")
        .replace("[jobs.grid]", "[jobs.grid]\nenabled = false");
    world.edit(&format!("{fewer}{ME}"));
    live(&world, "2027-03-30T03:00:00Z").await;
    // Made again, switched on with another zone, and edited twice at one instant.
    world.edit(&format!("{JOBS}{ME}"));
    world.apply().await;
    let moved = edited.replace("Europe/Berlin", "America/New_York");
    world.edit(&format!("{moved}{ME}"));
    live(&world, "2027-04-02T10:00:00Z").await;
    world
}

async fn audited(store: &dyn Store) -> AuditReport {
    store.audit(None).await.unwrap()
}

#[tokio::test]
async fn a_week_with_outage_edits_pause_removal_and_clock_change_is_in_order() {
    let world = a_week().await;
    let report = audited(&*world.store).await;
    assert!(report.holds(), "{:#?}", report.findings);
    assert_eq!((report.pruned, report.unproved), (0, 0));
    assert_eq!(report.jobs, 6, "a removed one counts too");
    assert!(report.slots > 400, "{}", report.slots);
    let one = world.store.audit(Some(&"grid".parse().unwrap())).await;
    let one = one.unwrap();
    assert!(one.holds() && one.jobs == 1 && one.slots > 50, "{one:?}");
}

#[tokio::test]
async fn the_audit_holds_while_things_are_under_way() {
    let world = world(JOBS).await;
    let mut worker = world.start().await;
    world.clock.set("2027-03-28T06:00:30Z");
    worker.step().await.unwrap();
    assert!(audited(&*world.store).await.holds());
    drop(worker);
    let report = audited(&*world.store).await;
    assert!(report.holds(), "a crash is no corruption: {report:#?}");
}

#[tokio::test]
async fn pruned_slots_are_told_and_are_no_hole() {
    let (mut world, _) = sound().await;
    let keep = "\n[retention]\nruns = \"16h\"\n";
    world.edit(&format!("{JOBS}{ME}{keep}"));
    let retention = world.file.retention.clone().unwrap();
    let now = world.clock.now();
    assert!(world.store.prune(&retention, now).await.unwrap() > 0);
    let report = audited(&*world.store).await;
    assert!(report.holds(), "{:#?}", report.findings);
    assert!(report.pruned > 10, "{report:?}");
}

async fn execute(path: &Path, sql: &str) -> u64 {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(false);
    let mut conn = options.connect().await.unwrap();
    let sql = sqlx::AssertSqlSafe(sql.to_owned());
    let done = sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
    done.rows_affected()
}

/// A database as it is after a night of downtime and a day of work, with one run under way.
async fn sound() -> (World, PathBuf) {
    let world = world(JOBS).await;
    live(&world, "2027-03-27T14:10:00Z").await;
    world.clock.set("2027-03-28T06:01:00Z");
    live(&world, "2027-03-28T10:10:30Z").await;
    let path = world.folder.path().join("sound.db");
    let copy = format!("VACUUM INTO '{}'", path.display());
    execute(&world.database(), &copy).await;
    (world, path)
}

/// Each corruption, by hand, with what must be found and a word of it.
const CORRUPTIONS: &[(&str, FindingKind, &str)] = &[
    (
        "DELETE FROM occurrences WHERE occurrence_id = (SELECT min(occurrence_id) FROM occurrences
           WHERE state = 'skipped')",
        FindingKind::Hole,
        "has no record",
    ),
    (
        "DELETE FROM occurrence_ranges WHERE job_id = 'often' AND slots = (SELECT max(slots)
           FROM occurrence_ranges WHERE job_id = 'often')",
        FindingKind::Hole,
        "slots from",
    ),
    (
        "UPDATE jobs SET state = json_set(state, '$.cursor', '2027-03-30T00:00:00Z')
           WHERE job_id = 'grid'",
        FindingKind::Hole,
        "slots from",
    ),
    (
        "UPDATE occurrence_ranges SET slots = slots + 1",
        FindingKind::Wrong,
        "stands where the plan has",
    ),
    (
        "UPDATE occurrence_ranges SET last_nominal_at = last_nominal_at + 3600000000
           WHERE job_id = 'often'",
        FindingKind::Double,
        "meets",
    ),
    (
        "INSERT INTO occurrence_ranges SELECT job_id, incarnation, nominal_at, nominal_at, slot,
           slot, 1, 'missed', accounted_at FROM occurrences WHERE slot IS NOT NULL LIMIT 1",
        FindingKind::Double,
        "meets",
    ),
    (
        "DROP INDEX idx_occurrences_scheduled;
         INSERT INTO occurrences SELECT occurrence_id + 100000, job_id, incarnation, kind, request_id,
           slot, nominal_at, fire_at, merged, cause, digest, lane, destination, 'skipped', 'missed',
           accounted_at, ended_at FROM occurrences WHERE state = 'done' LIMIT 1",
        FindingKind::Double,
        "has 2 rows",
    ),
    (
        "UPDATE occurrences SET slot = '2027-03-28T08:01:00[Europe/Berlin]'
           WHERE job_id = 'morning' AND state = 'done'",
        FindingKind::Wrong,
        "08:01",
    ),
    (
        "UPDATE occurrences SET nominal_at = nominal_at + 60000000
           WHERE job_id = 'often' AND state = 'done'",
        FindingKind::Orphan,
        "in no plan",
    ),
    (
        "UPDATE occurrences SET nominal_at = nominal_at - 1000000000000, slot = 'x'
           WHERE job_id = 'once'",
        FindingKind::Orphan,
        "in no plan",
    ),
    (
        "UPDATE occurrences SET job_id = 'nobody' WHERE job_id = 'once'",
        FindingKind::Orphan,
        "is of no job",
    ),
    (
        "UPDATE occurrence_ranges SET incarnation = 7 WHERE job_id = 'often'",
        FindingKind::Orphan,
        "incarnation 7",
    ),
    (
        "UPDATE occurrences SET reason = NULL WHERE state = 'skipped'",
        FindingKind::Contradiction,
        "its reason is none",
    ),
    (
        "UPDATE occurrence_ranges SET reason = 'tired'",
        FindingKind::Contradiction,
        "the reason `tired`",
    ),
    (
        "UPDATE occurrences SET ended_at = NULL WHERE state = 'done'",
        FindingKind::Contradiction,
        "has not ended",
    ),
    (
        "UPDATE occurrences SET state = 'active', ended_at = NULL, reason = NULL
           WHERE occurrence_id = (SELECT min(occurrence_id) FROM occurrences WHERE state = 'done')",
        FindingKind::Unended,
        "will never end",
    ),
    (
        "UPDATE jobs SET state = json_set(state, '$.waiting', json('[{\"slot\":\"x\",
           \"nominal\":\"2027-03-28T00:00:00Z\",\"fire_at\":\"2027-03-28T00:00:00Z\",
           \"cause\":\"scheduled\"}]')) WHERE job_id = 'often'",
        FindingKind::Unended,
        "no row says so",
    ),
    (
        "DELETE FROM attempts; DELETE FROM runs WHERE run_id = 1",
        FindingKind::Contradiction,
        "has no run",
    ),
    (
        "DELETE FROM occurrences WHERE occurrence_id = (SELECT occurrence_id FROM runs LIMIT 1)",
        FindingKind::Orphan,
        "of no occurrence",
    ),
    (
        "UPDATE runs SET job_id = 'grid' WHERE job_id = 'morning'",
        FindingKind::Orphan,
        "an occurrence of job morning",
    ),
    (
        "UPDATE runs SET state = 'failed', reason = 'transient' WHERE run_id = 1",
        FindingKind::Contradiction,
        "its run 1 is failed",
    ),
    (
        "UPDATE runs SET ended_at = NULL WHERE run_id = 1",
        FindingKind::Contradiction,
        "has no end",
    ),
    (
        "DELETE FROM attempts WHERE run_id = 1",
        FindingKind::Contradiction,
        "counts 1 attempts, and has 0",
    ),
    (
        "INSERT INTO attempts (run_id, attempt, started_at) VALUES (99999, 1, 0)",
        FindingKind::Orphan,
        "run 99999, which is not there",
    ),
    (
        "UPDATE attempts SET ended_at = NULL WHERE run_id = 1",
        FindingKind::Contradiction,
        "1 of its attempts are under way",
    ),
    (
        "UPDATE lanes SET holder = 'run:1' WHERE session_key IN (SELECT session_key FROM lanes LIMIT 1)",
        FindingKind::Contradiction,
        "not under way",
    ),
    (
        "UPDATE runs SET state = 'running', ended_at = NULL WHERE run_id = 1",
        FindingKind::Contradiction,
        "does not hold lane",
    ),
    (
        "DELETE FROM outbox_parts WHERE part_id = 1",
        FindingKind::Contradiction,
        "0 are there",
    ),
    (
        "DELETE FROM outbox WHERE message_id = 1",
        FindingKind::Orphan,
        "message 1, which is not there",
    ),
    (
        "UPDATE outbox SET run_id = 99999 WHERE message_id = 1",
        FindingKind::Orphan,
        "run 99999, which is not there",
    ),
    (
        "UPDATE outbox_parts SET settled_at = NULL WHERE part_id = 1",
        FindingKind::Contradiction,
        "was never settled",
    ),
];

#[tokio::test]
async fn each_corruption_is_found() {
    let (_world, path) = sound().await;
    let store = SqliteStore::open(&path, OpenMode::ReadOnly).await.unwrap();
    let report = audited(&store).await;
    assert!(report.holds(), "{:#?}", report.findings);
    store.close().await;
    for (sql, kind, word) in CORRUPTIONS {
        let broken = path.with_file_name("broken.db");
        std::fs::copy(&path, &broken).unwrap();
        assert!(execute(&broken, sql).await > 0, "it changes nothing: {sql}");
        let store = SqliteStore::open(&broken, OpenMode::ReadOnly).await;
        let store = store.unwrap();
        let report = audited(&store).await;
        store.close().await;
        let mut findings = report.findings.iter();
        assert!(
            findings.any(|found| found.kind == *kind && found.what.contains(word)),
            "{sql}\n{:#?}",
            report.findings
        );
    }
}

#[tokio::test]
async fn what_an_older_database_recorded_is_told_as_not_proved() {
    let (_world, path) = sound().await;
    // As the migration leaves a database that had no stretches: they begin at the cursor.
    let migration = include_str!("../migrations/sqlite/0004_ledger.sql");
    let seed = migration.split("INSERT INTO").nth(1).unwrap();
    execute(
        &path,
        &format!("DELETE FROM plan_stretches; INSERT INTO{seed}"),
    )
    .await;
    let store = SqliteStore::open(&path, OpenMode::MustExist).await.unwrap();
    let report = audited(&store).await;
    assert!(report.holds(), "{:#?}", report.findings);
    assert!(report.unproved > 20 && report.slots == 0, "{report:?}");
    store.close().await;
}

#[tokio::test]
async fn a_cursor_is_read_to_the_microsecond_by_the_migration() {
    let world = world("timezone = \"UTC\"\n").await;
    let odd = at("2027-03-27T10:00:00.000123Z");
    world.clock.move_to(odd);
    let mut world = world;
    world.edit(&format!("{JOBS}{ME}"));
    drop(world.start().await);
    let path = world.database();
    let migration = include_str!("../migrations/sqlite/0004_ledger.sql");
    let seed = migration.split("INSERT INTO").nth(1).unwrap();
    let sql = format!("DELETE FROM plan_stretches; INSERT INTO{seed}");
    execute(&path, &sql).await;
    let wrong = format!(
        "UPDATE plan_stretches SET until_at = 0 WHERE after_at <> {}",
        odd.as_microsecond()
    );
    assert_eq!(execute(&path, &wrong).await, 0);
}
