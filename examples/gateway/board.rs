//! The gateway's channel: a board that people look at, with a log of what it has shown.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use chatcron::{
    Ability, Channel, OutgoingBody, OutgoingPart, ShownLine, TextLimit, TextUnit,
    message::{Destination, Receipt, SendAnswer},
};
use jiff::Timestamp;
use serde_json::json;

/// What was shown, by address, in its order.
struct Log {
    file: File,
    shown: Vec<(String, ShownLine)>,
}

/// A board. It knows the keys of what it has shown, so that nothing is shown twice.
#[derive(Clone)]
pub(crate) struct Board {
    log: Arc<Mutex<Log>>,
}

impl Board {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let shown = Vec::new();
        Ok(Self {
            log: Arc::new(Mutex::new(Log { file, shown })),
        })
    }

    /// Somebody writes on it, a person or the gateway itself; returns the message's id.
    pub(crate) fn write(&self, address: &str, text: &str) -> io::Result<String> {
        self.show(address, None, text)
    }

    /// What an address has shown.
    pub(crate) fn lines(&self, address: &str) -> Vec<ShownLine> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let here = log.shown.iter().filter(|(at, _)| at == address);
        here.map(|(_, line)| line.clone()).collect()
    }

    fn show(&self, address: &str, key: Option<&str>, text: &str) -> io::Result<String> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let has_key = |line: &ShownLine| key.is_some() && line.key.as_deref() == key;
        if let Some((_, line)) = log.shown.iter().find(|(_, line)| has_key(line)) {
            return Ok(line.message_id.clone());
        }
        let message_id = format!("b{}", log.shown.len() + 1);
        let line = json!({ "chat": address, "message_id": message_id, "key": key, "text": text });
        writeln!(log.file, "{line}")?;
        let shown = ShownLine {
            message_id: message_id.clone(),
            key: key.map(str::to_owned),
            text: text.to_owned(),
        };
        log.shown.push((address.to_owned(), shown));
        Ok(message_id)
    }
}

#[async_trait]
impl Channel for Board {
    fn ability(&self) -> Ability {
        Ability::Keyed { window: None }
    }

    fn limit(&self) -> TextLimit {
        TextLimit {
            max: Some(2000),
            unit: TextUnit::Chars,
        }
    }

    async fn send(&self, part: &OutgoingPart, _now: Timestamp) -> SendAnswer {
        let (Destination::Chat(chat), OutgoingBody::Text(text)) = (&part.destination, &part.body)
        else {
            return SendAnswer::Ambiguous {
                why: "the board shows words in chats".to_owned(),
            };
        };
        // A network, and a server that takes its time.
        tokio::time::sleep(Duration::from_millis(50)).await;
        match self.show(&chat.address, Some(part.key.as_str()), text) {
            Ok(message_id) => SendAnswer::Receipt(Receipt {
                message_id,
                shown_at: None,
            }),
            Err(error) => SendAnswer::Ambiguous {
                why: error.to_string(),
            },
        }
    }
}
