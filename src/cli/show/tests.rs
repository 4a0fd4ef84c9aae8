use serde_json::{Value, json};

use super::*;
use crate::{
    cli::samples::{HOSTILE, assert_harmless, chat, incident, now, range, run, stored},
    ids::RunId,
    store::{DiagnosticRow, IncidentRow, Level},
    view::{Standing, upcoming},
};

fn sample() -> Shown {
    let mut stored = stored("budget");
    stored.job.name = Some(format!("Budget {HOSTILE}"));
    stored.job.prompt = format!("Summarise.\n{HOSTILE}");
    stored.state.failure_streak = 2;
    let runs = vec![run(40, "budget", "2026-11-30T07:00:00Z")];
    Shown {
        chats: vec![chat("me")],
        standing: Standing::of(&stored, &runs, now()),
        times: upcoming(&stored, now(), 2),
        skipped: vec![range(
            "budget",
            "2026-11-28T07:00:00Z",
            "2026-11-29T07:00:00Z",
            2,
        )],
        incidents: vec![IncidentRow {
            error: Some(HOSTILE.to_owned()),
            ..incident("budget", Some(chat("me")))
        }],
        diagnostics: vec![(
            RunId(40),
            DiagnosticRow {
                level: Level::Warn,
                code: "late".to_owned(),
                message: HOSTILE.to_owned(),
                recorded_at: now(),
            },
        )],
        runs,
        stored,
    }
}

#[test]
fn a_job_is_shown_whole_and_harmless() {
    let text = text::render(&sample(), now(), Screen::wide(None));
    assert_harmless(&text);
    for piece in [
        "  when    every day at 08:00 (Europe/Berlin)\n",
        "  where   background -> me (telegram 5550001)\n",
        "ready; started 0 times; failed 2 times in a row",
        "  fails   3 failures (timeout) since today 08:00, chat me is told: ",
        "3 attempts, 30 s, 2 min apart",
        "  Tue 2026-12-01 08:00  in 20 h\n",
        "skipped: missed (2)",
        "warn  late  run 40: ",
    ] {
        assert!(text.contains(piece), "{piece}\n{text}");
    }
}

#[test]
fn json_has_the_rules_with_their_units() {
    let json: Value = serde_json::from_str(&as_json(&sample())).unwrap();
    assert_eq!(json["policies"]["timeout_ms"], 600_000);
    assert_eq!(
        json["policies"]["retry_backoff_ms"],
        json!([30_000, 120_000])
    );
    assert_eq!(json["times"][0]["at"], "2026-12-01T08:00:00+01:00");
    assert_eq!(json["runs"][0]["run_id"], 40);
    assert_eq!(json["skipped"][0]["slots"], 2);
    assert_eq!(json["diagnostics"][0]["run_id"], 40);
    assert_eq!(json["incidents"][0]["stage"], "alerted");
    assert_eq!(json["source"], "file:jobs.toml");
}
