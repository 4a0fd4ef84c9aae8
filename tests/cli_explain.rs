//! `chatcron explain`, as a person or a program sees it; `--after` makes the answers fixed.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is missing"
)]

use std::{fs, process::Output};

use assert_cmd::Command;
use serde_json::Value;

const JOBS: &str = r#"
timezone = "Europe/Berlin"
max_concurrent = 1

[jobs.budget]
daily = "08:00"
days = "mon-fri"
deliver = "history"
prompt = "Do it."

[jobs.night]
cron = "30 2 15 * sun"
deliver = "history"
prompt = "Do it."

[jobs.slow]
every = "5m"
anchor = "2026-01-01T00:02"
deliver = "history"
prompt = "Do it."

[agents.main]
kind = "echo"

[simulate]
run_times = { slow = "6m" }
"#;

fn explain(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jobs.toml"), JOBS).unwrap();
    let mut command = Command::cargo_bin("chatcron").unwrap();
    let command = command.current_dir(folder.path()).arg("explain");
    command.args(arguments).output().unwrap()
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn an_expression_is_told_in_words_with_its_clock_change_and_times() {
    let arguments = [
        "0 8 * * mon-fri",
        "--tz",
        "Europe/Berlin",
        "--after",
        "2027-03-26T12:00",
    ];
    let output = explain(&[&arguments[..], &["-n", "2"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(
        out(&output),
        "0 8 * * mon-fri: every weekday at 08:00, Europe/Berlin; \
         on Sun 2027-03-28 clocks go forward: unaffected\n  \
         Mon 2027-03-29 08:00\n  Tue 2027-03-30 08:00\n"
    );
    let output = explain(&[
        "30 2 * * *",
        "--tz",
        "Europe/Berlin",
        "--after",
        "2027-03-26T12:00",
        "-n",
        "2",
    ]);
    assert!(
        out(&output).contains("clocks go forward: 02:30 does not exist"),
        "{}",
        out(&output)
    );
    assert!(
        out(&output).contains("warning: 02:30 does not exist"),
        "{}",
        out(&output)
    );
}

#[test]
fn a_job_is_told_with_its_lints() {
    let output = explain(&["budget", "--after", "2026-12-01"]);
    assert!(out(&output).starts_with("budget: every weekday at 08:00, Europe/Berlin; on "));
    let output = explain(&["night", "--after", "2026-12-01"]);
    assert!(
        out(&output).contains("on day 15 of the month or every Sunday at 02:30"),
        "{}",
        out(&output)
    );
    assert!(
        out(&output).contains("warning: `30 2 15 * sun` names days"),
        "{}",
        out(&output)
    );
    let output = explain(&["slow", "--json", "--after", "2026-12-01"]);
    let json: Value = serde_json::from_str(out(&output)).unwrap();
    assert_eq!(json["lints"][0]["code"], "short-period");
    assert_eq!(json["times"].as_array().unwrap().len(), 5);
}

#[test]
fn what_cannot_be_explained_says_what_to_do() {
    for (arguments, exit, says) in [
        (vec!["0 8 * * *"], 2, "name it with --tz"),
        (vec!["0 25 * * *", "--tz", "UTC"], 2, "`EXPR`"),
        (vec!["0 8 30 2 *", "--tz", "UTC"], 2, "never comes"),
        (vec!["budgte"], 3, "did you mean `budget`?"),
        (vec!["budget", "--tz", "UTC"], 2, "has its own zone"),
    ] {
        let output = explain(&arguments);
        assert_eq!(
            output.status.code(),
            Some(exit),
            "{arguments:?} {}",
            err(&output)
        );
        assert!(
            err(&output).contains(says),
            "{arguments:?} {}",
            err(&output)
        );
    }
}

#[test]
fn a_job_with_jitter_is_told_with_the_starts_that_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = JOBS.replacen("days = \"mon-fri\"", "jitter = \"20m\"", 1);
    fs::write(folder.path().join("jobs.toml"), jobs).unwrap();
    let times = |command: &[&str]| {
        let mut chatcron = Command::cargo_bin("chatcron").unwrap();
        let chatcron = chatcron.current_dir(folder.path()).args(command);
        let output = chatcron
            .args(["--after", "2026-12-01", "-n", "3", "--json"])
            .output()
            .unwrap();
        serde_json::from_str::<Value>(out(&output)).unwrap()
    };
    let explained = times(&["explain", "budget"]);
    assert!(
        explained["words"]
            .as_str()
            .unwrap()
            .contains("up to 20 min later"),
        "{explained}"
    );
    let next = times(&["next", "--job", "budget"]);
    let planned = next["jobs"][0]["times"].as_array().unwrap().iter();
    let planned: Vec<_> = planned.map(|time| time["at"].clone()).collect();
    let drawn = explained["times"].as_array().unwrap().iter();
    let drawn: Vec<_> = drawn.map(|time| time["at"].clone()).collect();
    assert_eq!(drawn, planned);
    assert!(
        drawn
            .iter()
            .any(|at| !at.as_str().unwrap().contains("T08:00:00")),
        "{drawn:?}"
    );
}
