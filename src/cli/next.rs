//! `chatcron next`: when jobs run next, and what a clock change does to that.

use std::{collections::BTreeMap, path::PathBuf};

use jiff::{Timestamp, civil};

use crate::{
    cli::{
        Exit, database, failure::Failure, jobs_file, moment, names, print, reading, report,
        runtime, table::Screen, words,
    },
    clock::{Clock, SystemClock},
    config::{JobsFile, Loaded},
    ids::JobId,
    job::{Job, ScheduleSpec},
    schedule::{Planner, ScheduleError},
    store::StoredJob,
    view,
};

pub(in crate::cli) mod ad_hoc;
pub(in crate::cli) mod change;
mod json;
pub(in crate::cli) mod preview;
mod text;

#[cfg(test)]
mod tests;

use preview::{History, Preview};

/// Show when jobs run next.
///
/// For the jobs of a file, or for one schedule given by --cron, --daily, --at or --every. Where a
/// database is beside the file, what it knows of a job counts: when the job was first seen, and
/// whether it is paused. Nothing is written.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The jobs file.
    #[arg(default_value = "jobs.toml", conflicts_with = "schedule")]
    file: PathBuf,
    /// This job only.
    #[arg(long, value_name = "ID", conflicts_with = "schedule")]
    job: Option<String>,
    #[command(flatten)]
    schedule: ad_hoc::Options,
    /// How many times of each job.
    #[arg(short = 'n', long = "count", value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    /// Only times after this one: RFC 3339, or wall time in the job's zone [default: now].
    #[arg(long, value_name = "T", value_parser = After::parse)]
    after: Option<After>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: database::Arguments,
}

/// After what time is asked.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) enum After {
    Instant(Timestamp),
    Wall(civil::DateTime),
}

impl After {
    pub(in crate::cli) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(instant) = text.parse() {
            return Ok(Self::Instant(instant));
        }
        let has_offset = text.ends_with(['Z', 'z', ']']) || text.matches(['+', '-']).count() > 2;
        match text.parse() {
            Ok(wall) if !has_offset => Ok(Self::Wall(wall)),
            Ok(_) | Err(_) => Err(String::from(
                "accepted: an instant such as `2026-12-01T08:00:00+01:00` or \
                 `2026-12-01T07:00:00Z`, or wall time in the job's zone such as \
                 `2026-12-01T08:00` or `2026-12-01`",
            )),
        }
    }

    pub(in crate::cli) fn in_zone(self, zone: &str) -> Result<Timestamp, Failure> {
        match self {
            Self::Instant(instant) => Ok(instant),
            Self::Wall(wall) => words::zone(zone)
                .to_timestamp(wall)
                .map_err(|_| moment::outside(&format!("--after {wall}"))),
        }
    }
}

/// What is asked of every schedule.
#[derive(Debug, Clone, Copy)]
struct Question {
    now: Timestamp,
    after: Option<After>,
    count: usize,
}

impl Question {
    fn after(&self, zone: &str) -> Result<Timestamp, Failure> {
        self.after.map_or(Ok(self.now), |after| after.in_zone(zone))
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let question = Question {
        now: SystemClock.now(),
        after: arguments.after,
        count: usize::try_from(arguments.count).unwrap_or(usize::MAX),
    };
    match arguments.schedule.given() {
        Some(given) => one_schedule(&given, arguments, &question),
        None => jobs_of_file(arguments, &question),
    }
}

fn one_schedule(
    given: &ad_hoc::Given<'_>,
    arguments: &Arguments,
    question: &Question,
) -> Result<Exit, Failure> {
    let spec = given.read(question.now)?;
    let preview = Preview::of_schedule(&spec, question)?;
    print(&if arguments.json {
        json::ad_hoc(&preview)
    } else {
        text::render(&[preview], question, Screen::of_stdout())
    })?;
    Ok(Exit::Fine)
}

fn jobs_of_file(arguments: &Arguments, question: &Question) -> Result<Exit, Failure> {
    let loaded = jobs_file::load(&arguments.file, question.now)?;
    let Some(file) = &loaded.file else {
        let path = arguments.file.display().to_string();
        eprint!(
            "{}",
            report::text(&path, &loaded, crate::cli::Colour::Plain)
        );
        return Ok(Exit::DoesNotHold);
    };
    let jobs = chosen(arguments, file)?;
    let stored = stored(arguments, &jobs)?;
    let chat_of = |name: &_| file.directory.chats.get(name);
    let previews = jobs
        .iter()
        .map(|job| {
            let history = stored.get(&job.id).map(History::from);
            Preview::of_job(job, words::route(&job.mode, chat_of), history, question)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let left_out: &[_] = if arguments.job.is_some() {
        &[]
    } else {
        &file.bad_jobs
    };
    print(&if arguments.json {
        json::of_file(&previews, left_out)
    } else {
        text::render(&previews, question, Screen::of_stdout())
    })?;
    if arguments.job.is_some() || !loaded.has_errors() {
        return Ok(Exit::Fine);
    }
    eprintln!("{}", left_out_note(&arguments.file, file, &loaded));
    Ok(Exit::DoesNotHold)
}

/// The jobs that are asked for, in the order of the file.
fn chosen<'a>(arguments: &Arguments, file: &'a JobsFile) -> Result<Vec<&'a Job>, Failure> {
    let Some(wanted) = &arguments.job else {
        return Ok(file.jobs.iter().collect());
    };
    if let Some(job) = file.jobs.iter().find(|job| job.id.as_str() == wanted) {
        return Ok(vec![job]);
    }
    let path = arguments.file.display();
    if file.bad_jobs.iter().any(|job| job.name == *wanted) {
        let message = format!("job `{wanted}` of {path} is left out, because something is wrong");
        return Err(Failure::new(Exit::DoesNotHold, message)
            .help(format!("`chatcron check {path}` says what and where")));
    }
    let known = file.jobs.iter().map(|job| job.id.as_str());
    Err(names::unknown("job", wanted, known, &path.to_string()))
}

/// What the database knows of the jobs, where there is one.
fn stored(arguments: &Arguments, jobs: &[&Job]) -> Result<BTreeMap<JobId, StoredJob>, Failure> {
    let database = arguments.database.database(&arguments.file)?;
    if database.is_missing() {
        return Ok(BTreeMap::new());
    }
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id.clone()).collect();
    let rows = runtime::block_on(async {
        let store = reading::open(&database).await?;
        let rows = store.jobs(&ids).await;
        rows.map_err(|error| database::failure(&error))
    })?;
    let present = rows.into_iter().filter(|row| row.removed_at.is_none());
    Ok(present.map(|row| (row.job.id.clone(), row)).collect())
}

/// What a person is told of a schedule that has no plan.
pub(in crate::cli) fn unplannable(error: ScheduleError) -> Failure {
    Failure::new(Exit::DoesNotHold, format!("cannot be planned: {error}"))
        .help("docs/jobs.md has the schedules that are accepted")
}

/// The starts of a schedule that belongs to no job of a database.
pub(in crate::cli) fn starts_of(
    spec: &ScheduleSpec,
    job: Option<&JobId>,
    after: Timestamp,
    count: usize,
) -> Result<Vec<view::Start>, Failure> {
    let planner = Planner::new(spec, after).map_err(unplannable)?;
    let begin = view::begin(spec, None, after);
    Ok(view::starts(&planner, job, &[], (begin, after), count))
}

pub(in crate::cli) fn left_out_note(
    path: &std::path::Path,
    file: &JobsFile,
    loaded: &Loaded,
) -> String {
    let names: Vec<String> = file
        .bad_jobs
        .iter()
        .map(|job| format!("`{}`", crate::cli::plain::line(&job.name)))
        .collect();
    let errors = words::counted(
        u64::try_from(loaded.count(crate::config::Level::Error)).unwrap_or(u64::MAX),
        "error",
    );
    let left_out = match &names[..] {
        [] => String::new(),
        [one] => format!("; job {one} is left out"),
        more => format!("; jobs {} are left out", more.join(", ")),
    };
    let path = path.display();
    format!(
        "error: {path} has {errors}{left_out}\nhelp: `chatcron check {path}` says what is wrong and where"
    )
}
