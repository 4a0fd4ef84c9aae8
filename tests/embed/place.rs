//! A folder with a database, and an agent and a channel whose log is outside of it.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use chatcron::{
    agent::{Agent, AgentError, AgentReply, AgentTurn},
    channel::{Ability, Channel, OutgoingBody, OutgoingPart, TextLimit, TextUnit},
    directory::Chat,
    embed::{Builder, Chatcron, UserMessage},
    ids::{ChatKind, SessionKey},
    message::{Receipt, SendAnswer},
    outbound::verify::ShownLine,
    store::WindowOf,
};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "postgres")]
#[path = "../support/cluster.rs"]
mod cluster;

/// Whether the databases of this test binary are a server's.
pub(crate) const IS_ON_SERVER: bool =
    matches!(env!("CARGO_CRATE_NAME").as_bytes(), b"embed_on_postgres");

/// Answers with the last words of the prompt, as soon as its gate is open.
#[derive(Clone)]
pub(crate) struct Parrot {
    pub(crate) gate: watch::Sender<bool>,
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    /// Whether it goes on when it is asked to stop.
    pub(crate) ignores_cancel: bool,
}

impl Parrot {
    pub(crate) fn new() -> Self {
        Self {
            gate: watch::channel(true).0,
            asked: Arc::default(),
            ignores_cancel: true,
        }
    }

    pub(crate) async fn until_asked(&self, count: usize) {
        until(|| self.asked.lock().unwrap().len() >= count, "asked").await;
    }
}

#[async_trait]
impl Agent for Parrot {
    async fn reply(
        &self,
        turn: &AgentTurn,
        _: &CancellationToken,
    ) -> Result<AgentReply, AgentError> {
        let text = turn.prompt.last().unwrap().content.text();
        self.asked.lock().unwrap().push(text.clone());
        self.gate.subscribe().wait_for(|open| *open).await.unwrap();
        Ok(AgentReply {
            text,
            ..AgentReply::default()
        })
    }
}

/// What was shown, in order.
type Shown = Arc<Mutex<Vec<(SessionKey, ShownLine)>>>;

/// A channel that remembers keys, and shows as soon as its gate is open.
#[derive(Clone)]
pub(crate) struct Board {
    pub(crate) shown: Shown,
    pub(crate) gate: watch::Sender<bool>,
}

impl Board {
    fn new() -> Self {
        Self {
            shown: Arc::default(),
            gate: watch::channel(true).0,
        }
    }

    pub(crate) fn texts(&self, session: &SessionKey) -> Vec<String> {
        let shown = self.shown.lock().unwrap();
        let here = shown.iter().filter(|(chat, _)| chat == session);
        here.map(|(_, line)| line.text.clone()).collect()
    }

    /// A gateway shows something itself.
    pub(crate) fn show(&self, session: &SessionKey, key: Option<&str>, text: &str) -> String {
        let mut shown = self.shown.lock().unwrap();
        let is_it = |line: &ShownLine| key.is_some() && line.key.as_deref() == key;
        if let Some((_, line)) = shown.iter().find(|(_, line)| is_it(line)) {
            return line.message_id.clone();
        }
        let message_id = format!("m{}", shown.len() + 1);
        let line = ShownLine {
            message_id: message_id.clone(),
            key: key.map(str::to_owned),
            text: text.to_owned(),
        };
        shown.push((session.clone(), line));
        message_id
    }
}

#[async_trait]
impl Channel for Board {
    fn ability(&self) -> Ability {
        Ability::Keyed { window: None }
    }

    fn limit(&self) -> TextLimit {
        TextLimit {
            max: Some(4096),
            unit: TextUnit::Utf16,
        }
    }

    async fn send(&self, part: &OutgoingPart, _: Timestamp) -> SendAnswer {
        self.gate.subscribe().wait_for(|open| *open).await.unwrap();
        let text = match &part.body {
            OutgoingBody::Text(text) => text.clone(),
            OutgoingBody::Native(body) => body.to_string(),
        };
        let session = part.destination.session_key();
        SendAnswer::Receipt(Receipt {
            message_id: self.show(&session, Some(part.key.as_str()), &text),
            shown_at: None,
        })
    }
}

/// Where a test's gateway lives.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    database: String,
    pub(crate) agent: Parrot,
    pub(crate) board: Board,
    has_file: bool,
}

pub(crate) fn chat(name: &str, address: &str) -> Chat {
    Chat {
        name: name.parse().unwrap(),
        channel: "phone".parse().unwrap(),
        account: None,
        kind: ChatKind::Direct,
        address: address.to_owned(),
        thread: None,
        agent: "main".parse().unwrap(),
    }
}

impl Place {
    /// An empty database: a file, or one of a server in the test binary that is named for it. Where
    /// the machine has no server, that binary has files too.
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = format!("sqlite:{}", folder.path().join("chatcron.db").display());
        Self {
            database: on_server().await.unwrap_or(file),
            folder,
            agent: Parrot::new(),
            board: Board::new(),
            has_file: false,
        }
    }

    pub(crate) fn with_file(mut self, text: &str) -> Self {
        self.write_file(text);
        self.has_file = true;
        self
    }

    pub(crate) fn write_file(&self, text: &str) {
        std::fs::write(self.file(), text).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("jobs.toml")
    }

    pub(crate) fn database(&self) -> String {
        self.database.clone()
    }

    pub(crate) fn builder(&self) -> Builder {
        self.builder_on(self.board.clone())
    }

    /// The same, on another channel.
    pub(crate) fn builder_on(&self, phone: impl Channel) -> Builder {
        let builder = Chatcron::builder()
            .database(self.database())
            .agent("main", self.agent.clone())
            .channel("phone", phone)
            .chat(chat("me", "1"))
            .chat(chat("team", "2"))
            .timezone("UTC");
        if self.has_file {
            return builder.jobs_file(self.file());
        }
        builder
    }

    pub(crate) async fn build(&self) -> Chatcron {
        self.builder().build().await.unwrap()
    }

    pub(crate) fn session(&self, name: &str) -> SessionKey {
        let address = if name == "me" { "1" } else { "2" };
        chat(name, address).session_key()
    }

    pub(crate) async fn until_shown(&self, name: &str, texts: &[&str]) {
        let session = self.session(name);
        until(|| self.board.texts(&session) == texts, "shown").await;
    }

    /// Asserts that the transcripts are what the board has shown.
    pub(crate) async fn assert_verified(&self, chatcron: &Chatcron) {
        let logs = ["me", "team"].map(|name| {
            let session = self.session(name);
            let shown = self.board.shown.lock().unwrap().clone();
            let lines = shown.into_iter().filter(|(chat, _)| *chat == session);
            (name.to_owned(), lines.map(|(_, line)| line).collect())
        });
        let report = chatcron.transcripts().verify(&logs.into()).await.unwrap();
        assert!(report.holds(), "{:#?}", report.findings);
    }

    /// The texts of a chat's history, in order.
    pub(crate) async fn history(&self, chatcron: &Chatcron, name: &str) -> Vec<String> {
        let rows = chatcron.transcripts().of_chat(name, WindowOf::Shown).await;
        let rows = rows.unwrap().into_iter();
        rows.map(|row| row.content.text()).collect()
    }

    /// A person writes in a chat, which shows it.
    pub(crate) fn writes(&self, name: &str, text: &str) -> UserMessage {
        let id = self.board.show(&self.session(name), None, text);
        UserMessage::new(text).with_message_id(id)
    }
}

#[cfg(feature = "postgres")]
async fn on_server() -> Option<String> {
    if !IS_ON_SERVER {
        return None;
    }
    let server = cluster::Cluster::shared()?;
    Some(server.new_database().await)
}

#[cfg(not(feature = "postgres"))]
async fn on_server() -> Option<String> {
    None
}

/// Waits until something holds.
pub(crate) async fn until(holds: impl Fn() -> bool, what: &str) {
    for _ in 0..4000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it was not {what} in time");
}
