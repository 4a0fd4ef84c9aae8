//! What a person wrote is kept without the framing in front of it, and with the original beside it.

use chatcron::{
    store::{InboundMessage, Store, WindowOf},
    transcript::{Block, Content, Entry},
};
use serde_json::json;

use crate::{Database, fixture::*};

const FRAMED: &str =
    "Sender (untrusted metadata):\n```json\n{\"name\": \"Bea\", \"id\": 9}\n```\n\nhi";

fn came(content: Content) -> InboundMessage {
    InboundMessage {
        content,
        raw_entry: None,
        raw_line: None,
        sender_display: None,
        sender_id_raw: None,
        ..inbound("1", "", None)
    }
}

fn words(text: &str) -> Content {
    Content::Text(text.to_owned())
}

/// The row of a person's message whose turn has begun.
async fn row_of<S: Store>(bench: &Bench<S>, message: InboundMessage, second: i64) -> Entry {
    let key = session("1");
    let turn = bench.begin_turn(&key, message, second, second).await;
    bench
        .finish_turn(&turn, chatcron::store::TurnResult::Done, None, second)
        .await
        .unwrap();
    let mut rows = bench.store.turn_entries(turn.turn_id).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(
        turn.text,
        rows[0].content.text(),
        "the agent is asked the same"
    );
    rows.remove(0)
}

pub(crate) async fn framing_is_taken_off_and_kept_beside_the_words<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let row = row_of(&bench, came(words(FRAMED)), 1).await;
    assert_eq!(row.content, words("hi"));
    assert_eq!(row.framed, Some(words(FRAMED)));
    assert_eq!(row.provenance.sender_display.as_deref(), Some("Bea"));
    assert_eq!(row.provenance.sender_id_raw.as_deref(), Some("9"));

    // A sender that the connector names goes before one in the text.
    let named = InboundMessage {
        sender_display: Some("Ana".to_owned()),
        sender_id_raw: Some("7".to_owned()),
        ..came(words(FRAMED))
    };
    let row = row_of(&bench, named, 2).await;
    assert_eq!(row.provenance.sender_display.as_deref(), Some("Ana"));
    assert_eq!(row.provenance.sender_id_raw.as_deref(), Some("7"));

    // Without framing nothing is kept twice.
    let row = row_of(&bench, came(words("plain")), 3).await;
    assert_eq!((row.content, row.framed), (words("plain"), None));
    let key = session("1");
    let shown = bench.store.transcript(&key, WindowOf::Shown).await.unwrap();
    assert_eq!(texts(&shown), ["hi", "hi", "plain"]);
}

pub(crate) async fn of_blocks_the_first_text_is_cleaned_and_the_rest_stays<D: Database>(
    database: &D,
) {
    let bench = Bench::on(database).await;
    let text = |text: &str| Block::Text {
        text: text.to_owned(),
    };
    let image = Block::Opaque(json!({"type": "image_url", "image_url": {"url": "data:,"}}));
    let blocks = vec![image.clone(), text(FRAMED), text(FRAMED)];
    let row = row_of(&bench, came(Content::Blocks(blocks.clone())), 1).await;
    let kept = vec![image, text("hi"), text(FRAMED)];
    assert_eq!(row.content, Content::Blocks(kept));
    assert_eq!(row.framed, Some(Content::Blocks(blocks)));
}

pub(crate) async fn a_connectors_own_form_is_the_framed_message<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let table = [
        (
            json!({"message": FRAMED, "id": 1}).to_string(),
            Some(words(FRAMED)),
        ),
        (
            json!({"message": {"role": "user", "content": FRAMED}}).to_string(),
            Some(words(FRAMED)),
        ),
        (
            json!({"message": {"content": [{"type": "text", "text": FRAMED}]}}).to_string(),
            Some(Content::Blocks(vec![Block::Text {
                text: FRAMED.to_owned(),
            }])),
        ),
        (json!({"message": 5}).to_string(), None),
        (json!([1, 2]).to_string(), None),
        // Half of a character: JSON by its grammar, and no text of ours.
        (String::from("{\"message\": \"\\ud800 hi\"}"), None),
        (String::from("no JSON at all"), None),
        (String::new(), None),
    ];
    for (second, (raw, framed)) in (1..).zip(table) {
        let message = InboundMessage {
            raw_entry: Some(raw.clone()),
            ..came(words(FRAMED))
        };
        let row = row_of(&bench, message, second).await;
        assert_eq!(row.content, words("hi"), "{raw}");
        assert_eq!(row.framed, framed, "{raw}");
    }
}

pub(crate) async fn broken_framing_is_kept_as_words<D: Database>(database: &D) {
    let bench = Bench::on(database).await;
    let open = "Sender (untrusted metadata):\n```json\n{\"name\": \"Bea\"}\n\nhi";
    let nested = "Sender (untrusted metadata):\n```json\n```json\n{}\n```\n```\nhi";
    let long = format!("{}{FRAMED}", "word ".repeat(200_000));
    let table = [
        (open, open),
        (nested, "```\nhi"),
        ("a\0b", "a\0b"),
        ("\u{feff}\u{202e}x\u{ffff}", "\u{feff}\u{202e}x\u{ffff}"),
        (&long, &long),
    ];
    for (second, (came_as, kept)) in (1..).zip(table) {
        let row = row_of(&bench, came(words(came_as)), second).await;
        assert!(row.content == words(kept), "{kept:.40}");
    }
}
