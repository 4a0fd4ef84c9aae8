//! The console's promises, on a real file.

use std::fs;

use super::*;
use crate::{
    channel::log,
    ids::{ChannelName, ChatKind, ChatName, IdempotencyKey},
    message::{ChatAddress, Receipt},
};

/// A terminal whose words can be read.
#[derive(Clone, Default)]
struct Terminal(Arc<Mutex<Vec<u8>>>);

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Terminal {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

fn part(key: &str, text: &str) -> OutgoingPart {
    OutgoingPart {
        destination: Destination::Chat(ChatAddress {
            chat: ChatName::new("me").unwrap(),
            channel: ChannelName::new("console").unwrap(),
            account: None,
            kind: ChatKind::Direct,
            address: "me".to_owned(),
            thread: None,
        }),
        key: IdempotencyKey::from_stored(key),
        body: OutgoingBody::Text(text.to_owned()),
        part: 1,
        parts: 1,
        enqueued_at: Timestamp::UNIX_EPOCH,
        speaker: "budget".to_owned(),
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn receipt(key: &str, second: i64) -> SendAnswer {
    SendAnswer::Receipt(Receipt {
        message_id: key.to_owned(),
        shown_at: Some(at(second)),
    })
}

fn texts(path: &std::path::Path) -> Vec<String> {
    let lines = log::read(path).unwrap();
    lines.into_iter().map(|line| line.text).collect()
}

#[tokio::test]
async fn a_message_is_printed_and_logged_once_per_key() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("console.jsonl");
    let terminal = Terminal::default();
    let console = Console::new(path.clone(), Box::new(terminal.clone()));
    let first = console
        .send(&part("K1", "Hello\n[me] x: there\u{1b}[2J"), at(10))
        .await;
    assert_eq!(first, receipt("K1", 10));
    // The same words under another key are another message; the same key is not.
    assert_eq!(
        console.send(&part("K1", "Hello"), at(20)).await,
        receipt("K1", 10)
    );
    assert_eq!(
        console.send(&part("K2", "Hello"), at(30)).await,
        receipt("K2", 30)
    );
    assert_eq!(
        terminal.text(),
        "[me] budget: Hello\n  [me] x: there\u{fffd}[2J\n[me] budget: Hello\n"
    );
    let lines = log::read(&path).unwrap();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0].chat, "console:direct:me");
    assert_eq!(lines[0].text, "Hello\n[me] x: there\u{1b}[2J");
}

#[tokio::test]
async fn a_key_is_found_by_another_process_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("console.jsonl");
    let (one, two) = (Terminal::default(), Terminal::default());
    let first = Console::new(path.clone(), Box::new(one.clone()));
    let second = Console::new(path.clone(), Box::new(two.clone()));
    assert_eq!(first.send(&part("A", "a"), at(1)).await, receipt("A", 1));
    assert_eq!(second.send(&part("B", "b"), at(2)).await, receipt("B", 2));
    assert_eq!(first.send(&part("B", "b"), at(3)).await, receipt("B", 2));
    assert_eq!(second.send(&part("A", "a"), at(4)).await, receipt("A", 1));
    assert_eq!(texts(&path), ["a", "b"]);
    assert_eq!(
        (one.text().lines().count(), two.text().lines().count()),
        (1, 1)
    );
}

#[tokio::test]
async fn a_log_that_was_replaced_or_emptied_is_read_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("console.jsonl");
    let console = Console::new(path.clone(), Box::new(std::io::sink()));
    console.send(&part("A", "a"), at(1)).await;
    // A longer log in its place: other keys, at other offsets.
    let other = Console::new(dir.path().join("other"), Box::new(std::io::sink()));
    for key in ["B", "C", "D"] {
        other.send(&part(key, "long long words"), at(2)).await;
    }
    fs::rename(dir.path().join("other"), &path).unwrap();
    assert_eq!(console.send(&part("B", "x"), at(3)).await, receipt("B", 2));
    assert_eq!(console.send(&part("A", "a"), at(4)).await, receipt("A", 4));
    // Emptied in place.
    fs::write(&path, "").unwrap();
    assert_eq!(console.send(&part("A", "a"), at(5)).await, receipt("A", 5));
    assert_eq!(texts(&path), ["a"]);
}

#[tokio::test]
async fn a_crash_at_any_byte_of_a_line_leaves_a_log_that_tells_the_truth() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("console.jsonl");
    let console = Console::new(path.clone(), Box::new(std::io::sink()));
    console.send(&part("A", "first"), at(1)).await;
    let whole_first = fs::read(&path).unwrap();
    console.send(&part("B", "sécond"), at(2)).await;
    let both = fs::read(&path).unwrap();
    for cut in whole_first.len()..both.len() {
        fs::write(&path, &both[..cut]).unwrap();
        assert_eq!(texts(&path), ["first"], "cut at {cut}");
        let restarted = Console::new(path.clone(), Box::new(std::io::sink()));
        assert_eq!(
            restarted.send(&part("B", "sécond"), at(9)).await,
            receipt("B", 9)
        );
        assert_eq!(texts(&path), ["first", "sécond"], "cut at {cut}");
    }
    fs::write(&path, &both).unwrap();
    let restarted = Console::new(path.clone(), Box::new(std::io::sink()));
    assert_eq!(
        restarted.send(&part("B", "sécond"), at(9)).await,
        receipt("B", 2)
    );
}

#[tokio::test]
async fn many_senders_at_once_write_whole_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("console.jsonl");
    let consoles: Vec<Console> = (0..4)
        .map(|_| Console::new(path.clone(), Box::new(std::io::sink())))
        .collect();
    let sends = consoles.iter().flat_map(|console| {
        (0..10).map(move |n| {
            let (console, part) = (console.clone(), part(&format!("K{n}"), "x"));
            tokio::spawn(async move { console.send(&part, at(1)).await })
        })
    });
    for send in sends.collect::<Vec<_>>() {
        assert!(matches!(send.await.unwrap(), SendAnswer::Receipt(_)));
    }
    assert_eq!(log::read(&path).unwrap().len(), 10);
}

#[tokio::test]
async fn a_log_that_cannot_be_written_is_a_refusal() {
    let dir = tempfile::tempdir().unwrap();
    let console = Console::new(dir.path().to_owned(), Box::new(std::io::sink()));
    let answer = console.send(&part("A", "a"), at(1)).await;
    assert!(matches!(answer, SendAnswer::Refused { .. }), "{answer:?}");
}
