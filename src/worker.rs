//! The worker: runs what is due, and shows what came of it.
//!
//! One loop decides and commits; agents and channels are called in tasks that the loop owns, and
//! what they report is committed by the loop again. Nothing is kept that the store does not have:
//! a worker that dies is replaced by one that reads what it left.

mod absorb;
mod apply;
mod change;
#[cfg(feature = "http-api")]
mod context;
mod control;
mod dispatch;
mod events;
mod execute;
mod guard;
mod housekeeping;
mod in_flight;
mod inbound;
mod incidents;
mod journal;
mod lanes;
mod lease;
pub(crate) mod lent;
mod life;
mod pulse;
mod recover;
mod reset;
mod run;
mod services;
mod tools;
mod trouble;
#[cfg(feature = "sqlite")]
mod turn_rows;
mod zone_release;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    clock::{Clock, SystemClock},
    directory::Chat,
    ids::{ChatName, JobId, RunId, SessionKey},
    outbound::Writer,
    store::{ClaimedRun, Interrupted, Store, StoreError, WorkerId},
};

pub use apply::{JobsChange, JobsCopy, apply_copy};
#[cfg(feature = "testing")]
pub use apply::{OtherFiles, apply_jobs};
pub use change::{Applied, Change, ChangeError, Decider};
#[cfg(feature = "http-api")]
pub(crate) use context::WorkerContext;
pub use control::{BackfillError, Control, JobError, PastSlot, Stretch};
pub use events::{Event, EventReader, Events, Happened, JobChange, Missed};
pub use guard::clock_doubt;
pub use housekeeping::HousekeepingError;
pub use journal::Journal;
pub use run::{ApplyError, Stop, Ticks, WorkerHandle};
pub use services::Services;
#[cfg(feature = "cli")]
pub(crate) use tools::tools_in_chat;
#[cfg(feature = "sqlite")]
pub(crate) use turn_rows::TurnRows;

use absorb::Completion;
use guard::Guard;
use in_flight::InFlight;
use inbound::Listening;
use lease::Lease;
use lent::Runners;
use pulse::Pulse;
use trouble::Trouble;

/// The longest sleep. Sleeps are derived from the wall clock anew each time, so that a clock that
/// steps, or a machine that slept, is noticed this soon.
pub const LONGEST_SLEEP: SignedDuration = SignedDuration::from_secs(30);

/// How many parts are sent at the same time.
const SENDS_MAX: usize = 256;
/// How many user turns run at the same time; they take no slot of the runs.
const TURNS_MAX: usize = 256;
/// How many jobs or lanes are looked at in one go.
const BATCH: usize = 512;
/// How many of a batch are given to the store together: while it takes some, the next are decided on.
const CHUNK: usize = 128;

/// What a worker works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// The turns and deliveries of one session, for a command that runs where no worker does.
    Session(SessionKey),
    /// One run, likewise.
    Run {
        /// The run.
        run_id: RunId,
        /// Its job, of which decisions are made.
        job_id: JobId,
        /// The session in which its result shows, if it does.
        shown_in: Option<SessionKey>,
    },
}

/// What a step has looked at.
enum Acted {
    OnEverything,
    /// The clock is not believed.
    OnNothing,
}

/// When the loop goes on.
enum Next {
    Now,
    /// Then, or when something happens.
    At(Option<Timestamp>),
}

/// Runs what is due. See [`Worker::run`] for the loop and [`Worker::step`] for one turn of it.
pub struct Worker {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    id: WorkerId,
    /// What the store is; part of every key.
    store_id: Arc<str>,
    scope: Scope,
    services: Arc<Services>,
    /// The same for others, as they change.
    services_told: watch::Sender<Arc<Services>>,
    writer: Arc<Writer>,
    in_flight: InFlight,
    tasks: JoinSet<Completion>,
    /// The channels that bring in what people write, while the loop runs.
    listening: Listening,
    /// What tasks reported and the store has not taken yet.
    unsaved: Vec<Completion>,
    /// Whether nothing more begins, except that what has ended is shown.
    is_draining: bool,
    /// Whether the store did not take all of it last time.
    is_struggling: bool,
    /// What workers that died left, as far as nothing was decided about it.
    interrupted: Interrupted,
    /// Runs that waited for their first attempt while no worker was alive, likewise.
    unbegun: Vec<ClaimedRun>,
    lease: Lease,
    /// Whether the clock is believed.
    guard: Guard,
    journal: Option<Arc<Journal>>,
    trouble: Trouble,
    pulse: Pulse,
    events: Events,
    runners: Arc<Runners>,
}

impl Worker {
    /// Registers a worker and recovers what those before it left that are dead. Where workers share
    /// the database their leases tell; else the caller holds the lock that proves that no other
    /// worker is alive. Decisions are written to the journal, if there is one.
    ///
    /// # Errors
    /// [`StoreError`] where the store cannot be read or written.
    pub async fn begin(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        services: Services,
        scope: Scope,
        journal: Option<Arc<Journal>>,
    ) -> Result<Self, StoreError> {
        let now = clock.now();
        let guard = Guard::new(clock.as_ref());
        let pulse = Pulse::starting_at(clock.elapsed());
        let store_id = store.identity().await?.into();
        let asked_at = SystemClock.elapsed();
        let registration = Self::registration(&scope, &services);
        let begun = store.begin_worker(registration.clone(), now).await?;
        life::tell_differences(&registration, &begun.others);
        let services = Arc::new(services);
        let writer = Arc::new(Writer::new(services.channels.clone(), clock.clone()));
        let mut worker = Self {
            lease: Lease::keep(store.clone(), &begun, asked_at),
            store,
            clock,
            id: begun.id,
            store_id,
            scope,
            services_told: watch::Sender::new(services.clone()),
            services,
            writer,
            in_flight: InFlight::default(),
            tasks: JoinSet::new(),
            listening: Listening::default(),
            unsaved: Vec::new(),
            is_draining: false,
            is_struggling: false,
            interrupted: Interrupted::default(),
            unbegun: Vec::new(),
            guard,
            journal,
            trouble: Trouble::default(),
            pulse,
            events: Events::default(),
            runners: Arc::default(),
        };
        worker.take_up(begun);
        worker.recover(now).await?;
        Ok(worker)
    }

    /// Commits what tasks have reported, decides and starts everything that is due now, and returns the next instant at which
    /// something will be. Calls no agent and no channel itself: it starts the tasks that do.
    ///
    /// # Errors
    /// [`StoreError`] where the store cannot be read or written; nothing is lost, and the next
    /// step does what this one could not.
    pub async fn step(&mut self) -> Result<Option<Timestamp>, StoreError> {
        let now = self.clock.now();
        match self.act(now).await? {
            Acted::OnEverything => self.next_instant(now).await,
            Acted::OnNothing => Ok(None),
        }
    }

    /// As [`Worker::step`], without asking for the next instant where tasks have ended meanwhile: what
    /// they report is next.
    async fn step_on(&mut self) -> Result<Next, StoreError> {
        let now = self.clock.now();
        let acted = self.act(now).await?;
        if self.keep_finished() > 0 {
            return Ok(Next::Now);
        }
        Ok(Next::At(match acted {
            Acted::OnEverything => self.next_instant(now).await?,
            Acted::OnNothing => None,
        }))
    }

    async fn act(&mut self, now: Timestamp) -> Result<Acted, StoreError> {
        if !self.believes(now).await? {
            self.keep_finished();
            return Ok(Acted::OnNothing);
        }
        self.keep_alive(now).await?;
        self.recover(now).await?;
        self.keep_finished();
        self.absorb_unsaved(now).await?;
        self.reset_sessions(now).await?;
        match self.scope.clone() {
            Scope::All => self.dispatch_due(now).await?,
            Scope::Run { job_id, .. } => self.dispatch_if_due(job_id, now).await?,
            Scope::Session(_) => {}
        }
        self.report_incidents(now).await?;
        self.fill_lanes(now).await?;
        Ok(Acted::OnEverything)
    }

    /// Steps, and waits for every task, until nothing more can be done at the clock's instant.
    ///
    /// # Errors
    /// As [`Worker::step`].
    pub async fn until_quiet(&mut self) -> Result<Option<Timestamp>, StoreError> {
        loop {
            let next = self.step().await?;
            if self.tasks.is_empty() {
                return Ok(next);
            }
            self.absorb_finished().await?;
        }
    }

    /// Has what happens told to these readers.
    #[must_use]
    pub fn with_events(mut self, events: Events) -> Self {
        self.events = events;
        self
    }

    /// Lends turns to the programs that wait for them here.
    #[cfg(feature = "sqlite")]
    #[must_use]
    pub(crate) fn with_runners(mut self, runners: Arc<Runners>) -> Self {
        self.runners = runners;
        self
    }

    /// What the worker is in the store.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// How this worker decides.
    fn decider<'a>(&'a self, chats: &'a BTreeMap<ChatName, Chat>) -> Decider<'a> {
        Decider::new(self.store.as_ref(), chats, self.journal.as_deref())
    }

    /// What keeps the store from working, as [`Worker::run`] finds it; `None` while it works.
    /// Meanwhile nothing begins, and nothing is lost.
    pub fn watch_trouble(&self) -> watch::Receiver<Option<String>> {
        self.trouble.watch()
    }

    /// When the loop of [`Worker::run`] last went round, as [`Clock::elapsed`] counts: every 30 s at
    /// least, unless it hangs or is about to end.
    pub fn watch_pulse(&self) -> watch::Receiver<Duration> {
        self.pulse.watch()
    }

    /// The agents, channels and chats that are in force, as they change.
    pub fn watch_services(&self) -> watch::Receiver<Arc<Services>> {
        self.services_told.subscribe()
    }

    /// Whether an agent or a channel is at work.
    pub fn is_busy(&self) -> bool {
        !self.tasks.is_empty() || !self.unsaved.is_empty()
    }

    async fn next_instant(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let lanes = self.store.next_lane_instant(now).await?;
        let jobs = match self.scope {
            Scope::All => self.next_wake().await?,
            Scope::Session(_) | Scope::Run { .. } => None,
        };
        Ok(lanes.into_iter().chain(jobs).min())
    }

    /// Puts other agents, channels and chats in the place of the present ones. Tasks that have
    /// begun keep theirs.
    pub fn replace_services(&mut self, services: Services) {
        self.services = Arc::new(services);
        self.services_told.send_replace(self.services.clone());
        self.writer = Arc::new(self.writer.over(self.services.channels.clone()));
        self.listening.keep_to(&self.services);
    }
}
