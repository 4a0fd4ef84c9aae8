//! Jobs, as a program looks at them and changes them.

use jiff::Timestamp;

use crate::{
    config::JobDraft,
    ids::{JobId, RunId},
    job::Job,
    schedule::Planner,
    store::{JobSource, StoredJob},
    worker::{JobChange, JobError, PastSlot, Stretch},
};

use super::Chatcron;

/// The jobs of a [`Chatcron`].
#[derive(Clone, Copy)]
pub struct Jobs<'a> {
    pub(super) chatcron: &'a Chatcron,
}

/// A job that is to be created, or its new definition.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum NewJob {
    /// As data.
    Job(Box<Job>),
    /// By the keys of its table in a jobs file.
    Draft(JobDraft),
}

impl From<Job> for NewJob {
    fn from(job: Job) -> Self {
        Self::Job(Box::new(job))
    }
}

impl From<JobDraft> for NewJob {
    fn from(draft: JobDraft) -> Self {
        Self::Draft(draft)
    }
}

/// A job as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct JobView {
    stored: StoredJob,
    next_at: Option<Timestamp>,
}

impl JobView {
    fn new(stored: StoredJob, now: Timestamp) -> Self {
        let planner = Planner::new(&stored.job.schedule, stored.first_seen_at);
        let runs = stored.job.enabled && stored.state.pause.is_none();
        let next_at = planner.ok().filter(|_| runs);
        let next_at = next_at.and_then(|planner| Some(planner.next(now)?.nominal));
        Self { stored, next_at }
    }

    /// Its id.
    pub fn id(&self) -> &JobId {
        &self.stored.job.id
    }

    /// Its definition.
    pub fn job(&self) -> &Job {
        &self.stored.job
    }

    /// Raised by every change of the definition.
    pub fn revision(&self) -> i64 {
        self.stored.revision
    }

    /// Who has created it at run time; `None` where a file defines it.
    pub fn creator(&self) -> Option<&str> {
        match &self.stored.source {
            JobSource::Runtime(creator) => Some(creator),
            JobSource::File(_) => None,
        }
    }

    /// The file that defines it; `None` where it was created at run time.
    pub fn file(&self) -> Option<&str> {
        match &self.stored.source {
            JobSource::File(file) => Some(file),
            JobSource::Runtime(_) => None,
        }
    }

    /// Why it is paused, if it is.
    pub fn paused(&self) -> Option<&str> {
        let pause = self.stored.state.pause.as_ref();
        pause.map(|pause| pause.reason.as_str())
    }

    /// Its next slot; `None` where it has none, is off or is paused.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.next_at
    }
}

impl Jobs<'_> {
    fn view(&self, stored: StoredJob) -> JobView {
        JobView::new(stored, self.chatcron.now())
    }

    /// Tells a change that is committed, and has the worker look at it.
    fn tell(&self, job_id: &JobId, change: JobChange) {
        let events = &self.chatcron.inner.events;
        events.job(self.chatcron.now(), job_id, change);
        self.chatcron.look();
    }

    /// All jobs, by id.
    ///
    /// # Errors
    /// [`JobError::Store`] where the store cannot be read.
    pub async fn list(self) -> Result<Vec<JobView>, JobError> {
        let jobs = self.chatcron.store().all_jobs().await?;
        Ok(jobs.into_iter().map(|stored| self.view(stored)).collect())
    }

    /// One job.
    ///
    /// # Errors
    /// [`JobError::UnknownJob`], with the id that is most like the one that was given.
    pub async fn get(self, id: &str) -> Result<JobView, JobError> {
        let setup = self.chatcron.setup().await;
        let control = self.chatcron.control(&setup.directory);
        Ok(self.view(control.job(id).await?))
    }

    /// Creates a job, and says who did; a worker runs it, and no jobs file changes it.
    ///
    /// # Errors
    /// [`JobError::Exists`] where the id is taken, [`JobError::Invalid`] and its like for what is
    /// wrong with the job.
    pub async fn create(self, job: impl Into<NewJob>, creator: &str) -> Result<JobView, JobError> {
        let setup = self.chatcron.setup().await;
        let now = self.chatcron.now();
        let job = job.into().read(&setup.directory, now)?;
        let control = self.chatcron.control(&setup.directory);
        let created = control.create(job, creator, now).await?;
        self.tell(&created.job.id, JobChange::Defined);
        Ok(self.view(created))
    }

    /// Puts another definition in the place of the one of a job that was created at run time. With
    /// a `revision`, only if the job still has it.
    ///
    /// # Errors
    /// [`JobError::StaleRevision`] where it has another one, [`JobError::DefinedInFile`], and
    /// whatever is wrong with the job.
    pub async fn update(
        self,
        job: impl Into<NewJob>,
        revision: Option<i64>,
    ) -> Result<JobView, JobError> {
        let setup = self.chatcron.setup().await;
        let now = self.chatcron.now();
        let job = job.into().read(&setup.directory, now)?;
        let control = self.chatcron.control(&setup.directory);
        let updated = control.update(job, revision, now).await?;
        self.tell(&updated.job.id, JobChange::Defined);
        Ok(self.view(updated))
    }

    /// Deletes a job that was created at run time; its history is kept.
    ///
    /// # Errors
    /// As [`Jobs::update`].
    pub async fn delete(self, id: &str, revision: Option<i64>) -> Result<(), JobError> {
        let setup = self.chatcron.setup().await;
        let control = self.chatcron.control(&setup.directory);
        let job_id = control.delete(id, revision, self.chatcron.now()).await?;
        self.tell(&job_id, JobChange::Removed);
        Ok(())
    }

    /// Lets nothing of a job start until it is resumed.
    ///
    /// # Errors
    /// [`JobError::UnknownJob`], and whatever keeps it from being done.
    pub async fn pause(self, id: &str, reason: &str) -> Result<JobView, JobError> {
        let setup = self.chatcron.setup().await;
        let control = self.chatcron.control(&setup.directory);
        control.pause(id, reason, self.chatcron.now()).await?;
        let paused = self.get(id).await?;
        self.tell(paused.id(), JobChange::Paused);
        Ok(paused)
    }

    /// Lets a paused job run again, from its next slot on.
    ///
    /// # Errors
    /// As [`Jobs::pause`].
    pub async fn resume(self, id: &str) -> Result<JobView, JobError> {
        let setup = self.chatcron.setup().await;
        let control = self.chatcron.control(&setup.directory);
        control.resume(id, self.chatcron.now()).await?;
        let resumed = self.get(id).await?;
        self.tell(resumed.id(), JobChange::Resumed);
        Ok(resumed)
    }

    /// Has a job run now, besides its schedule; [`super::Runs::get`] follows the run.
    ///
    /// # Errors
    /// [`JobError::Refused`] while a run of it is active, or where it is off.
    pub async fn trigger(self, id: &str) -> Result<RunId, JobError> {
        let setup = self.chatcron.setup().await;
        let control = self.chatcron.control(&setup.directory);
        let run_id = control.trigger(id, self.chatcron.now()).await?;
        self.chatcron.look();
        Ok(run_id)
    }

    /// Runs slots of the past again that were skipped, and if asked for those that failed. Asking
    /// twice does nothing twice.
    ///
    /// # Errors
    /// [`JobError::Backfill`] where the stretch is empty or too long.
    pub async fn backfill(self, id: &str, stretch: Stretch) -> Result<Vec<PastSlot>, JobError> {
        let setup = self.chatcron.setup().await;
        let control = self.chatcron.control(&setup.directory);
        let slots = control.backfill(id, stretch, self.chatcron.now()).await?;
        self.chatcron.look();
        Ok(slots)
    }

    /// What [`Jobs::backfill`] would do.
    ///
    /// # Errors
    /// As there.
    pub async fn preview_backfill(
        self,
        id: &str,
        stretch: Stretch,
    ) -> Result<Vec<PastSlot>, JobError> {
        let setup = self.chatcron.setup().await;
        let control = self.chatcron.control(&setup.directory);
        control.preview_backfill(id, stretch).await
    }
}

impl NewJob {
    fn read(
        self,
        directory: &crate::directory::Directory,
        now: Timestamp,
    ) -> Result<Job, JobError> {
        match self {
            Self::Job(job) => Ok(*job),
            Self::Draft(draft) => Ok(draft.read(directory, now)?),
        }
    }
}
