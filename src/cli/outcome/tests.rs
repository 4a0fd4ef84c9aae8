use super::*;
use crate::{
    cli::{
        samples::{HOSTILE, assert_harmless, at, failed, now, run},
        table::{Column, Screen, Table},
    },
    store::DeliveryCounts,
};

fn words(cell: Cell) -> String {
    let mut table = Table::new([Column::Left]).indent(0);
    table.row([cell]);
    table.render(Screen::wide(None)).trim_end().to_owned()
}

fn in_state(state: &str, reason: Option<&str>) -> RunRow {
    RunRow {
        state: state.to_owned(),
        reason: reason.map(str::to_owned),
        ..run(1, "watch", "2026-11-30T10:00:00Z")
    }
}

#[test]
fn every_state_has_its_words() {
    let backoff = RunRow {
        due_at: Some(at("2026-11-30T11:02:00Z")),
        error: Some("model overloaded".to_owned()),
        ..in_state("backoff", None)
    };
    let running = RunRow {
        ended_at: None,
        ..in_state("running", None)
    };
    for (run, expected) in [
        (in_state("done", None), "done in 14 s"),
        (in_state("done", Some("silent")), "done, silent"),
        (
            failed(1, "watch", "2026-11-30T10:00:00Z", "model overloaded"),
            "failed: model overloaded",
        ),
        (
            in_state("failed", Some("timeout")),
            "failed: it took too long",
        ),
        (
            in_state("failed", Some("interrupted")),
            "failed: chatcron ended during it",
        ),
        (in_state("skipped", Some("overlap")), "skipped: overlap"),
        (in_state("cancelled", None), "cancelled"),
        (running, "running for 1 h"),
        (backoff, "tries again in 2 min: model overloaded"),
        (in_state("queued", None), "waits for its turn"),
    ] {
        assert_eq!(words(outcome(&run, now())), expected);
    }
}

#[test]
fn an_error_of_a_provider_stays_one_harmless_line() {
    let run = failed(1, "watch", "2026-11-30T10:00:00Z", &HOSTILE.repeat(20));
    let said = words(outcome(&run, now()));
    assert_harmless(&said);
    assert_eq!(said.lines().count(), 1);
    assert!(said.ends_with('…'), "{said}");
}

#[test]
fn what_was_delivered_counts_messages_by_what_became_of_them() {
    let counts = |confirmed, unknown, open| RunRow {
        delivery: DeliveryCounts {
            confirmed,
            unknown,
            open,
            ..DeliveryCounts::default()
        },
        ..run(1, "watch", "2026-11-30T10:00:00Z")
    };
    for (run, expected) in [
        (counts(0, 0, 0), "-"),
        (counts(1, 0, 0), "me, 1 message"),
        (counts(3, 0, 0), "me, 3 messages"),
        (counts(1, 1, 0), "me, 1 of 2 messages, 1 unknown"),
        (counts(0, 0, 2), "me, 2 to come"),
    ] {
        assert_eq!(words(delivered(&run)), expected);
    }
}
