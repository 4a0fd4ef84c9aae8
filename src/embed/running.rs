//! The worker of a program: who holds it owns what runs.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;

use crate::{
    store::sqlite::Holder,
    wiring::Lock,
    worker::{
        HousekeepingError, JobsChange, Scope, Stop, Ticks, Worker, WorkerHandle, clock_doubt,
        lent::Runners,
    },
};

use super::{AtWork, Chatcron, OwnWorker, ReloadError, Setup, StartError};

/// How often, and how soon, the lock is tried again that somebody holds for an instant: a command
/// such as `chatcron say`, or a worker of this program that was dropped just now.
const LOCK_TRIES: u32 = 25;
const LOCK_AGAIN: Duration = Duration::from_millis(200);
/// How long the next start waits until a dropped worker is gone; after that it waits for the end of
/// its lease.
const GONE_WAIT: Duration = Duration::from_secs(5);

/// Why a worker has ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum Ended {
    /// It was asked to.
    Stopped,
    /// It was asked to, and what still ran had to be left for the next start.
    LeftForNextStart,
    /// Its own housekeeping could not begin.
    Failed(HousekeepingError),
}

/// A running worker, which decides, runs and sends until it is asked to stop.
///
/// Dropping it ends everything at once, and leaves all of it for the next start as a crash would:
/// nothing is lost. [`RunningWorker::shutdown`] lets what runs finish.
#[must_use = "dropping it stops the worker"]
pub struct RunningWorker {
    chatcron: Chatcron,
    handle: WorkerHandle,
    stop: Stop,
    task: JoinHandle<Ended>,
    /// Whether the task's end was told already.
    has_ended: bool,
    change: JobsChange,
    trouble: watch::Receiver<Option<String>>,
    worker: OwnWorker,
    /// Whether its work is held by a lease, which runs on when it is dropped.
    has_lease: bool,
    #[cfg(feature = "http-api")]
    context: crate::worker::WorkerContext,
    /// Servers beside the worker; they end with it.
    beside: JoinSet<()>,
}

impl Drop for RunningWorker {
    fn drop(&mut self) {
        self.task.abort();
        // Listed after a shutdown too: a worker whose store failed could not end its lease.
        if self.has_lease {
            self.chatcron.dropped().push(self.worker.clone());
        }
    }
}

/// Tells those who wait for a worker that it is gone.
struct Gone {
    token: CancellationToken,
    runners: Arc<Runners>,
}

impl Drop for Gone {
    fn drop(&mut self) {
        self.runners.forget();
        self.token.cancel();
    }
}

impl Chatcron {
    /// Starts the worker: recovers what the one before left, applies the jobs of the file and of
    /// the program, and runs what is due.
    ///
    /// # Errors
    /// [`StartError::AlreadyRunning`] where another worker has the SQLite database (those of a
    /// PostgreSQL one share the work), and whatever keeps it from beginning.
    pub async fn start(&self) -> Result<RunningWorker, StartError> {
        let lock = self.lock().await?;
        let (store, clock) = (self.inner.store.clone(), self.inner.clock.clone());
        if let Some(by) = clock_doubt(&*store, clock.now()).await? {
            return Err(StartError::ClockDoubted { by });
        }
        let has_lease = lock.is_shared();
        if has_lease {
            self.end_dropped().await?;
        }
        let setup = self.setup().await;
        for what in &setup.left_out {
            tracing::error!("{what}");
        }
        let services = setup.services.clone();
        let worker = Worker::begin(store, clock, services, Scope::All, None)
            .await?
            .with_events(self.inner.events.clone())
            .with_runners(self.inner.runners.clone());
        let source = &self.inner.source;
        let change = worker
            .apply_jobs_edited_at(source, &setup.jobs, &setup.bad, setup.edited_at)
            .await?;
        let trouble = worker.watch_trouble();
        let (handle, requests) = WorkerHandle::new();
        let stop = Stop::default();
        let gone = CancellationToken::new();
        let own = OwnWorker {
            id: worker.id(),
            gone: gone.clone(),
        };
        *self.at_work() = Some(AtWork {
            handle: handle.clone(),
            worker: own.clone(),
        });
        #[cfg(feature = "http-api")]
        let context = worker.context(handle.clone(), stop.drain.clone());
        // What does not stop when asked is given the rest of the time.
        let grace = self.inner.grace.mul_f64(0.8);
        let asked = stop.clone();
        let gone = Gone {
            token: gone,
            runners: self.inner.runners.clone(),
        };
        let task = tokio::spawn(async move {
            // Held until the worker, and with it all that it runs, is gone.
            let _lock = lock;
            let _gone = gone;
            match worker.run(requests, asked, Ticks::On, grace).await {
                Err(error) => Ended::Failed(error),
                Ok(()) => Ended::Stopped,
            }
        });
        Ok(RunningWorker {
            chatcron: self.clone(),
            handle,
            stop,
            task,
            has_ended: false,
            change,
            trouble,
            worker: own,
            has_lease,
            #[cfg(feature = "http-api")]
            context,
            beside: JoinSet::new(),
        })
    }

    /// Ends the leases of this program's own workers that were dropped: the one that begins takes
    /// over from them at once.
    async fn end_dropped(&self) -> Result<(), StartError> {
        let dropped = std::mem::take(&mut *self.dropped());
        for worker in dropped {
            // It is aborted, and gone when it next waits for something.
            let gone = tokio::time::timeout(GONE_WAIT, worker.gone.cancelled()).await;
            if gone.is_ok() {
                self.store().end_worker(worker.id, self.now()).await?;
            }
        }
        Ok(())
    }

    async fn lock(&self) -> Result<Lock, StartError> {
        let mut tries = 1;
        loop {
            match Lock::acquire(&self.inner.database, Holder::Worker).await {
                Err(crate::store::StoreError::Held { .. }) if tries < LOCK_TRIES => {
                    tries += 1;
                    tokio::time::sleep(LOCK_AGAIN).await;
                }
                taken => return Ok(taken?),
            }
        }
    }
}

impl RunningWorker {
    /// What applying the jobs has changed at the start.
    pub fn change(&self) -> &JobsChange {
        &self.change
    }

    /// What keeps the store from working, in words; `None` while it works. Meanwhile nothing
    /// begins, and nothing is lost.
    pub fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.trouble.clone()
    }

    /// Whether it still runs.
    pub fn is_running(&self) -> bool {
        !self.task.is_finished()
    }

    /// Waits until it has ended by itself: it was taken over, or could not go on. How is told once;
    /// after that it has [`Ended::Stopped`].
    pub async fn ended(&mut self) -> Ended {
        if self.has_ended {
            return Ended::Stopped;
        }
        let ended = (&mut self.task).await;
        self.has_ended = true;
        ended.unwrap_or(Ended::LeftForNextStart)
    }

    /// Begins nothing more, lets what runs finish, and returns within the grace that the builder
    /// was given, also where an agent ignores that it is asked to stop. What has not ended by then
    /// is left for the next start.
    pub async fn shutdown(mut self) -> Ended {
        self.stop.drain.cancel();
        let grace = self.chatcron.inner.grace;
        let mut ended = None;
        let all_ended = async {
            ended = Some(match self.has_ended {
                true => Ok(Ended::Stopped),
                false => (&mut self.task).await,
            });
            while self.beside.join_next().await.is_some() {}
        };
        let _ = tokio::time::timeout(grace, all_ended).await;
        if ended.is_none() {
            self.task.abort();
            let _ = (&mut self.task).await;
        }
        self.beside.shutdown().await;
        match ended {
            Some(Ok(ended)) => ended,
            Some(Err(_)) | None => Ended::LeftForNextStart,
        }
    }

    /// Spawns a task that serves others while the worker runs; it is given the token that is
    /// cancelled when the worker is gone. Returns `false`, and spawns nothing, where it is gone
    /// already.
    #[cfg(feature = "http-api")]
    pub(crate) fn serve_beside<F>(
        &mut self,
        serve: impl FnOnce(crate::worker::WorkerContext, CancellationToken) -> F,
    ) -> bool
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let gone = self.worker.gone.clone();
        let is_there = !gone.is_cancelled();
        if is_there {
            self.beside.spawn(serve(self.context.clone(), gone));
        }
        is_there
    }

    /// Reads the jobs file again, and puts it in the place of the present one.
    ///
    /// # Errors
    /// [`ReloadError`] where it cannot be read or applied; nothing changes then.
    pub async fn reload(&self) -> Result<JobsChange, ReloadError> {
        let inner = &self.chatcron.inner;
        let setup = Setup::read(
            &inner.given,
            &inner.registered,
            inner.file.as_deref(),
            &inner.database,
            &*inner.clock,
        )?;
        let mut present = inner.setup.write().await;
        let change = self.handle.apply(
            inner.source.clone(),
            setup.jobs.clone(),
            setup.bad.clone(),
            setup.services.clone(),
        );
        let change = change.await?;
        *present = Arc::new(setup);
        Ok(change)
    }
}
