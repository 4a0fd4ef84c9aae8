//! `chatcron next`, as a person or a program sees it; `--after` makes the answers fixed.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is missing"
)]

use std::{fs, path::Path, process::Output};

use assert_cmd::Command;
use serde_json::{Value, json};

fn next_in(folder: impl AsRef<Path>, arguments: &[&str]) -> Output {
    Command::cargo_bin("chatcron")
        .unwrap()
        .current_dir(folder)
        .env_remove("CHATCRON_DB")
        .env_remove("NO_COLOR")
        .arg("next")
        .args(arguments)
        .output()
        .unwrap()
}

fn next(arguments: &[&str]) -> Output {
    next_in("tests/fixtures/next", arguments)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn json_of(arguments: &[&str]) -> Value {
    let output = next(arguments);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The local times of an ad hoc schedule.
fn times(arguments: &[&str]) -> Vec<String> {
    let answer = json_of(&[arguments, &["--json"]].concat());
    let times = answer["times"].as_array().unwrap();
    times
        .iter()
        .map(|time| time["at"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_jobs_of_a_file_are_shown_in_words() {
    let output = next(&["--after", "2027-03-27T12:00:00+01:00", "-n", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    insta::assert_snapshot!("file", text(&output.stdout));
}

#[test]
fn one_job_says_whether_the_next_clock_change_matters() {
    for (job, name) in [("budget", "budget"), ("nightly", "nightly")] {
        let output = next(&["--job", job, "--after", "2026-12-01", "-n", "1"]);
        insta::assert_snapshot!(name, text(&output.stdout));
    }
}

#[test]
fn the_json_of_a_file_has_every_job() {
    let answer = json_of(&["--after", "2027-03-27T12:00", "-n", "1", "--json"]);
    let jobs = answer["jobs"].as_array().unwrap();
    let ids: Vec<&str> = jobs.iter().map(|job| job["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["budget", "nightly", "watch", "tokyo", "twice", "off"]);
    let nightly = &jobs[1];
    assert_eq!(
        nightly["times"],
        json!([{
            "at": "2027-03-28T03:00:00+02:00",
            "nominal_at": "2027-03-28T03:00:00+02:00",
            "slot": "2027-03-28T02:30:00[Europe/Berlin]",
            "note": "02:30 does not exist on 2027-03-28 in Europe/Berlin; runs at 03:00",
        }])
    );
    assert_eq!(nightly["clock_change"]["affected"], true);
    assert_eq!(jobs[0]["clock_change"]["affected"], false);
    assert_eq!(jobs[0]["target"], json!({ "kind": "chat", "chat": "me" }));
    assert_eq!(jobs[2]["counted_from"]["known_from"], "after");
    assert_eq!(jobs[3]["tz"], "Asia/Tokyo");
    assert_eq!(jobs[3]["times"][0]["at"], "2027-03-29T09:00:00+09:00");
    assert_eq!(jobs[5]["enabled"], false);
    assert_eq!(jobs[5]["times"], json!([]));
    assert_eq!(answer["bad_jobs"], json!([]));
}

#[test]
fn wall_time_after_is_in_each_jobs_own_zone() {
    let answer = json_of(&["--after", "2026-12-01T08:30", "-n", "1", "--json"]);
    assert_eq!(
        answer["jobs"][0]["times"][0]["at"],
        "2026-12-02T08:00:00+01:00"
    );
    assert_eq!(
        answer["jobs"][3]["times"][0]["at"],
        "2026-12-01T09:00:00+09:00"
    );
}

#[test]
fn no_more_times_are_shown_than_a_job_may_run() {
    let answer = json_of(&[
        "--job",
        "twice",
        "--after",
        "2026-12-01",
        "-n",
        "9",
        "--json",
    ]);
    assert_eq!(answer["jobs"][0]["times"].as_array().unwrap().len(), 2);
}

#[test]
fn the_start_within_the_jitter_window_is_the_drawn_one() {
    let ask = |after| json_of(&["--job", "watch", "--after", after, "-n", "1", "--json"]);
    let first = ask("2026-12-01T00:00:00Z");
    let start = &first["jobs"][0]["times"][0];
    assert_eq!(start["nominal_at"], "2026-12-01T03:00:00+01:00");
    let at = start["at"].as_str().unwrap();
    assert!(
        ("2026-12-01T03:00:00"..="2026-12-01T03:05:00").contains(&&at[..19]),
        "{at}"
    );
    assert_eq!(first, ask("2026-12-01T00:00:00Z"));
}

#[test]
fn a_schedule_without_a_file_is_one_object() {
    let answer = json_of(&[
        "--cron",
        "30 2 * * *",
        "--tz",
        "Europe/Berlin",
        "--after",
        "2027-03-27T00:00:00Z",
        "-n",
        "2",
        "--json",
    ]);
    assert_eq!(
        answer,
        json!({
            "schedule": "cron 30 2 * * * (Europe/Berlin)",
            "tz": "Europe/Berlin",
            "times": [
                { "at": "2027-03-27T02:30:00+01:00", "note": null },
                {
                    "at": "2027-03-28T03:00:00+02:00",
                    "note": "02:30 does not exist on 2027-03-28 in Europe/Berlin; runs at 03:00",
                },
            ],
        })
    );
}

#[test]
fn every_kind_of_schedule_can_be_asked_without_a_file() {
    #[rustfmt::skip]
    let table: [(&[&str], &[&str]); 6] = [
        (&["--daily", "08:00,17:30", "--days", "mon-fri", "--tz", "Europe/Berlin", "--after", "2026-12-04T12:00", "-n", "2"],
         &["2026-12-04T17:30:00+01:00", "2026-12-07T08:00:00+01:00"]),
        (&["--at", "2026-12-24T18:00", "--tz", "Europe/Berlin", "--after", "2026-12-01"],
         &["2026-12-24T18:00:00+01:00"]),
        (&["--at", "2026-12-24T18:00", "--tz", "Europe/Berlin", "--after", "2026-12-25"], &[]),
        (&["--every", "2h", "--after", "2026-12-01T00:30:00Z", "-n", "2"],
         &["2026-12-01T02:30:00+00:00", "2026-12-01T04:30:00+00:00"]),
        (&["--every", "2h", "--anchor", "2026-01-01T00:15:00Z", "--after", "2026-12-01T00:30:00Z", "-n", "1"],
         &["2026-12-01T02:15:00+00:00"]),
        (&["--cron", "0 8 * * mon", "--tz", "europe/berlin", "--after", "2026-12-01", "-n", "1"],
         &["2026-12-07T08:00:00+01:00"]),
    ];
    for (arguments, expected) in table {
        assert_eq!(times(arguments), expected, "{arguments:?}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_option_and_what_is_accepted() {
    #[rustfmt::skip]
    let table: [(&[&str], &[&str]); 13] = [
        (&["--cron", "0 25 * * *", "--tz", "UTC"], &["`--cron`", "hour", "0-23"]),
        (&["--cron", "0 0 30 2 *", "--tz", "UTC"], &["`--cron`", "never comes"]),
        (&["--daily", "8:00", "--tz", "UTC"], &["`--daily`", "accepted: a time of day such as `08:00`"]),
        (&["--daily", "", "--tz", "UTC"], &["`--daily`"]),
        (&["--daily", "08:00", "--days", "mo", "--tz", "UTC"], &["`--days`", "mon-fri"]),
        (&["--daily", "08:00"], &["--tz", "Europe/Berlin"]),
        (&["--daily", "08:00", "--tz", "Europe/Berln"], &["`--tz`", "did you mean `Europe/Berlin`"]),
        (&["--at", "2026-12-24T18:00Z", "--tz", "UTC"], &["`--at`", "2026-12-24T18:00"]),
        (&["--every", "10"], &["`--every`", "`10m`"]),
        (&["--every", "2h", "--anchor", "noon"], &["`--anchor`", "accepted: "]),
        (&["--after", "tomorrow"], &["--after", "2026-12-01T08:00"]),
        (&["--after", "24.12.2026"], &["--after", "accepted: "]),
        (&["-n", "0"], &["--count", "1..=10000"]),
    ];
    for (arguments, pieces) in table {
        let output = next(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        for piece in pieces {
            assert!(error.contains(piece), "{arguments:?}: {piece}: {error}");
        }
    }
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    for arguments in [
        &["--cron", "0 8 * * *", "--daily", "08:00", "--tz", "UTC"][..],
        &["jobs.toml", "--daily", "08:00", "--tz", "UTC"],
        &["--job", "budget", "--every", "2h"],
        &["--days", "mon"],
        &["--every", "2h", "--days", "mon"],
        &["--daily", "08:00", "--tz", "UTC", "--anchor", "2026-12-01"],
        &["--tz", "UTC"],
    ] {
        let output = next(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn good_jobs_are_shown_and_bad_ones_named() {
    let folder = tempfile::tempdir().unwrap();
    let good = fs::read_to_string("tests/fixtures/next/jobs.toml").unwrap();
    let bad = format!("{good}\n[jobs.wrong]\ndaily = \"8\"\nprompt = \"x\"\ndeliver = \"me\"\n");
    fs::write(folder.path().join("jobs.toml"), bad).unwrap();
    let output = next_in(folder.path(), &["-n", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).starts_with("budget   every day at 08:00"));
    let error = text(&output.stderr);
    assert!(error.contains("job `wrong` is left out"), "{error}");
    assert!(error.contains("chatcron check jobs.toml"), "{error}");

    let as_json = next_in(folder.path(), &["-n", "1", "--json"]);
    let answer: Value = serde_json::from_slice(&as_json.stdout).unwrap();
    assert_eq!(answer["bad_jobs"][0]["id"], "wrong");
    let asked = next_in(folder.path(), &["--job", "wrong"]);
    assert_eq!(asked.status.code(), Some(1));
    let fine = next_in(folder.path(), &["--job", "budget"]);
    assert_eq!(fine.status.code(), Some(0));
}

#[test]
fn a_job_that_is_not_there_ends_with_3_and_the_nearest() {
    let output = next(&["--job", "budgte"]);
    assert_eq!(output.status.code(), Some(3));
    let error = text(&output.stderr);
    assert!(
        error.contains("there is no job `budgte` in jobs.toml"),
        "{error}"
    );
    assert!(error.contains("did you mean `budget`?"), "{error}");
}

#[test]
fn a_file_that_is_not_toml_ends_with_1_and_one_that_is_not_there_with_3() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(next_in(folder.path(), &[]).status.code(), Some(3));
    fs::write(folder.path().join("jobs.toml"), "[jobs").unwrap();
    let output = next_in(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("not TOML"));
}

#[test]
fn asking_makes_no_database() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(
        "tests/fixtures/next/jobs.toml",
        folder.path().join("jobs.toml"),
    )
    .unwrap();
    next_in(folder.path(), &[]);
    let names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["jobs.toml"]);
}
