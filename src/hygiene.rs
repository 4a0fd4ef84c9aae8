//! Session hygiene: the framing that connectors put in front of a person's words, and its removal.
//!
//! A connector tells an agent who wrote, and where, in blocks before the words. History keeps the
//! words; the original stays beside them, byte for byte. Three generations of blocks are in the
//! field, and all are known here. What is removed is always a beginning, and at most a closing block
//! behind it: the words are one piece of what came. In doubt, text is kept.

mod blocks;
mod header;
mod sender;

use std::borrow::Cow;

pub use sender::Sender;

use crate::transcript::{Block, Content};

/// Words without their framing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripped<'t> {
    /// The words: a piece of the text that was looked at.
    pub words: &'t str,
    /// Who wrote them, as far as the framing said.
    pub sender: Sender,
    /// Whether a block began and did not end. It is kept, as everything behind it.
    pub unclosed: bool,
}

/// Content without its framing.
#[derive(Debug, Clone, PartialEq)]
pub struct Cleaned {
    /// The content; equal to the original where that has no framing.
    pub content: Content,
    /// Who wrote it, as far as the framing said.
    pub sender: Sender,
    /// Whether a block began and did not end.
    pub unclosed: bool,
}

/// Removes the framing in front of a person's words.
///
/// Text that does not begin with a block is given back as it is. Doing it twice changes nothing.
///
/// ```
/// use chatcron::hygiene::strip;
/// let came = "Sender (untrusted metadata):\n```json\n{\"name\": \"Ana\"}\n```\n\nhello";
/// let stripped = strip(came);
/// assert_eq!(stripped.words, "hello");
/// assert_eq!(stripped.sender.display.as_deref(), Some("Ana"));
/// ```
pub fn strip(text: &str) -> Stripped<'_> {
    let mut words = text;
    let mut sender = sender::Found::default();
    let mut unclosed = false;
    // Behind a stamp there can be blocks again.
    loop {
        let leading = blocks::leading(words);
        sender.add(&leading.payloads);
        unclosed |= leading.unclosed;
        let Some(len) = leading.len else { break };
        words = blocks::without_closing_blocks(&words[len..]);
    }
    Stripped {
        words,
        sender: sender.read(),
        unclosed,
    }
}

/// [`strip`] for structured content: of a list of blocks only the first text is looked at.
///
/// A text block that had only framing is dropped if other blocks remain.
pub fn clean(content: &Content) -> Cleaned {
    match content {
        Content::Text(text) => {
            let stripped = strip(text);
            Cleaned {
                content: Content::Text(stripped.words.to_owned()),
                sender: stripped.sender,
                unclosed: stripped.unclosed,
            }
        }
        Content::Blocks(blocks) => clean_blocks(blocks),
    }
}

fn clean_blocks(blocks: &[Block]) -> Cleaned {
    let first = blocks.iter().enumerate().find_map(|(at, block)| {
        if let Block::Text { text } = block {
            Some((at, text))
        } else {
            None
        }
    });
    let Some((at, text)) = first else {
        return Cleaned {
            content: Content::Blocks(blocks.to_vec()),
            sender: Sender::default(),
            unclosed: false,
        };
    };
    let stripped = strip(text);
    let mut kept = blocks.to_vec();
    if stripped.words.len() < text.len() {
        if stripped.words.is_empty() && kept.len() > 1 {
            kept.remove(at);
        } else {
            kept[at] = Block::Text {
                text: stripped.words.to_owned(),
            };
        }
    }
    Cleaned {
        content: Content::Blocks(kept),
        sender: stripped.sender,
        unclosed: stripped.unclosed,
    }
}

/// Makes lines that imitate a header harmless: they become quoted lines.
///
/// Text without such a line is given back as it is. Doing it twice changes nothing.
pub fn neutralise(text: &str) -> Cow<'_, str> {
    if !text.lines().any(header::is_header) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for line in text.split_inclusive('\n') {
        if header::is_header(line) {
            out.push_str("> ");
        }
        out.push_str(line);
    }
    Cow::Owned(out)
}

/// [`neutralise`] for a person's text that is replayed with its framing: the blocks in front stay,
/// each kind once, and lines behind them that imitate a header become quoted lines.
pub fn neutralise_words(text: &str) -> Cow<'_, str> {
    let words = blocks::first_of_each_kind(text);
    let (framing, words) = text.split_at(words);
    match neutralise(words) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(words) => Cow::Owned(format!("{framing}{words}")),
    }
}
