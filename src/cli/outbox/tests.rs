use unicode_width::UnicodeWidthStr;

use super::*;
use crate::cli::samples::{HOSTILE, assert_harmless, now, part};

fn failed(id: i64) -> OutboxRow {
    OutboxRow {
        state: PartState::Failed,
        why: None,
        reason: Some("age".to_owned()),
        parts: 1,
        ..part(id, "Good morning")
    }
}

#[test]
fn every_part_says_why_it_is_there_and_what_can_be_done() {
    let waiting = OutboxRow {
        state: PartState::Pending,
        why: None,
        attempts: 0,
        ..part(99, "日本語")
    };
    let rows = [part(97, "Yesterday"), failed(98), waiting];
    insta::assert_snapshot!(
        render(&rows, now(), Screen::wide(None)),
        @r"
     id  to        state    since  why                                               text
     97  me (1/2)  unknown  3 min  the connection broke after the text was sent      Yesterday
     98  me        failed   3 min  refused for longer than messages are kept trying  Good morning
     99  me (1/2)  pending  3 min  waits for its turn                                日本語
    look at me, then: chatcron outbox resolve 97 --shown | --not-shown
    to send 98 again: chatcron outbox retry 98
    "
    );
    assert!(render(&[], now(), Screen::wide(None)).contains("nothing"));
    let sent = |under_way| OutboxRow {
        state: PartState::Sending,
        under_way,
        ..part(97, "Yesterday")
    };
    let text = |row| render(&[row], now(), Screen::wide(None));
    assert!(text(sent(true)).contains("is being sent"));
    assert!(!text(sent(true)).contains("resolve"), "nobody can say yet");
    assert!(text(sent(false)).contains("outbox resolve 97 --shown"));
}

#[test]
fn what_others_wrote_is_harmless_in_the_list_and_in_full() {
    let row = OutboxRow {
        why: Some(HOSTILE.to_owned()),
        channel_message_id: Some(HOSTILE.to_owned()),
        ..part(97, HOSTILE)
    };
    assert_harmless(&render(std::slice::from_ref(&row), now(), Screen::wide(60)));
    assert_harmless(&detail(&row, "UTC", now(), Screen::wide(60)));
}

#[test]
fn the_list_fits_a_terminal_of_eighty_columns() {
    let rows = [part(97, &"long ".repeat(40)), failed(98)];
    let text = parts::table(&rows, now(), Screen::wide(80));
    assert!(text.lines().all(|line| line.width() <= 80), "{text}");
}

#[test]
fn a_word_about_a_part_says_what_follows_from_it() {
    let shown = Resolution::Shown {
        message_id: None,
        posting_note: None,
    };
    let row = part(97, "x");
    assert!(resolved(&row, &shown).contains("joins that chat's transcript"));
    assert!(resolved(&row, &Resolution::NotShown).contains("chatcron outbox retry 97"));
    assert!(retried(&row).contains("under its old key"));
    assert!(cancelled(&row).contains("97 and the rest of its message will not be sent to me"));
}
