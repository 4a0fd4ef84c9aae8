//! The commands that read a database, where there is none, and where they are used wrongly.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is missing"
)]

use std::{fs, path::Path, process::Output};

use assert_cmd::Command;

fn chatcron(folder: impl AsRef<Path>, arguments: &[&str]) -> Output {
    Command::cargo_bin("chatcron")
        .unwrap()
        .current_dir(folder)
        .env_remove("CHATCRON_DB")
        .args(arguments)
        .output()
        .unwrap()
}

fn error(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn without_a_database_they_say_so_make_none_and_end_with_3() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["list"][..],
        &["show", "budget"],
        &["runs"],
        &["runs", "--run", "1"],
        &["transcript", "me"],
        &["transcript", "me", "--as", "gemini"],
        &["stats"],
        &["outbox"],
        &["outbox", "show", "1"],
        &["outbox", "retry", "1"],
        &["outbox", "cancel", "1"],
        &["outbox", "resolve", "1", "--shown"],
        &["verify"],
    ] {
        let output = chatcron(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        let error = error(&output);
        assert!(
            error.contains("there is no database at chatcron.db"),
            "{arguments:?}: {error}"
        );
        assert!(error.contains("\nhelp: `chatcron run`"), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_database_is_the_one_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, place) in [
        (&["list", "sub/jobs.toml"][..], "sub/chatcron.db"),
        (&["runs", "--file", "sub/jobs.toml"], "sub/chatcron.db"),
        (&["runs", "--db", "x.db"], "x.db"),
        (&["outbox", "--db", "sqlite:x.db"], "x.db"),
    ] {
        let output = chatcron(folder.path(), arguments);
        let expected = format!("there is no database at {place}\n");
        assert!(error(&output).contains(&expected), "{arguments:?}");
    }
}

#[test]
fn wrong_usage_ends_with_2_and_names_what_is_accepted() {
    #[rustfmt::skip]
    let table: [(&[&str], &str); 8] = [
        (&["runs", "--since", "last week"], "`yesterday`"),
        (&["runs", "--limit", "0"], "--limit"),
        (&["runs", "budget", "--run", "3"], "--run"),
        (&["outbox", "resolve", "1"], "--shown"),
        (&["outbox", "resolve", "1", "--shown", "--not-shown"], "--not-shown"),
        (&["outbox", "resolve", "1", "--not-shown", "--message-id", "7"], "--message-id"),
        (&["verify", "--channel-log", "telegram"], "telegram=telegram.jsonl"),
        (&["list", "--db", "mysql://host/x"], "sqlite:PATH"),
    ];
    for (arguments, piece) in table {
        let output = chatcron(".", arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = error(&output);
        assert!(error.contains(piece), "{arguments:?}: {error}");
    }
}
