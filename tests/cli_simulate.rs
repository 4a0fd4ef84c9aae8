//! `chatcron simulate`, as a person, a program or a CI system sees it.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is missing"
)]

use std::{
    fs,
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

use assert_cmd::Command;
use serde_json::Value;

const JOBS: &str = r#"
timezone = "Europe/Berlin"

[jobs.budget]
daily = "08:00"
deliver = "me"
prompt = "Summarise yesterday's spending."

[jobs.night]
daily = "02:30"
deliver = "history"
prompt = "Tidy up."

[jobs.watch]
every = "2h"
deliver = "me"
prompt = "Look."

[agents.main]
kind = "echo"

[channels.terminal]
kind = "console"

[chats.me]
channel = "terminal"
"#;

const WEEK: [&str; 6] = [
    "--from",
    "2027-03-22",
    "--for",
    "7d",
    "--outage",
    "Tue 06:00..Tue 10:00",
];

#[path = "cli_simulate/told.rs"]
mod told;
#[path = "cli_simulate/wrong.rs"]
mod wrong;

struct Folder(tempfile::TempDir);

impl Folder {
    fn with(jobs: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.put("jobs.toml", jobs);
        folder
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }

    fn get(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap()
    }

    fn command(&self) -> Command {
        let mut command = Command::cargo_bin("chatcron").unwrap();
        command.current_dir(self.0.path()).arg("simulate");
        command
    }

    fn simulate(&self, arguments: &[&str]) -> Output {
        self.command().args(WEEK).args(arguments).output().unwrap()
    }
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

#[test]
fn without_a_window_today_is_simulated() {
    let output = Folder::with(JOBS).command().output().unwrap();
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(out(&output).contains("3 jobs, 1 d: "), "{}", out(&output));
}

#[test]
fn the_report_reads_well() {
    let output = Folder::with(JOBS).simulate(&["--run-time", "budget=10s..2m"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let without_hash: Vec<_> = out(&output)
        .lines()
        .filter(|line| !line.starts_with("events "))
        .collect();
    insta::assert_snapshot!("report", without_hash.join("\n"));
}

#[test]
fn the_events_are_the_same_bytes_whatever_the_zone_and_the_language_of_the_machine() {
    let folder = Folder::with(JOBS);
    let mut seen = Vec::new();
    for (zone, language) in [
        ("UTC", "C"),
        ("Europe/London", "en_GB.UTF-8"),
        ("Pacific/Chatham", "tr_TR.UTF-8"),
        ("America/New_York", "de_DE.UTF-8"),
        ("UTC", "C"),
    ] {
        let output = folder
            .command()
            .args(WEEK)
            .args(["--format", "jsonl", "--seed", "3", "--fail", "watch=30%"])
            .args(["--channel-fail", "me=20%"])
            .env("TZ", zone)
            .env("LANG", language)
            .env("LC_ALL", language)
            .output()
            .unwrap();
        assert_eq!(code(&output), 0, "{}", err(&output));
        seen.push((output.stdout, output.stderr));
    }
    assert!(!seen[0].0.is_empty());
    assert!(seen.iter().all(|one| *one == seen[0]));
}

#[test]
fn the_printed_hash_is_that_of_the_log() {
    use sha2::Digest;
    let folder = Folder::with(JOBS);
    let output = folder.simulate(&["--format", "jsonl", "--out", "log.jsonl"]);
    assert_eq!(out(&output), "");
    let log = folder.get("log.jsonl");
    let hash = data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(log.as_bytes()));
    let lines = log.lines().count();
    assert!(err(&output).starts_with(&format!("events {lines} sha256 {hash}, zones ")));
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(
            line["at"].is_string() && line["event"].is_string(),
            "{line}"
        );
    }
}

#[test]
fn the_json_report_has_its_documented_fields() {
    let output = Folder::with(JOBS).simulate(&["--format", "json"]);
    let report: Value = serde_json::from_str(out(&output)).unwrap();
    assert_eq!(report["version"], 1);
    let documented = fs::read_to_string("docs/simulate.md").unwrap();
    for key in report.as_object().unwrap().keys() {
        assert!(documented.contains(&format!("`{key}`")), "{key}");
    }
    let budget = &report["jobs"][0];
    for key in budget.as_object().unwrap().keys() {
        assert!(documented.contains(&format!("`{key}`")), "{key}");
    }
    assert_eq!(budget["id"], "budget");
    assert_eq!(budget["starts"], 7);
    assert_eq!(budget["caught_up"], 1);
    assert_eq!(report["clock_changes"][0]["jobs"][1]["job"], "night");
    assert!(report["clock_changes"][0]["jobs"][1]["note"].is_string());
}

#[test]
fn expectations_that_fail_say_what_happened_and_end_with_1() {
    let folder = Folder::with(JOBS);
    folder.put(
        "good.toml",
        "[[expect]]\njob = \"budget\"\nstarts = 7\nmax_lateness = \"3h\"\nno_skips = \"overlap\"\n\
         [[expect]]\npeak_concurrency_max = 4\n",
    );
    let output = folder.simulate(&["--scenario", "good.toml", "--junit", "junit.xml"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(
        folder
            .get("junit.xml")
            .contains("tests=\"2\" failures=\"0\"")
    );

    folder.put(
        "bad.toml",
        "[[expect]]\njob = \"budget\"\nmax_lateness = \"5m\"\n\
         [[expect]]\nnever_between = \"23:00..06:00\"\n\
         [[expect]]\njob = \"watch\"\nno_skips = [\"missed\"]\nstarts_max = 3\n",
    );
    let output = folder.simulate(&["--scenario", "bad.toml", "--junit", "junit.xml"]);
    assert_eq!(code(&output), 1);
    insta::assert_snapshot!("failures", err(&output));
    let junit = folder.get("junit.xml");
    assert!(junit.contains("tests=\"3\" failures=\"3\""), "{junit}");
    assert!(junit.contains("expected at most 5m"), "{junit}");
}

#[test]
fn a_golden_log_is_kept_compared_and_rewritten() {
    let folder = Folder::with(JOBS);
    let output = folder.simulate(&["--golden", "golden.jsonl"]);
    assert_eq!(code(&output), 3);
    assert!(err(&output).contains("--update-golden"));
    let output = folder.simulate(&["--golden", "golden.jsonl", "--update-golden"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(!folder.0.path().join("golden.jsonl.partial").exists());
    let output = folder.simulate(&["--golden", "golden.jsonl"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(err(&output).contains("the same"));
    folder.put("jobs.toml", &JOBS.replace("02:30", "02:45"));
    let kept = folder.get("golden.jsonl");
    let output = folder.simulate(&["--golden", "golden.jsonl"]);
    assert_eq!(code(&output), 1);
    assert!(err(&output).contains("\n-{\"at\":\"") && err(&output).contains("\n+{\"at\":\""));
    assert_eq!(folder.get("golden.jsonl"), kept);
}

#[test]
fn slots_that_a_clock_change_merges_are_told() {
    let folder = Folder::with(&JOBS.replace("\"02:30\"", "[\"02:15\", \"02:30\", \"02:45\"]"));
    let output = folder.simulate(&[]);
    assert!(
        out(&output).contains("a clock change merged 2 slots into another"),
        "{}",
        out(&output)
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let folder = Folder::with(JOBS);
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("chatcron"));
    let mut child = command
        .current_dir(folder.0.path())
        .args(["simulate", "--from", "2027-01-01", "--for", "365d"])
        .args(["--format", "jsonl"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert!(err(&output).contains("sha256"), "{}", err(&output));
}

#[test]
fn expectations_are_those_of_their_job_in_its_zone() {
    let jobs = JOBS.replace(
        "every = \"2h\"",
        "every = \"24h\"\nanchor = \"2026-12-01T08:00\"",
    );
    let folder = Folder::with(&jobs);
    let expect = "[[expect]]\njob = \"watch\"\npeak_concurrency_max = 1\n\
         slots = [\"2027-03-22T08:00\"]\n";
    folder.put(
        "day.toml",
        &format!("from = \"2027-03-22\"\nfor = \"1d\"\n{expect}"),
    );
    let output = folder
        .command()
        .args(["--scenario", "day.toml"])
        .output()
        .unwrap();
    // `budget` runs at the same time, and does not count.
    assert!(out(&output).contains("peak: 2 at once"), "{}", out(&output));
    assert_eq!(code(&output), 0, "{}", err(&output));
}

#[test]
fn good_jobs_are_simulated_beside_bad_ones_and_that_is_said() {
    let folder = Folder::with(&JOBS.replace("daily = \"02:30\"", "daily = \"2:30\""));
    let output = folder.simulate(&[]);
    assert_eq!(code(&output), 1);
    assert!(out(&output).contains("budget") && !out(&output).contains("night"));
    assert!(
        err(&output).contains("`night` is left out"),
        "{}",
        err(&output)
    );
}

#[test]
fn run_times_come_from_a_database_where_nothing_else_is_said() {
    let folder = Folder::with(JOBS);
    let output = folder.simulate(&["--history", "chatcron.db"]);
    assert_eq!(code(&output), 3);
    assert!(err(&output).contains("no database"), "{}", err(&output));
    let chatcron = || {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("chatcron"));
        command
            .current_dir(folder.0.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    };
    let mut worker = chatcron().arg("run").spawn().unwrap();
    // The worker makes the database, and then knows the jobs.
    let triggered = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        chatcron()
            .args(["trigger", "budget", "--wait"])
            .status()
            .unwrap()
            .success()
    });
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert!(triggered);
    let began_and_ended = |output: &Output| {
        let at = |event: &str| {
            let mut lines = out(output).lines();
            let line = lines.find(|line| line.contains(event) && line.contains("budget"));
            serde_json::from_str::<Value>(line.unwrap()).unwrap()["at"].clone()
        };
        (at("\"attempt\""), at("\"attempt-end\""))
    };
    let history = ["--format", "jsonl", "--history", "chatcron.db"];
    // An echo takes no time.
    let (began, ended) = began_and_ended(&folder.simulate(&history));
    assert_eq!(began, ended);
    let both = [&history[..], &["--run-time", "budget=7s"]].concat();
    let (began, ended) = began_and_ended(&folder.simulate(&both));
    assert_eq!(began, "2027-03-22T07:00:00Z");
    assert_eq!(ended, "2027-03-22T07:00:07Z");
}

#[test]
fn timelines_have_no_script_and_name_every_job() {
    let folder = Folder::with(JOBS);
    for format in ["svg", "html"] {
        let output = folder.simulate(&["--format", format]);
        let text = out(&output);
        assert!(text.contains("</svg>") && !text.contains("<script") && !text.contains("http://e"));
        for job in ["budget", "night", "watch", "02:00 \u{2192} 03:00"] {
            assert!(text.contains(job), "{job}");
        }
    }
}

#[test]
fn the_recipes_of_the_documentation_run() {
    let folder = Folder::with(JOBS);
    let documented = fs::read_to_string(Path::new("docs/simulate.md")).unwrap();
    let scenario = block(&documented, "```toml\n# scenarios/outage.toml");
    folder.put("outage.toml", scenario);
    let shell = block(&documented, "```sh\n# ci/simulate.sh");
    folder.put("simulate.sh", shell);
    fs::create_dir(folder.0.path().join("scenarios")).unwrap();
    folder.put("scenarios/outage.toml", scenario);
    let chatcron = assert_cmd::cargo::cargo_bin("chatcron");
    let path = std::env::var("PATH").unwrap();
    let output = std::process::Command::new("sh")
        .arg("simulate.sh")
        .current_dir(folder.0.path())
        .env(
            "PATH",
            format!("{}:{path}", chatcron.parent().unwrap().display()),
        )
        .output()
        .unwrap();
    assert!(output.status.success(), "{}{}", out(&output), err(&output));
    assert!(folder.get("reports/outage.xml").contains("failures=\"0\""));
    // The other recipe calls the same script.
    let actions = block(&documented, "```yaml\n# .github/workflows/simulate.yml");
    assert!(actions.contains("sh ci/simulate.sh"));
}

/// The code block that begins so.
fn block<'t>(text: &'t str, begin: &str) -> &'t str {
    let start = text.find(begin).unwrap_or_else(|| panic!("{begin}"));
    let body = &text[start..];
    let body = &body[body.find('\n').unwrap() + 1..];
    &body[..body.find("\n```").unwrap() + 1]
}
