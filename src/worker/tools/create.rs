//! Tools that make jobs at run time.

use jiff::{RoundMode, SignedDuration, TimestampRound, Unit, civil, tz::TimeZone};

use crate::{
    agent::ToolOutput,
    config::{self, JobDraft},
    directory::Chat,
    ids::{JobId, NAME_MAX},
    job::{Job, ScheduleSpec, When},
    store::{JobSource, StoredJob},
    worker::{Change, JobChange},
};

use super::{
    Answered, TurnTools,
    arguments::{Arguments, brief},
    jobs, not_done, unavailable,
};

/// How many jobs may have been created at run time and be there at once.
const CREATED_MAX: usize = 100;
/// How soon, and how late, a job may ask to be looked after again.
const CHECK_MIN: SignedDuration = SignedDuration::from_mins(1);
const CHECK_MAX: SignedDuration = SignedDuration::from_hours(31 * 24);
/// What the id of a one-off check has behind the job's own.
const CHECK: &str = "-next";

/// The arguments of `create_job` that a jobs file spells the same.
const KEYS: [&str; 8] = [
    "name", "prompt", "daily", "days", "cron", "every", "at", "timezone",
];

impl TurnTools {
    pub(super) async fn create_job(&self, arguments: &Arguments<'_>) -> Answered {
        let Some(chat) = &self.place.chat else {
            return Err(ToolOutput::refused(
                "there is no chat to which it could post",
            ));
        };
        let id = arguments.text("id")?;
        let id = JobId::new(id).map_err(|error| ToolOutput::refused(error.to_string()))?;
        let now = self.clock.now();
        let job = draft(&id, arguments, chat)?.read(&self.services.directory, now);
        let job = job.map_err(|error| ToolOutput::refused(error.to_string()))?;
        let digests = self.store.job_digests().await.map_err(unavailable)?;
        let at_run_time = |source: &JobSource| matches!(source, JobSource::Runtime(_));
        let created = digests.iter().filter(|job| at_run_time(&job.source));
        if created.count() >= CREATED_MAX {
            return Err(ToolOutput::refused(format!(
                "there are {CREATED_MAX} jobs that were created like this; delete one first"
            )));
        }
        let creator = format!("agent {}", self.place.agent);
        let created = self.control().create(job, &creator, now).await;
        let created = created.map_err(not_done)?;
        self.events.job(now, &id, JobChange::Defined);
        let next = jobs::next(&created, now);
        Ok(ToolOutput::done(match next {
            Some(next) => format!("job `{id}` is created; it runs next at {next}"),
            None => format!("job `{id}` is created; it has no slot to come"),
        }))
    }

    pub(super) async fn next_check(&self, arguments: &Arguments<'_>) -> Answered {
        let Some(job) = &self.place.job else {
            return Err(ToolOutput::refused("no job runs here"));
        };
        let wait = arguments.text("in")?;
        let wait = config::duration(wait).ok();
        let wait = wait.filter(|wait| (CHECK_MIN..=CHECK_MAX).contains(wait));
        let wait = wait.ok_or_else(|| {
            ToolOutput::refused(
                "`in` is a number with `m`, `h` or `d`, such as `30m`, from `1m` to `31d`",
            )
        })?;
        let now = self.clock.now();
        let at = now.saturating_add(wait).unwrap_or(now);
        let up = TimestampRound::new()
            .smallest(Unit::Second)
            .mode(RoundMode::Ceil);
        let at = at.round(up).unwrap_or(at);
        let check = check_of(job, at)?;
        let source = JobSource::Runtime(format!("job {}", base(job)));
        if let Some(stored) = self.stored(&check.id).await?
            && stored.source != source
        {
            let id = &check.id;
            return Err(ToolOutput::refused(format!(
                "the id `{id}` is taken by another job"
            )));
        }
        let id = check.id.clone();
        self.change(Change::define(check, source), now).await?;
        let zone = TimeZone::get(&job.schedule.zone).unwrap_or(TimeZone::UTC);
        let at = at.to_zoned_datetime(zone);
        Ok(ToolOutput::done(format!(
            "it runs once more at {}, as job `{id}`",
            at.strftime("%a %Y-%m-%d %H:%M:%S %:z")
        )))
    }

    async fn stored(&self, id: &JobId) -> Result<Option<StoredJob>, ToolOutput> {
        let found = self.store.jobs(std::slice::from_ref(id)).await;
        let mut found = found.map_err(unavailable)?.into_iter();
        Ok(found.find(|stored| stored.removed_at.is_none()))
    }
}

/// The id of the job of which this is, or is a check of.
fn base(job: &Job) -> &str {
    let id = job.id.as_str();
    id.strip_suffix(CHECK).unwrap_or(id)
}

/// The job once more, at this instant; a check that asks for another one makes it of itself.
fn check_of(job: &Job, at: jiff::Timestamp) -> Result<Job, ToolOutput> {
    let mut id = base(job).to_owned();
    id.truncate(NAME_MAX - CHECK.len());
    id.push_str(CHECK);
    let id = JobId::new(id).map_err(|error| ToolOutput::refused(error.to_string()))?;
    let (zone, local) = wall_time(&job.schedule.zone, at);
    Ok(Job {
        id,
        name: Some(job.display_name().to_owned()),
        enabled: true,
        schedule: ScheduleSpec {
            when: When::At(local),
            zone,
            from: None,
            until: None,
            exclude: Vec::new(),
            jitter: SignedDuration::ZERO,
        },
        ..job.clone()
    })
}

/// The instant as wall time; in UTC where the zone's clock shows that time twice.
fn wall_time(zone: &str, at: jiff::Timestamp) -> (String, civil::DateTime) {
    let named = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    let local = named.to_datetime(at);
    if named.to_ambiguous_timestamp(local).is_ambiguous() {
        return ("UTC".to_owned(), TimeZone::UTC.to_datetime(at));
    }
    (zone.to_owned(), local)
}

/// The job as a jobs file would have it, with the chat it is about.
fn draft(id: &JobId, arguments: &Arguments<'_>, chat: &Chat) -> Result<JobDraft, ToolOutput> {
    let draft = JobDraft::new(id.as_str());
    let mut draft = match arguments.get("mode") {
        None | Some("background") => draft
            .set("deliver", chat.name.as_str())
            .set("agent", chat.agent.as_str()),
        Some("in-chat") => draft.set("chat", chat.name.as_str()),
        Some(other) => {
            return Err(ToolOutput::refused(format!(
                "`{}` is not a mode: `mode` is `background` or `in-chat`",
                brief(other)
            )));
        }
    };
    for key in KEYS {
        if let Some(text) = arguments.get(key) {
            draft = draft.set(key, text);
        }
    }
    Ok(draft)
}
