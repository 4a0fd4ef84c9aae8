//! Tools that look at jobs, and let them rest or go on.

use jiff::{Timestamp, tz::TimeZone};
use serde_json::json;

use crate::{
    agent::ToolOutput,
    ids::JobId,
    policy::OwnedEvent,
    schedule::Planner,
    store::{JobSource, StoredJob},
};

use super::{
    Answered, TurnTools,
    arguments::{Arguments, brief},
    list, unavailable,
};

/// How many jobs a model is told of.
const LISTED_MAX: usize = 100;
/// How much of a job's prompt it is told.
const PROMPT_MAX: usize = 300;

impl TurnTools {
    pub(super) async fn list_jobs(&self) -> Answered {
        let now = self.clock.now();
        let jobs = self.jobs_in_reach().await?;
        if jobs.is_empty() {
            return Ok(ToolOutput::done("no job can be reached from here"));
        }
        let mut lines: Vec<String> = jobs
            .iter()
            .take(LISTED_MAX)
            .map(|stored| line(stored, now))
            .collect();
        if jobs.len() > LISTED_MAX {
            lines.push(format!("and {} more", jobs.len() - LISTED_MAX));
        }
        Ok(ToolOutput::done(lines.join("\n")))
    }

    pub(super) async fn pause_job(&self, arguments: &Arguments<'_>) -> Answered {
        let stored = self.job(arguments.text("job")?).await?;
        let id = &stored.job.id;
        if let Some(pause) = &stored.state.pause {
            let words = format!("job `{id}` is paused already: {}", pause.reason);
            return Ok(ToolOutput::done(words));
        }
        let agent = &self.place.agent;
        let reason = match arguments.get("reason") {
            Some(reason) => format!("paused by agent {agent}: {}", brief(reason)),
            None => format!("paused by agent {agent}"),
        };
        self.tell(id, OwnedEvent::Paused { reason }).await?;
        Ok(ToolOutput::done(format!(
            "job `{id}` is paused; nothing of it starts until it is resumed"
        )))
    }

    pub(super) async fn resume_job(&self, arguments: &Arguments<'_>) -> Answered {
        let stored = self.job(arguments.text("job")?).await?;
        let id = &stored.job.id;
        if stored.state.pause.is_none() {
            return Ok(ToolOutput::done(format!("job `{id}` was not paused")));
        }
        self.tell(id, OwnedEvent::Resumed).await?;
        let next = match next(&stored, self.clock.now()) {
            Some(next) => format!("it runs next at {next}"),
            None => "it has no slot to come".to_owned(),
        };
        Ok(ToolOutput::done(format!("job `{id}` is resumed; {next}")))
    }

    pub(super) async fn delete_job(&self, arguments: &Arguments<'_>) -> Answered {
        let stored = self.job(arguments.text("job")?).await?;
        let id = &stored.job.id;
        if let JobSource::File(file) = &stored.source {
            return Err(ToolOutput::refused(format!(
                "job `{id}` is defined in {file}, and only a person can delete it there; it can be paused"
            )));
        }
        if self.place.job.as_ref().is_some_and(|own| own.id == *id) {
            // With the job would go what this run has yet to say.
            return Err(ToolOutput::refused(format!(
                "job `{id}` is the one that runs now, and cannot delete itself; it can be paused"
            )));
        }
        self.tell(id, OwnedEvent::Removed).await?;
        Ok(ToolOutput::done(format!("job `{id}` is deleted")))
    }

    /// A job that is in the turn's reach.
    async fn job(&self, id: &str) -> Result<StoredJob, ToolOutput> {
        if let Ok(id) = JobId::new(id) {
            let found = self.store.jobs(&[id]).await.map_err(unavailable)?;
            let is_there = |stored: &StoredJob| stored.removed_at.is_none();
            let mut found = found.into_iter().filter(is_there);
            if let Some(stored) = found.find(|stored| self.reaches(&stored.job)) {
                return Ok(stored);
            }
        }
        let jobs = self.jobs_in_reach().await?;
        let ids = jobs.iter().take(LISTED_MAX).map(|job| job.job.id.as_str());
        Err(ToolOutput::refused(format!(
            "no job `{}` can be reached from here; the jobs are {}",
            brief(id),
            list(ids)
        )))
    }

    async fn jobs_in_reach(&self) -> Result<Vec<StoredJob>, ToolOutput> {
        let mut jobs = self.store.all_jobs().await.map_err(unavailable)?;
        jobs.retain(|stored| self.reaches(&stored.job));
        Ok(jobs)
    }
}

/// A job as one line of JSON.
fn line(stored: &StoredJob, now: Timestamp) -> String {
    let job = &stored.job;
    let prompt: String = job.prompt.chars().take(PROMPT_MAX).collect();
    let state = match &stored.state.pause {
        _ if !job.enabled => "disabled".to_owned(),
        Some(pause) => format!("paused: {}", pause.reason),
        None => "active".to_owned(),
    };
    let next = next(stored, now).filter(|_| job.enabled && stored.state.pause.is_none());
    json!({
        "id": job.id.as_str(),
        "name": job.display_name(),
        "state": state,
        "next": next,
        "prompt": prompt,
    })
    .to_string()
}

/// When a job's next slot is, in its zone.
pub(super) fn next(stored: &StoredJob, now: Timestamp) -> Option<String> {
    let planner = Planner::new(&stored.job.schedule, stored.first_seen_at).ok()?;
    let zone = TimeZone::get(&stored.job.schedule.zone).unwrap_or(TimeZone::UTC);
    let next = planner.next(now)?.nominal.to_zoned_datetime(zone);
    Some(next.strftime("%a %Y-%m-%d %H:%M %:z").to_string())
}
