//! The scheduler inside another program: what a gateway builds, starts and holds.
//!
//! A [`Chatcron`] is a handle: cloning it is cheap, and all clones are one. Whoever holds the
//! [`RunningWorker`] owns what runs.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Clock,
    config::Problem,
    directory::{Chat, Directory},
    ids::{ChatName, JobId},
    job::Job,
    store::{Store, WorkerId},
    wiring::{Database, Opened, Registered},
    worker::{Control, EventReader, Events, Services, WorkerHandle, lent::Runners},
};

mod builder;
mod error;
mod jobs;
mod outbound;
mod readings;
mod running;
mod sessions;

pub use builder::Builder;
pub use error::{BuildError, ReloadError, StartError, UnknownChat};
pub use jobs::{JobView, Jobs, NewJob};
#[cfg(feature = "http-api")]
pub(crate) use outbound::Way;
pub use outbound::{Accepted, Outbound, OutboundMessage, OwnOrigin, SendError, To};
pub use readings::{Outbox, ReadError, RunDetail, Runs, Transcripts};
pub use running::{Ended, RunningWorker};
pub use sessions::{HandedBack, Reply, Sessions, Turn, TurnError, UserMessage};

pub use crate::wiring::{DatabaseUrlError, UnreadableFile};

/// The scheduler of one database.
///
/// Built by [`Chatcron::builder`]. Clones are handles to the same one.
#[derive(Clone)]
pub struct Chatcron {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    opened: Opened,
    database: Database,
    clock: Arc<dyn Clock>,
    registered: Registered,
    /// The name under which its jobs are stored.
    source: String,
    /// Where the jobs file is, if there is one.
    file: Option<PathBuf>,
    given: Given,
    setup: RwLock<Arc<Setup>>,
    grace: Duration,
    /// What the store is; part of every key.
    store_id: String,
    events: Events,
    runners: Arc<Runners>,
    /// How many turns have waited here, for their tokens.
    tokens: AtomicU64,
    at_work: Mutex<Option<AtWork>>,
    /// Workers that were dropped or shut down and whose lease may still run; empty on SQLite.
    dropped: Mutex<Vec<OwnWorker>>,
}

/// A worker of this program: its id in the store, and what tells that it is gone.
#[derive(Clone)]
struct OwnWorker {
    id: WorkerId,
    gone: CancellationToken,
}

/// The worker that runs, as far as handles need it.
struct AtWork {
    handle: WorkerHandle,
    worker: OwnWorker,
}

/// What a program says of itself, besides what its jobs file says.
#[derive(Clone, Default)]
struct Given {
    /// Chats, and names of agents and channels, as far as a jobs file may name them.
    directory: Directory,
    jobs: Vec<Job>,
    max_concurrent: Option<usize>,
    turn_timeout: Option<jiff::SignedDuration>,
}

/// What is in force: the chats, agents, channels and jobs of the file and of the program.
struct Setup {
    directory: Directory,
    jobs: Vec<Job>,
    bad: Vec<JobId>,
    /// When the file was last modified, as far as that is known.
    edited_at: Option<Timestamp>,
    problems: Vec<Problem>,
    services: Services,
    left_out: Vec<String>,
}

impl Chatcron {
    /// Says what it shall be made of.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The jobs: looking at them, and changing those that were created at run time.
    pub fn jobs(&self) -> Jobs<'_> {
        Jobs { chatcron: self }
    }

    /// What has run.
    pub fn runs(&self) -> Runs<'_> {
        Runs { chatcron: self }
    }

    /// The histories of chats.
    pub fn transcripts(&self) -> Transcripts<'_> {
        Transcripts { chatcron: self }
    }

    /// Messages on their way, and those that need somebody's word.
    pub fn outbox(&self) -> Outbox<'_> {
        Outbox { chatcron: self }
    }

    /// Messages of the program's own, through the one writer.
    pub fn outbound(&self) -> Outbound<'_> {
        Outbound { chatcron: self }
    }

    /// Turns of people in chats.
    pub fn sessions(&self) -> Sessions<'_> {
        Sessions { chatcron: self }
    }

    /// What happens from now on: runs, turns, deliveries, alerts, changes of jobs, each after it is
    /// committed. What other processes on the same database do is not told.
    pub fn events(&self) -> EventReader {
        self.inner.events.read()
    }

    /// The chats that are in force, by name.
    pub async fn chats(&self) -> Vec<Chat> {
        let setup = self.setup().await;
        setup.directory.chats.values().cloned().collect()
    }

    /// The chat of this name.
    ///
    /// # Errors
    /// [`UnknownChat`] has the names that there are.
    pub async fn chat(&self, name: &str) -> Result<Chat, UnknownChat> {
        let setup = self.setup().await;
        let chats = &setup.directory.chats;
        chats.get(name).cloned().ok_or_else(|| UnknownChat {
            found: name.to_owned(),
            known: chats.keys().map(ChatName::to_string).collect(),
        })
    }

    /// What is wrong with the jobs file, or may not be meant; wrong jobs are left out.
    pub async fn problems(&self) -> Vec<Problem> {
        self.setup().await.problems.clone()
    }

    /// What of the jobs file could not be built, in words: the rest works without it.
    pub async fn left_out(&self) -> Vec<String> {
        self.setup().await.left_out.clone()
    }

    async fn setup(&self) -> Arc<Setup> {
        self.inner.setup.read().await.clone()
    }

    fn store(&self) -> &dyn Store {
        self.inner.store.as_ref()
    }

    fn control<'a>(&'a self, directory: &'a Directory) -> Control<'a> {
        Control {
            store: self.store(),
            directory,
            journal: None,
        }
    }

    fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Has the worker look at once whether there is something to do.
    fn look(&self) {
        if let Some(at_work) = &*self.at_work() {
            at_work.handle.look();
        }
    }

    fn at_work(&self) -> MutexGuard<'_, Option<AtWork>> {
        let at_work = self.inner.at_work.lock();
        at_work.unwrap_or_else(PoisonError::into_inner)
    }

    fn dropped(&self) -> MutexGuard<'_, Vec<OwnWorker>> {
        let dropped = self.inner.dropped.lock();
        dropped.unwrap_or_else(PoisonError::into_inner)
    }

    /// A token for a turn that waits here, and what ends with the worker that would hand it over.
    fn token(&self) -> Option<(String, CancellationToken)> {
        let at_work = self.at_work();
        let OwnWorker { id, gone } = &at_work.as_ref()?.worker;
        if gone.is_cancelled() {
            return None;
        }
        let number = self.inner.tokens.fetch_add(1, Ordering::Relaxed);
        let token = format!("{}:{number}", id.0);
        Some((token, gone.clone()))
    }

    /// Closes the database: what was asked for is written first, and whatever is asked for later
    /// fails. Without it the database is closed when the last clone is gone.
    pub async fn close(&self) {
        self.inner.opened.close().await;
    }
}
