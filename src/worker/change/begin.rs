//! Attempts that begin in the commit which starts their runs, as far as there is room.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    policy::{Decided, Effect, goes_last},
    store::{BegunRun, ClaimedRun, JobCommit, StoredJob, Target, WorkerId},
};

/// How many runs a worker may begin by its decisions, and those that have begun until they are taken;
/// they are kept even where the rest of a batch fails.
pub(in crate::worker) struct StartRoom {
    worker: WorkerId,
    inner: Mutex<Inner>,
}

struct Inner {
    /// How many runs more may begin.
    room: usize,
    begun: Vec<ClaimedRun>,
}

impl StartRoom {
    pub(in crate::worker) fn new(worker: WorkerId, room: usize) -> Self {
        let inner = Inner {
            room,
            begun: Vec::new(),
        };
        Self {
            worker,
            inner: Mutex::new(inner),
        }
    }

    /// Has the commit begin what it starts, if there is room for all of that.
    pub(super) fn reserve(&self, commit: &mut JobCommit) {
        let starts = commit
            .effects
            .iter()
            .filter(|effect| begins_at_once(effect));
        let starts = starts.count();
        let is_kept = matches!(commit.target, Target::Keep { .. });
        if starts == 0 || !is_kept {
            return;
        }
        self.with(|inner| {
            // Where there is not room for all of these, what comes after them has to wait, too.
            let left = inner.room.checked_sub(starts);
            inner.room = left.unwrap_or(0);
            commit.begin = left.map(|_| self.worker);
        });
    }

    /// Keeps what has begun with a decision about this job.
    pub(super) fn keep(&self, stored: &StoredJob, decided: &Decided, begun: &[BegunRun]) {
        if begun.is_empty() {
            return;
        }
        let decision = &decided.decision;
        let after = Arc::new(StoredJob {
            version: stored.version + 1,
            state: decision.state.clone(),
            wake_at: decision.wake_at,
            ..stored.clone()
        });
        let begun = begun.iter().map(|run| claimed(run, &after));
        self.with(|inner| inner.begun.extend(begun));
    }

    /// What has begun since it was last asked.
    pub(in crate::worker) fn take(&self) -> Vec<ClaimedRun> {
        self.with(|inner| std::mem::take(&mut inner.begun))
    }

    fn with<T>(&self, look: impl FnOnce(&mut Inner) -> T) -> T {
        look(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn begins_at_once(effect: &Effect) -> bool {
    matches!(effect, Effect::Start { cause, .. } if !goes_last(*cause))
}

fn claimed(begun: &BegunRun, job: &Arc<StoredJob>) -> ClaimedRun {
    ClaimedRun {
        run_id: begun.run_id,
        epoch: begun.epoch,
        attempt: 1,
        job: job.job.clone(),
        incarnation: begun.incarnation,
        occurrence: begun.occurrence.clone(),
        occurrence_id: begun.occurrence_id,
        nominal_at: begun.nominal_at,
        cause: begun.cause,
        lane: begun.lane.clone(),
        destination: begun.destination.clone(),
        context: None,
        stored_job: Some(Arc::clone(job)),
    }
}
