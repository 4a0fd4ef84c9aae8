use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::*;
use crate::{
    cli::samples::{HOSTILE, assert_harmless, chat, entry, job_id, now},
    message::Origin,
    transcript::{Block, Content, Provenance, Role, TriggerSource, Visibility},
};

fn transcript(entries: Vec<Entry>) -> Transcript {
    Transcript {
        session: Session::of_chat(chat("me")),
        entries,
        zone: "Europe/Berlin".to_owned(),
    }
}

fn sample() -> Transcript {
    let result = Entry {
        provenance: Provenance {
            origin: Some(Origin::JobResult),
            posted_by_job: Some(job_id("budget")),
            ..Provenance::default()
        },
        ..entry(
            12,
            Role::Assistant,
            "Yesterday: 41.20 EUR",
            "2026-11-29T07:00:00Z",
        )
    };
    let words = Entry {
        channel_message_id: None,
        provenance: Provenance {
            trigger_source: Some(TriggerSource::User),
            ..Provenance::default()
        },
        ..entry(
            13,
            Role::User,
            "stop this one\non weekends",
            "2026-11-30T07:03:00Z",
        )
    };
    let call = Entry {
        content: Content::Blocks(vec![Block::ToolUse {
            id: "t1".to_owned(),
            name: "edit_job".to_owned(),
            input: json!({ "id": "budget" }),
        }]),
        visibility: Visibility::Interior,
        channel_message_id: None,
        ..entry(14, Role::Assistant, "", "2026-11-30T07:03:01Z")
    };
    let reply = Entry {
        generation: 1,
        provenance: Provenance {
            origin: Some(Origin::TurnReply),
            ..Provenance::default()
        },
        ..entry(15, Role::Assistant, "Done", "2026-11-30T07:03:02Z")
    };
    transcript(vec![result, words, call, reply])
}

#[test]
fn a_transcript_says_when_who_how_and_what() {
    insta::assert_snapshot!(
        text::render(&sample(), now(), Screen::wide(None)),
        @r#"
     yesterday 08:00  budget  (job, #8812)                  Yesterday: 41.20 EUR
     today 08:03      you                                   stop this one
                                                            on weekends
     today 08:03      main    (not shown: inside the turn)  [calls edit_job {"id":"budget"}]
     --- reset: what follows began anew ---
     today 08:03  main  (#8815)  Done
    times in Europe/Berlin
    "#
    );
}

#[test]
fn what_was_said_neither_steers_the_terminal_nor_looks_like_another_row() {
    let forged = "hi\n today 08:00  main  (#1)  I agree";
    let entries = vec![
        entry(1, Role::User, forged, "2026-11-30T07:00:00Z"),
        entry(2, Role::User, HOSTILE, "2026-11-30T07:00:00Z"),
        Entry {
            provenance: Provenance {
                sender_display: Some(HOSTILE.to_owned()),
                ..Provenance::default()
            },
            ..entry(3, Role::User, "x", "2026-11-30T07:00:00Z")
        },
    ];
    let text = text::render(&transcript(entries), now(), Screen::wide(None));
    assert_harmless(&text);
    let rows = text
        .lines()
        .filter(|line| line.starts_with(" today"))
        .count();
    assert_eq!(rows, 3, "{text}");
}

#[test]
fn wide_characters_break_within_the_terminal() {
    let entries = vec![entry(
        1,
        Role::User,
        &"日本語の文".repeat(20),
        "2026-11-30T07:00:00Z",
    )];
    let text = text::render(&transcript(entries), now(), Screen::wide(60));
    assert!(text.lines().all(|line| line.width() <= 60), "{text}");
    assert!(text.lines().count() > 4, "{text}");
}

#[test]
fn json_has_every_field_of_a_row() {
    let json: Value = serde_json::from_str(&as_json(&sample())).unwrap();
    assert_eq!(json["chat"], "me");
    assert_eq!(json["session_key"], "telegram:direct:5550001");
    let first = &json["entries"][0];
    assert_eq!(first["text"], "Yesterday: 41.20 EUR");
    assert_eq!(first["posted_by_job"], "budget");
    assert_eq!(first["origin"], "job_result");
    assert_eq!(first["shown_at"], "2026-11-29T07:00:00Z");
    assert_eq!(json["entries"][2]["visibility"], "interior");
    assert_eq!(json["entries"][3]["generation"], 1);
}
