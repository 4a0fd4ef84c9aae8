//! The worker's lease, where several share a database: kept by a task of its own, so that neither a
//! long step nor a busy database makes others take a worker for dead that is alive.
//!
//! How long it lasts is told by a clock that nobody can set, from before it was asked for, so that
//! a worker never thinks longer of itself than the others do.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    clock::{Clock, SystemClock},
    store::{BegunWorker, Renewal, Role, Store, WorkerId, WorkerRow},
};

use super::zone_release;

/// A lease is renewed so many times before it would be over.
const RENEWALS: u32 = 3;

/// How soon a renewal that failed is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// A worker looks at the lease of another so long after that should be over.
const A_LITTLE: Duration = Duration::from_millis(20);

/// What a worker knows of its lease, and of the others.
#[derive(Debug, Default)]
struct Known {
    /// Until when it holds, in the time since the machine was started.
    until: Duration,
    /// Whether another worker has taken over.
    is_lost: bool,
    others: Vec<WorkerRow>,
    /// Whether the lease of another worker is over.
    one_is_dead: bool,
}

#[derive(Debug, Default)]
struct Shared {
    known: Mutex<Known>,
    /// Told when the loop has something to do about it.
    changed: Notify,
}

impl Shared {
    fn with<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn renewed(&self, asked_at: Duration, renewal: Renewal) {
        let one_is_dead = renewal.next_over.is_some_and(|left| left.is_zero());
        self.with(|known| {
            known.until = known.until.max(asked_at.saturating_add(renewal.lasts));
            known.others = renewal.others;
            known.one_is_dead |= one_is_dead;
        });
        if one_is_dead {
            self.changed.notify_one();
        }
    }

    fn lost(&self) {
        self.with(|known| known.is_lost = true);
        self.changed.notify_one();
    }
}

/// What holds while it lasts; nothing of it is needed where one worker has the database for itself.
#[derive(Debug)]
pub(super) struct Lease(Option<Kept>);

#[derive(Debug)]
struct Kept {
    lasts: Duration,
    shared: Arc<Shared>,
    keeper: JoinHandle<()>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// How long a lease lasts still.
#[derive(Debug, Clone)]
pub(super) struct Term(Option<Arc<Shared>>);

impl Term {
    /// How long it holds at least; nothing where it may be over.
    pub(super) fn left(&self) -> Duration {
        let Some(shared) = &self.0 else {
            return Duration::MAX;
        };
        shared.with(|known| match known.is_lost {
            true => Duration::ZERO,
            false => known.until.saturating_sub(SystemClock.elapsed()),
        })
    }
}

impl Lease {
    /// Keeps the lease with which a worker has begun. `asked_at` is from before that.
    pub(super) fn keep(store: Arc<dyn Store>, begun: &BegunWorker, asked_at: Duration) -> Self {
        let Some(lasts) = begun.lease else {
            return Self(None);
        };
        let shared = Arc::new(Shared::default());
        shared.with(|known| {
            known.until = asked_at.saturating_add(lasts);
            known.others.clone_from(&begun.others);
        });
        let keeper = tokio::spawn(keep(store, begun.id, lasts, shared.clone()));
        Self(Some(Kept {
            lasts,
            shared,
            keeper,
        }))
    }

    pub(super) fn term(&self) -> Term {
        Term(self.0.as_ref().map(|kept| kept.shared.clone()))
    }

    /// Whether several workers share the database.
    pub(super) fn is_shared(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.look(|known| known.is_lost).unwrap_or(false)
    }

    /// The store says that another worker has taken over.
    pub(super) fn lose(&self) {
        if let Some(kept) = &self.0 {
            kept.shared.lost();
        }
    }

    /// It was renewed by a claim that was asked for then.
    pub(super) fn claimed(&self, asked_at: Duration) {
        if let Some(kept) = &self.0 {
            let until = asked_at.saturating_add(kept.lasts);
            kept.shared
                .with(|known| known.until = known.until.max(until));
        }
    }

    /// Renews it now.
    pub(super) fn renewed(&self, asked_at: Duration, renewal: Renewal) {
        if let Some(kept) = &self.0 {
            kept.shared.renewed(asked_at, renewal);
        }
    }

    /// Whether the lease of another worker was found over; asked once.
    pub(super) fn one_is_dead(&self) -> bool {
        self.look(|known| std::mem::take(&mut known.one_is_dead))
            .unwrap_or(false)
    }

    /// Whether other workers take jobs too.
    pub(super) fn has_company(&self) -> bool {
        self.look(|known| known.others.iter().any(|other| other.role == Role::Worker))
            .unwrap_or(false)
    }

    /// Whether another worker is at work whose zone data are newer than this one's.
    pub(super) fn others_know_zones_better(&self) -> bool {
        let own = zone_release::in_use();
        self.look(|known| {
            let at_work = known
                .others
                .iter()
                .filter(|other| other.role == Role::Worker);
            let newest = at_work
                .filter_map(|other| other.zone_release.as_deref())
                .max();
            own.is_some_and(|own| newest.is_some_and(|newest| own.as_str() < newest))
        })
        .unwrap_or(false)
    }

    /// Ends when the loop has something to do about it.
    pub(super) async fn changed(&self) {
        match &self.0 {
            Some(kept) => kept.shared.changed.notified().await,
            None => std::future::pending().await,
        }
    }

    fn look<T>(&self, look: impl FnOnce(&mut Known) -> T) -> Option<T> {
        self.0.as_ref().map(|kept| kept.shared.with(look))
    }
}

/// Renews a lease until another worker has taken over.
async fn keep(store: Arc<dyn Store>, worker: WorkerId, lasts: Duration, shared: Arc<Shared>) {
    let between = lasts / RENEWALS;
    let mut wait = between;
    loop {
        tokio::time::sleep(wait).await;
        let asked_at = SystemClock.elapsed();
        match store.renew_lease(worker).await {
            Ok(Some(renewal)) => {
                // One that is over already is told of now; the others are looked at in time.
                let next_over = renewal.next_over.filter(|left| !left.is_zero());
                let look = next_over.map_or(between, |left| left.saturating_add(A_LITTLE));
                wait = between.min(look);
                shared.renewed(asked_at, renewal);
            }
            Ok(None) => return shared.lost(),
            Err(error) => {
                tracing::debug!(%error, "the worker's lease cannot be renewed yet");
                wait = TRY_AGAIN.min(between);
            }
        }
    }
}
