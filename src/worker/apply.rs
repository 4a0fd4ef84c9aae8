//! A jobs file, applied: what was added, changed and removed.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use crate::{
    ids::{JobId, RunId},
    job::Job,
    policy::OwnedEvent,
    store::{JobDigest, JobSource, Store, StoreError},
};

use super::{Change, Decider, Worker};

/// What applying a jobs file has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobsChange {
    /// New jobs, with when each next needs a decision.
    pub added: Vec<(JobId, Option<Timestamp>)>,
    /// Changed jobs, likewise.
    pub changed: Vec<(JobId, Option<Timestamp>)>,
    /// Jobs that the file no longer has.
    pub removed: Vec<JobId>,
    /// Jobs that stay as they are.
    pub unchanged: usize,
    /// Jobs that could not be applied, and why.
    pub refused: Vec<(JobId, String)>,
    /// Runs that were called off by it.
    pub ended: Vec<RunId>,
}

impl JobsChange {
    /// Whether anything is different now.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

impl Worker {
    /// Makes the store's jobs of this file what the file says; see [`apply_jobs`].
    ///
    /// # Errors
    /// [`StoreError`] where the store cannot be read or written.
    pub async fn apply_jobs(
        &self,
        file: &str,
        jobs: &[Job],
        bad: &[JobId],
    ) -> Result<JobsChange, StoreError> {
        let decider = self.decider(&self.services.directory.chats);
        apply_jobs(decider, file, jobs, bad, self.clock.now()).await
    }
}

/// Makes the store's jobs of this file what the file says. Jobs that the file has but that are
/// wrong (`bad`) keep their last good definition, and are never taken for removed. A database follows
/// one file at a time: jobs of another file that this one has are its own from now on, so that a
/// file can be renamed, and those it does not have are removed. Jobs that were created at run time
/// are untouched, and an id that one of them has is refused.
/// The decider's chats are the file's.
///
/// # Errors
/// [`StoreError`] where the store cannot be read or written.
pub async fn apply_jobs(
    decider: Decider<'_>,
    file: &str,
    jobs: &[Job],
    bad: &[JobId],
    now: Timestamp,
) -> Result<JobsChange, StoreError> {
    let store = decider.store;
    let chats = decider.chats.values().cloned().collect();
    store.set_chats(chats, now).await?;
    let source = JobSource::File(file.to_owned());
    let stored = store.job_digests().await?;
    let stored: HashMap<_, _> = stored.iter().map(|known| (&known.job_id, known)).collect();
    let mut result = JobsChange::default();
    let mut changes = Vec::new();
    let mut differ = Vec::new();
    for job in jobs {
        match stored.get(&job.id) {
            Some(JobDigest {
                source: JobSource::Runtime(creator),
                ..
            }) => {
                let why = format!("the id is taken by a job that {creator} created at run time");
                result.refused.push((job.id.clone(), why));
            }
            Some(known) if known.source == source && known.digest == job.digest() => {
                result.unchanged += 1;
            }
            Some(known) if known.source == source => differ.push(job),
            Some(_) | None => changes.push(Change::define(job.clone(), source.clone())),
        }
    }
    let differ = changed_jobs(store, differ).await?;
    result.unchanged += differ.unchanged;
    let defined = differ.changed.into_iter();
    changes.extend(defined.map(|job| Change::define(job.clone(), source.clone())));
    let kept: HashSet<&JobId> = jobs.iter().map(|job| &job.id).chain(bad).collect();
    let of_a_file = |known: &&JobDigest| matches!(known.source, JobSource::File(_));
    let mut gone: Vec<_> = stored.values().copied().filter(of_a_file).collect();
    gone.retain(|known| !kept.contains(&known.job_id));
    gone.sort_by_key(|known| &known.job_id);
    let gone = gone.into_iter();
    changes.extend(gone.map(|known| Change::new(known.job_id.clone(), OwnedEvent::Removed)));
    let answers = decider.apply(&changes, now).await?;
    for (change, answer) in changes.into_iter().zip(answers) {
        let known = stored.contains_key(&change.job_id);
        if let Ok(applied) = &answer {
            result.ended.extend(&applied.written.ended);
        }
        match (answer, change.event) {
            (Ok(_), OwnedEvent::Removed) => result.removed.push(change.job_id),
            (Ok(applied), _) if known => result.changed.push((change.job_id, applied.wake_at)),
            (Ok(applied), _) => result.added.push((change.job_id, applied.wake_at)),
            (Err(error), _) => result.refused.push((change.job_id, error.to_string())),
        }
    }
    Ok(result)
}

struct Differing<'a> {
    changed: Vec<&'a Job>,
    unchanged: usize,
}

/// Which of these jobs are defined otherwise. Another version may have stored the same definition in
/// other words, under another digest.
async fn changed_jobs<'a>(
    store: &dyn Store,
    jobs: Vec<&'a Job>,
) -> Result<Differing<'a>, StoreError> {
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id.clone()).collect();
    let stored = store.jobs(&ids).await?;
    let stored: HashMap<_, _> = stored.iter().map(|known| (&known.job.id, known)).collect();
    let (same, changed): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| {
        let known = stored.get(&job.id);
        known.is_some_and(|known| known.job == **job)
    });
    Ok(Differing {
        changed,
        unchanged: same.len(),
    })
}
