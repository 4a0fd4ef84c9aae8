//! The record of what a chat showed, kept outside the database: one JSON object a line.
//!
//! ```json
//! {"chat":"console:direct:me","message_id":"7f","key":"MFRGG...","text":"Hello","at":"2026-11-30T07:00:00Z"}
//! ```
//!
//! The console channel writes this form; `chatcron verify --channel-log` reads it from any other
//! channel, where `chat` may also be the chat's address (with `thread` where it has one), `key` may
//! be missing, and numbers may stand for ids. A line counts when it is whole: what a crash left of
//! a last line, without its end, was never confirmed and is not read.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use crate::ids::IdempotencyKey;

/// One message that a chat showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownLine {
    /// The session key of the chat, or its address.
    #[serde(deserialize_with = "text_or_number")]
    pub chat: String,
    /// The thread, where `chat` is an address.
    #[serde(
        default,
        deserialize_with = "optional_text_or_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub thread: Option<String>,
    /// The channel's id of the message.
    #[serde(deserialize_with = "text_or_number")]
    pub message_id: String,
    /// The key it was sent under, where the channel keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<IdempotencyKey>,
    /// What was shown.
    pub text: String,
    /// When.
    pub at: Timestamp,
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file cannot be read.
    #[error("cannot read the channel log")]
    Io(#[from] io::Error),
    /// A whole line is not of the documented form.
    #[error("line {line} of the channel log is not a shown message")]
    Line {
        /// The line's number, from 1.
        line: u64,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

/// Reads a log file. Blank lines are skipped.
///
/// # Errors
/// [`LogError`] if the file cannot be read, or a whole line is not of the form.
pub fn read(path: &Path) -> Result<Vec<ShownLine>, LogError> {
    let file = File::open(path)?;
    // A writer holds the lock while a line is half written; where locks are unknown, the line's
    // missing end tells as much.
    let _ = file.lock_shared();
    lines(BufReader::new(&file)).collect()
}

/// Reads the lines of a log, one by one.
pub fn lines(reader: impl BufRead) -> impl Iterator<Item = Result<ShownLine, LogError>> {
    let mut number = 0;
    whole_lines(reader).filter_map(move |line| {
        number += 1;
        match line {
            Err(error) => Some(Err(error.into())),
            Ok(line) if line.trim_ascii().is_empty() => None,
            Ok(line) => Some(
                serde_json::from_slice(&line).map_err(|source| LogError::Line {
                    line: number,
                    source,
                }),
            ),
        }
    })
}

/// The lines that have an end, with it.
pub(super) fn whole_lines(mut reader: impl BufRead) -> impl Iterator<Item = io::Result<Vec<u8>>> {
    let mut done = false;
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        let mut line = Vec::new();
        match reader.read_until(b'\n', &mut line) {
            Ok(_) if line.ends_with(b"\n") => Some(Ok(line)),
            Ok(_) => None,
            Err(error) => {
                done = true;
                Some(Err(error))
            }
        }
    })
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrNumber {
    Text(String),
    Number(i64),
}

impl From<TextOrNumber> for String {
    fn from(value: TextOrNumber) -> Self {
        match value {
            TextOrNumber::Text(text) => text,
            TextOrNumber::Number(number) => number.to_string(),
        }
    }
}

fn text_or_number<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    TextOrNumber::deserialize(from).map(String::from)
}

fn optional_text_or_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<TextOrNumber>::deserialize(from)?.map(String::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_channels_write_is_read() {
        let log = concat!(
            r#"{"chat":-1001,"thread":7,"message_id":12,"text":"a","at":"2026-11-30T08:00:00+01:00"}"#,
            "\n\n",
            r#"{"at":"2026-11-30T07:00:00Z","key":"K","chat":"telegram:direct:1","message_id":"13","text":"b\nc","more":[]}"#,
            "\n",
            r#"{"chat":"1","message_id":"14","text":"torn"#,
        );
        let lines: Vec<ShownLine> = lines(log.as_bytes()).map(Result::unwrap).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(
            (lines[0].chat.as_str(), lines[0].thread.as_deref()),
            ("-1001", Some("7"))
        );
        assert_eq!(lines[0].message_id, "12");
        assert_eq!(lines[0].at, lines[1].at);
        assert_eq!(lines[1].text, "b\nc");
        assert_eq!(lines[1].key, Some(IdempotencyKey::from_stored("K")));
    }

    #[test]
    fn a_whole_line_of_another_form_is_an_error_with_its_number() {
        let log = "\n{\"chat\":\"1\"}\n";
        let error = lines(log.as_bytes()).next().unwrap().unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let line = ShownLine {
            chat: "console:direct:me".to_owned(),
            thread: None,
            message_id: "K".to_owned(),
            key: Some(IdempotencyKey::from_stored("K")),
            text: "a\nb \u{2028} \"c\"".to_owned(),
            at: Timestamp::UNIX_EPOCH,
        };
        let json = serde_json::to_string(&line).unwrap();
        assert_eq!(
            json,
            "{\"chat\":\"console:direct:me\",\"message_id\":\"K\",\"key\":\"K\",\
             \"text\":\"a\\nb \u{2028} \\\"c\\\"\",\"at\":\"1970-01-01T00:00:00Z\"}"
        );
        let log = format!("{json}\n");
        assert_eq!(lines(log.as_bytes()).next().unwrap().unwrap(), line);
    }
}
