//! The real binary, run as a person runs it, and killed as nobody should.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(40);

/// A job whose words a console shows every second.
pub(crate) const TICKING: &str = r#"
timezone = "UTC"

[jobs.tick]
every   = "1s"
prompt  = "tock"
deliver = "ops"

[chats.ops]
channel = "terminal"
agent   = "main"

[channels.terminal]
kind = "console"

[agents.main]
kind = "echo"
"#;

/// A folder with a jobs file, in which chatcron is run.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    env: Vec<(String, String)>,
}

impl Place {
    pub(crate) fn new(jobs: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("jobs.toml"), jobs).unwrap();
        Self {
            folder,
            env: Vec::new(),
        }
    }

    pub(crate) fn with_env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Whether this test runs as root, whom no file mode stops.
    pub(crate) fn is_root(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chatcron"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_remove("RUST_LOG")
            .env_remove("CHATCRON_DB")
            .env("NO_COLOR", "1");
        for (name, value) in &self.env {
            command.env(name, value);
        }
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command that must succeed, and returns what it printed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command with `--json` that must succeed.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.push("--json");
        let text = self.ok(&arguments);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Starts the worker and waits until it runs.
    pub(crate) fn start(&self) -> Worker {
        let worker = self.start_unready();
        worker.until_logged("chatcron is running");
        worker
    }

    pub(crate) fn start_unready(&self) -> Worker {
        self.start_with(&["run"])
    }

    pub(crate) fn start_with(&self, arguments: &[&str]) -> Worker {
        let mut child = self
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = collect(child.stderr.take().unwrap());
        let out = collect(child.stdout.take().unwrap());
        Worker {
            child: Mutex::new(child),
            log,
            out,
        }
    }
}

/// What a command told, for a failing test.
pub(crate) fn told(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn collect(stream: impl std::io::Read + Send + 'static) -> Arc<Mutex<String>> {
    let text: Arc<Mutex<String>> = Arc::default();
    let kept = text.clone();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut text = kept.lock().unwrap();
            text.push_str(&line);
            text.push('\n');
        }
    });
    text
}

/// A running `chatcron run`; killed when dropped.
pub(crate) struct Worker {
    child: Mutex<Child>,
    log: Arc<Mutex<String>>,
    out: Arc<Mutex<String>>,
}

impl Worker {
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// What the console channel has printed.
    pub(crate) fn out(&self) -> String {
        self.out.lock().unwrap().clone()
    }

    pub(crate) fn until_logged(&self, words: &str) {
        until(&format!("log says {words:?}"), || {
            let log = self.log();
            log.contains(words).then_some(()).ok_or(log)
        });
    }

    pub(crate) fn until_printed(&self, words: &str) {
        until(&format!("chat shows {words:?}"), || {
            let out = self.out();
            out.contains(words).then_some(()).ok_or(out + &self.log())
        });
    }

    /// `kill -9`.
    pub(crate) fn kill(self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.lock().unwrap().id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.lock().unwrap().id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Asks it to stop and returns its exit code.
    pub(crate) fn stop(self) -> Option<i32> {
        self.signal("TERM");
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.lock().unwrap().try_wait().unwrap() {
                return status.code();
            }
            assert!(
                Instant::now() < deadline,
                "it does not stop: {}",
                self.log()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// How it ended, if it has.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        let status = self.child.lock().unwrap().try_wait().unwrap();
        status.and_then(|status| status.code())
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.child.lock().unwrap().try_wait().unwrap().is_none()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        if let Ok(mut child) = self.child.lock() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits for what must come; `look` says what is there instead.
pub(crate) fn until<T>(what: &str, look: impl Fn() -> Result<T, String>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return found,
            Err(instead) if Instant::now() > deadline => panic!("never came: {what}\n{instead}"),
            Err(_) => thread::sleep(Duration::from_millis(25)),
        }
    }
}

/// The lines of a file, as far as it is there.
pub(crate) fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
