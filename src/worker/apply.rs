//! A jobs file, applied: what was added, changed and removed.

use std::collections::{HashMap, HashSet};

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::{
    directory::Chat,
    ids::{JobId, RunId},
    job::Job,
    policy::OwnedEvent,
    store::{Accepts, FileToApply, FileVersion, JobDigest, JobSource, Stamped, Store, StoreError},
};

use super::{Change, ChangeError, Decider, JobChange, Worker};

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
    /// Jobs that a file without any job would have removed, and has not.
    pub kept: usize,
    /// Since when another content of the file is in force, where this one is known to be older and
    /// has changed nothing.
    pub older_since: Option<Timestamp>,
}

impl JobsChange {
    /// Whether anything is different now.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

/// What a worker has of a jobs file.
#[derive(Debug, Clone, Copy)]
pub struct JobsCopy<'a> {
    /// The file's name.
    pub file: &'a str,
    /// Its good jobs.
    pub jobs: &'a [Job],
    /// Ids of its wrong ones.
    pub bad: &'a [JobId],
    /// Whether an older content may be applied.
    pub accepts: Accepts,
    /// What becomes of jobs of other files.
    pub others: OtherFiles,
}

/// What becomes of the jobs of other files when one is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherFiles {
    /// They are removed: a database follows one file, which may have been renamed.
    AreGone,
    /// They stay: another worker may follow them.
    Stay,
}

impl Worker {
    /// Makes the store's jobs of this file what the file says; see [`apply_copy`]. Where workers share
    /// the database, a content that was applied before and replaced since changes nothing, unless the
    /// file was edited after that (`edited_at`, as far as it is known).
    ///
    /// # Errors
    /// [`StoreError`] where the store cannot be read or written.
    pub async fn apply_jobs_edited_at(
        &self,
        file: &str,
        jobs: &[Job],
        bad: &[JobId],
        edited_at: Option<Timestamp>,
    ) -> Result<JobsChange, StoreError> {
        let copy = JobsCopy {
            file,
            jobs,
            bad,
            accepts: if self.lease.is_shared() {
                Accepts::NotOlder(edited_at)
            } else {
                Accepts::Any
            },
            others: self.other_files(),
        };
        let decider = self.decider(&self.services.directory.chats);
        let now = self.clock.now();
        let change = apply_copy(decider, copy, now).await?;
        self.tell_change(&change, now);
        Ok(change)
    }

    /// The same, of a file of which nobody knows when it was edited.
    ///
    /// # Errors
    /// [`StoreError`] where the store cannot be read or written.
    #[cfg(feature = "testing")]
    pub async fn apply_jobs(
        &self,
        file: &str,
        jobs: &[Job],
        bad: &[JobId],
    ) -> Result<JobsChange, StoreError> {
        self.apply_jobs_edited_at(file, jobs, bad, None).await
    }

    pub(super) fn tell_change(&self, change: &JobsChange, now: Timestamp) {
        for (job_id, _) in change.added.iter().chain(&change.changed) {
            self.events.job(now, job_id, JobChange::Defined);
        }
        for job_id in &change.removed {
            self.events.job(now, job_id, JobChange::Removed);
        }
    }

    pub(super) fn other_files(&self) -> OtherFiles {
        if self.lease.has_company() {
            OtherFiles::Stay
        } else {
            OtherFiles::AreGone
        }
    }
}

/// Makes the store's jobs of this file what the file says, as somebody wants it who has just edited
/// it; see [`apply_copy`].
///
/// # Errors
/// [`StoreError`] where the store cannot be read or written.
#[cfg(feature = "testing")]
pub async fn apply_jobs(
    decider: Decider<'_>,
    file: &str,
    jobs: &[Job],
    bad: &[JobId],
    now: Timestamp,
) -> Result<JobsChange, StoreError> {
    let copy = JobsCopy {
        file,
        jobs,
        bad,
        accepts: Accepts::Any,
        others: OtherFiles::AreGone,
    };
    apply_copy(decider, copy, now).await
}

/// Makes the store's jobs of this file what the file says. Jobs that the file has but that are
/// wrong (`bad`) keep their last good definition, and are never taken for removed. A database follows
/// one file at a time: jobs of another file that this one has are its own from now on, so that a
/// file can be renamed, and those it does not have are removed. Jobs that were created at run time
/// are untouched, and an id that one of them has is refused. A file without any job removes none: it
/// is half saved, or the wrong one, more often than it is meant.
///
/// The content is put in force first, with the decider's chats, which are the file's; what it changes
/// is committed only while it is. So of two workers with different copies the one that came last is
/// followed as a whole.
///
/// # Errors
/// [`StoreError`] where the store cannot be read or written.
pub async fn apply_copy(
    decider: Decider<'_>,
    copy: JobsCopy<'_>,
    now: Timestamp,
) -> Result<JobsChange, StoreError> {
    let chats: Vec<Chat> = decider.chats.values().cloned().collect();
    let new = FileToApply {
        file: copy.file.to_owned(),
        digest: digest(&copy, &chats)?,
        chats,
        accepts: copy.accepts,
    };
    match decider.store.stamp_file(new, now).await? {
        Stamped::Newest(version) => apply_version(decider, copy, &version, now).await,
        Stamped::Older { replaced_at } => Ok(JobsChange {
            unchanged: copy.jobs.len(),
            older_since: Some(replaced_at),
            ..JobsChange::default()
        }),
    }
}

/// A digest of everything that is applied.
fn digest(copy: &JobsCopy<'_>, chats: &[Chat]) -> Result<String, StoreError> {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(
        copy.jobs
            .iter()
            .map(|job| format!("job {} {}", job.id, job.digest())),
    );
    lines.extend(copy.bad.iter().map(|id| format!("bad {id}")));
    for chat in chats {
        let chat = serde_json::to_string(chat).map_err(|error| StoreError::Corrupt {
            what: format!("a chat cannot be written as JSON: {error}"),
        })?;
        lines.push(format!("chat {chat}"));
    }
    lines.sort();
    let hash = Sha256::digest(lines.join("\n"));
    Ok(HEXLOWER.encode(&hash[..16]))
}

async fn apply_version(
    decider: Decider<'_>,
    copy: JobsCopy<'_>,
    version: &FileVersion,
    now: Timestamp,
) -> Result<JobsChange, StoreError> {
    let store = decider.store;
    let source = JobSource::File(copy.file.to_owned());
    let stored = store.job_digests().await?;
    let stored: HashMap<_, _> = stored.iter().map(|known| (&known.job_id, known)).collect();
    let mut result = JobsChange::default();
    let mut changes = Vec::new();
    let mut differ = Vec::new();
    for job in copy.jobs {
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
    let gone = gone(&copy, &source, stored.values().copied());
    if copy.jobs.is_empty() && copy.bad.is_empty() {
        result.kept = gone.len();
    } else {
        let gone = gone.into_iter();
        changes.extend(gone.map(|job_id| Change::new(job_id, OwnedEvent::Removed)));
    }
    let answers = decider.apply_of_file(version, &changes, now).await?;
    for (change, answer) in changes.into_iter().zip(answers) {
        let known = stored.contains_key(&change.job_id);
        if let Ok(applied) = &answer {
            result.ended.extend(&applied.written.ended);
        }
        match (answer, change.event) {
            (Ok(applied), _) if applied.is_as_before => result.unchanged += 1,
            (Ok(_), OwnedEvent::Removed) => result.removed.push(change.job_id),
            // Another worker that applies the same file was faster.
            (Err(ChangeError::NoSuchJob { .. }), OwnedEvent::Removed) => {}
            (Ok(applied), _) if known => result.changed.push((change.job_id, applied.wake_at)),
            (Ok(applied), _) => result.added.push((change.job_id, applied.wake_at)),
            (Err(ChangeError::Superseded), _) => result.older_since = Some(now),
            (Err(error), _) => result.refused.push((change.job_id, error.to_string())),
        }
    }
    Ok(result)
}

/// Jobs of files that this copy does not have, by id.
fn gone<'s>(
    copy: &JobsCopy<'_>,
    source: &JobSource,
    stored: impl Iterator<Item = &'s JobDigest>,
) -> Vec<JobId> {
    let kept: HashSet<&JobId> = copy
        .jobs
        .iter()
        .map(|job| &job.id)
        .chain(copy.bad)
        .collect();
    let of_a_file = stored.filter(|known| match (&known.source, copy.others) {
        (JobSource::File(_), OtherFiles::AreGone) => true,
        (JobSource::File(_), OtherFiles::Stay) => known.source == *source,
        (JobSource::Runtime(_), _) => false,
    });
    let gone = of_a_file.filter(|known| !kept.contains(&known.job_id));
    let mut gone: Vec<_> = gone.map(|known| known.job_id.clone()).collect();
    gone.sort();
    gone
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
