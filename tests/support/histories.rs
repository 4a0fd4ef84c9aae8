//! Histories for the laws of the replay projection.

use chatcron::{
    ids::{RunId, SessionKey, TurnId},
    message::Origin,
    transcript::{Block, Content, Entry, Provenance, Role, Visibility},
};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

/// The note before every delivery.
pub(crate) const NOTE: &str =
    r#"<posted-by job="budget" name="B" at="2026-11-30T08:00:00+01:00"/>"#;

/// What a connector puts before a person's words.
pub(crate) const FRAMING: &str =
    "Sender (untrusted metadata):\n```json\n{\"name\": \"Ana\"}\n```\n\n";

pub(crate) fn entry(role: Role, content: Content, provenance: Provenance) -> Entry {
    Entry {
        session_key: SessionKey::from_stored("console:direct:me"),
        generation: 0,
        seq: 0,
        role,
        content,
        framed: None,
        visibility: Visibility::Visible,
        provenance,
        created_at: Timestamp::UNIX_EPOCH,
        shown_at: None,
        channel_message_id: None,
    }
}

pub(crate) fn user(text: &str) -> Entry {
    entry(
        Role::User,
        Content::Text(text.to_owned()),
        Provenance::default(),
    )
}

/// A person's words whose framing was taken off.
pub(crate) fn framed(text: &str) -> Entry {
    Entry {
        framed: Some(Content::Text(format!("{FRAMING}{text}"))),
        ..user(text)
    }
}

/// Words with the thinking of several providers before and behind them.
pub(crate) fn thought(text: &str) -> Entry {
    let mut blocks = vec![
        Block::Opaque(json!({"type": "thinking", "thinking": "hm", "signature": "s"})),
        Block::Opaque(
            json!({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"}),
        ),
        Block::Opaque(json!({"type": "thought_signature", "signature": "s"})),
        Block::Opaque(
            json!({"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}),
        ),
        Block::Text {
            text: text.to_owned(),
        },
    ];
    blocks.push(blocks[0].clone());
    blocks.push(blocks[1].clone());
    entry(
        Role::Assistant,
        Content::Blocks(blocks),
        Provenance::default(),
    )
}

/// The reply, or one part of the reply, of a turn.
pub(crate) fn reply(turn: i64, text: &str) -> Entry {
    let provenance = Provenance {
        origin: Some(Origin::TurnReply),
        turn_id: Some(TurnId(turn)),
        ..Provenance::default()
    };
    entry(Role::Assistant, Content::Text(text.to_owned()), provenance)
}

/// The result of a job, with its note.
pub(crate) fn delivery(run: i64, text: &str) -> Entry {
    let provenance = Provenance {
        origin: Some(Origin::JobResult),
        run_id: Some(RunId(run)),
        posting_note: Some(NOTE.to_owned()),
        ..Provenance::default()
    };
    entry(Role::Assistant, Content::Text(text.to_owned()), provenance)
}

/// A row older than provenance.
pub(crate) fn old(text: &str) -> Entry {
    entry(
        Role::Assistant,
        Content::Text(text.to_owned()),
        Provenance::default(),
    )
}

pub(crate) fn call(words: &str, ids: &[&str]) -> Entry {
    let mut blocks = vec![Block::Text {
        text: words.to_owned(),
    }];
    blocks.extend(ids.iter().map(|id| Block::ToolUse {
        id: (*id).to_owned(),
        name: "look up".to_owned(),
        input: json!({"q": "x"}),
    }));
    entry(
        Role::Assistant,
        Content::Blocks(blocks),
        Provenance::default(),
    )
}

pub(crate) fn result(id: &str, content: &str) -> Entry {
    let block = Block::ToolResult {
        tool_use_id: id.to_owned(),
        content: content.to_owned(),
        is_error: false,
    };
    entry(
        Role::Tool,
        Content::Blocks(vec![block]),
        Provenance::default(),
    )
}

/// The shape of one or more rows that belong together.
#[derive(Debug, Clone)]
pub(crate) enum Row {
    User(String),
    Framed(String),
    /// Older than the removal of framing.
    FramedInPlace(String),
    Thought(String),
    Reply(String, usize),
    Delivery(String),
    Old(String),
    Tools {
        words: String,
        calls: usize,
        results: usize,
        bare: usize,
    },
    Orphan,
}

fn any_words() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[a-zé語😀 ]{1,8}",
        1 => Just(" \n".to_owned()),
        1 => Just(String::new()),
    ]
}

pub(crate) fn any_row() -> impl Strategy<Value = Row> {
    prop_oneof![
        3 => any_words().prop_map(Row::User),
        1 => any_words().prop_map(Row::Framed),
        1 => any_words().prop_map(Row::FramedInPlace),
        1 => any_words().prop_map(Row::Thought),
        3 => (any_words(), 1_usize..4).prop_map(|(words, parts)| Row::Reply(words, parts)),
        3 => any_words().prop_map(Row::Delivery),
        1 => any_words().prop_map(Row::Old),
        3 => (any_words(), 1_usize..4, 0_usize..4, 0_usize..2).prop_map(
            |(words, calls, results, bare)| Row::Tools { words, calls, results, bare }
        ),
        1 => Just(Row::Orphan),
    ]
}

/// Rows whose words are all different, so that a lost or doubled one is seen.
pub(crate) fn rows_of(shapes: &[Row]) -> Vec<Entry> {
    let mut rows = Vec::new();
    for (n, shape) in shapes.iter().enumerate() {
        let id = i64::try_from(n).unwrap_or(0);
        let own = |words: &str| match words.trim() {
            "" => words.to_owned(),
            _ => format!("{words} #{n}"),
        };
        match shape {
            Row::User(words) => rows.push(user(&own(words))),
            Row::Framed(words) => rows.push(framed(&own(words))),
            Row::FramedInPlace(words) => {
                rows.push(user(&format!(
                    "{FRAMING}{}",
                    own(words).trim_start_matches('\n')
                )));
            }
            Row::Thought(words) => rows.push(thought(&own(words))),
            Row::Reply(words, parts) => {
                for part in 0..*parts {
                    rows.push(reply(id, &format!("{} part {part}", own(words))));
                }
            }
            Row::Delivery(words) => rows.push(delivery(id, &own(words))),
            Row::Old(words) => rows.push(old(&own(words))),
            Row::Tools {
                words,
                calls,
                results,
                bare,
            } => {
                // Ids repeat from group to group, as some models write them.
                let ids = ["call a", "b", "c"];
                rows.push(call(&own(words), &ids[..*calls]));
                for id in ids[..*results].iter().rev() {
                    rows.push(result(id, words));
                }
                for _ in 0..*bare {
                    let text = Content::Text("bare".to_owned());
                    rows.push(entry(Role::Tool, text, Provenance::default()));
                }
            }
            Row::Orphan => rows.push(result("nobody", "asked")),
        }
    }
    rows
}
