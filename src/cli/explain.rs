//! `chatcron explain`: a schedule in words, what may not be meant, and its next times.

use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::json;

use crate::{
    cli::{
        Exit,
        failure::Failure,
        jobs_file, json, names,
        next::{self, ad_hoc::Given, change::next_change},
        print,
        table::{Screen, Tone},
        words,
    },
    clock::{Clock, SystemClock},
    config::Problem,
    ids::JobId,
    job::{ScheduleSpec, When},
    schedule::{ClockChangeKind, Planner, clock_changes},
    view,
};

mod sentence;

/// Explain when a job runs: in words, with what may not be meant, and with its next times.
///
/// A cron expression is explained by itself, in the zone of --tz; anything else is the id of a job
/// of the file.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A cron expression such as "0 8 * * mon-fri", or the id of a job.
    #[arg(value_name = "EXPR|JOB")]
    what: String,
    /// The jobs file.
    #[arg(default_value = "jobs.toml")]
    file: PathBuf,
    /// The IANA time zone of an expression, such as Europe/Berlin.
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// How many times are shown.
    #[arg(short = 'n', long = "count", value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    /// Only times after this one: RFC 3339, or wall time in the zone [default: now].
    #[arg(long, value_name = "T", value_parser = next::After::parse)]
    after: Option<next::After>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What is explained.
struct Explained {
    name: String,
    spec: ScheduleSpec,
    lints: Vec<Problem>,
    after: Timestamp,
    /// The job; `None` for an expression.
    job: Option<JobId>,
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let now = SystemClock.now();
    let explained =
        if arguments.what.contains(char::is_whitespace) || arguments.what.starts_with('@') {
            expression(arguments, now)?
        } else {
            job(arguments, now)?
        };
    let times = next::starts_of(
        &explained.spec,
        explained.job.as_ref(),
        explained.after,
        usize::try_from(arguments.count).unwrap_or(usize::MAX),
    )?;
    let text = if arguments.json {
        as_json(&explained, &times)?
    } else {
        as_text(&explained, &times, Screen::of_stdout())?
    };
    print(&text)?;
    Ok(Exit::Fine)
}

fn expression(arguments: &Arguments, now: Timestamp) -> Result<Explained, Failure> {
    let given = Given::cron(&arguments.what, arguments.tz.as_deref());
    let moment = match arguments.after {
        Some(after) => after.in_zone(arguments.tz.as_deref().unwrap_or("UTC"))?,
        None => now,
    };
    let (spec, problems) = given.read_with_warnings(moment)?;
    Ok(Explained {
        name: arguments.what.clone(),
        after: after(arguments, now, &spec)?,
        spec,
        lints: problems,
        job: None,
    })
}

fn job(arguments: &Arguments, now: Timestamp) -> Result<Explained, Failure> {
    if arguments.tz.is_some() {
        let message = "`--tz` is for a cron expression: a job has its own zone";
        return Err(Failure::new(Exit::Usage, message).help(
            "an expression has spaces: `chatcron explain \"0 8 * * *\" --tz Europe/Berlin`",
        ));
    }
    let loaded = jobs_file::load(&arguments.file, now)?;
    let path = arguments.file.display().to_string();
    let jobs = loaded.file.iter().flat_map(|file| &file.jobs);
    let Some(job) = jobs.clone().find(|job| job.id.as_str() == arguments.what) else {
        let bad = loaded.file.iter().flat_map(|file| &file.bad_jobs);
        let is_bad = bad.clone().any(|job| job.name == arguments.what);
        if is_bad || loaded.file.is_none() {
            let message = format!(
                "something is wrong with {path}, so `{}` cannot be explained",
                arguments.what
            );
            return Err(Failure::new(Exit::DoesNotHold, message)
                .help(format!("`chatcron check {path}` says what and where")));
        }
        let known = jobs.map(|job| job.id.as_str());
        return Err(names::unknown("job", &arguments.what, known, &path));
    };
    let spec = job.schedule.clone();
    let of_job = |problem: &&Problem| problem.job.as_deref() == Some(&*arguments.what);
    Ok(Explained {
        name: arguments.what.clone(),
        after: after(arguments, now, &spec)?,
        lints: loaded.problems.iter().filter(of_job).cloned().collect(),
        spec,
        job: Some(job.id.clone()),
    })
}

fn after(arguments: &Arguments, now: Timestamp, spec: &ScheduleSpec) -> Result<Timestamp, Failure> {
    arguments
        .after
        .map_or(Ok(now), |after| after.in_zone(&spec.zone))
}

/// `on Sun 2027-03-28 clocks go forward: unaffected`.
fn change(explained: &Explained) -> Result<Option<String>, Failure> {
    let (spec, after) = (&explained.spec, explained.after);
    let planner = Planner::new(spec, after).map_err(next::unplannable)?;
    let Some(change) = next_change(spec, &planner, after).map_err(next::unplannable)? else {
        return Ok(None);
    };
    let kind = clock_changes(&spec.zone, after, change.at)
        .map_err(next::unplannable)?
        .last()
        .map(|change| change.kind());
    let way = match kind {
        Some(ClockChangeKind::Overlap) => "back",
        Some(ClockChangeKind::Gap) | None => "forward",
    };
    let date = change.local_before.strftime("%a %Y-%m-%d");
    let effect = change.effect.unwrap_or_else(|| String::from("unaffected"));
    Ok(Some(format!("on {date} clocks go {way}: {effect}")))
}

fn as_text(
    explained: &Explained,
    times: &[view::Start],
    screen: Screen,
) -> Result<String, Failure> {
    let name = screen.toned(&crate::cli::plain::line(&explained.name), Tone::Strong);
    let mut out = format!("{name}: {}", sentence::of(&explained.spec));
    if let Some(change) = change(explained)? {
        out.push_str(&format!("; {change}"));
    }
    out.push('\n');
    if explained.job.is_some() && matches!(explained.spec.when, When::Every { anchor: None, .. }) {
        out.push_str(
            "it is counted from when chatcron first sees the job; `chatcron next` knows that, and \
             here it is from now on\n",
        );
    }
    for lint in &explained.lints {
        let word = screen.toned(lint.level.as_str(), Tone::Warn);
        out.push_str(&format!("{word}: {}", lint.message));
        if !lint.label.is_empty() {
            out.push_str(&format!("; {}", lint.label));
        }
        out.push('\n');
    }
    let zone = words::zone(&explained.spec.zone);
    for start in times {
        let local = start.at.to_zoned_datetime(zone.clone()).datetime();
        out.push_str(&format!("  {}", words::dated(local)));
        if let Some(note) = &start.note {
            out.push_str(&format!("  {}", screen.toned(note, Tone::Warn)));
        }
        out.push('\n');
    }
    if times.is_empty() {
        out.push_str("  no time comes after that\n");
    }
    Ok(out)
}

fn as_json(explained: &Explained, times: &[view::Start]) -> Result<String, Failure> {
    let zone = words::zone(&explained.spec.zone);
    let lints = explained.lints.iter().map(|lint| {
        json!({
            "level": lint.level.as_str(),
            "code": lint.code.as_str(),
            "message": lint.message,
            "label": lint.label,
        })
    });
    let times = times
        .iter()
        .map(|start| json!({ "at": words::with_offset(start.at, &zone), "note": start.note }));
    Ok(json::text(&json!({
        "what": explained.name,
        "words": sentence::of(&explained.spec),
        "tz": explained.spec.zone,
        "clock_change": change(explained)?,
        "lints": lints.collect::<Vec<_>>(),
        "times": times.collect::<Vec<_>>(),
    })))
}
