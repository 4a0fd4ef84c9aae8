//! `chatcron runs`: what ran, what did not, and what was shown of it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json;

use crate::{
    cli::{
        Exit,
        failure::Failure,
        json,
        moment::Moment,
        names::{self, unreadable},
        print,
        reading::Place,
        runtime,
        table::Screen,
        words,
    },
    clock::{Clock, SystemClock},
    ids::{JobId, RunId},
    occurrence::SkipReason,
    store::{RangeRow, RunFilter, RunRow, Store},
    view::{Run, RunState, Stretch},
};

pub(in crate::cli) mod detail;
pub(in crate::cli) mod lines;

#[cfg(test)]
mod tests;

/// Show what ran, newest first, and the slots that did not run among it.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Of this job only.
    #[arg(conflicts_with = "run")]
    job: Option<String>,
    /// The same, by name.
    #[arg(long = "job", value_name = "ID", conflicts_with_all = ["job", "run"])]
    of_job: Option<String>,
    /// In this state only; may be given several times.
    #[arg(long, value_name = "STATE", conflicts_with = "run",
          value_parser = clap::builder::PossibleValuesParser::new(RunState::ALL.map(RunState::as_str)))]
    state: Vec<String>,
    /// Slots only that passed while nothing could start them: skipped as missed or superseded.
    #[arg(long, conflicts_with_all = ["run", "state"])]
    missed: bool,
    /// Since when: RFC 3339, wall time in the job's zone, `today`, `yesterday`, or a span such as
    /// 2d or 12h.
    #[arg(long, value_name = "T", value_parser = Moment::parse, conflicts_with = "run")]
    since: Option<Moment>,
    /// At most so many lines.
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Everything about this run: its attempts, its messages, and what is worth knowing.
    #[arg(long, value_name = "N")]
    run: Option<i64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// One line of the list.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Line {
    Run(Box<RunRow>),
    Range(RangeRow),
}

impl Line {
    fn at(&self) -> Timestamp {
        match self {
            Self::Run(run) => run.nominal_at,
            Self::Range(range) => range.last_nominal_at,
        }
    }

    fn job_id(&self) -> &JobId {
        match self {
            Self::Run(run) => &run.job_id,
            Self::Range(range) => &range.job_id,
        }
    }
}

/// Runs and skipped stretches, newest first.
pub(super) fn interleaved(runs: Vec<RunRow>, ranges: Vec<RangeRow>, limit: usize) -> Vec<Line> {
    let runs = runs.into_iter().map(|run| Line::Run(Box::new(run)));
    let mut lines: Vec<Line> = runs.chain(ranges.into_iter().map(Line::Range)).collect();
    // Stable: what has one instant stays in the order of the store.
    lines.sort_by_key(|line| std::cmp::Reverse(line.at()));
    lines.truncate(limit);
    lines
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let now = SystemClock.now();
    let text = runtime::block_on(async {
        let store = arguments.place.open().await?;
        match arguments.run {
            Some(run) => {
                let detail = detail::load(&*store, RunId(run)).await?;
                Ok(if arguments.json {
                    detail.json()
                } else {
                    detail.render(now, Screen::of_stdout())
                })
            }
            None => list(&*store, arguments, now).await,
        }
    })?;
    print(&text)?;
    Ok(Exit::Fine)
}

async fn list(store: &dyn Store, arguments: &Arguments, now: Timestamp) -> Result<String, Failure> {
    let job = match arguments.job.as_ref().or(arguments.of_job.as_ref()) {
        Some(id) => Some(names::job(store, id).await?),
        None => None,
    };
    let common = match &job {
        Some(job) => job.job.schedule.zone.clone(),
        None => {
            let jobs = store.all_jobs().await.map_err(unreadable)?;
            words::common_zone(jobs.iter().map(|stored| &stored.job))
        }
    };
    let since = arguments
        .since
        .map(|since| since.instant(now, &common))
        .transpose()?;
    let filter = RunFilter {
        job_id: job.map(|stored| stored.job.id),
        since,
        states: arguments.state.clone(),
        skipped_as: if arguments.missed {
            vec![SkipReason::Missed, SkipReason::Superseded]
        } else {
            Vec::new()
        },
        // One more tells whether there are more.
        limit: Some(arguments.limit.saturating_add(1)),
        ..RunFilter::default()
    };
    let runs = store.runs(&filter).await.map_err(unreadable)?;
    let ranges = store.ranges(&filter).await.map_err(unreadable)?;
    let limit = usize::try_from(arguments.limit).unwrap_or(usize::MAX);
    let more = runs.len() + ranges.len() > limit;
    let lines = interleaved(runs, ranges, limit);
    if arguments.json {
        return Ok(as_json(&lines));
    }
    let zones = zones(store, &lines).await?;
    if lines.is_empty() && arguments.missed {
        return Ok(String::from("no slot was missed\n"));
    }
    let mut text = lines::render(&lines, &zones, now, Screen::of_stdout());
    if more {
        text.push_str(&format!(
            "older ones are left out after {limit}; --limit N shows more\n"
        ));
    }
    Ok(text)
}

/// The zones of the jobs that are listed.
async fn zones(store: &dyn Store, lines: &[Line]) -> Result<BTreeMap<JobId, String>, Failure> {
    let mut ids: Vec<JobId> = lines.iter().map(|line| line.job_id().clone()).collect();
    ids.sort();
    ids.dedup();
    let jobs = store.jobs(&ids).await.map_err(unreadable)?;
    Ok(jobs
        .into_iter()
        .map(|stored| (stored.job.id, stored.job.schedule.zone))
        .collect())
}

fn as_json(lines: &[Line]) -> String {
    let runs: Vec<Run> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Run(run) => Some(Run::from(&**run)),
            Line::Range(_) => None,
        })
        .collect();
    let skipped: Vec<Stretch> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Range(range) => Some(Stretch::from(range)),
            Line::Run(_) => None,
        })
        .collect();
    json::text(&json!({ "runs": runs, "skipped": skipped }))
}
