//! A schedule that is given on the command line.
//!
//! It is read as the jobs file would read it, by the same code: what is accepted here is accepted
//! there, and means the same.

use jiff::Timestamp;

use crate::{
    cli::{Exit, failure::Failure, plain},
    config::{self, Code, Level, Problem},
    job::ScheduleSpec,
};

/// The options that make a schedule.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Options {
    /// A cron expression, such as "0 8 * * mon-fri".
    #[arg(
        long,
        value_name = "EXPR",
        group = "schedule",
        help_heading = "A schedule instead of a file"
    )]
    cron: Option<String>,
    /// Times of day, such as 08:00 or 08:00,17:30.
    #[arg(
        long,
        value_name = "TIMES",
        group = "schedule",
        help_heading = "A schedule instead of a file"
    )]
    daily: Option<String>,
    /// With --daily: days of the week, such as mon-fri or sat,sun.
    #[arg(
        long,
        value_name = "DAYS",
        requires = "daily",
        help_heading = "A schedule instead of a file"
    )]
    days: Option<String>,
    /// Once, at this wall time, such as 2026-12-24T18:00.
    #[arg(
        long,
        value_name = "T",
        group = "schedule",
        help_heading = "A schedule instead of a file"
    )]
    at: Option<String>,
    /// A span of elapsed time, such as 2h or 1h30m.
    #[arg(
        long,
        value_name = "SPAN",
        group = "schedule",
        help_heading = "A schedule instead of a file"
    )]
    every: Option<String>,
    /// With --every: the time from which it is counted [default: --after].
    #[arg(
        long,
        value_name = "T",
        requires = "every",
        help_heading = "A schedule instead of a file"
    )]
    anchor: Option<String>,
    /// The IANA time zone of the schedule, such as Europe/Berlin; the machine's is never used.
    #[arg(
        long,
        value_name = "ZONE",
        requires = "schedule",
        help_heading = "A schedule instead of a file"
    )]
    tz: Option<String>,
}

/// A schedule that is given: the keys of a job, with the options that they came by.
#[derive(Debug)]
pub(in crate::cli) struct Given<'a> {
    keys: Vec<(&'static str, &'static str, Vec<&'a str>)>,
}

impl Options {
    /// What is given, if anything is.
    pub(super) fn given(&self) -> Option<Given<'_>> {
        let single = [
            ("--cron", "cron", &self.cron),
            ("--days", "days", &self.days),
            ("--at", "at", &self.at),
            ("--every", "every", &self.every),
            ("--anchor", "anchor", &self.anchor),
            ("--tz", "timezone", &self.tz),
        ];
        let mut keys: Vec<_> = single
            .into_iter()
            .filter_map(|(option, key, value)| Some((option, key, vec![value.as_deref()?])))
            .collect();
        if let Some(times) = &self.daily {
            keys.push((
                "--daily",
                "daily",
                times.split(',').map(str::trim).collect(),
            ));
        }
        (!keys.is_empty()).then_some(Given { keys })
    }
}

impl<'a> Given<'a> {
    /// An expression that is given by itself, with its zone by option.
    pub(in crate::cli) fn cron(expression: &'a str, zone: Option<&'a str>) -> Self {
        let mut keys = vec![("EXPR", "cron", vec![expression])];
        keys.extend(zone.map(|zone| ("--tz", "timezone", vec![zone])));
        Self { keys }
    }

    /// The schedule.
    ///
    /// # Errors
    /// What is wrong with which option.
    pub(super) fn read(&self, now: Timestamp) -> Result<ScheduleSpec, Failure> {
        self.read_with_warnings(now).map(|(spec, _)| spec)
    }

    /// The schedule, and what of it may not be meant.
    ///
    /// # Errors
    /// What is wrong with which option.
    pub(in crate::cli) fn read_with_warnings(
        &self,
        now: Timestamp,
    ) -> Result<(ScheduleSpec, Vec<Problem>), Failure> {
        let (source, starts) = self.as_jobs_file();
        let no_files = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        let loaded = config::parse(&source, &no_files, now);
        let error = loaded
            .problems
            .iter()
            .find(|problem| problem.level == Level::Error);
        if let Some(problem) = error {
            return Err(self.failure(problem, &starts));
        }
        let warnings = loaded.problems;
        let job = loaded.file.and_then(|file| file.jobs.into_iter().next());
        job.map(|job| (job.schedule, warnings))
            .ok_or_else(|| Failure::new(Exit::Usage, "the schedule cannot be read"))
    }

    /// A jobs file of one job, and where each option's key begins in it.
    fn as_jobs_file(&self) -> (String, Vec<usize>) {
        let mut source = String::from(
            "[agents.none]\nkind = \"echo\"\n\
             [jobs.schedule]\nprompt = \"none\"\ndeliver = \"history\"\nalert = false\n",
        );
        let mut starts = Vec::new();
        for (_, key, values) in &self.keys {
            starts.push(source.len());
            let texts = values.iter().map(|text| toml::Value::from(*text));
            let value = match values[..] {
                [one] => toml::Value::from(one),
                _ => toml::Value::Array(texts.collect()),
            };
            source.push_str(&format!("{key} = {value}\n"));
        }
        (source, starts)
    }

    fn failure(&self, problem: &Problem, starts: &[usize]) -> Failure {
        let usage = |message: String| Failure::new(Exit::Usage, plain::line(&message));
        if problem.code == Code::NoZone {
            return usage(String::from("the schedule is wall time: in which zone?")).help(
                "name it with --tz, such as `--tz Europe/Berlin`; the machine's zone is never used",
            );
        }
        let place = starts
            .iter()
            .rposition(|start| *start <= problem.span.start);
        let option = place.map_or("the schedule", |place| self.keys[place].0);
        if problem.code == Code::Never {
            return usage(format!("`{option}`: it never comes")).help("see `chatcron next --help`");
        }
        // Some labels say no more than the message, beside the place that they stand at.
        let label = Some(&problem.label)
            .filter(|label| !label.starts_with("not ") && !label.is_empty())
            .map(|label| format!("; {label}"));
        let message = format!(
            "`{option}`: {}{}",
            problem.message,
            label.unwrap_or_default()
        );
        let failure = usage(message);
        match &problem.help {
            Some(help) => failure.help(unquoted(help)),
            None => failure,
        }
    }
}

/// The jobs file wants texts in quotes, and a shell does not.
fn unquoted(help: &str) -> String {
    help.replace(", in quotes", "")
        .replace("`\"", "`")
        .replace("\"`", "`")
}
