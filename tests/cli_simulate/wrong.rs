//! What is wrong, and how it is told.

use super::{Folder, JOBS, code, err, out};

/// Each is refused with its exit code and text, and nothing is printed.
fn refused(cases: &[(&[&str], i32, &str)]) {
    let folder = Folder::with(JOBS);
    for (arguments, exit, says) in cases {
        let output = folder.command().args(*arguments).output().unwrap();
        assert_eq!(code(&output), *exit, "{arguments:?}: {}", err(&output));
        assert!(
            err(&output).contains(says),
            "{arguments:?}: {}",
            err(&output)
        );
        assert_eq!(out(&output), "", "{arguments:?}");
    }
}

#[test]
fn what_is_wrong_names_the_option_and_what_is_accepted() {
    refused(&[
        (
            &["--for", "1d", "--run-time", "budgte=1m"],
            2,
            "did you mean `budget`?",
        ),
        (&["--for", "1d", "--run-time", "budget"], 2, "budget=30s"),
        (&["--for", "1d", "--fail", "budget=often"], 2, "10%"),
        (
            &["--for", "1d", "--channel-fail", "you=5%"],
            2,
            "no chat `you`",
        ),
        (
            &["--for", "1d", "--out", "nowhere/report"],
            3,
            "nothing was simulated",
        ),
        (&["--for", "1d", "--scenario", "none.toml"], 3, "none.toml"),
    ]);
}

#[test]
fn a_window_or_a_stretch_that_is_none_is_refused() {
    refused(&[
        (
            &["--from", "2027-02-01", "--to", "2027-01-01"],
            2,
            "`--from` comes before `--to`",
        ),
        (
            &["--from", "1900-01-01", "--to", "2027-01-01"],
            2,
            "100 years",
        ),
        (&["--from", "soon", "--for", "1d"], 2, "--from"),
        (&["--from", "2027-01-01"], 2, "--for 7d"),
        (
            &["--for", "1d", "--to", "2027-01-01"],
            2,
            "cannot be used with",
        ),
        (&["--for", "7 days"], 2, "has no unit"),
        (&["--for", "1d", "--outage", "Tue 10:00"], 2, "FROM..TO"),
        (
            &["--for", "1d", "--outage", "2027-01-02..2027-01-01"],
            2,
            "A comes before B",
        ),
        (
            &["--for", "1d", "--clock-step", "2027-01-02=1h"],
            2,
            "AT=+1h",
        ),
    ]);
}

#[test]
fn what_lies_outside_of_the_window_is_refused() {
    // A Friday.
    let day = ["--from", "2027-01-01", "--for", "1d"];
    for (option, says) in [
        (
            ["--outage", "2027-02-01..2027-02-02"],
            "an outage 2027-02-01T00:00:00..2027-02-02T00:00:00",
        ),
        (
            ["--outage", "Sat 06:00..Sat 10:00"],
            "an outage Sat 06:00:00..Sat 10:00:00",
        ),
        (
            ["--clock-step", "2027-01-02=+1h"],
            "a clock step at 2027-01-02T00:00:00",
        ),
        (
            ["--fail", "budget=2026-12-31"],
            "a failure at 2026-12-31T00:00:00",
        ),
    ] {
        let output = Folder::with(JOBS).command().args(day).args(option).output();
        let output = output.unwrap();
        assert_eq!(code(&output), 2, "{option:?}: {}", err(&output));
        let says = format!("{says} is outside of the window");
        assert!(err(&output).contains(&says), "{option:?}: {}", err(&output));
        assert_eq!(out(&output), "", "{option:?}");
    }
}

#[test]
fn a_mistake_in_a_scenario_is_shown_at_its_line_and_nothing_is_simulated() {
    let folder = Folder::with(JOBS);
    for (scenario, says) in [
        ("sead = 3\n", "did you mean `seed`?"),
        ("seed = \"three\"\n", "`seed`"),
        (
            "[[expect]]\njob = \"budgte\"\nstarts = 7\n",
            "did you mean `budget`?",
        ),
        ("[run_times]\nnigth = \"5m\"\n", "did you mean `night`?"),
        ("[channel_fail]\nyou = \"5%\"\n", "there is no chat `you`"),
        (
            "[[expect]]\njob = \"budget\"\n",
            "says nothing that must hold",
        ),
        (
            "[[expect]]\nstarts_min = 3\nstarts_max = 2\n",
            "can never hold",
        ),
    ] {
        let line = scenario.lines().count();
        folder.put("wrong.toml", scenario);
        let output = folder.simulate(&["--scenario", "wrong.toml", "--out", "report"]);
        assert_eq!(code(&output), 2, "{scenario}: {}", err(&output));
        assert!(err(&output).contains(says), "{scenario}: {}", err(&output));
        let is_at_its_line = (1..=line).any(|line| {
            let place = format!("--> wrong.toml:{line}:");
            err(&output).contains(&place)
        });
        assert!(
            is_at_its_line && err(&output).contains('^'),
            "{}",
            err(&output)
        );
        assert!(err(&output).contains("nothing was simulated"));
        assert!(!folder.0.path().join("report").exists());
        // The same table in the jobs file.
        let table = scenario.replace("[[expect]]", "[[simulate.expect]]");
        let table = table.replace("[run_times]", "[simulate.run_times]");
        let table = table.replace("[channel_fail]", "[simulate.channel_fail]");
        folder.put("jobs.toml", &format!("{JOBS}\n[simulate]\n{table}"));
        let output = folder.simulate(&[]);
        assert_eq!(code(&output), 2, "{scenario}: {}", err(&output));
        assert!(err(&output).contains(says), "{scenario}: {}", err(&output));
        folder.put("jobs.toml", JOBS);
    }
}

#[test]
fn a_slot_that_cannot_come_in_the_window_is_refused() {
    let folder = Folder::with(JOBS);
    folder.put(
        "slots.toml",
        "[[expect]]\njob = \"budget\"\nslots = [\"2027-03-29T08:00\"]\n",
    );
    let output = folder.simulate(&["--scenario", "slots.toml"]);
    assert_eq!(code(&output), 2, "{}", err(&output));
    let says = "`slots` of job `budget`: 2027-03-29T08:00:00 is outside of the window";
    assert!(err(&output).contains(says), "{}", err(&output));
}

#[test]
fn a_moment_that_the_clock_skips_is_told() {
    let folder = Folder::with(JOBS);
    let output = folder.simulate(&["--outage", "2027-03-28T02:15..2027-03-28T05:00"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    assert_eq!(
        err(&output),
        "warning: Sun 2027-03-28 02:15 does not exist in Europe/Berlin; \
         Sun 2027-03-28 03:15 is taken for it\n"
    );
}

#[test]
fn no_file_of_the_command_is_written_over() {
    let folder = Folder::with(JOBS);
    folder.put("kept.jsonl", "kept");
    for (arguments, says) in [
        (vec!["--out", "jobs.toml"], "the jobs file"),
        (vec!["--junit", "./jobs.toml"], "the jobs file"),
        (vec!["--out", "new", "--junit", "new"], "--junit"),
        (
            vec!["--out", "kept.jsonl", "--golden", "kept.jsonl"],
            "--golden",
        ),
    ] {
        let output = folder.simulate(&arguments);
        assert_eq!(code(&output), 2, "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(says), "{}", err(&output));
    }
    // What is only read is read before anything is emptied.
    let output = folder.simulate(&["--out", "kept.jsonl", "--golden", "nowhere"]);
    assert_eq!(code(&output), 3, "{}", err(&output));
    assert_eq!(folder.get("jobs.toml"), JOBS);
    assert_eq!(folder.get("kept.jsonl"), "kept");
}
