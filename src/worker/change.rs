//! Decide and commit, for any number of jobs at once; by the worker and by commands beside it.
//!
//! A decision is fenced by the version it was made on. If somebody else was faster, the job is
//! loaded and decided on again: the event still happened.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use futures_util::future::join_all;
use jiff::Timestamp;

use crate::{
    directory::Chat,
    ids::{ChatName, JobId},
    job::Job,
    measure,
    occurrence::Slot,
    policy::{Decided, OwnedEvent},
    schedule::Planner,
    store::{
        AttemptEnd, Conflict, FileVersion, JobCommit, JobSource, Store, StoreError, StoredJob,
        Written,
    },
};

mod applied;
mod begin;
mod draft;

pub use applied::{Applied, ChangeError};
pub(super) use begin::StartRoom;
use draft::{Draft, draft};

use super::{BATCH, CHUNK, Journal};

/// How often a decision is made again before its change is given up for this time.
const ROUNDS: usize = 16;

/// A version that no job has.
const NO_VERSION: i64 = -1;

/// Something that happened to a job.
#[derive(Debug, Clone)]
pub struct Change {
    /// The job.
    pub job_id: JobId,
    /// What happened. A changed definition of a job that is not there creates it.
    pub event: OwnedEvent,
    /// Where the job is defined, if its definition has changed; else it stays.
    pub source: Option<JobSource>,
    /// The attempt whose end this is.
    pub attempt_end: Option<AttemptEnd>,
    /// The version of the job that whoever asks has looked at; at another one nothing is changed.
    pub seen: Option<i64>,
}

impl Change {
    /// Something that happened, other than the end of an attempt.
    pub fn new(job_id: JobId, event: OwnedEvent) -> Self {
        Self {
            job_id,
            event,
            source: None,
            attempt_end: None,
            seen: None,
        }
    }

    /// The same, which is made only if the job is still at this version.
    #[must_use]
    pub fn if_at(mut self, version: i64) -> Self {
        self.seen = Some(version);
        self
    }

    /// The same, which is made only if there is no such job yet.
    #[must_use]
    pub fn if_new(self) -> Self {
        self.if_at(NO_VERSION)
    }

    /// A job is created, or its definition has changed.
    pub fn define(job: Job, source: JobSource) -> Self {
        Self {
            job_id: job.id.clone(),
            event: OwnedEvent::DefinitionChanged { new: Box::new(job) },
            source: Some(source),
            attempt_end: None,
            seen: None,
        }
    }

    /// The end of an attempt.
    pub fn attempt(job_id: JobId, event: OwnedEvent, end: AttemptEnd) -> Self {
        Self {
            job_id,
            event,
            source: None,
            attempt_end: Some(end),
            seen: None,
        }
    }
}

/// The answer to one change.
pub(super) type Answer = Result<Applied, ChangeError>;

/// Who decides on changes and commits them: the worker, or a command beside it.
#[derive(Clone, Copy)]
pub struct Decider<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) chats: &'a BTreeMap<ChatName, Chat>,
    journal: Option<&'a Journal>,
    start_room: Option<&'a StartRoom>,
}

impl<'a> Decider<'a> {
    /// Decides about the jobs of a store. Routes are resolved by the chats; decisions are written to
    /// the journal with their inputs, if there is one.
    pub fn new(
        store: &'a dyn Store,
        chats: &'a BTreeMap<ChatName, Chat>,
        journal: Option<&'a Journal>,
    ) -> Self {
        Self {
            store,
            chats,
            journal,
            start_room: None,
        }
    }

    /// The same, which also begins what it starts.
    pub(super) fn beginning(self, room: &'a StartRoom) -> Self {
        Self {
            start_room: Some(room),
            ..self
        }
    }
}

impl Decider<'_> {
    /// Decides what each change means and commits it; one result a change, in order.
    ///
    /// # Errors
    /// [`StoreError`] where the store cannot be read or written; what was committed until then stays.
    pub async fn apply(
        &self,
        changes: &[Change],
        now: Timestamp,
    ) -> Result<Vec<Answer>, StoreError> {
        self.apply_under(None, Vec::new(), changes, now).await
    }

    /// As [`Decider::apply`], while this content of a jobs file is in force: what has not been
    /// committed when it no longer is ends as [`ChangeError::Superseded`].
    pub(super) async fn apply_of_file(
        &self,
        version: &FileVersion,
        changes: &[Change],
        now: Timestamp,
    ) -> Result<Vec<Answer>, StoreError> {
        self.apply_under(Some(version), Vec::new(), changes, now)
            .await
    }

    /// As [`Decider::apply`], where the caller has read some of the jobs: they are decided on as they
    /// are here, and loaded again only if somebody else was faster.
    pub(super) async fn apply_to(
        &self,
        read: Vec<Arc<StoredJob>>,
        changes: &[Change],
        now: Timestamp,
    ) -> Result<Vec<Answer>, StoreError> {
        self.apply_under(None, read, changes, now).await
    }

    async fn apply_under(
        &self,
        version: Option<&FileVersion>,
        read: Vec<Arc<StoredJob>>,
        changes: &[Change],
        now: Timestamp,
    ) -> Result<Vec<Answer>, StoreError> {
        let mut read = by_id(read);
        let mut pending: Vec<Pending<'_>> = changes.iter().map(Pending::new).collect();
        for _ in 0..ROUNDS {
            if pending.iter().all(|change| change.answer.is_some()) {
                break;
            }
            for batch in pending.chunks_mut(BATCH) {
                let chunks = batch.chunks_mut(CHUNK);
                let rounds = chunks.map(|chunk| self.round(version, chunk, &read, now));
                for done in join_all(rounds).await {
                    done?;
                }
            }
            read.clear();
        }
        Ok(pending.into_iter().map(Pending::into_answer).collect())
    }

    /// Decides on every change that has no answer yet, and commits what was decided.
    async fn round(
        &self,
        version: Option<&FileVersion>,
        pending: &mut [Pending<'_>],
        read: &Loaded,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let loaded = load(self.store, pending, read).await?;
        let mut commits: Vec<JobCommit> = Vec::new();
        let mut committing = Vec::new();
        for (index, item) in pending.iter_mut().enumerate() {
            if item.answer.is_some() {
                continue;
            }
            let stored = loaded.get(&item.change.job_id).map(AsRef::as_ref);
            match draft(item.change, stored, item.passed, self.chats, now) {
                Draft::Commit(mut commit, decided) => {
                    if let Some(room) = self.start_room {
                        room.reserve(&mut commit);
                    }
                    commits.push(*commit);
                    committing.push((index, decided));
                }
                Draft::Answer(answer) => item.answer = Some(answer),
            }
        }
        if commits.is_empty() {
            return Ok(());
        }
        let answers = match version {
            None => self.store.commit(commits, now).await?,
            Some(version) => {
                let version = version.clone();
                match self.store.commit_of_file(version, commits, now).await? {
                    Ok(answers) => answers,
                    Err(_another_is_in_force) => {
                        let open = pending.iter_mut().filter(|item| item.answer.is_none());
                        open.for_each(|item| item.answer = Some(Err(ChangeError::Superseded)));
                        return Ok(());
                    }
                }
            }
        };
        for ((index, decided), answer) in committing.into_iter().zip(answers) {
            let item = &mut pending[index];
            match answer {
                Ok(written) => {
                    let stored = loaded.get(&item.change.job_id);
                    item.answer = Some(Ok(self.committed(stored, decided, written)));
                }
                Err(Conflict::SlotAccounted { slot }) => {
                    let stored = loaded.get(&item.change.job_id);
                    item.passed = nominal_of(stored.map(AsRef::as_ref), &slot);
                }
                // It has ended, or was decided by somebody else: trying again is no use.
                Err(Conflict::LeaseLost | Conflict::Undecided | Conflict::Missing) => {
                    item.answer = Some(Err(ChangeError::LeaseLost));
                }
                // Somebody was faster: the next round decides on what they left.
                Err(conflict) => {
                    tracing::debug!(job = %item.change.job_id, %conflict, "decided again");
                }
            }
        }
        Ok(())
    }

    /// What a decision has led to that is committed.
    fn committed(
        &self,
        stored: Option<&Arc<StoredJob>>,
        decided: Option<Box<Decided>>,
        written: Written,
    ) -> Applied {
        let Some(decided) = decided else {
            return Applied::default();
        };
        if let (Some(room), Some(stored)) = (self.start_room, stored) {
            room.keep(stored, &decided, &written.begun);
        }
        let applied = Applied::of(&decided, written);
        for (reason, slots) in &applied.skipped {
            measure::skipped(*reason, *slots);
        }
        applied.outcomes.iter().copied().for_each(measure::ended);
        if let Some(journal) = self.journal {
            journal.write(*decided);
        }
        applied
    }
}

fn nominal_of(stored: Option<&StoredJob>, slot: &Slot) -> Option<Timestamp> {
    let stored = stored?;
    let planner = Planner::new(&stored.job.schedule, stored.first_seen_at).ok()?;
    planner.resolve(slot)
}

/// A change on its way.
struct Pending<'a> {
    change: &'a Change,
    /// The nominal of a slot that turned out to have its record already.
    passed: Option<Timestamp>,
    answer: Option<Answer>,
}

impl<'a> Pending<'a> {
    fn new(change: &'a Change) -> Self {
        Self {
            change,
            passed: None,
            answer: None,
        }
    }

    fn into_answer(self) -> Answer {
        self.answer.unwrap_or_else(|| {
            Err(ChangeError::Busy {
                job_id: self.change.job_id.clone(),
            })
        })
    }
}

/// The jobs that are decided on, by id.
type Loaded = HashMap<JobId, Arc<StoredJob>>;

/// The jobs of the changes that have no answer yet, as far as they are not read yet.
async fn load(
    store: &dyn Store,
    pending: &[Pending<'_>],
    read: &Loaded,
) -> Result<Loaded, StoreError> {
    let open = pending.iter().filter(|item| item.answer.is_none());
    let mut ids: Vec<_> = open.map(|item| item.change.job_id.clone()).collect();
    ids.sort();
    ids.dedup();
    let known: Vec<_> = ids.iter().filter_map(|id| read.get(id).cloned()).collect();
    ids.retain(|id| !read.contains_key(id));
    let missing = if ids.is_empty() {
        Vec::new()
    } else {
        store.jobs(&ids).await?
    };
    let missing = missing.into_iter().map(Arc::new);
    Ok(by_id(known.into_iter().chain(missing)))
}

/// The jobs by id; of several readings of one, the newest.
fn by_id(jobs: impl IntoIterator<Item = Arc<StoredJob>>) -> Loaded {
    let mut loaded = Loaded::new();
    for stored in jobs {
        let newest = loaded.entry(stored.job.id.clone());
        let newest = newest.or_insert_with(|| Arc::clone(&stored));
        if newest.version < stored.version {
            *newest = stored;
        }
    }
    loaded
}
