//! Jobs that are due: asked in the order (fire instant, job id), committed together.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::{
    ids::JobId,
    measure,
    policy::OwnedEvent,
    store::{AttemptFate, DueClaimant, DueKinds, StoreError, StoredJob},
};

use super::{
    BATCH, CHUNK, Change, ChangeError, Happened, JobChange, Worker,
    change::{Answer, StartRoom},
    lanes::Room,
};

/// How many batches of due jobs are decided on before the lanes are looked at: after a long
/// downtime the first runs begin while the rest is still accounted for.
const BATCHES_A_STEP: usize = 4;

/// How often what has finished is committed to make room, before jobs are decided on whose runs must
/// wait.
const ROOM_TRIES: usize = 4;

/// Jobs that came due within so long are due just now.
const CURRENT: SignedDuration = SignedDuration::from_mins(1);

/// What came of telling a job what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// It was decided on and committed.
    Applied,
    /// Likewise, and the run of the attempt that it is about has ended by it.
    Ended,
    /// Others were faster too often; the job has yet to be told.
    Again,
    /// It has no effect, and is not worth telling again.
    Refused,
}

impl Worker {
    /// Decides about every job whose wake-up has come.
    pub(super) async fn dispatch_due(&mut self, now: Timestamp) -> Result<(), StoreError> {
        for _ in 0..BATCHES_A_STEP {
            let mut due = self.due_jobs(Timestamp::MIN, now).await?;
            let room = self.room_for_due(&due, now).await?;
            let is_cut = room.slots >= CHUNK && due.len() > room.slots;
            let is_last = due.len() < BATCH && !is_cut;
            if is_cut {
                // The rest is decided on when these have finished, so that it begins at once and is
                // never queued. Less room than a chunk is not worth a round of its own.
                due.truncate(room.slots);
            }
            // Behind a backlog as a long downtime leaves it, what is due just now does not wait.
            let current = now.saturating_sub(CURRENT).unwrap_or(Timestamp::MIN);
            let is_old = |stored: &StoredJob| stored.wake_at.is_some_and(|at| at <= current);
            if !is_last && due.last().is_some_and(is_old) {
                let due = self.due_jobs(current, now).await?;
                self.wake(due, room.slots, now).await?;
            }
            // A person who waits is not kept waiting by all that is due.
            if !self.wake(due, room.slots, now).await? || is_last || room.others_wait {
                break;
            }
        }
        Ok(())
    }

    /// A batch of due jobs; those that other workers are deciding about are left to them.
    async fn due_jobs(
        &self,
        after: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<StoredJob>, StoreError> {
        match self.among_others() {
            Some(by) => self.store.claim_due_jobs(by, after, now, BATCH).await,
            None => self.store.due_jobs(after, now, BATCH).await,
        }
    }

    /// When the next job is due about which this worker decides.
    pub(super) async fn next_wake(&self) -> Result<Option<Timestamp>, StoreError> {
        match self.among_others() {
            Some(by) => self.store.next_wake_of(by).await,
            None => self.store.next_wake().await,
        }
    }

    /// How this worker asks for jobs while others are at work. It leaves those to them that they can
    /// plan better, by newer zone data.
    fn among_others(&self) -> Option<DueClaimant> {
        self.lease.has_company().then(|| DueClaimant {
            worker: self.id,
            kinds: if self.lease.others_know_zones_better() {
                DueKinds::WithoutZones
            } else {
                DueKinds::All
            },
        })
    }

    /// Decides about these jobs, and begins as many of their runs as there is room for; returns whether
    /// anything came of it.
    async fn wake(
        &mut self,
        due: Vec<StoredJob>,
        room: usize,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        measure::due(due.len());
        let changes: Vec<_> = due
            .iter()
            .map(|stored| Change::new(stored.job.id.clone(), OwnedEvent::WakeUp))
            .collect();
        let due: Vec<_> = due.into_iter().map(Arc::new).collect();
        let start_room = StartRoom::new(self.id, room.min(self.own_slots_free()));
        let decider = self.decider(&self.services.directory.chats);
        let decider = decider.beginning(&start_room);
        let answers = decider.apply_to(due, &changes, now).await;
        let told = answers.map(|answers| self.tell_applied(&changes, answers, now));
        // What has begun is under way, whatever became of the rest.
        for run in start_room.take() {
            self.begin_run(run, now);
        }
        Ok(told?.contains(&Told::Applied))
    }

    /// As [`Worker::room_to_begin`]; what has finished makes room first.
    async fn room_for_due(
        &mut self,
        due: &[StoredJob],
        now: Timestamp,
    ) -> Result<Room, StoreError> {
        for _ in 0..ROOM_TRIES {
            let room = self.room_to_begin(due, now).await?;
            if room.slots > 0 || due.is_empty() || self.keep_finished() == 0 {
                return Ok(room);
            }
            self.absorb_unsaved(now).await?;
        }
        Ok(Room::default())
    }

    /// How many runs of these jobs may begin in the commits that start them. What was due before them
    /// begins first, so nobody who waits for a slot is overtaken. Where the database is shared there is
    /// no room: each run is claimed by itself there.
    async fn room_to_begin(
        &mut self,
        due: &[StoredJob],
        now: Timestamp,
    ) -> Result<Room, StoreError> {
        match due.first() {
            Some(first) if !self.is_draining && !self.lease.is_shared() => {
                self.claim_runs_before(first, now).await
            }
            Some(_) | None => Ok(Room::default()),
        }
    }

    /// Decides about one job, if its wake-up has come.
    pub(super) async fn dispatch_if_due(
        &mut self,
        job_id: JobId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let stored = self.store.jobs(std::slice::from_ref(&job_id)).await?;
        let is_due = |stored: &StoredJob| stored.wake_at.is_some_and(|wake_at| wake_at <= now);
        if stored.iter().any(is_due) {
            let change = Change::new(job_id, OwnedEvent::WakeUp);
            let _ = self.apply(&[change], now).await?;
        }
        Ok(())
    }

    /// Applies changes, and aborts the attempts whose runs they ended; one answer a change.
    pub(super) async fn apply(
        &mut self,
        changes: &[Change],
        now: Timestamp,
    ) -> Result<Vec<Told>, StoreError> {
        self.apply_to(Vec::new(), changes, now).await
    }

    /// The same, where some of the jobs have been read already.
    pub(super) async fn apply_to(
        &mut self,
        read: Vec<Arc<StoredJob>>,
        changes: &[Change],
        now: Timestamp,
    ) -> Result<Vec<Told>, StoreError> {
        let chats = &self.services.directory.chats;
        let decider = self.decider(chats);
        let answers = decider.apply_to(read, changes, now).await?;
        Ok(self.tell_applied(changes, answers, now))
    }

    /// Tells what has come of changes, and aborts the attempts whose runs they ended.
    fn tell_applied(
        &mut self,
        changes: &[Change],
        answers: Vec<Answer>,
        now: Timestamp,
    ) -> Vec<Told> {
        let mut told = Vec::with_capacity(answers.len());
        for (change, answer) in changes.iter().zip(answers) {
            let job = &change.job_id;
            told.push(match answer {
                Ok(applied) => {
                    if let Some(what) = JobChange::of(&change.event) {
                        self.events.job(now, job, what);
                    }
                    // An attempt ends before the run that ends with it.
                    let end = change.attempt_end.as_ref();
                    if let Some((end, AttemptFate::Ended(result))) =
                        end.map(|end| (end, end.result))
                    {
                        let what = Happened::attempt_finished(job, end, result);
                        self.events.tell(now, what);
                    }
                    let written = applied.written;
                    for (run_id, outcome) in written.ended.iter().zip(written.outcomes) {
                        self.in_flight.abort_run(*run_id);
                        let what = Happened::run_finished(job, *run_id, outcome);
                        self.events.tell(now, what);
                    }
                    if let Some(ahead) = applied.put_back {
                        tracing::error!(
                            %job,
                            hours = ahead.as_hours(),
                            "its slots were accounted for ahead of the clock; it is planned anew \
                             from now, and slots that have a record do not come again"
                        );
                    }
                    for (reason, slots) in applied.skipped {
                        tracing::info!(%job, slots, reason = reason.as_str(), "skipped");
                    }
                    let attempt = change.attempt_end.as_ref();
                    if attempt.is_some_and(|end| written.ended.contains(&end.run_id)) {
                        Told::Ended
                    } else {
                        Told::Applied
                    }
                }
                Err(ChangeError::Busy { .. }) => Told::Again,
                Err(ChangeError::LeaseLost) => {
                    tracing::info!(%job, "a late outcome was refused: its run has ended");
                    Told::Refused
                }
                Err(
                    error @ (ChangeError::NoSuchJob { .. }
                    | ChangeError::Unplannable { .. }
                    | ChangeError::Superseded
                    | ChangeError::Outdated { .. }),
                ) => {
                    tracing::error!(%job, %error, "an event had no effect");
                    Told::Refused
                }
            });
        }
        told
    }
}
