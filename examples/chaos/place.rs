//! Where the worker lives: a small disk, a clock that can be stepped, and a process that can be
//! killed and frozen.

#![allow(dead_code, reason = "each program uses a part of it")]

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

/// How large the disk is, where it can be had as a file system of its own.
const DISK: &str = "size=48m";
const BALLAST: &str = "ballast";

/// How the disk becomes full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disk {
    /// A tmpfs of its own, filled up.
    Tmpfs,
    /// Mounting is not permitted: no file may grow (`RLIMIT_FSIZE`, with SIGXFSZ ignored).
    Limit,
}

/// A worker's surroundings, and the worker.
pub(crate) struct Place {
    binary: PathBuf,
    disk: Disk,
    folder: tempfile::TempDir,
    /// Outside of the small disk: the worker's log, and the clock's offset.
    pub(crate) outside: tempfile::TempDir,
    faketime: Option<PathBuf>,
    offset_ms: i64,
    furthest_ms: i64,
    worker: Option<Child>,
}

impl Place {
    pub(crate) fn new(binary: &Path, jobs: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", DISK, "chatcron-chaos"]);
        let mounted = mount.arg(folder.path()).stderr(Stdio::null()).status();
        let disk = match mounted {
            Ok(status) if status.success() => Disk::Tmpfs,
            Ok(_) | Err(_) => Disk::Limit,
        };
        fs::write(folder.path().join("jobs.toml"), jobs).unwrap();
        let mut place = Self {
            binary: binary.to_owned(),
            disk,
            folder,
            outside: tempfile::tempdir().unwrap(),
            faketime: faketime(),
            offset_ms: 0,
            furthest_ms: 0,
            worker: None,
        };
        place.step_clock(0);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Sets the wall clock of every process here; the monotonic clock goes on as it is.
    pub(crate) fn step_clock(&mut self, by_ms: i64) {
        self.offset_ms += by_ms;
        self.furthest_ms = self.furthest_ms.max(self.offset_ms);
        let (to, from) = (self.clock_file(), self.outside.path().join("clock.new"));
        let seconds = self.offset_ms as f64 / 1000.0;
        fs::write(&from, format!("{seconds:+.3}\n")).unwrap();
        fs::rename(from, to).unwrap();
    }

    /// The clock as it never was earlier.
    pub(crate) fn set_clock_right(&mut self) {
        self.step_clock(self.furthest_ms - self.offset_ms);
    }

    fn clock_file(&self) -> PathBuf {
        self.outside.path().join("clock")
    }

    fn chatcron(&self, arguments: &[&str]) -> Command {
        let mut command = match self.disk {
            Disk::Tmpfs => Command::new(&self.binary),
            Disk::Limit => {
                let mut shell = Command::new("sh");
                shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
                shell.arg(&self.binary);
                shell
            }
        };
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_remove("RUST_LOG")
            .env_remove("CHATCRON_DB")
            .env("NO_COLOR", "1")
            .env("TOKEN", crate::fakes::TOKEN);
        if let Some(library) = &self.faketime {
            command
                .env("LD_PRELOAD", library)
                .env("FAKETIME_TIMESTAMP_FILE", self.clock_file())
                .env("FAKETIME_NO_CACHE", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("FAKETIME_DISABLE_SHM", "1")
                .env("NO_FAKE_STAT", "1");
        }
        command
    }

    /// Runs a command beside the worker.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.chatcron(arguments).output().unwrap()
    }

    /// Starts the worker, if none runs.
    pub(crate) fn start(&mut self) {
        if self.worker.is_some() {
            return;
        }
        let log = self.outside.path().join("worker.log");
        let log = OpenOptions::new().create(true).append(true).open(log);
        let child = self
            .chatcron(&["run"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.unwrap())
            .spawn();
        self.worker = Some(child.unwrap());
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.outside.path().join("worker.log")).unwrap_or_default()
    }

    /// How the worker ended, if it did without being asked.
    pub(crate) fn has_ended(&mut self) -> Option<String> {
        let worker = self.worker.as_mut()?;
        let status = worker.try_wait().unwrap()?;
        Some(status.to_string())
    }

    pub(crate) fn signal(&self, name: &str) {
        if let Some(worker) = &self.worker {
            let mut kill = Command::new("kill");
            kill.args([&format!("-{name}"), &worker.id().to_string()]);
            let _ = kill.status();
        }
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut worker) = self.worker.take() {
            let _ = worker.kill();
            worker.wait().unwrap();
            // What libfaketime shares between processes outlives one that is killed.
            for kind in ["faketime_shm", "sem.faketime_sem"] {
                let _ = fs::remove_file(format!("/dev/shm/{kind}_{}", worker.id()));
            }
        }
    }

    /// Asks it to stop, and says how it ended; `None` where it did not in time.
    pub(crate) fn stop(&mut self, patience: Duration) -> Option<String> {
        self.signal("TERM");
        let tries = patience.as_millis() / 20;
        for _ in 0..tries {
            if let Some(status) = self.has_ended() {
                self.worker = None;
                return Some(status);
            }
            thread::sleep(Duration::from_millis(20));
        }
        None
    }

    /// Lets no file here grow any more.
    pub(crate) fn fill_disk(&self) {
        match self.disk {
            Disk::Tmpfs => {
                let mut options = OpenOptions::new();
                let ballast = options.create(true).append(true).open(self.path(BALLAST));
                let mut ballast = ballast.unwrap();
                let mut size = 1 << 20;
                while size > 0 {
                    if ballast.write_all(&vec![0; size]).is_err() {
                        size /= 2;
                    }
                }
            }
            Disk::Limit => self.limit_files("1024"),
        }
    }

    /// What SQLite says of this disk when it is full.
    pub(crate) fn full_in_words(&self) -> &'static str {
        match self.disk {
            Disk::Tmpfs => "no room is left on the disk",
            Disk::Limit => "cannot use the database",
        }
    }

    pub(crate) fn free_disk(&self) {
        match self.disk {
            Disk::Tmpfs => {
                let _ = fs::remove_file(self.path(BALLAST));
            }
            Disk::Limit => self.limit_files("unlimited"),
        }
    }

    fn limit_files(&self, to: &str) {
        if let Some(worker) = &self.worker {
            let mut limit = Command::new("prlimit");
            limit.args([
                "--pid",
                &worker.id().to_string(),
                &format!("--fsize={to}:unlimited"),
            ]);
            assert!(limit.status().unwrap().success(), "prlimit works");
        }
    }

    /// Keeps everything there is, for whoever looks into a failure.
    pub(crate) fn keep(&self, to: &Path) {
        for from in [self.folder.path(), self.outside.path()] {
            for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
                let _ = fs::copy(entry.path(), to.join(entry.file_name()));
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.kill();
        if self.disk == Disk::Tmpfs {
            let _ = Command::new("umount").arg(self.folder.path()).status();
        }
    }
}

/// Whether clocks can be stepped here.
pub(crate) fn has_faketime() -> bool {
    faketime().is_some()
}

/// The library that lies about the time, if the machine has it.
fn faketime() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?;
    let mut found = folders
        .flatten()
        .map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    found.find(|library| library.exists())
}
