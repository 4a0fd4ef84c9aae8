use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::{detail::Detail, *};
use crate::{
    cli::samples::{HOSTILE, assert_harmless, at, failed, job_id, now, part, range, run},
    store::{AttemptRow, DiagnosticRow, Level},
    view::RunRows,
};

fn sample() -> Vec<Line> {
    let silent = RunRow {
        reason: Some("silent".to_owned()),
        delivery: crate::store::DeliveryCounts::default(),
        ..run(41, "watch", "2026-11-30T11:00:00Z")
    };
    let runs = vec![
        silent,
        run(40, "budget", "2026-11-30T07:00:00Z"),
        failed(39, "report", "2026-11-27T06:00:00Z", "model overloaded"),
    ];
    let ranges = vec![
        range("watch", "2026-11-28T21:00:00Z", "2026-11-29T03:00:00Z", 4),
        range("watch", "2026-11-27T21:00:00Z", "2026-11-27T22:00:00Z", 2),
    ];
    interleaved(runs, ranges, 20)
}

fn zones(report: &str) -> BTreeMap<JobId, String> {
    let berlin = "Europe/Berlin".to_owned();
    [
        (job_id("watch"), berlin.clone()),
        (job_id("budget"), berlin),
        (job_id("report"), report.to_owned()),
    ]
    .into()
}

#[test]
fn runs_and_skipped_stretches_stand_in_one_list_by_time() {
    insta::assert_snapshot!(
        lines::render(&sample(), &zones("Europe/Berlin"), now(), Screen::wide(None)),
        @r"
     run  job     slot                         outcome                   delivered      note
      41  watch   today 12:00                  done, silent              -
      40  budget  today 08:00                  done in 14 s              me, 1 message
       -  watch   Sat 22:00 - yesterday 04:00  skipped: missed (4)       -              chatcron was not running, or not in time
       -  watch   Fri 22:00 - 23:00            skipped: missed (2)       -              chatcron was not running, or not in time
      39  report  Fri 07:00                    failed: model overloaded  -              3 attempts
    times in Europe/Berlin
    "
    );
}

#[test]
fn several_zones_get_a_column() {
    let text = lines::render(&sample(), &zones("Asia/Tokyo"), now(), Screen::wide(None));
    assert!(
        text.contains("Fri 15:00                    Asia/Tokyo"),
        "{text}"
    );
    assert!(!text.contains("times in"), "{text}");
}

#[test]
fn a_narrow_terminal_breaks_words_and_not_the_table() {
    let text = lines::render(&sample(), &zones("Europe/Berlin"), now(), Screen::wide(90));
    assert!(text.lines().all(|line| line.width() <= 90), "{text}");
    assert!(text.contains("skipped: missed"), "{text}");
}

#[test]
fn the_newest_lines_are_kept() {
    let newest = interleaved(
        vec![run(1, "a", "2026-11-30T07:00:00Z")],
        vec![range(
            "a",
            "2026-11-28T21:00:00Z",
            "2026-11-29T03:00:00Z",
            4,
        )],
        1,
    );
    assert!(matches!(newest[..], [Line::Run(_)]));
}

#[test]
fn since_is_told_in_many_ways() {
    let zone = "Europe/Berlin";
    for (text, expected) in [
        ("today", "2026-11-29T23:00:00Z"),
        ("yesterday", "2026-11-28T23:00:00Z"),
        ("2d", "2026-11-28T11:00:00Z"),
        ("90m", "2026-11-30T09:30:00Z"),
        ("2026-11-20", "2026-11-19T23:00:00Z"),
        ("2026-11-20T08:00", "2026-11-20T07:00:00Z"),
        ("2026-11-20T08:00:00Z", "2026-11-20T08:00:00Z"),
    ] {
        let since = Moment::parse(text).unwrap().instant(now(), zone).unwrap();
        assert_eq!(since, at(expected), "{text}");
    }
    for text in ["", "last week", "2w", "20.11.2026"] {
        assert!(
            Moment::parse(text).unwrap_err().contains("accepted: "),
            "{text}"
        );
    }
}

#[test]
fn a_run_is_shown_with_its_attempts_messages_and_warnings() {
    let detail = Detail {
        rows: RunRows {
            run: RunRow {
                output: Some(format!("fine\n{HOSTILE}")),
                ..failed(39, "report", "2026-11-30T06:00:00Z", HOSTILE)
            },
            attempts: vec![AttemptRow {
                attempt: 1,
                started_at: at("2026-11-30T06:00:00Z"),
                ended_at: Some(at("2026-11-30T06:01:30Z")),
                result: Some("failed:transient".to_owned()),
                error: Some("model overloaded".to_owned()),
                effects_at: Some(at("2026-11-30T06:01:00Z")),
            }],
            diagnostics: vec![DiagnosticRow {
                level: Level::Warn,
                code: "part-unknown".to_owned(),
                message: "nobody knows whether part 97 was shown".to_owned(),
                recorded_at: now(),
            }],
            parts: vec![part(97, HOSTILE)],
        },
        zone: "Europe/Berlin".to_owned(),
    };
    let text = detail.render(now(), Screen::wide(None));
    assert_harmless(&text);
    for piece in [
        "run 39 of report",
        "today 07:00 (Europe/Berlin)",
        "1  today 07:00  1 min 30 s  failed:transient, with effects  model overloaded",
        "warn  part-unknown  nobody knows",
        "97  me (1/2)  unknown  3 min",
    ] {
        assert!(text.contains(piece), "{piece}\n{text}");
    }
    let json: Value = serde_json::from_str(&detail.json()).unwrap();
    assert_eq!(json["run"]["run_id"], 39);
    assert_eq!(json["run"]["nominal_at"], "2026-11-30T06:00:00Z");
    assert_eq!(json["attempts"][0]["result"], "failed:transient");
    assert_eq!(json["diagnostics"][0]["level"], "warn");
    assert_eq!(json["parts"][0]["state"], "unknown");
}
