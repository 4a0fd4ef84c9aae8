//! What the README shows is what happens.
#![cfg(feature = "cli")]
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is missing"
)]
#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

const README: &str = include_str!("../README.md");
const GATE: &str = include_str!("../.ci/run");
const EXAMPLE: &str = include_str!("../jobs.example.toml");

/// Within how long both kinds of job have shown something, as the README says.
const A_MINUTE: Duration = Duration::from_secs(60);

/// A command of a console block, and what is said about it.
#[derive(Debug)]
struct Shown {
    words: Vec<String>,
    exit: i32,
    output: String,
}

#[test]
fn what_the_readme_shows_is_what_happens() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    fs::write(place.join("jobs.example.toml"), EXAMPLE).unwrap();
    write_files(place);
    let shown = commands();
    let first = shown
        .iter()
        .find(|shown| shown.words[..2] == ["cargo", "run"])
        .expect("the first command");
    run_the_example(place, after_dashes(&first.words));
    for shown in shown.iter().filter(|shown| shown.words[0] == "chatcron") {
        check(place, shown);
    }
    every_json_field_is_documented(place);
}

/// The fields that the commands print of what the example has done.
fn every_json_field_is_documented(place: &Path) {
    let of_reading = include_str!("../docs/json-output.md");
    let of_check = include_str!("../docs/commands.md");
    let mut missing = Vec::new();
    for (command, document) in [
        ("check broken.toml", of_check),
        ("next my-jobs/jobs.toml", of_reading),
        ("list", of_reading),
        ("show clock", of_reading),
        ("runs", of_reading),
        ("runs --run 1", of_reading),
        ("outbox --all", of_reading),
        ("transcript me --all", of_reading),
        ("verify", of_reading),
    ] {
        let arguments = words(&format!("{command} --json"));
        let output = chatcron(place, &arguments).output().unwrap();
        let mut fields = BTreeSet::new();
        collect_fields(
            &serde_json::from_slice(&output.stdout).unwrap(),
            &mut fields,
        );
        fields.retain(|field| {
            !document.contains(&format!("`{field}`")) && !document.contains(&format!("\"{field}\""))
        });
        missing.extend(fields.iter().map(|field| format!("{command}: {field}")));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

fn collect_fields(value: &Value, fields: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (field, value) in object {
                fields.insert(field.clone());
                // The names of policies are those of the jobs file.
                if field != "policies" {
                    collect_fields(value, fields);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_fields(item, fields)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The worker of the first command: both kinds of job speak, and it ends in order when asked.
fn run_the_example(place: &Path, arguments: &[String]) {
    let mut worker = Running(
        chatcron(place, arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let log = worker.0.stderr.take().unwrap();
    let log = thread::spawn(move || {
        let mut text = String::new();
        BufReader::new(log).read_to_string(&mut text).map(|_| text)
    });
    let (tell, told) = mpsc::channel();
    let out = worker.0.stdout.take().unwrap();
    thread::spawn(move || {
        let lines = BufReader::new(out).lines().map_while(Result::ok);
        lines.for_each(|line| drop(tell.send(line)));
    });
    let deadline = Instant::now() + A_MINUTE;
    let mut lines = Vec::new();
    let has = |lines: &[String], chat: &str| lines.iter().any(|line| line.starts_with(chat));
    while !(has(&lines, "[me] hello: ") && has(&lines, "[ops] What time is it: ")) {
        match told.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => lines.push(line),
            Err(RecvTimeoutError::Timeout) => panic!("not within a minute: {lines:#?}"),
            Err(RecvTimeoutError::Disconnected) => {
                panic!("it ended: {lines:#?}\n{}", log.join().unwrap().unwrap())
            }
        }
    }
    let id = worker.0.id().to_string();
    let asked = Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(asked.success());
    let status = worker.0.wait().unwrap();
    let log = log.join().unwrap().unwrap();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("stopped; nothing is left to send"), "{log}");
    // The log that the README quotes, without what differs every time.
    for line in [
        "chatcron is running",
        "added job=hello",
        "shown to=terminal:direct:me",
    ] {
        assert!(log.contains(line), "{line}: {log}");
        assert!(README.contains(line), "{line}");
    }
}

/// A worker that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn check(place: &Path, shown: &Shown) {
    let output = chatcron(place, &shown.words[1..]).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    let told = format!(
        "{:?}: {}\n{out}{}",
        shown.words,
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(shown.exit), "{told}");
    if !shown.output.is_empty() {
        assert_eq!(out, shown.output, "{told}");
    }
}

fn chatcron(place: &Path, arguments: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chatcron"));
    command
        .args(arguments)
        .current_dir(place)
        .env_remove("RUST_LOG")
        .env_remove("CHATCRON_DB")
        .env("NO_COLOR", "1");
    command
}

/// The jobs files of the README that say in a comment how they are called.
fn write_files(place: &Path) {
    for block in blocks("toml") {
        let comments = block.lines().map_while(|line| line.strip_prefix("# "));
        let Some(name) = comments.into_iter().find(|line| line.ends_with(".toml")) else {
            continue;
        };
        let path = place.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, block).unwrap();
    }
}

fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("\n```{language}\n");
    let after = README.split(fence.as_str()).skip(1);
    after
        .map(|rest| rest.split_inclusive("\n```").next().unwrap_or(rest))
        .map(|block| block.trim_end_matches("```"))
        .collect()
}

/// All commands of the console blocks, in order.
fn commands() -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    for block in blocks("console") {
        let mut in_this_block = 0;
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                found.push(parsed(command));
                in_this_block += 1;
            } else if in_this_block > 0 {
                let output = &mut found.last_mut().unwrap().output;
                output.push_str(line);
                output.push('\n');
            }
        }
    }
    found
}

fn parsed(command: &str) -> Shown {
    let (command, comment) = command.split_once("   # ").unwrap_or((command, ""));
    let exit = comment.strip_prefix("exit code ").map(str::parse);
    Shown {
        words: words(command),
        exit: exit.transpose().unwrap().unwrap_or(0),
        output: String::new(),
    }
}

/// Words as a shell reads them, with double quotes and nothing else.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (n, piece) in command.split('"').enumerate() {
        if n % 2 == 1 {
            words.push(piece.to_owned());
        } else {
            words.extend(piece.split_whitespace().map(str::to_owned));
        }
    }
    words
}

fn after_dashes(words: &[String]) -> &[String] {
    let dashes = words.iter().position(|word| word == "--").unwrap();
    &words[dashes + 1..]
}

/// A person on a new machine types what the gate runs.
#[test]
fn the_two_commands_of_the_readme_are_those_of_the_gate() {
    let lines: Vec<String> = GATE
        .lines()
        .map(|line| line.trim().replace(" --locked", ""))
        .collect();
    let mut cargo = commands();
    cargo.retain(|shown| shown.words[0] == "cargo");
    let cargo: Vec<String> = cargo.iter().map(|shown| shown.words.join(" ")).collect();
    assert_eq!(
        cargo,
        ["cargo run --release -- run jobs.example.toml", "cargo test"]
    );
    assert!(lines.iter().any(|line| line == "cargo test"));
    // `cargo run --release` builds, and runs what it has built.
    assert!(lines.iter().any(|line| line == "cargo build --release"));
    let runs_it = |line: &String| line.contains("/release/chatcron\" run jobs.example.toml");
    assert!(lines.iter().any(runs_it));
}

/// Every command of the binary is in the README's table and in docs/commands.md, with its options.
#[test]
fn every_command_and_option_is_documented() {
    let document = include_str!("../docs/commands.md");
    let here = Path::new(".");
    let help = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let output = chatcron(here, &arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let mut missing = Vec::new();
    for command in subcommands(&help(&["--help"])) {
        if !README.contains(&format!("`{command} ")) && !README.contains(&format!("`{command}`")) {
            missing.push(format!("README.md: {command}"));
        }
        let Some(section) = section(document, &command) else {
            missing.push(format!("docs/commands.md: a section `{command}`"));
            continue;
        };
        let own = help(&[&command, "--help"]);
        let mut helps = vec![own.clone()];
        for inner in subcommands(&own) {
            if !section.contains(&format!("{command} {inner}")) {
                missing.push(format!("docs/commands.md: {command} {inner}"));
            }
            helps.push(help(&[&command, &inner, "--help"]));
        }
        for option in helps.iter().flat_map(|help| options(help)) {
            let is_shared = ["--help", "--file", "--db"].contains(&option.as_str());
            if !is_shared && !section.contains(&format!("`{option}")) {
                missing.push(format!("docs/commands.md: {command} {option}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

fn subcommands(help: &str) -> Vec<String> {
    let after = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let lines = after.lines().take_while(|line| line.starts_with("  "));
    // A summary that is long goes on in the next line, further in.
    let lines = lines.filter(|line| !line.starts_with("   "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

fn options(help: &str) -> Vec<String> {
    let lines = help.lines().map(str::trim_start);
    let lines = lines.filter(|line| line.starts_with('-'));
    let words = lines.filter_map(|line| line.split([' ', ',']).find(|w| w.starts_with("--")));
    words.map(str::to_owned).collect()
}

/// The text below the heading that names a command.
fn section<'a>(document: &'a str, command: &str) -> Option<&'a str> {
    let name = format!("`{command}`");
    let mut sections = document.split("\n## ");
    sections.find(|section| section.lines().next().unwrap_or_default().contains(&name))
}
