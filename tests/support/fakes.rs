//! Starts `examples/fake_services` as another process, and ends it with the test.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Once,
};

use serde_json::Value;

/// The token that the fake Telegram knows.
pub(crate) const TOKEN: &str = "123456:fake-token";

/// A running process of fakes; killed when dropped.
pub(crate) struct Fakes {
    child: Child,
    ports: Value,
    folder: tempfile::TempDir,
}

impl Fakes {
    /// Starts the fakes with logs of their own.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same, with more arguments.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the logs of the fakes");
        let mut child = Command::new(program())
            .args(arguments)
            .args(["--token", TOKEN, "--shown"])
            .arg(folder.path().join("shown.jsonl"))
            .arg("--requests")
            .arg(folder.path().join("requests.jsonl"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the fakes start");
        let mut line = String::new();
        let out = child.stdout.take().expect("stdout is piped");
        BufReader::new(out)
            .read_line(&mut line)
            .expect("the fakes print their ports");
        let ports = serde_json::from_str(&line).expect("the ports are JSON");
        Self {
            child,
            ports,
            folder,
        }
    }

    pub(crate) fn port(&self, service: &str) -> u16 {
        let port = self.ports[service].as_u64().expect("a known service");
        u16::try_from(port).expect("a port")
    }

    /// The root of a service: `http://127.0.0.1:PORT`.
    pub(crate) fn root(&self, service: &str) -> String {
        format!("http://127.0.0.1:{}", self.port(service))
    }

    /// The truth of what each chat showed.
    pub(crate) fn shown_log(&self) -> PathBuf {
        self.folder.path().join("shown.jsonl")
    }

    /// Every request as it came, one a line.
    pub(crate) fn requests_log(&self) -> PathBuf {
        self.folder.path().join("requests.jsonl")
    }

    /// Gives an order, as `examples/fake_services/faults.rs` describes it.
    pub(crate) fn order(&self, order: &Value) {
        let (status, answer) = self.ask("POST", "/control", &order.to_string());
        assert_eq!(status, 204, "{answer}");
    }

    /// Somebody writes to the bot in this chat.
    pub(crate) fn said(&self, chat: i64, text: &str) {
        self.order(&serde_json::json!({"said": {"chat": chat, "text": text}}));
    }

    /// What a service was asked, in order.
    pub(crate) fn requests(&self, service: &str) -> Vec<Value> {
        let (_, body) = self.ask("GET", "/requests", "");
        let all: Vec<Value> = serde_json::from_str(&body).expect("requests are JSON");
        all.into_iter()
            .filter(|request| request["service"] == service)
            .collect()
    }

    /// What was shown, as pairs of chat and text.
    pub(crate) fn shown(&self) -> Vec<(String, String)> {
        chatcron::channel::log::read(&self.shown_log())
            .expect("the truth log is readable")
            .into_iter()
            .map(|line| (line.chat, line.text))
            .collect()
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let address = ("127.0.0.1", self.port("control"));
        let mut stream = TcpStream::connect(address).expect("the fakes listen");
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: fakes\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n"
        );
        stream
            .write_all(format!("{head}{body}").as_bytes())
            .expect("the fakes read");
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .expect("the fakes answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.expect("a status"), body.to_owned())
    }
}

impl Drop for Fakes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `target/PROFILE/examples/fake_services`. A plain `cargo test` builds it with the tests; a run of
/// one test file does not, so it is built here where it is missing.
fn program() -> PathBuf {
    static BUILD: Once = Once::new();
    let test = std::env::current_exe().expect("the path of this test");
    let profile = test
        .parent()
        .and_then(Path::parent)
        .expect("target/PROFILE/deps");
    let name = format!("fake_services{}", std::env::consts::EXE_SUFFIX);
    let program = profile.join("examples").join(name);
    BUILD.call_once(|| {
        if !program.exists() {
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--quiet", "--example", "fake_services"]);
            if profile.ends_with("release") {
                build.arg("--release");
            }
            let built = build.status().expect("cargo runs");
            assert!(built.success(), "the fakes do not build");
        }
    });
    program
}
