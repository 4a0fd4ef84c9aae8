//! Shows messages in the terminal, and keeps them in a log file outside the database.
//!
//! The log is the chat and the terminal a view of it. A line is written and synced first, then
//! printed. So a line in the log is the confirmation at every moment: before it nothing was shown,
//! after it a repeated send finds its key and shows nothing again, and `verify`, which reads the
//! log, never finds less than was confirmed. A crash between the two leaves a message in the log
//! that the terminal missed; the other order would print it twice and log it once, and the log
//! could not tell.

use std::{
    io::Write,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Ability, Channel, OutgoingBody, OutgoingPart, TextLimit, TextUnit, log::ShownLine};
use crate::message::{Destination, RefusalScope, SendAnswer, StopsAddress};

mod journal;

use journal::{Appended, Journal, JournalError};

/// The terminal, as a channel.
#[derive(Clone)]
pub struct Console {
    journal: Arc<Mutex<Journal>>,
    terminal: Arc<Mutex<Box<dyn Write + Send>>>,
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}

impl Console {
    /// Keeps its log in this file, which is made when the first message is shown.
    pub fn new(log: PathBuf, terminal: Box<dyn Write + Send>) -> Self {
        Self {
            journal: Arc::new(Mutex::new(Journal::new(log))),
            terminal: Arc::new(Mutex::new(terminal)),
        }
    }

    fn show(&self, line: &ShownLine, printed: &str) -> SendAnswer {
        // A panic elsewhere leaves the index as it was: it is checked against the file each time.
        let appended = self
            .journal
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .append(line);
        match appended {
            Ok(Appended::Already(receipt)) => SendAnswer::Receipt(receipt),
            Ok(Appended::New(receipt)) => {
                let mut terminal = self.terminal.lock().unwrap_or_else(PoisonError::into_inner);
                let printing = terminal
                    .write_all(printed.as_bytes())
                    .and_then(|()| terminal.flush());
                if let Err(error) = printing {
                    tracing::warn!(%error, "the terminal did not take a message; the log has it");
                }
                SendAnswer::Receipt(receipt)
            }
            Err(JournalError::NotWritten(error)) => SendAnswer::Refused {
                retry_after: None,
                scope: RefusalScope::Channel,
                why: format!("cannot write the console's log: {error}"),
            },
            Err(JournalError::InDoubt(error)) => SendAnswer::Ambiguous {
                why: format!("the console's log may or may not have the message: {error}"),
            },
        }
    }
}

#[async_trait]
impl Channel for Console {
    fn ability(&self) -> Ability {
        Ability::Keyed { window: None }
    }

    fn limit(&self) -> TextLimit {
        TextLimit {
            max: None,
            unit: TextUnit::Chars,
        }
    }

    async fn send(&self, part: &OutgoingPart, now: Timestamp) -> SendAnswer {
        let Destination::Chat(chat) = &part.destination else {
            return SendAnswer::Permanent {
                why: "a webhook is not a chat of the console".to_owned(),
                stops_address: StopsAddress::No,
            };
        };
        let text = match &part.body {
            OutgoingBody::Text(text) => text.clone(),
            OutgoingBody::Native(body) => body.to_string(),
        };
        let printed = printed(chat.chat.as_str(), &part.speaker, &text);
        let line = ShownLine {
            chat: chat.session_key().as_str().to_owned(),
            thread: None,
            // The key is unique for ever, also after the log was moved away.
            message_id: part.key.as_str().to_owned(),
            key: Some(part.key.clone()),
            text,
            at: now,
        };
        let console = self.clone();
        tokio::task::spawn_blocking(move || console.show(&line, &printed))
            .await
            .unwrap_or_else(|error| SendAnswer::Ambiguous {
                why: format!("the console failed: {error}"),
            })
    }
}

/// `[me] budget: text`, further lines set in, so that no message can look like two.
fn printed(chat: &str, speaker: &str, text: &str) -> String {
    let mut out = format!("[{chat}] {}: ", harmless(speaker));
    for (n, line) in text.lines().enumerate() {
        if n > 0 {
            out.push_str("\n  ");
        }
        out.push_str(&harmless(line));
    }
    out.push('\n');
    out
}

/// Without control characters: a message must not steer the terminal.
fn harmless(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
