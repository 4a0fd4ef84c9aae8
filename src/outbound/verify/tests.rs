use jiff::Timestamp;

use super::*;
use crate::{
    ids::{ChannelName, ChatKind, ChatName, IdempotencyKey, MessageId, PartId},
    message::{ChatAddress, Destination, Origin},
    transcript::{Content, Provenance},
};

fn key(n: i64) -> IdempotencyKey {
    IdempotencyKey::from_stored(format!("KEY{n}"))
}

fn row(n: i64, text: &str) -> Entry {
    Entry {
        session_key: SessionKey::from_stored("telegram:direct:1"),
        generation: 1,
        seq: n,
        role: Role::Assistant,
        content: Content::Text(text.to_owned()),
        framed: None,
        visibility: Visibility::Visible,
        provenance: Provenance {
            origin: Some(Origin::JobResult),
            idempotency_key: Some(key(n)),
            ..Provenance::default()
        },
        created_at: Timestamp::UNIX_EPOCH,
        shown_at: None,
        channel_message_id: Some(n.to_string()),
    }
}

fn part(n: i64, text: &str, state: PartState) -> OutboxRow {
    OutboxRow {
        part_id: PartId(n),
        message_id: MessageId(n),
        part: 1,
        parts: 1,
        state,
        under_way: false,
        reason: None,
        why: None,
        origin: Origin::JobResult,
        destination: Destination::Chat(ChatAddress {
            chat: ChatName::new("me").unwrap(),
            channel: ChannelName::new("telegram").unwrap(),
            account: None,
            kind: ChatKind::Direct,
            address: "1".to_owned(),
            thread: None,
        }),
        session_key: SessionKey::from_stored("telegram:direct:1"),
        key: key(n),
        text: Some(text.to_owned()),
        native: false,
        posted_by: None,
        run_id: None,
        turn_id: None,
        on_unknown: OnUnknown::Hold,
        attempts: 1,
        enqueued_at: Timestamp::UNIX_EPOCH,
        first_attempt_at: None,
        next_attempt_at: Timestamp::UNIX_EPOCH,
        settled_at: None,
        channel_message_id: (state == PartState::Confirmed).then(|| n.to_string()),
        settled_late: false,
        written_elsewhere: false,
    }
}

fn line(n: i64, text: &str) -> ShownLine {
    ShownLine {
        message_id: n.to_string(),
        key: Some(key(n).as_str().to_owned()),
        text: text.to_owned(),
    }
}

/// Three messages on which rows, parts and log agree.
fn agreeing() -> Evidence {
    let texts = [(1, "one"), (2, "two"), (3, "three")];
    Evidence {
        session_key: SessionKey::from_stored("telegram:direct:1"),
        rows: texts.iter().map(|(n, text)| row(*n, text)).collect(),
        parts: texts
            .iter()
            .map(|(n, text)| part(*n, text, PartState::Confirmed))
            .collect(),
        log: Some(texts.iter().map(|(n, text)| line(*n, text)).collect()),
    }
}

fn kinds(chat: Evidence) -> Vec<FindingKind> {
    verify(&[chat])
        .findings
        .into_iter()
        .map(|finding| finding.kind)
        .collect()
}

fn log(chat: &mut Evidence) -> &mut Vec<ShownLine> {
    chat.log.as_mut().unwrap()
}

#[test]
fn agreement_is_found() {
    let report = verify(&[agreeing()]);
    assert!(report.holds());
    assert_eq!((report.agreed, report.findings.len()), (3, 0));
    assert!(report.receipts_only.is_empty());
}

#[test]
fn every_difference_of_the_log_is_told_by_its_kind() {
    type Change = fn(&mut Evidence);
    #[rustfmt::skip]
    let table: [(&str, Change, FindingKind); 6] = [
        (
            "altered",
            |chat| log(chat)[1].text = "zwei".to_owned(),
            FindingKind::Altered,
        ),
        (
            "dropped",
            |chat| drop(log(chat).remove(1)),
            FindingKind::Extra,
        ),
        (
            "doubled",
            |chat| {
                let again = log(chat)[1].clone();
                log(chat).push(again);
            },
            FindingKind::Duplicated,
        ),
        (
            "doubled under a new id",
            |chat| {
                let again = ShownLine {
                    message_id: "9".to_owned(),
                    ..log(chat)[1].clone()
                };
                log(chat).push(again);
            },
            FindingKind::Duplicated,
        ),
        (
            "reordered",
            |chat| log(chat).swap(0, 2),
            FindingKind::Reordered,
        ),
        (
            "foreign",
            |chat| log(chat).push(line(9, "nine")),
            FindingKind::Missing,
        ),
    ];
    for (name, change, kind) in table {
        let mut chat = agreeing();
        change(&mut chat);
        let found = kinds(chat);
        assert!(
            !found.is_empty() && found.iter().all(|other| *other == kind),
            "{name}: {found:?}"
        );
    }
}

#[test]
fn every_difference_of_the_transcript_is_told_by_its_kind() {
    type Change = fn(&mut Evidence);
    #[rustfmt::skip]
    let table: [(&str, Change, FindingKind); 4] = [
        (
            "altered",
            |chat| chat.rows[1].content = Content::Text("zwei".to_owned()),
            FindingKind::Altered,
        ),
        (
            "dropped",
            |chat| drop(chat.rows.remove(1)),
            FindingKind::Missing,
        ),
        (
            "doubled",
            |chat| {
                let again = Entry {
                    seq: 9,
                    ..chat.rows[1].clone()
                };
                chat.rows.push(again);
            },
            FindingKind::Extra,
        ),
        (
            "reordered",
            |chat| chat.rows.swap(0, 2),
            FindingKind::Reordered,
        ),
    ];
    for (name, change, kind) in table {
        let mut chat = agreeing();
        change(&mut chat);
        let found = kinds(chat);
        assert!(
            !found.is_empty() && found.iter().all(|other| *other == kind),
            "{name}: {found:?}"
        );
    }
}

#[test]
fn a_message_that_went_astray_is_told_as_such() {
    let mut here = agreeing();
    let mut there = Evidence {
        session_key: SessionKey::from_stored("telegram:direct:2"),
        rows: Vec::new(),
        parts: Vec::new(),
        log: Some(Vec::new()),
    };
    let astray = log(&mut here).remove(2);
    log(&mut there).push(astray);
    let report = verify(&[here, there]);
    let found: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(found, [FindingKind::Extra, FindingKind::WrongChat]);
    assert!(!report.holds());
}

#[test]
fn declared_differences_are_told_and_do_not_fail_it() {
    type Change = fn(&mut Evidence);
    #[rustfmt::skip]
    let table: [(&str, Change); 6] = [
        ("a part in doubt", |chat| {
            chat.rows.remove(1);
            chat.parts[1] = part(2, "two", PartState::Unknown);
        }),
        ("a part that is being sent", |chat| {
            chat.rows.remove(1);
            chat.parts[1] = part(2, "two", PartState::Sending);
        }),
        ("a part in doubt, on a channel without keys", |chat| {
            chat.rows.remove(1);
            chat.parts[1] = part(2, "two", PartState::Unknown);
            log(chat)[1] = ShownLine {
                key: None,
                message_id: "77".to_owned(),
                text: "two".to_owned(),
            };
        }),
        ("another agent's chat", |chat| {
            chat.rows.remove(1);
            chat.parts[1].written_elsewhere = true;
        }),
        ("native only", |chat| {
            chat.rows.remove(1);
            chat.parts[1].native = true;
        }),
        ("settled late", |chat| {
            chat.parts[0].settled_late = true;
            let late = chat.rows.remove(0);
            chat.rows.push(late);
        }),
    ];
    for (name, change) in table {
        let mut chat = agreeing();
        change(&mut chat);
        let report = verify(&[chat]);
        assert!(report.holds(), "{name}: {:?}", report.findings);
        assert_eq!(report.findings.len(), 1, "{name}: {:?}", report.findings);
    }
}

#[test]
fn without_a_log_receipts_are_compared_and_that_is_said() {
    let mut chat = agreeing();
    chat.log = None;
    let report = verify(std::slice::from_ref(&chat));
    assert!(report.holds());
    assert_eq!(report.receipts_only.len(), 1);
    chat.rows.remove(0);
    assert!(!verify(&[chat]).holds());
}

#[test]
fn a_part_in_doubt_excuses_no_more_lines_than_it_was_tried() {
    let mut chat = agreeing();
    chat.rows.remove(1);
    chat.parts[1] = part(2, "two", PartState::Unknown);
    let bare = |id: &str| ShownLine {
        key: None,
        message_id: id.to_owned(),
        text: "two".to_owned(),
    };
    *log(&mut chat) = vec![line(1, "one"), bare("77"), line(3, "three")];
    assert!(verify(std::slice::from_ref(&chat)).holds());
    log(&mut chat).push(bare("78"));
    let found = kinds(chat);
    assert_eq!(found, [FindingKind::Info, FindingKind::Missing]);
}
