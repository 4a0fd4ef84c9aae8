//! What the fakes remember: what was asked, what was shown, and what is to go wrong.

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use axum::http::{HeaderMap, Method, Uri};
use chatcron::channel::log::{self, ShownLine};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    faults::{Fault, Order, Reply, Service},
    telegram::Updates,
};

/// The command line.
pub(crate) struct Options {
    pub(crate) shown: Option<PathBuf>,
    pub(crate) requests: Option<PathBuf>,
    pub(crate) token: String,
    pub(crate) numbered: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            shown: None,
            requests: None,
            token: "123456:fake-token".to_owned(),
            numbered: false,
        }
    }
}

/// A request as it came.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Received {
    pub(crate) service: Service,
    pub(crate) at: Timestamp,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Map<String, Value>,
    /// The exact bytes, as text.
    pub(crate) body: String,
    /// The same, if it is JSON.
    pub(crate) json: Value,
    /// What went wrong with it, as ordered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<Fault>,
}

impl Received {
    pub(crate) fn new(
        service: Service,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &[u8],
        at: Timestamp,
    ) -> Self {
        let headers = headers
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.as_str().to_owned(), Value::String(value))
            })
            .collect();
        Self {
            service,
            at,
            method: method.as_str().to_owned(),
            path: uri.path().to_owned(),
            headers,
            body: String::from_utf8_lossy(body).into_owned(),
            json: serde_json::from_slice(body).unwrap_or(Value::Null),
            fault: None,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(Value::as_str)
    }

    /// The chat it is about, if it is about one.
    pub(crate) fn chat(&self) -> Option<String> {
        let chat = match self.service {
            Service::Telegram => self.json.get("chat_id"),
            Service::Webhook => self.json.get("data").and_then(|data| data.get("address")),
            Service::Openai | Service::Anthropic | Service::Gemini | Service::Agent => None,
        };
        chat.map(|chat| match chat.as_str() {
            Some(text) => text.to_owned(),
            None => chat.to_string(),
        })
    }
}

/// All fakes of one process.
pub(crate) struct Fakes {
    pub(crate) token: String,
    /// Whether a model that says back what it was asked numbers its answers, so that no two are
    /// alike.
    pub(crate) numbered: bool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    faults: VecDeque<Fault>,
    replies: VecDeque<Reply>,
    requests: Vec<Received>,
    shown: Vec<ShownLine>,
    answers: u64,
    updates: Updates,
    shown_file: Option<File>,
    requests_file: Option<File>,
}

impl Fakes {
    /// Takes up where an earlier process with the same files ended.
    pub(crate) fn open(options: Options) -> io::Result<Self> {
        let mut inner = Inner {
            shown_file: appended(options.shown.as_deref())?,
            requests_file: appended(options.requests.as_deref())?,
            ..Inner::default()
        };
        if let Some(path) = &options.shown {
            inner.shown = log::read(path).map_err(io::Error::other)?;
        }
        Ok(Self {
            token: options.token,
            numbered: options.numbered,
            inner: Mutex::new(inner),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record(&self, request: &Received) {
        let mut inner = self.inner();
        write_line(inner.requests_file.as_mut(), request);
        inner.requests.push(request.clone());
    }

    /// The id of the next message of any chat.
    pub(crate) fn next_message_id(&self) -> usize {
        self.inner().next_message_id()
    }

    /// What people wrote to the bot.
    pub(crate) fn updates<T>(&self, look: impl FnOnce(&mut Updates) -> T) -> T {
        look(&mut self.inner().updates)
    }

    pub(crate) fn show(&self, line: ShownLine) {
        let mut inner = self.inner();
        write_line(inner.shown_file.as_mut(), &line);
        inner.shown.push(line);
    }

    /// What was shown under this key, if something was.
    pub(crate) fn shown_under(&self, key: &str) -> Option<ShownLine> {
        let inner = self.inner();
        let is_it = |line: &&ShownLine| line.key.as_ref().is_some_and(|own| own.as_str() == key);
        inner.shown.iter().find(is_it).cloned()
    }

    pub(crate) fn take_fault(&self, request: &Received) -> Option<Fault> {
        let mut inner = self.inner();
        let at = inner.faults.iter().position(|fault| {
            let method = request.path.rsplit('/').next();
            fault.service == request.service
                && (fault.method.is_none() || fault.method.as_deref() == method)
                && (fault.chat.is_none() || fault.chat == request.chat())
        })?;
        let fault = inner.faults[at].clone();
        if fault.times > 1 {
            inner.faults[at].times -= 1;
        } else {
            inner.faults.remove(at);
        }
        Some(fault)
    }

    /// The number of a model's next answer.
    pub(crate) fn next_answer(&self) -> u64 {
        let mut inner = self.inner();
        inner.answers += 1;
        inner.answers
    }

    pub(crate) fn take_reply(&self, service: Service) -> Option<Reply> {
        let mut inner = self.inner();
        let at = inner
            .replies
            .iter()
            .position(|reply| reply.service == service)?;
        inner.replies.remove(at)
    }

    pub(crate) fn obey(&self, order: Order) {
        let mut inner = self.inner();
        match order {
            Order::Fault(fault) => inner.faults.push_back(fault),
            Order::Reply(reply) => inner.replies.push_back(reply),
            Order::Said(said) => {
                let id = inner.next_message_id();
                inner.updates.add(id, said);
            }
            Order::Redelivered {} => inner.updates.add_last_again(),
            Order::Clear {} => {
                inner.faults.clear();
                inner.replies.clear();
            }
        }
    }

    pub(crate) fn requests(&self) -> Vec<Received> {
        self.inner().requests.clone()
    }

    pub(crate) fn shown(&self) -> Vec<ShownLine> {
        self.inner().shown.clone()
    }
}

impl Inner {
    fn next_message_id(&self) -> usize {
        self.shown.len() + self.updates.messages() + 1
    }
}

fn appended(path: Option<&Path>) -> io::Result<Option<File>> {
    path.map(|path| OpenOptions::new().create(true).append(true).open(path))
        .transpose()
}

/// One write a line, so that a reader never sees half of one for long.
fn write_line(file: Option<&mut File>, value: &impl Serialize) {
    if let Some(file) = file
        && let Ok(mut line) = serde_json::to_vec(value)
    {
        line.push(b'\n');
        if let Err(error) = file.write_all(&line) {
            eprintln!("fake_services: cannot write its log: {error}");
        }
    }
}
