//! How a worker begins, and begins anew where others took it for dead.

use std::mem;

use jiff::Timestamp;

use crate::{
    clock::{Clock, SystemClock},
    store::{BegunWorker, ClaimedRun, Interrupted, NewWorker, Role, StoreError, WorkerRow},
};

use super::{Scope, Services, Worker, lease::Lease, zone_release};

/// How many jobs of a dead worker are told by name.
const JOBS_TOLD: usize = 10;

impl Worker {
    /// How a worker of this scope is registered.
    pub(super) fn registration(scope: &Scope, services: &Services) -> NewWorker {
        NewWorker {
            role: match scope {
                Scope::All => Role::Worker,
                Scope::Session(_) | Scope::Run { .. } => Role::Errand,
            },
            zone_data: services.zone_data.clone(),
            zone_release: zone_release::in_use(),
        }
    }

    /// Takes up what dead workers left.
    pub(super) fn take_up(&mut self, begun: BegunWorker) {
        tell_taken(&begun.interrupted);
        self.interrupted.runs.extend(begun.interrupted.runs);
        self.interrupted.parts.extend(begun.interrupted.parts);
        self.unbegun.extend(begun.unbegun);
    }

    /// Whether anything may be begun or committed under the worker's lease. Where it is over nothing
    /// is until it is renewed; where others have taken over this begins anew, as a new worker. What
    /// others left whose lease is over is taken up.
    pub(super) async fn keep_alive(&mut self, now: Timestamp) -> Result<(), StoreError> {
        if !self.lease.is_shared() {
            return Ok(());
        }
        if !self.lease.is_lost() && self.lease.term().left().is_zero() {
            let asked_at = SystemClock.elapsed();
            match self.store.renew_lease(self.id).await? {
                Some(renewal) => self.lease.renewed(asked_at, renewal),
                None => self.lease.lose(),
            }
        }
        if self.lease.is_lost() {
            self.begin_anew(now).await?;
        } else if self.lease.one_is_dead() {
            self.take_over(now).await?;
        }
        Ok(())
    }

    /// Ends a worker that is not run by a loop, such as that of an errand. What it has not finished
    /// is left to others.
    ///
    /// # Errors
    /// [`StoreError`] where the store cannot be written: others notice by themselves, in time.
    pub async fn end(self) -> Result<(), StoreError> {
        self.store.end_worker(self.id, self.clock.now()).await
    }

    /// Takes up what workers left whose lease is over.
    pub(super) async fn take_over(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let found = self.store.take_over(self.id, now).await?;
        tell_taken(&found);
        self.interrupted.runs.extend(found.runs);
        self.interrupted.parts.extend(found.parts);
        Ok(())
    }

    async fn begin_anew(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let asked_at = SystemClock.elapsed();
        let worker = Self::registration(&self.scope, &self.services);
        let begun = self.store.begin_worker(worker, now).await?;
        tracing::warn!(
            worker = begun.id.0,
            before = self.id.0,
            "others have taken over from this worker, which was silent for too long: it begins anew"
        );
        // What it did before is not wanted any more, except receipts.
        mem::take(&mut self.in_flight).abort_all();
        self.interrupted = Interrupted::default();
        self.unbegun.clear();
        self.id = begun.id;
        self.lease = Lease::keep(self.store.clone(), &begun, asked_at);
        self.take_up(begun);
        Ok(())
    }
}

/// Tells from which workers is taken over, and what.
fn tell_taken(found: &Interrupted) {
    if found.dead.is_empty() {
        return;
    }
    let workers: Vec<_> = found.dead.iter().map(|dead| dead.0.to_string()).collect();
    tracing::info!(
        workers = workers.join(", "),
        runs = found.runs.len(),
        parts = found.parts.len(),
        jobs = jobs_of(&found.runs),
        "taking over from what did not stop in order"
    );
}

/// The jobs of these runs, as many as a line has room for.
pub(super) fn jobs_of(runs: &[ClaimedRun]) -> String {
    let mut jobs: Vec<&str> = runs.iter().map(|run| run.job.id.as_str()).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let more = jobs.len().saturating_sub(JOBS_TOLD);
    jobs.truncate(JOBS_TOLD);
    match more {
        0 => jobs.join(", "),
        more => format!("{} and {more} more", jobs.join(", ")),
    }
}

/// Tells of workers that share the database and differ from this one.
pub(super) fn tell_differences(own: &NewWorker, others: &[WorkerRow]) {
    for other in others.iter().filter(|other| other.role == Role::Worker) {
        let worker = other.id.0;
        if other.version != env!("CARGO_PKG_VERSION") {
            tracing::warn!(
                worker,
                theirs = other.version,
                ours = env!("CARGO_PKG_VERSION"),
                "another worker of this database is of another version of chatcron"
            );
        }
        let differ = other.zone_release != own.zone_release || other.zone_data != own.zone_data;
        if differ {
            let release = |release: &Option<String>| {
                release.clone().unwrap_or_else(|| String::from("unknown"))
            };
            tracing::warn!(
                worker,
                theirs = release(&other.zone_release),
                ours = release(&own.zone_release),
                "another worker of this database has other zone data, or other zones in its jobs file"
            );
        }
    }
}
