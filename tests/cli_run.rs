//! The running worker, and the commands beside it and without it, as real processes.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/process.rs"]
mod process;

use std::{fs, thread, time::Duration};

use process::{Place, told, until};

/// Two jobs that fire at once and one that never does, on a console.
const JOBS: &str = r#"
timezone = "UTC"

[jobs.tick]
every   = "1s"
prompt  = "tock"
deliver = "ops"

[jobs.report]
at     = "2099-01-01T00:00"
chat   = "me"
prompt = "The report."

[chats.me]
channel = "terminal"
agent   = "main"

[chats.ops]
channel = "terminal"
kind    = "group"
agent   = "main"

[channels.terminal]
kind = "console"

[agents.main]
kind = "echo"
"#;

/// Only the job that never fires by itself.
fn quiet() -> String {
    JOBS.replace("every   = \"1s\"", "at = \"2099-01-01T00:00\"")
}

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn jobs_run_and_a_second_worker_is_refused_and_sigterm_ends_in_order() {
    let place = Place::new(JOBS);
    let worker = place.start();
    worker.until_printed("[ops] tick: tock");
    let second = place.run(&["run"]);
    assert_eq!(second.status.code(), Some(4), "{}", told(&second));
    assert!(
        stderr(&second).contains("another `chatcron run` is working on"),
        "{}",
        told(&second)
    );
    place.ok(&["trigger", "report"]);
    worker.until_printed("[me] report: The report.");
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn ctrl_c_waits_for_what_runs_and_a_second_one_leaves_it() {
    let slow = quiet().replace("The report.", "!sleep 5s\\nThe report.");
    let place = Place::new(&slow);
    let worker = place.start();
    place.ok(&["trigger", "report"]);
    worker.until_logged("started cause");
    worker.signal("INT");
    worker.until_logged("stopping");
    thread::sleep(Duration::from_millis(300));
    assert!(worker.is_alive(), "it waits for the run");
    worker.signal("INT");
    until("it ends", || {
        if worker.is_alive() {
            Err(worker.log())
        } else {
            Ok(())
        }
    });
    assert_eq!(worker.exit_code(), Some(130));
    // What was left is decided about at the next start.
    place.write("jobs.toml", &quiet());
    let worker = place.start();
    worker.until_printed("[me] report:");
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn the_file_is_read_again_when_it_changes_and_a_broken_one_changes_nothing() {
    let place = Place::new(&quiet());
    let worker = place.start();
    place.write("jobs.toml", JOBS);
    worker.until_logged("changed job=tick");
    worker.until_printed("[ops] tick: tock");
    place.write("jobs.toml", "[jobs.tick\n");
    worker.until_logged("nothing changes");
    let bad = JOBS.replace("every   = \"1s\"", "every = \"soon\"");
    place.write("jobs.toml", &bad.replace("The report.", "Another report."));
    worker.until_logged("changed job=report");
    place.ok(&["trigger", "tick"]);
    let gone = quiet().replace("[jobs.tick]", "[jobs.tock]");
    place.write("jobs.toml", &gone);
    worker.until_logged("removed job=tick");
    worker.until_logged("added job=tock");
    let unknown = place.run(&["trigger", "tick"]);
    assert_eq!(unknown.status.code(), Some(3), "{}", told(&unknown));
    worker.signal("HUP");
    worker.until_logged("the good jobs are as they were");
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn the_good_jobs_of_a_partly_bad_file_run_and_the_bad_ones_are_named() {
    let place = Place::new(&format!(
        "{JOBS}\n[jobs.bad]\ndaily = \"25:00\"\nprompt = \"x\"\nchat = \"me\"\n"
    ));
    let worker = place.start();
    worker.until_logged("left out: see the report above");
    worker.until_printed("[ops] tick: tock");
    assert!(
        worker.log().contains("job=\"bad\"") && worker.log().contains("25:00"),
        "{}",
        worker.log()
    );
    assert_eq!(worker.stop(), Some(0));
    let place = Place::new("jobs = 1");
    assert_eq!(place.run(&["check"]).status.code(), Some(1));
    let place = Place::new("[jobs");
    let refused = place.run(&["run"]);
    assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    assert!(
        !place.path("chatcron.db").exists(),
        "nothing was made for a file that is no TOML"
    );
}

#[test]
fn say_is_answered_by_the_worker_or_by_the_command_itself() {
    let place = Place::new(&quiet());
    let alone = place.run(&["say", "me", "hello alone"]);
    assert_eq!(String::from_utf8_lossy(&alone.stdout), "hello alone\n");
    assert!(
        stderr(&alone).contains("[me] main: hello alone"),
        "{}",
        told(&alone)
    );
    let worker = place.start();
    assert_eq!(place.ok(&["say", "me", "hello both"]), "hello both\n");
    worker.until_printed("[me] main: hello both");
    let unknown = place.run(&["say", "mee", "hello"]);
    assert_eq!(unknown.status.code(), Some(3));
    assert!(
        stderr(&unknown).contains("did you mean `me`?"),
        "{}",
        told(&unknown)
    );
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn pause_resume_trigger_and_reset_work_with_and_without_a_worker() {
    let place = Place::new(JOBS);
    let worker = place.start();
    worker.until_printed("[ops] tick: tock");
    place.ok(&["pause", "tick", "--reason", "holiday"]);
    thread::sleep(Duration::from_millis(1200));
    let shown = worker.out().matches("tock").count();
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(
        worker.out().matches("tock").count(),
        shown,
        "nothing starts while paused"
    );
    place.ok(&["resume", "tick"]);
    until("it runs again", || {
        let count = worker.out().matches("tock").count();
        if count > shown {
            Ok(())
        } else {
            Err(worker.log())
        }
    });
    place.ok(&["say", "me", "remember this"]);
    place.ok(&["reset", "me"]);
    worker.until_logged("reset");
    assert_eq!(worker.stop(), Some(0));
    place.ok(&["reset", "me"]);
    let done = place.ok(&["trigger", "report", "--wait"]);
    assert!(done.contains("is done; 1 of 1 messages shown"), "{done}");
    let unknown = place.run(&["pause", "nothing"]);
    assert_eq!(unknown.status.code(), Some(3), "{}", told(&unknown));
}

#[test]
fn the_first_reason_of_a_pause_stays_and_a_removed_job_cannot_be_resumed() {
    let place = Place::new(&quiet());
    assert_eq!(place.start().stop(), Some(0));
    place.ok(&["pause", "report", "--reason", "holiday"]);
    let again = place.ok(&["pause", "report"]);
    assert_eq!(again, "report was paused already: holiday\n");
    let reason = || place.json(&["show", "report"])["paused"]["reason"].clone();
    assert_eq!(reason(), "holiday");
    let other = place.ok(&["pause", "report", "--reason", "moved"]);
    assert!(other.contains("its reason was: holiday"), "{other}");
    assert_eq!(reason(), "moved");

    let without = quiet().replace("[jobs.report]", "[jobs.other]");
    place.write("jobs.toml", &without);
    assert_eq!(place.start().stop(), Some(0));
    for command in ["resume", "pause"] {
        let removed = place.run(&[command, "report"]);
        assert_eq!(removed.status.code(), Some(3), "{}", told(&removed));
        let words = stderr(&removed);
        assert!(words.contains("there is no job `report`"), "{words}");
        assert!(words.contains("help: it was removed"), "{words}");
    }
}

#[test]
fn the_log_tells_an_attempt_that_is_tried_again_from_a_run_that_has_failed() {
    let jobs = r#"
timezone = "UTC"

[jobs.late]
at      = "2099-01-01T00:00"
jitter  = "10m"
deliver = "history"
prompt  = "!fail transient"
retry   = { attempts = 2, backoff = ["1s"] }
alert   = false

[agents.main]
kind = "echo"
"#;
    let place = Place::new(jobs);
    let worker = place.start();
    worker.until_logged("00:00:00 UTC, up to 10 min later");
    place.ok(&["trigger", "late"]);
    worker.until_logged("the run has failed");
    let log = worker.log();
    assert_eq!(
        log.matches("attempt failed; it is tried again").count(),
        1,
        "{log}"
    );
    assert_eq!(log.matches("the run has failed").count(), 1, "{log}");
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn a_database_that_cannot_be_used_is_told_and_left_as_it_is() {
    let place = Place::new(&quiet());
    fs::write(
        place.path("chatcron.db"),
        "this is not a database, it is a text of some length",
    )
    .unwrap();
    let before = fs::read(place.path("chatcron.db")).unwrap();
    for command in [&["run"][..], &["pause", "report"], &["say", "me", "x"]] {
        let refused = place.run(command);
        assert_eq!(
            refused.status.code(),
            Some(3),
            "{command:?}: {}",
            told(&refused)
        );
        assert!(
            stderr(&refused).contains("chatcron.db"),
            "{}",
            told(&refused)
        );
    }
    assert_eq!(fs::read(place.path("chatcron.db")).unwrap(), before);

    let missing = place.run(&["pause", "report", "--db", "none.db"]);
    assert_eq!(missing.status.code(), Some(3), "{}", told(&missing));
    assert!(!place.path("none.db").exists());
    let nowhere = place.run(&["run", "--db", "/proc/nowhere/chatcron.db"]);
    assert_eq!(nowhere.status.code(), Some(3), "{}", told(&nowhere));
    let other = place.run(&["run", "--db", "mysql://host/db"]);
    assert_eq!(other.status.code(), Some(2), "{}", told(&other));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_database_is_refused_and_a_locked_one_is_waited_for() {
    use sqlx::Connection;
    let place = Place::new(&quiet());
    let worker = place.start();
    assert_eq!(worker.stop(), Some(0));
    let url = format!("sqlite:{}", place.path("chatcron.db").display());
    let mut other = sqlx::SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut other)
        .await
        .unwrap();
    let locked = place.run(&["pause", "report"]);
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    assert_eq!(locked.status.code(), Some(4), "{}", told(&locked));
    assert!(
        !stderr(&locked).contains("database is locked"),
        "{}",
        told(&locked)
    );
    assert!(
        stderr(&locked).contains("another program"),
        "{}",
        told(&locked)
    );

    sqlx::query("UPDATE _sqlx_migrations SET version = 999 WHERE version = (SELECT max(version) FROM _sqlx_migrations)")
        .execute(&mut other)
        .await
        .unwrap();
    for command in [&["run"][..], &["pause", "report"]] {
        let newer = place.run(command);
        assert_eq!(newer.status.code(), Some(4), "{}", told(&newer));
        assert!(stderr(&newer).contains("newer"), "{}", told(&newer));
    }
}

#[test]
fn an_agent_or_channel_that_cannot_be_built_is_left_out_and_its_work_waits_or_fails_by_name() {
    let jobs = quiet().replace(
        "kind = \"echo\"",
        "kind = \"openai\"\nmodel = \"m\"\napi_key_env = \"NO_SUCH_KEY\"",
    );
    let place = Place::new(&jobs);
    let worker = place.start();
    assert!(worker.log().contains("NO_SUCH_KEY"), "{}", worker.log());
    let said = place.run(&["say", "me", "hello"]);
    assert_eq!(said.status.code(), Some(1), "{}", told(&said));
    assert!(
        stderr(&said).contains("agent `main` is not configured"),
        "{}",
        told(&said)
    );
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn the_json_log_has_one_object_a_line_and_no_words_of_the_chat() {
    let place = Place::new(JOBS);
    let worker = place.start_with(&["run", "--log-format", "json"]);
    worker.until_printed("tock");
    until("a line of the log", || {
        let log = worker.log();
        if log.contains("\"message\":\"shown\"") {
            Ok(())
        } else {
            Err(log)
        }
    });
    for line in worker.log().lines() {
        serde_json::from_str::<serde_json::Value>(line)
            .unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(!line.contains("tock"), "{line}");
    }
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn trigger_waits_through_a_retry_where_no_worker_runs() {
    let failing = quiet().replace(
        "prompt = \"The report.\"",
        "prompt = \"!fail transient\"\nretry = { attempts = 2, backoff = [\"1s\"] }",
    );
    let place = Place::new(&failing);
    let worker = place.start();
    assert_eq!(worker.stop(), Some(0));
    let failed = place.run(&["trigger", "report", "--wait", "--patience", "30"]);
    assert_eq!(failed.status.code(), Some(1), "{}", told(&failed));
    assert!(
        stderr(&failed).contains("is failed: transient: "),
        "{}",
        told(&failed)
    );
    let run = place.json(&["runs", "--run", "1"]);
    assert_eq!(run["run"]["attempts"], 2);
}

#[test]
fn a_renamed_jobs_file_keeps_its_jobs_and_drops_those_it_does_not_have() {
    let place = Place::new(JOBS);
    let worker = place.start();
    worker.until_printed("[ops] tick: tock");
    assert_eq!(worker.stop(), Some(0));
    place.write(
        "renamed.toml",
        &quiet().replace("[jobs.tick]", "[jobs.tock]"),
    );
    let worker = place.start_with(&["run", "renamed.toml"]);
    worker.until_logged("removed job=tick");
    worker.until_logged("added job=tock");
    assert!(!worker.log().contains("left out"), "{}", worker.log());
    assert_eq!(worker.stop(), Some(0));
}

/// The same at a start, for a standby that takes over, and when it is saved so.
#[test]
fn a_file_with_nothing_in_it_or_without_jobs_removes_no_job() {
    let jobs = quiet();
    let place = Place::new(&jobs);
    let worker = place.start();
    let standby = place.start_with(&["run", "--standby"]);
    standby.until_logged("standing by");
    let no_jobs = &jobs[jobs.find("[chats.me]").unwrap()..];
    place.write("jobs.toml", no_jobs);
    worker.until_logged("it removes none of the jobs");
    place.write("jobs.toml", "\n");
    worker.until_logged("is empty, perhaps while it is saved");
    worker.kill();
    standby.until_logged("is empty, perhaps while it is saved");
    assert!(place.ok(&["list"]).contains("report"));
    // The standby waits for something to follow.
    assert!(!standby.log().contains("chatcron is running version"));
    place.write("jobs.toml", no_jobs);
    standby.until_logged("it removes none of the jobs");
    standby.until_logged("chatcron is running version");
    let listed = place.ok(&["list"]);
    assert!(
        listed.contains("report") && listed.contains("tick"),
        "{listed}"
    );
    place.write("jobs.toml", "");
    assert_eq!(standby.stop(), Some(0));
    let waiting = place.start_unready();
    waiting.until_logged("is empty, perhaps while it is saved");
    assert_eq!(waiting.stop(), Some(0));
    assert!(place.ok(&["list"]).contains("report"));
}

#[test]
fn a_secrets_file_is_relative_to_the_jobs_file() {
    let jobs = quiet().replace(
        "[channels.terminal]",
        "[channels.telegram]\nkind = \"telegram\"\ntoken_file = \"telegram.token\"\n\n[channels.terminal]",
    );
    let place = Place::new("");
    fs::create_dir(place.path("conf")).unwrap();
    place.write("conf/jobs.toml", &jobs);
    place.write("conf/telegram.token", "123456:token\n");
    let worker = place.start_with(&["run", "conf/jobs.toml"]);
    worker.until_logged("chatcron is running");
    assert!(!worker.log().contains("left out"), "{}", worker.log());
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn decisions_are_written_to_a_journal_and_rechecked() {
    let place = Place::new(JOBS);
    let worker = place.start_with(&["run", "--journal", "journal.jsonl"]);
    worker.until_printed("[ops] tick: tock");
    assert_eq!(worker.stop(), Some(0));
    let checked = place.ok(&["recheck", "journal.jsonl"]);
    assert!(
        checked.contains("decisions would be taken alike"),
        "{checked}"
    );
    let journal = fs::read_to_string(place.path("journal.jsonl")).unwrap();
    assert!(journal.lines().count() >= 3, "{journal}");
    // A process that died in the middle of a line loses that line, and no other.
    place.write("journal.jsonl", &journal[..journal.len() - 30]);
    let torn = place.ok(&["recheck", "journal.jsonl"]);
    assert!(torn.contains("were not read: 1"), "{torn}");
    let worker = place.start_with(&["run", "--journal", "journal.jsonl"]);
    worker.until_printed("[ops] tick: tock");
    assert_eq!(worker.stop(), Some(0));
    let more = place.ok(&["recheck", "journal.jsonl"]);
    assert!(more.contains("were not read: 1"), "{more}");
    place.write(
        "journal.jsonl",
        &journal.replace("\"started_runs\":1", "\"started_runs\":7"),
    );
    let differs = place.run(&["recheck", "journal.jsonl"]);
    assert_eq!(differs.status.code(), Some(1), "{}", told(&differs));
    a_journal_is_checked_in_all_it_says(&place, &journal);
    place.write("journal.jsonl", "{}");
    assert_eq!(
        place.run(&["recheck", "journal.jsonl"]).status.code(),
        Some(3)
    );
    let nowhere = place.run(&["run", "--journal", "/proc/nowhere/journal"]);
    assert_eq!(nowhere.status.code(), Some(3), "{}", told(&nowhere));
}

/// Its version and its digests.
fn a_journal_is_checked_in_all_it_says(place: &Place, journal: &str) {
    let version = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    let later = journal.replace(&version, "\"version\":\"99.0.0\"");
    place.write("journal.jsonl", &later);
    let checked = place.run(&["recheck", "journal.jsonl"]);
    assert_eq!(checked.status.code(), Some(0), "{}", told(&checked));
    let says = "of a later version than this one";
    assert!(told(&checked).contains(says), "{}", told(&checked));
    place.write("journal.jsonl", &journal.replace("tick", "tock"));
    let edited = place.run(&["recheck", "journal.jsonl", "--json"]);
    assert_eq!(edited.status.code(), Some(1), "{}", told(&edited));
    let report: serde_json::Value = serde_json::from_slice(&edited.stdout).unwrap();
    let differences = report["differences"].as_array().unwrap();
    assert!(!differences.is_empty());
    for difference in differences {
        assert_eq!(difference["digest_differs"], true, "{difference:#}");
    }
    assert_eq!(report["decisions"], journal.lines().count());
}

/// A folder that cannot be written: run as a user who owns nothing in it.
#[test]
fn a_read_only_place_is_told_and_nothing_is_written() {
    use std::os::unix::{fs::PermissionsExt, process::CommandExt};
    let place = Place::new(&quiet());
    assert_eq!(place.start().stop(), Some(0));
    let folder = place.path("");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    let before = fs::read(place.path("chatcron.db")).unwrap();
    for command in [
        &["run"][..],
        &["pause", "report"],
        &["run", "--db", "new.db"],
    ] {
        let mut refused = place.command(command);
        if place.is_root() {
            refused.uid(65534).gid(65534);
        }
        let refused = refused.output().unwrap();
        assert_eq!(
            refused.status.code(),
            Some(3),
            "{command:?}: {}",
            told(&refused)
        );
        assert!(stderr(&refused).contains(".db"), "{}", told(&refused));
    }
    assert_eq!(fs::read(place.path("chatcron.db")).unwrap(), before);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn several_commands_at_once_without_a_worker_are_all_answered() {
    let place = Place::new(&quiet());
    let mut asked = Vec::new();
    for (chat, text) in [
        ("me", "one"),
        ("ops", "two"),
        ("me", "three"),
        ("ops", "four"),
    ] {
        let mut say = place.command(&["say", chat, text]);
        say.stdout(std::process::Stdio::piped());
        say.stderr(std::process::Stdio::piped());
        asked.push((text, say.spawn().unwrap()));
    }
    for (text, say) in asked {
        let output = say.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{text}\n"));
    }
    place.ok(&["verify"]);
}

#[test]
fn a_command_in_the_wrong_folder_leaves_nothing_there() {
    let place = Place::new(JOBS);
    fs::remove_file(place.path("jobs.toml")).unwrap();
    for command in [&["say", "me", "hello"][..], &["chat", "me"]] {
        let output = place.run(command);
        assert_eq!(output.status.code(), Some(3), "{}", told(&output));
        assert!(told(&output).contains("chatcron.db"), "{}", told(&output));
        assert!(!place.path("chatcron.db").exists());
    }
}

#[test]
fn wrong_usage_says_what_was_found_and_ends_with_what_to_do() {
    let place = Place::new(JOBS);
    for (wrong, found) in [
        (&["run", "--nope"][..], "'--nope'"),
        (&["next", "-n", "none"], "'none'"),
        (&["pause"], "<JOB>"),
        (&["paus", "x"], "'paus'"),
    ] {
        let output = place.run(wrong);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(found), "{told}");
        assert!(told.lines().last().unwrap().starts_with("help: "), "{told}");
    }
}
