//! Whether others have committed, told by the log file.
//!
//! A thread looks at the file, not a task: a thread that wakes costs a fraction of what a timer of the
//! runtime does, and an idle worker looks all day.

use std::{
    io,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, SystemTime},
};

use tokio::sync::watch;

/// How often the log file is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often after [`QUIET_AFTER`] without a write: the next write is noticed up to 1 s late, and being
/// idle costs half.
const LOOK_EVERY_WHEN_QUIET: Duration = Duration::from_secs(1);
/// After how long without a write the file counts as quiet.
const QUIET_AFTER: Duration = Duration::from_secs(10);

/// A thread that looks at a database's log file, as long as this is there.
#[derive(Debug)]
pub(super) struct Watch {
    changes: watch::Receiver<()>,
    /// Ends the thread when it is dropped.
    _stop: mpsc::Sender<()>,
}

impl Watch {
    /// Begins to look.
    pub(super) fn begin(database: PathBuf) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let (told, changes) = watch::channel(());
        let thread = thread::Builder::new().name("chatcron-watch".to_owned());
        // It ends by itself, soon after nobody is told any more.
        drop(thread.spawn(move || look(&database, &stopped, &told))?);
        Ok(Self {
            changes,
            _stop: stop,
        })
    }

    /// What tells of changes from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        let mut changes = self.changes.clone();
        changes.mark_unchanged();
        changes
    }
}

fn look(database: &Path, stopped: &mpsc::Receiver<()>, told: &watch::Sender<()>) {
    let mut last = LogFile::of(database);
    let mut quiet_for = Duration::ZERO;
    loop {
        let wait = match quiet_for < QUIET_AFTER {
            true => LOOK_EVERY,
            false => LOOK_EVERY_WHEN_QUIET,
        };
        if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        quiet_for = quiet_for.saturating_add(wait);
        let log = LogFile::of(database);
        // Without a file to look at, whoever waits has to ask.
        if log != last || log.is_none() {
            last = log;
            quiet_for = Duration::ZERO;
            told.send_replace(());
        }
    }
}

/// What the write-ahead log looks like from outside. Two commits within one tick of the file system's
/// clock may look alike; whoever waits asks for itself now and then, and finds those.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LogFile {
    length: u64,
    changed_at: SystemTime,
}

impl LogFile {
    fn of(database: &Path) -> Option<Self> {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        let found = std::fs::metadata(log).ok()?;
        Some(Self {
            length: found.len(),
            changed_at: found.modified().ok()?,
        })
    }
}
