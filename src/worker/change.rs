//! Decide and commit, for any number of jobs at once; by the worker and by commands beside it.
//!
//! A decision is fenced by the version it was made on. If somebody else was faster, the job is
//! loaded and decided on again: the event still happened.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    directory::Chat,
    ids::{ChatName, JobId, RequestId},
    job::{Job, Policies},
    occurrence::{OccurrenceRef, SkipReason},
    policy::{AttemptResult, Refusal},
    schedule::{Planner, ScheduleError},
    store::{AttemptEnd, Conflict, JobCommit, JobSource, Store, StoreError, StoredJob, Written},
};

mod draft;

use draft::{Draft, draft};

/// How often a decision is made again before its change is given up for this time.
const ROUNDS: usize = 16;

/// Something that happened to a job.
#[derive(Debug, Clone)]
pub struct Change {
    /// The job.
    pub job_id: JobId,
    /// What happened.
    pub what: What,
    /// The attempt whose end this is.
    pub attempt_end: Option<AttemptEnd>,
}

impl Change {
    /// Something that happened, other than the end of an attempt.
    pub fn new(job_id: JobId, what: What) -> Self {
        Self {
            job_id,
            what,
            attempt_end: None,
        }
    }
}

/// What can happen to a job; the owned form of [`crate::policy::Event`].
#[derive(Debug, Clone)]
pub enum What {
    /// Its wake-up came.
    WakeUp,
    /// An attempt ended.
    AttemptFinished {
        /// Of what.
        occurrence: OccurrenceRef,
        /// How.
        result: AttemptResult,
        /// How many have been made.
        attempts_made: u32,
        /// The policies it started with.
        policies: Box<Policies>,
    },
    /// The process that executed a run died.
    LeaseLost {
        /// Of what.
        occurrence: OccurrenceRef,
        /// How many attempts have been made.
        attempts_made: u32,
        /// The policies it started with.
        policies: Box<Policies>,
    },
    /// A run was called off.
    RunCancelled {
        /// Of what.
        occurrence: OccurrenceRef,
    },
    /// Somebody asks for a run now.
    Trigger(RequestId),
    /// Nothing shall accrue, for this reason.
    Pause(String),
    /// The next nominal shall run again.
    Resume,
    /// It is created, or its definition has changed.
    Define(Box<Job>, JobSource),
    /// It is gone from where it was defined.
    Remove,
}

/// What a change has led to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Runs that were started and ended by it.
    pub written: Written,
    /// Why a request was not followed.
    pub refusal: Option<Refusal>,
    /// When the job next needs a decision.
    pub wake_at: Option<Timestamp>,
    /// How many slots were recorded as skipped, by reason.
    pub skipped: Vec<(SkipReason, u64)>,
}

/// Why a change has led to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// There is no such job.
    #[error("there is no job `{job_id}`")]
    NoSuchJob {
        /// The id.
        job_id: JobId,
    },
    /// Its schedule cannot be planned with the zone data in use.
    #[error("job `{job_id}` cannot be planned: {source}")]
    Unplannable {
        /// The id.
        job_id: JobId,
        /// Why.
        #[source]
        source: ScheduleError,
    },
    /// The lease under which its attempt was made is no longer held.
    #[error("the lease of the attempt was lost")]
    LeaseLost,
    /// Others were faster too often; it can be tried again.
    #[error("job `{job_id}` is being changed too often at the moment")]
    Busy {
        /// The id.
        job_id: JobId,
    },
}

/// The answer to one change.
type Answer = Result<Applied, ChangeError>;

/// Decides what each change means and commits it; one result a change, in order.
///
/// # Errors
/// [`StoreError`] where the store cannot be read or written; nothing of the failing round is
/// written.
pub async fn apply_changes(
    store: &dyn Store,
    chats: &BTreeMap<ChatName, Chat>,
    changes: &[Change],
    now: Timestamp,
) -> Result<Vec<Answer>, StoreError> {
    let mut pending: Vec<Pending<'_>> = changes.iter().map(Pending::new).collect();
    for _ in 0..ROUNDS {
        if pending.iter().all(|change| change.answer.is_some()) {
            break;
        }
        round(store, chats, &mut pending, now).await?;
    }
    Ok(pending.into_iter().map(Pending::into_answer).collect())
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

/// Decides on every change that has no answer yet, and commits what was decided.
async fn round(
    store: &dyn Store,
    chats: &BTreeMap<ChatName, Chat>,
    pending: &mut [Pending<'_>],
    now: Timestamp,
) -> Result<(), StoreError> {
    let loaded = load(store, pending).await?;
    let mut commits: Vec<JobCommit> = Vec::new();
    let mut committing = Vec::new();
    for (index, item) in pending.iter_mut().enumerate() {
        if item.answer.is_some() {
            continue;
        }
        let stored = loaded.get(&item.change.job_id);
        match draft(item.change, stored, item.passed, chats, now) {
            Draft::Commit(commit, applied) => {
                commits.push(*commit);
                committing.push((index, applied));
            }
            Draft::Answer(answer) => item.answer = Some(answer),
        }
    }
    if commits.is_empty() {
        return Ok(());
    }
    let answers = store.commit(commits, now).await?;
    for ((index, mut applied), answer) in committing.into_iter().zip(answers) {
        let item = &mut pending[index];
        match answer {
            Ok(written) => {
                applied.written = written;
                item.answer = Some(Ok(applied));
            }
            Err(Conflict::SlotAccounted { slot }) => {
                let stored = loaded.get(&item.change.job_id);
                item.passed = stored.and_then(|stored| {
                    let planner = Planner::new(&stored.job.schedule, stored.first_seen_at).ok()?;
                    planner.resolve(&slot)
                });
            }
            // What it is about has ended, or was decided by somebody else: trying again is no use.
            Err(Conflict::LeaseLost | Conflict::Undecided | Conflict::Missing) => {
                item.answer = Some(Err(ChangeError::LeaseLost));
            }
            // Somebody was faster: the next round decides on what they left.
            Err(conflict) => tracing::debug!(job = %item.change.job_id, %conflict, "decided again"),
        }
    }
    Ok(())
}

async fn load(
    store: &dyn Store,
    pending: &[Pending<'_>],
) -> Result<BTreeMap<JobId, StoredJob>, StoreError> {
    let open = pending.iter().filter(|item| item.answer.is_none());
    let mut ids: Vec<_> = open.map(|item| item.change.job_id.clone()).collect();
    ids.sort();
    ids.dedup();
    let jobs = store.jobs(&ids).await?;
    Ok(jobs
        .into_iter()
        .map(|stored| (stored.job.id.clone(), stored))
        .collect())
}
