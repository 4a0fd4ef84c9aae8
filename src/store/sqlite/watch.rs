//! Whether others have committed, told by the log file.
//!
//! A thread of its own looks at the file: waking that costs a fraction of what it costs to wake a
//! task, and a worker is told all day.

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
/// How often, where nothing was written for [`QUIET_AFTER`]: whoever comes back waits a little longer
/// once, and a worker that has nothing to do all night does it for half the price.
const LOOK_EVERY_WHEN_QUIET: Duration = Duration::from_secs(1);
const QUIET_AFTER: Duration = Duration::from_secs(10);

/// A thread that looks at a database's log file, as long as this is there.
#[derive(Debug)]
pub(super) struct Lookout {
    changes: watch::Receiver<()>,
    /// Ends the thread when it is dropped.
    _stop: mpsc::Sender<()>,
}

impl Lookout {
    /// Begins to look.
    pub(super) fn begin(database: PathBuf) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let (told, changes) = watch::channel(());
        let thread = thread::Builder::new().name("chatcron-lookout".to_owned());
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
        if log != last {
            last = log;
            quiet_for = Duration::ZERO;
            told.send_replace(());
        }
    }
}

/// What the write-ahead log looks like from outside.
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
