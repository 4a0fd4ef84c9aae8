//! The loop: step, and sleep until something is due, has finished, or has changed.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    ids::JobId,
    job::Job,
    store::{Accepts, StoreError},
};

use super::{
    HousekeepingError, JobsChange, JobsCopy, LONGEST_SLEEP, Next, Services, Worker,
    absorb::Joined,
    apply_copy,
    housekeeping::{Chore, Housekeeping},
    in_flight::Holder,
    inbound::Answered,
};

/// How often the worker looks whether a command or another worker has written something, though
/// nobody has told.
const CHANGES_POLL: Duration = Duration::from_secs(5);
/// How long agents that were asked to stop may take.
const ABORT_WAIT: Duration = Duration::from_secs(6);
/// How long it waits after the store failed.
const STORE_FAILED_WAIT: Duration = Duration::from_secs(1);

/// How a worker is asked to stop.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// Begin nothing more, and give what runs its grace.
    pub drain: CancellationToken,
    /// Leave what runs for the next start.
    pub now: CancellationToken,
}

/// What can be asked of a running worker.
pub enum WorkerRequest {
    /// Put a jobs file in the place of the present one.
    Apply {
        /// The file's name.
        file: String,
        /// Its good jobs.
        jobs: Vec<Job>,
        /// Ids of its wrong ones.
        bad: Vec<JobId>,
        /// Agents, channels and chats.
        services: Box<Services>,
        /// What has changed.
        answer: oneshot::Sender<Result<JobsChange, StoreError>>,
    },
    /// Look at once whether there is something to do, instead of soon.
    Look,
}

/// The way to a running worker.
#[derive(Clone)]
pub struct WorkerHandle {
    requests: mpsc::Sender<WorkerRequest>,
}

impl WorkerHandle {
    /// A handle, and the end that the worker's loop listens to.
    pub fn new() -> (Self, mpsc::Receiver<WorkerRequest>) {
        let (requests, listening) = mpsc::channel(16);
        (Self { requests }, listening)
    }

    /// Has the worker look at once whether there is something to do; it does so by itself soon.
    pub fn look(&self) {
        // A full queue has it look too, and one that has stopped has nothing to do.
        let _ = self.requests.try_send(WorkerRequest::Look);
    }

    /// Asks the worker to put a jobs file in the place of the present one.
    ///
    /// # Errors
    /// [`ApplyError`] where it has stopped, or its store has failed; nothing is replaced then.
    pub async fn apply(
        &self,
        file: String,
        jobs: Vec<Job>,
        bad: Vec<JobId>,
        services: Services,
    ) -> Result<JobsChange, ApplyError> {
        let (answer, changed) = oneshot::channel();
        let request = WorkerRequest::Apply {
            file,
            jobs,
            bad,
            services: Box::new(services),
            answer,
        };
        let sent = self.requests.send(request).await;
        sent.map_err(|_| ApplyError::Stopped)?;
        let applied = changed.await.map_err(|_| ApplyError::Stopped)?;
        Ok(applied?)
    }
}

/// Why a jobs file was not put in the place of the present one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The worker has stopped.
    #[error("the worker has stopped")]
    Stopped,
    /// The store has failed; it can be tried again.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether internal ticks run beside the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ticks {
    /// They do.
    On,
    /// They do not; due work is found all the same.
    #[cfg_attr(
        not(feature = "testing"),
        allow(dead_code, reason = "tests show that the worker does not need them")
    )]
    Off,
}

impl Worker {
    /// Works until it is asked to stop, then lets what runs finish within `grace`, and leaves
    /// everything else exactly resumable. A failing store is reported and tried again.
    ///
    /// # Errors
    /// [`HousekeepingError`] where the internal ticks cannot begin.
    pub async fn run(
        mut self,
        mut requests: mpsc::Receiver<WorkerRequest>,
        stop: Stop,
        ticks: Ticks,
        grace: Duration,
    ) -> Result<(), HousekeepingError> {
        let (notes, mut chores) = mpsc::channel(8);
        let housekeeping = match ticks {
            Ticks::On => Some(Housekeeping::start(notes.clone()).await?),
            Ticks::Off => None,
        };
        // Read before the first step, so that what a command writes during it is noticed.
        let mut seen = self.store.change_token().await.ok();
        while !stop.drain.is_cancelled() && !stop.now.is_cancelled() {
            self.pulse.beat(self.clock.elapsed());
            let next = self.step_on().await;
            self.listen().await;
            let is_idle = !matches!(next, Ok(Next::Now));
            let sleep = self.sleep_after(next);
            let (clock, store) = (self.clock.clone(), self.store.clone());
            // Nothing is written inside the select: a branch that loses is dropped where it stands.
            let woken = tokio::select! {
                () = stop.drain.cancelled() => Woken::ToLook,
                () = stop.now.cancelled() => Woken::ToLook,
                // A file is applied by a clock that is believed.
                Some(request) = requests.recv(), if !self.guard.doubts() => Woken::ByRequest(request),
                Some(chore) = chores.recv() => Woken::ByChore(chore),
                () = std::future::ready(()), if !is_idle => Woken::ToLook,
                Some(joined) = self.tasks.join_next_with_id(), if is_idle => Woken::ByTask(joined),
                answered = self.listening.next() => Woken::ByPoll(answered),
                () = clock.sleep(sleep), if is_idle => Woken::ToLook,
                () = changed(store.as_ref(), &mut seen), if is_idle => Woken::ToLook,
                () = self.lease.changed() => Woken::ToLook,
            };
            match woken {
                Woken::ToLook => {}
                Woken::ByRequest(request) => self.follow(request).await,
                Woken::ByChore(chore) => self.do_chore(chore).await,
                Woken::ByPoll(answered) => self.absorb_poll(answered).await,
                Woken::ByTask(joined) => {
                    let saved = self.absorb_joined(joined).await;
                    self.report(saved);
                }
            }
        }
        if let Some(housekeeping) = housekeeping {
            housekeeping.stop().await;
        }
        self.drain(&stop, grace).await;
        Ok(())
    }

    /// How long the loop may sleep: until the next instant, at most [`LONGEST_SLEEP`].
    fn sleep_after(&self, next: Result<Next, StoreError>) -> Duration {
        match next {
            Ok(Next::Now) => {
                self.trouble.is_over();
                Duration::ZERO
            }
            Ok(Next::At(next)) => {
                self.trouble.is_over();
                let now = self.clock.now();
                let wait = next.map_or(LONGEST_SLEEP, |next| next.duration_since(now));
                Duration::try_from(wait.min(LONGEST_SLEEP)).unwrap_or(Duration::ZERO)
            }
            Err(error) => {
                self.trouble.has(&error);
                STORE_FAILED_WAIT
            }
        }
    }

    async fn follow(&mut self, request: WorkerRequest) {
        let WorkerRequest::Apply {
            file,
            jobs,
            bad,
            services,
            answer,
        } = request
        else {
            // The step that follows looks at everything.
            return;
        };
        let now = self.clock.now();
        let decider = self.decider(&services.directory.chats);
        // Whoever asks has just edited it.
        let copy = JobsCopy {
            file: &file,
            jobs: &jobs,
            bad: &bad,
            accepts: Accepts::Any,
            others: self.other_files(),
        };
        let applied = apply_copy(decider, copy, now).await;
        match applied {
            Ok(change) => {
                self.replace_services(*services);
                for run_id in &change.ended {
                    self.in_flight.abort_run(*run_id);
                }
                self.tell_change(&change, now);
                // Nobody need be waiting for it.
                let _ = answer.send(Ok(change));
            }
            Err(error) => drop(answer.send(Err(error))),
        }
    }

    async fn do_chore(&mut self, chore: Chore) {
        let now = self.clock.now();
        match self.believes(now).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return self.report(Err(error)),
        }
        match chore {
            // The step that follows looks at everything.
            Chore::Sweep => {}
            Chore::Reap => {
                let reaped = self.reap(now).await;
                self.report(reaped);
            }
            Chore::Prune => {
                let seen = self.store.see_clock(now).await;
                self.report(seen);
                self.prune(now).await;
            }
        }
    }

    /// Takes back lanes in which nothing works.
    async fn reap(&mut self, now: Timestamp) -> Result<(), StoreError> {
        self.recover(now).await?;
        let mut at_work = self.in_flight.holders();
        let undecided = self.interrupted.runs.iter();
        at_work.extend(undecided.map(|run| Holder::Run(run.run_id).to_string()));
        let found = self.store.reclaim(self.id, &at_work, now).await?;
        self.interrupted.runs.extend(found.runs);
        self.interrupted.parts.extend(found.parts);
        if self.lease.is_shared() {
            self.take_over(now).await?;
        }
        self.recover(now).await
    }

    async fn prune(&self, now: Timestamp) {
        let Some(retention) = &self.services.retention else {
            return;
        };
        match self.store.prune(retention, now).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "pruned"),
            Err(error) => self.trouble.has(&error),
        }
    }

    /// Lets what runs finish within the grace, then asks it to stop; what does not is abandoned,
    /// and the next worker finds it as interrupted.
    async fn drain(&mut self, stop: &Stop, grace: Duration) {
        let clock = self.clock.clone();
        let out_of_time = async {
            tokio::select! {
                () = stop.now.cancelled() => {}
                () = clock.sleep(grace) => {}
            }
        };
        self.is_draining = true;
        self.listening.stop();
        self.finish_until(out_of_time).await;
        self.in_flight.abort_all();
        let last = tokio::time::sleep(ABORT_WAIT.min(grace / 4));
        self.finish_until(last).await;
        if self.is_busy() {
            tracing::warn!("what still runs is left for the next start");
        }
        self.tasks.abort_all();
        // An end by a clock that is not believed would make the next start believe it.
        if !self.guard.doubts() {
            let now = self.clock.now();
            let ended = self.store.end_worker(self.id, now).await;
            self.report(ended);
        }
    }

    /// Commits what finishes, until nothing runs or the time is over.
    async fn finish_until(&mut self, over: impl Future<Output = ()>) {
        tokio::pin!(over);
        while self.is_busy() {
            let joined = tokio::select! {
                joined = self.tasks.join_next_with_id() => joined,
                () = &mut over => return,
            };
            let saved = match joined {
                Some(joined) => self.absorb_joined(joined).await,
                None => self.absorb_unsaved(self.clock.now()).await,
            };
            let saved = match saved {
                // What has ended within the grace is shown within it too.
                Ok(()) => self.fill_lanes(self.clock.now()).await,
                Err(error) => Err(error),
            };
            if saved.is_err() || self.guard.doubts() {
                tokio::time::sleep(STORE_FAILED_WAIT).await;
            }
            self.report(saved);
        }
    }
}

impl Worker {
    fn report(&self, result: Result<(), StoreError>) {
        if let Err(error) = result {
            self.trouble.has(&error);
        }
    }
}

/// Why the loop goes round.
enum Woken {
    ToLook,
    ByRequest(WorkerRequest),
    ByChore(Chore),
    ByTask(Joined),
    ByPoll(Answered),
}

/// Ends when another connection has committed since the last time.
async fn changed(store: &dyn crate::store::Store, seen: &mut Option<i64>) {
    loop {
        match store.change_token().await {
            Ok(token) if seen.is_some_and(|seen| seen != token) => {
                *seen = Some(token);
                return;
            }
            Ok(token) => *seen = Some(token),
            Err(error) => tracing::debug!(%error, "the change token cannot be read"),
        }
        store.await_change(CHANGES_POLL).await;
    }
}
