//! The options that say what the world does.

use jiff::SignedDuration;

use crate::{
    cli::{Exit, failure::Failure, plain},
    config::{self, JobsFile},
    ids::{ChatName, JobId},
    simulate::{Given, Moment, Rate, RunTime, Stretch, Written, parse},
};

/// What the world does, as options.
#[derive(Debug, clap::Args)]
pub(super) struct World {
    /// The beginning: `2026-12-01T08:00` in the file's zone, `2026-12-01`, or an instant with an
    /// offset [default: today].
    #[arg(long, value_name = "T", value_parser = parse::moment)]
    from: Option<Moment>,
    /// The end, which is not part of it.
    #[arg(long, value_name = "T", value_parser = parse::moment, conflicts_with = "length")]
    to: Option<Moment>,
    /// The length, such as 7d or 12h.
    #[arg(long = "for", id = "length", value_name = "SPAN", value_parser = length)]
    length: Option<SignedDuration>,
    /// What chance depends on [default: 0].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The process is down, such as "Tue 06:00..Tue 10:00"; repeatable.
    #[arg(long, value_name = "A..B", value_parser = parse::stretch)]
    outage: Vec<Stretch>,
    /// The machine's clock is set, such as 2026-12-01T08:00=+1h; repeatable.
    #[arg(long, value_name = "AT=±SPAN", value_parser = parse::clock_step,
          allow_hyphen_values = true)]
    clock_step: Vec<(Moment, SignedDuration)>,
    /// How long an attempt takes, such as budget=30s, or drawn from budget=10s..2m; repeatable
    /// [default: 30s].
    #[arg(long, value_name = "JOB=TIME", value_parser = run_time)]
    run_time: Vec<(JobId, RunTime)>,
    /// When attempts fail: a share, a moment or a stretch, such as budget=10%; repeatable.
    #[arg(long, value_name = "JOB=RATE|AT|A..B", value_parser = fail)]
    fail: Vec<(JobId, Given)>,
    /// Which share of the sends to a chat is refused, such as me=5%; repeatable.
    #[arg(long, value_name = "CHAT=RATE", value_parser = channel_fail)]
    channel_fail: Vec<(ChatName, Rate)>,
    /// How many runs may be in progress at once [default: the file's].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_concurrent: Option<u32>,
}

impl World {
    /// What the options say. The jobs and chats that they name are in the file.
    ///
    /// # Errors
    /// The option that names another.
    pub(super) fn written(&self, file: &JobsFile, path: &str) -> Result<Written, Failure> {
        let jobs: Vec<&str> = names(file);
        for (option, id) in self.jobs_named() {
            known(option, "job", id.as_str(), &jobs, path)?;
        }
        let chats: Vec<&str> = file.directory.chats.keys().map(ChatName::as_str).collect();
        for (chat, _) in &self.channel_fail {
            known("--channel-fail", "chat", chat.as_str(), &chats, path)?;
        }
        Ok(Written {
            from: self.from,
            to: self.to,
            length: self.length,
            seed: self.seed,
            outages: self.outage.clone(),
            clock_steps: self.clock_step.clone(),
            run_time: None,
            run_times: self.run_time.clone(),
            failures: self.fail.clone(),
            channel_failures: self.channel_fail.clone(),
            max_concurrent: self.max_concurrent,
            expects: Vec::new(),
        })
    }

    fn jobs_named(&self) -> impl Iterator<Item = (&'static str, &JobId)> {
        let times = self.run_time.iter().map(|(id, _)| ("--run-time", id));
        times.chain(self.fail.iter().map(|(id, _)| ("--fail", id)))
    }
}

/// The names of all jobs of a file; those that are left out too.
pub(super) fn names(file: &JobsFile) -> Vec<&str> {
    let good = file.jobs.iter().map(|job| job.id.as_str());
    good.chain(file.bad_jobs.iter().map(|job| &*job.name))
        .collect()
}

/// Whether there is a thing of this name; if not, which option is wrong, and what is near.
pub(super) fn known(
    option: &str,
    kind: &str,
    found: &str,
    all: &[&str],
    path: &str,
) -> Result<(), Failure> {
    if all.contains(&found) {
        return Ok(());
    }
    let found = plain::line(found);
    let message = format!("`{option}`: there is no {kind} `{found}` in {path}");
    let failure = Failure::new(Exit::Usage, message);
    Err(match config::nearest(&found, all.iter().copied()) {
        Some(near) => failure.help(format!("did you mean `{near}`?")),
        None if all.is_empty() => failure.help(format!("there is no {kind} in it at all")),
        None => {
            let names: Vec<String> = all.iter().map(|name| format!("`{name}`")).collect();
            failure.help(format!("it has {}", names.join(", ")))
        }
    })
}

fn length(text: &str) -> Result<SignedDuration, String> {
    match config::duration(text) {
        Ok(SignedDuration::ZERO) => Err(String::from("the shortest is `1s`")),
        Ok(length) => Ok(length),
        Err(why) => Err(format!("{why}; accepted: `7d`, `12h`, `90m`")),
    }
}

fn run_time(text: &str) -> Result<(JobId, RunTime), String> {
    let (job, time) = pair(text, "budget=30s` or `budget=10s..2m")?;
    Ok((id(job)?, parse::run_time(time)?))
}

fn fail(text: &str) -> Result<(JobId, Given), String> {
    let (job, given) = pair(text, "budget=10%` or `budget=2026-12-01T08:00")?;
    Ok((id(job)?, parse::given(given)?))
}

fn channel_fail(text: &str) -> Result<(ChatName, Rate), String> {
    let (chat, rate) = pair(text, "me=5%")?;
    let chat = ChatName::new(chat).map_err(|error| error.to_string())?;
    Ok((chat, parse::rate(rate)?))
}

fn pair<'t>(text: &'t str, accepted: &str) -> Result<(&'t str, &'t str), String> {
    let parts = text.split_once('=');
    parts.ok_or_else(|| format!("there is no `=` in it; accepted: `{accepted}`"))
}

fn id(text: &str) -> Result<JobId, String> {
    JobId::new(text).map_err(|error| error.to_string())
}
