//! `chatcron check` and `chatcron schema`, as a person or a program sees them.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is missing"
)]

use std::{
    fs,
    path::Path,
    process::{Output, Stdio},
};

use assert_cmd::Command;
use serde_json::Value;

fn chatcron(folder: impl AsRef<Path>) -> Command {
    let mut command = Command::cargo_bin("chatcron").unwrap();
    command.current_dir(folder).env_remove("NO_COLOR");
    command
}

fn check(name: &str) -> Output {
    chatcron("tests/fixtures/jobs")
        .args(["check", name])
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn example() -> String {
    fs::read_to_string("jobs.example.toml").unwrap()
}

#[test]
fn reports_read_well() {
    for name in [
        "both-modes",
        "many-mistakes",
        "left-out",
        "contradiction",
        "unknown-key",
        "secret-in-file",
        "duplicate-key",
        "not-toml",
    ] {
        let output = check(&format!("bad/{name}.toml"));
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(output.stderr.is_empty(), "{name}");
        insta::assert_snapshot!(name, text(&output.stdout));
    }
}

#[test]
fn a_right_file_ends_with_0_and_one_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jobs.toml"), example()).unwrap();
    let output = chatcron(folder.path()).arg("check").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout), "jobs.toml: 7 jobs are good\n");
}

#[test]
fn denied_warnings_end_with_1() {
    for (file, exit) in [
        ("bad/warnings.toml", 1),
        ("bad/lints.toml", 1),
        ("good/schedules.toml", 0),
    ] {
        let output = chatcron("tests/fixtures/jobs")
            .args(["check", "--deny", "warnings", file])
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(exit),
            "{file}: {}",
            text(&output.stdout)
        );
    }
}

#[test]
fn warnings_alone_end_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let past = "timezone = \"UTC\"\n[agents.a]\nkind = \"echo\"\n[jobs.a]\nat = \"2001-01-01T00:00\"\ndeliver = \"history\"\nalert = false\nprompt = \"x\"\n";
    fs::write(folder.path().join("jobs.toml"), past).unwrap();
    let output = chatcron(folder.path()).arg("check").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let report = text(&output.stdout);
    assert!(
        report.contains("warning: the time of job `a` has passed"),
        "{report}"
    );
    assert!(
        report.ends_with("jobs.toml: 1 warning; 1 job is good\n"),
        "{report}"
    );
}

#[test]
fn a_file_that_cannot_be_read_ends_with_3_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("latin1.toml"), b"# caf\xe9\n").unwrap();
    for name in ["jobs.toml", "latin1.toml", "."] {
        let output = chatcron(folder.path())
            .args(["check", name])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(3), "{name}");
        assert!(output.stdout.is_empty(), "{name}");
        let message = text(&output.stderr);
        assert!(
            message.starts_with(&format!("error: cannot read `{name}`: ")),
            "{message}"
        );
        assert!(message.contains("\nhelp: "), "{message}");
    }
}

#[test]
fn wrong_usage_ends_with_2_and_help_with_0() {
    for arguments in [
        &["chek"][..],
        &["check", "--jsn"],
        &["check", "a", "b"],
        &[],
    ] {
        let output = chatcron(".").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            output.stdout.is_empty() && !output.stderr.is_empty(),
            "{arguments:?}"
        );
    }
    for arguments in [&["--help"][..], &["check", "--help"], &["--version"]] {
        let output = chatcron(".").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(!output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn json_has_every_problem_with_its_place() {
    let output = chatcron("tests/fixtures/jobs")
        .args(["check", "bad/both-modes.toml", "--json"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let problems: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let [problem] = &problems[..] else {
        panic!("{problems:?}");
    };
    assert_eq!(problem["file"], "bad/both-modes.toml");
    assert_eq!(
        (&problem["line"], &problem["column"]),
        (&7.into(), &1.into())
    );
    assert_eq!(
        problem["end"],
        serde_json::json!({ "line": 7, "column": 8 })
    );
    assert_eq!(problem["level"], "error");
    assert_eq!(problem["code"], "both-modes");
    assert_eq!(problem["job"], "check-in");
    assert_eq!(problem["secondary"][0]["line"], 6);
    assert!(problem["message"].is_string() && problem["help"].is_string());

    let right = chatcron("tests/fixtures/jobs")
        .args(["check", "good/empty.toml", "--json"])
        .output()
        .unwrap();
    assert_eq!(text(&right.stdout), "[]\n");
}

#[test]
fn a_secret_reaches_neither_the_report_nor_the_json() {
    for option in [&[][..], &["--json"]] {
        let output = chatcron("tests/fixtures/jobs")
            .args(["check", "bad/secret-in-file.toml"])
            .args(option)
            .output()
            .unwrap();
        let shown = text(&output.stdout);
        for secret in ["AAEhBP", "AAFxyz", "hunter2", "abcdef0123", "api03"] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
    }
}

#[test]
fn a_pipe_gets_no_colour() {
    let output = check("bad/both-modes.toml");
    assert!(!text(&output.stdout).contains('\u{1b}'));
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let binary = assert_cmd::cargo::cargo_bin("chatcron");
    let mut child = std::process::Command::new(binary)
        .arg("schema")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn schema_prints_the_schema() {
    let output = chatcron(".").arg("schema").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema, chatcron::config::schema());
}
