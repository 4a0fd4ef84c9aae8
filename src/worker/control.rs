//! What people, agents and programs ask of jobs, wherever they ask it.

use jiff::{SignedDuration, Timestamp};

use crate::{
    config::{self, InvalidJob},
    directory::Directory,
    ids::{JobId, RunId},
    job::{Job, Mode},
    policy::{OwnedEvent, Refusal},
    schedule::{Planner, ScheduleError},
    store::{JobSource, Store, StoreError, StoredJob},
};

use super::{Applied, Change, ChangeError, Decider, Journal, clock_doubt};

mod backfill;

pub use backfill::{BackfillError, PastSlot, Stretch};

/// How often a change is made anew whose job was decided about meanwhile.
const ROUNDS: usize = 32;

/// Why what was asked of a job was not done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// No job has this id.
    #[error("there is no job `{found}`{}", near(.nearest.as_deref()))]
    UnknownJob {
        /// The id that was given.
        found: String,
        /// The id of a job that is most like it.
        nearest: Option<String>,
    },
    /// The job, or the chat or agent that it names, is not what a job can be.
    #[error(transparent)]
    Invalid(#[from] InvalidJob),
    /// Its schedule cannot be planned.
    #[error("job `{job_id}` has a schedule that cannot be planned: {source}")]
    Schedule {
        /// The job.
        job_id: JobId,
        /// What was found, and what is accepted.
        #[source]
        source: ScheduleError,
    },
    /// It names a chat that is not known.
    #[error("there is no chat `{found}`; the chats are {}", listed(.known))]
    UnknownChat {
        /// The name that was given.
        found: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// It names an agent that is not known.
    #[error("there is no agent `{found}`; the agents are {}", listed(.known))]
    UnknownAgent {
        /// The name that was given.
        found: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// It has no slot to come.
    #[error("job `{job_id}` would never run: it is {now} now")]
    NeverRuns {
        /// The job.
        job_id: JobId,
        /// The present instant.
        now: Timestamp,
    },
    /// The id is taken.
    #[error("there is a job `{job_id}` already; give the new one another id")]
    Exists {
        /// The id.
        job_id: JobId,
    },
    /// A jobs file defines it, and would define it again.
    #[error("job `{job_id}` is defined in {file}, and can be changed or deleted only there")]
    DefinedInFile {
        /// The job.
        job_id: JobId,
        /// The file's name.
        file: String,
    },
    /// Its definition is not the one that the caller has looked at.
    #[error("job `{job_id}` has revision {found}, and {given} was given")]
    StaleRevision {
        /// The job.
        job_id: JobId,
        /// The revision that was given.
        given: i64,
        /// Its present one.
        found: i64,
    },
    /// The job's policies do not allow it now.
    #[error("job `{job_id}`: {refusal}")]
    Refused {
        /// The job.
        job_id: JobId,
        /// Why.
        refusal: Refusal,
    },
    /// The slots that were asked for cannot be run again.
    #[error(transparent)]
    Backfill(#[from] BackfillError),
    /// The machine's clock cannot be believed, and what is decided now would be wrong for good.
    #[error(
        "the clock is {by:#} ahead of what the database knows: it is not believed until it is confirmed"
    )]
    ClockDoubted {
        /// By how much it is ahead.
        by: SignedDuration,
    },
    /// Others change the job too often at the moment; it can be tried again.
    #[error("job `{job_id}` is being changed too often at the moment")]
    Busy {
        /// The job.
        job_id: JobId,
    },
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn near(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

fn listed(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}

/// Whoever asks something of jobs: a command, an agent's tool, or a program.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// Where jobs are.
    pub store: &'a dyn Store,
    /// The chats and agents that jobs may name.
    pub directory: &'a Directory,
    /// Where decisions are written down with their inputs, if anywhere.
    pub journal: Option<&'a Journal>,
}

impl Control<'_> {
    /// The job of this id, which may be a text that is no id at all. A removed one is none.
    ///
    /// # Errors
    /// [`JobError::UnknownJob`], with the id that is most like it.
    pub async fn job(&self, found: &str) -> Result<StoredJob, JobError> {
        match self.find(found).await?.filter(is_there) {
            Some(stored) => Ok(stored),
            None => Err(self.unknown(found).await?),
        }
    }

    /// The job of this id, also one that was removed: its history is kept.
    ///
    /// # Errors
    /// [`JobError::UnknownJob`], with the id that is most like it.
    pub async fn job_or_removed(&self, found: &str) -> Result<StoredJob, JobError> {
        match self.find(found).await? {
            Some(stored) => Ok(stored),
            None => Err(self.unknown(found).await?),
        }
    }

    async fn find(&self, found: &str) -> Result<Option<StoredJob>, StoreError> {
        let Ok(id) = JobId::new(found) else {
            return Ok(None);
        };
        Ok(self.store.jobs(&[id]).await?.into_iter().next())
    }

    async fn unknown(&self, found: &str) -> Result<JobError, StoreError> {
        let jobs = self.store.job_digests().await?;
        let ids = jobs.iter().map(|job| job.job_id.as_str());
        Ok(JobError::UnknownJob {
            found: found.to_owned(),
            nearest: config::nearest(found, ids).map(str::to_owned),
        })
    }

    /// Creates a job at run time, and says who did.
    ///
    /// # Errors
    /// [`JobError::Exists`] where the id is taken, and whatever is wrong with the job.
    pub async fn create(
        &self,
        job: Job,
        creator: &str,
        now: Timestamp,
    ) -> Result<StoredJob, JobError> {
        self.check(&job, now)?;
        let id = job.id.clone();
        if self
            .find(id.as_str())
            .await?
            .is_some_and(|job| is_there(&job))
        {
            return Err(JobError::Exists { job_id: id });
        }
        let source = JobSource::Runtime(creator.to_owned());
        // Somebody may create it between the look and the change; then nothing is redefined.
        let change = Change::define(job, source).if_new();
        match self.change(change, now).await {
            Ok(_) => self.job(id.as_str()).await,
            Err(Unmade::Change(ChangeError::Outdated { job_id })) => {
                Err(JobError::Exists { job_id })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Puts another definition in the place of a job's that was created at run time. With a
    /// `revision`, only if the job still has it.
    ///
    /// # Errors
    /// [`JobError::StaleRevision`] where it has another one, [`JobError::DefinedInFile`], and
    /// whatever is wrong with the job.
    pub async fn update(
        &self,
        job: Job,
        revision: Option<i64>,
        now: Timestamp,
    ) -> Result<StoredJob, JobError> {
        self.check(&job, now)?;
        let id = job.id.clone();
        for _ in 0..ROUNDS {
            let stored = self.own(id.as_str(), revision).await?;
            let change = Change::define(job.clone(), stored.source);
            if self.was_changed(change.if_at(stored.version), now).await? {
                return self.job(id.as_str()).await;
            }
        }
        Err(JobError::Busy { job_id: id })
    }

    /// Deletes a job that was created at run time, and returns its id; its history is kept.
    ///
    /// # Errors
    /// As [`Control::update`].
    pub async fn delete(
        &self,
        id: &str,
        revision: Option<i64>,
        now: Timestamp,
    ) -> Result<JobId, JobError> {
        for _ in 0..ROUNDS {
            let stored = self.own(id, revision).await?;
            let job_id = stored.job.id;
            let change = Change::new(job_id.clone(), OwnedEvent::Removed);
            if self.was_changed(change.if_at(stored.version), now).await? {
                return Ok(job_id);
            }
        }
        let job_id = self.job(id).await?.job.id;
        Err(JobError::Busy { job_id })
    }

    /// A job that no file defines, at this revision.
    async fn own(&self, id: &str, revision: Option<i64>) -> Result<StoredJob, JobError> {
        let stored = self.job(id).await?;
        let job_id = stored.job.id.clone();
        if let Some(given) = revision.filter(|given| *given != stored.revision) {
            let found = stored.revision;
            return Err(JobError::StaleRevision {
                job_id,
                given,
                found,
            });
        }
        match &stored.source {
            JobSource::File(file) => Err(JobError::DefinedInFile {
                job_id,
                file: file.clone(),
            }),
            JobSource::Runtime(_) => Ok(stored),
        }
    }

    /// Whether a change was made; `false` where the job has changed since it was looked at.
    async fn was_changed(&self, change: Change, now: Timestamp) -> Result<bool, JobError> {
        match self.change(change, now).await {
            Ok(_) => Ok(true),
            Err(Unmade::Change(ChangeError::Outdated { .. } | ChangeError::Busy { .. })) => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Lets nothing of a job start until it is resumed.
    ///
    /// # Errors
    /// [`JobError::UnknownJob`], and whatever keeps it from being done.
    pub async fn pause(&self, id: &str, reason: &str, now: Timestamp) -> Result<Applied, JobError> {
        let reason = reason.to_owned();
        self.tell(id, OwnedEvent::Paused { reason }, now).await
    }

    /// Lets a paused job run again, from its next slot on. One that is not paused stays as it is.
    ///
    /// # Errors
    /// As [`Control::pause`].
    pub async fn resume(&self, id: &str, now: Timestamp) -> Result<Applied, JobError> {
        self.tell(id, OwnedEvent::Resumed, now).await
    }

    /// Has a job run now, besides its schedule.
    ///
    /// # Errors
    /// [`JobError::Refused`] while a run of it is active, or where it is off.
    pub async fn trigger(&self, id: &str, now: Timestamp) -> Result<RunId, JobError> {
        let job_id = self.job(id).await?.job.id;
        let request = self.store.new_request().await?;
        let event = OwnedEvent::ManualTrigger { request };
        let applied = self.tell(id, event, now).await?;
        let started = applied.written.started.first();
        let started = started.map(|(_, run_id)| *run_id);
        started.ok_or(JobError::Busy { job_id })
    }

    /// Tells a job that is there what happened.
    async fn tell(&self, id: &str, event: OwnedEvent, now: Timestamp) -> Result<Applied, JobError> {
        let job_id = self.job(id).await?.job.id;
        Ok(self.change(Change::new(job_id, event), now).await?)
    }

    /// Decides and commits one change, as the worker would.
    async fn change(&self, change: Change, now: Timestamp) -> Result<Applied, Unmade> {
        if let Some(by) = clock_doubt(self.store, now).await? {
            return Err(Unmade::ClockDoubted(by));
        }
        let job_id = change.job_id.clone();
        let decider = Decider::new(self.store, &self.directory.chats, self.journal);
        let answers = decider.apply(&[change], now).await?;
        match answers.into_iter().next() {
            Some(Ok(Applied {
                refusal: Some(refusal),
                ..
            })) => Err(Unmade::Refused { job_id, refusal }),
            Some(Ok(applied)) => Ok(applied),
            Some(Err(error)) => Err(Unmade::Change(error)),
            None => Err(Unmade::Change(ChangeError::Busy { job_id })),
        }
    }

    /// What is wrong with a job that a program made.
    fn check(&self, job: &Job, now: Timestamp) -> Result<(), JobError> {
        let job_id = job.id.clone();
        let planner = Planner::new(&job.schedule, now).map_err(|source| JobError::Schedule {
            job_id: job_id.clone(),
            source,
        })?;
        if planner.next(now).is_none() {
            return Err(JobError::NeverRuns { job_id, now });
        }
        let chats = &self.directory.chats;
        let context = match &job.mode {
            Mode::Background { context, .. } => context.as_ref().map(|context| &context.chat),
            Mode::InChat { .. } => None,
        };
        let named = job.chat().into_iter().chain(context);
        if let Some(unknown) = named.into_iter().find(|chat| !chats.contains_key(*chat)) {
            return Err(JobError::UnknownChat {
                found: unknown.to_string(),
                known: chats.keys().map(ToString::to_string).collect(),
            });
        }
        let agent = match &job.mode {
            Mode::InChat { agent, .. } => agent.as_ref(),
            Mode::Background { agent, .. } => Some(agent),
        };
        let agents = &self.directory.agents;
        match agent.filter(|agent| !agents.contains_key(*agent)) {
            Some(unknown) => Err(JobError::UnknownAgent {
                found: unknown.to_string(),
                known: agents.keys().map(ToString::to_string).collect(),
            }),
            None => Ok(()),
        }
    }
}

fn is_there(stored: &StoredJob) -> bool {
    stored.removed_at.is_none()
}

/// Why a change was not made.
enum Unmade {
    ClockDoubted(SignedDuration),
    Refused { job_id: JobId, refusal: Refusal },
    Change(ChangeError),
    Store(StoreError),
}

impl From<StoreError> for Unmade {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Unmade> for JobError {
    fn from(unmade: Unmade) -> Self {
        match unmade {
            Unmade::ClockDoubted(by) => Self::ClockDoubted { by },
            Unmade::Refused { job_id, refusal } => Self::Refused { job_id, refusal },
            Unmade::Store(error) => Self::Store(error),
            Unmade::Change(ChangeError::NoSuchJob { job_id }) => Self::UnknownJob {
                found: job_id.to_string(),
                nearest: None,
            },
            Unmade::Change(ChangeError::Unplannable { job_id, source }) => {
                Self::Schedule { job_id, source }
            }
            Unmade::Change(ChangeError::Outdated { job_id } | ChangeError::Busy { job_id }) => {
                Self::Busy { job_id }
            }
            // Only the end of an attempt has a lease, and only a jobs file a version.
            Unmade::Change(ChangeError::LeaseLost | ChangeError::Superseded) => {
                Self::Store(StoreError::Corrupt {
                    what: "a change without an attempt was fenced by one".to_owned(),
                })
            }
        }
    }
}
