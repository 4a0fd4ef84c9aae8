//! A worker with its API, and a client that says exactly what it is told to.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::{Value, json};

use crate::process::{Place, Worker, until};

/// Two chats on a console, a job that never fires by itself, and one that fails.
pub(crate) const JOBS: &str = r#"
timezone = "UTC"

[jobs.report]
at     = "2099-01-01T00:00"
chat   = "me"
prompt = "The report."

[jobs.shaky]
at      = "2099-01-01T00:00"
deliver = "ops"
prompt  = "!fail"
alert   = false

[chats.me]
channel = "terminal"
agent   = "main"

[chats.ops]
channel = "terminal"
kind    = "group"
agent   = "main"

[channels.terminal]
kind = "console"

[agents.main]
kind = "echo"
"#;

/// A running worker with its API.
pub(crate) struct Served {
    pub(crate) worker: Worker,
    pub(crate) address: SocketAddr,
    /// The headers that every request has.
    headers: Vec<(String, String)>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A header, if it is there.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().skip(1);
        let mut pairs = lines.filter_map(|line| line.split_once(": "));
        let found = pairs.find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.to_owned())
    }

    /// The JSON of an answer with this status.
    #[track_caller]
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.json()
    }

    /// The detail and help of a problem with this status and code.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(
            self.header("content-type").as_deref(),
            Some("application/problem+json"),
            "{self:?}"
        );
        let problem = self.json();
        assert_eq!(problem["code"], code, "{self:?}");
        assert_eq!(problem["status"], status, "{self:?}");
        assert_eq!(problem["type"], format!("urn:chatcron:problem:{code}"));
        format!("{}; {}", problem["detail"], problem["help"])
    }
}

impl Served {
    /// A worker of these jobs; it is ready.
    pub(crate) fn new(place: &Place) -> Self {
        Self::with(place, &[])
    }

    /// The same, with headers that every request has.
    pub(crate) fn with(place: &Place, headers: &[(&str, &str)]) -> Self {
        let worker = place.start_with(&["run", "--listen", "127.0.0.1:0"]);
        worker.until_logged("chatcron is running");
        let log = worker.log();
        let address = log.split("address=").nth(1).expect("the address is told");
        let address = address.split_whitespace().next().unwrap();
        let headers = headers.iter();
        Self {
            address: address.parse().unwrap(),
            headers: headers.map(|(n, v)| ((*n).into(), (*v).into())).collect(),
            worker,
        }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, body)
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let headers = [("content-type", "application/json")];
        self.ask(method, path, &headers, body.to_string().as_bytes())
    }

    /// Asks with these headers besides those that every request has.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let own = self.headers.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        let all: Vec<_> = own.chain(headers.iter().copied()).collect();
        ask(self.address, method, path, &all, body)
    }

    /// Waits until what `look` finds is there.
    pub(crate) fn until(&self, path: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        until(path, || {
            let answer = self.get(path);
            let found = answer.json();
            if is_it(&found) {
                Ok(found)
            } else {
                Err(answer.body)
            }
        })
    }

    /// Says something in a chat, and returns the turn when it is over.
    pub(crate) fn say(&self, chat: &str, text: &str) -> Value {
        let path = format!("/v1/chats/{chat}/messages");
        self.post(&path, &json!({ "text": text })).ok(200)
    }
}

/// One request on a connection of its own.
pub(crate) fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    if !headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("host"))
    {
        head.push_str(&format!("host: {address}\r\n"));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    let mut stream = connect(address);
    // It may answer, and end, before it has read all of it.
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(body);
    read(&mut stream)
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(40)))
        .unwrap();
    stream
}

/// The answer, to its end.
pub(crate) fn read(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            // It was cut off behind its answer.
            Err(_) if !bytes.is_empty() => break,
            Err(error) => panic!("no answer: {error}"),
        }
    }
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Answer {
        status: status.unwrap_or_else(|| panic!("no status: {text}")),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}
