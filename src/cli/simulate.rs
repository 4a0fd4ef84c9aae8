//! `chatcron simulate`: what a window, an outage or a clock change will do.

use std::path::PathBuf;

use clap::ValueEnum;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use crate::{
    cli::{Colour, Exit, failure::Failure, jobs_file, report, table::Screen, words},
    clock::{Clock, SystemClock},
    config::{JobsFile, Loaded},
    job::Job,
    simulate::{
        Checker, Log, LogSum, Report, Scenario, Simulation, Tally, Timeline, Unmet, Window,
        Written, totals, zones_fingerprint,
    },
};

mod changes;
mod expectations;
mod golden;
mod history;
mod json;
mod options;
mod output;
mod progress;
mod scenario;
mod standstill;
mod text;

use output::{LogTarget, Output};

/// Show what the jobs of a file will do in a window, by the code that runs them.
///
/// Nothing is run and nothing is sent: agents and chats are made up, as the options and the
/// `[simulate]` table of the file say. The same input gives the same events on every machine.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The jobs file.
    #[arg(default_value = "jobs.toml")]
    file: PathBuf,
    #[command(flatten)]
    world: options::World,
    /// A file with the keys of `[simulate]`, in the place of that table.
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// A database: how long attempts take is drawn from what the jobs' own runs took, where nothing
    /// else is said of them.
    #[arg(long, value_name = "DB")]
    history: Option<PathBuf>,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write it here instead of to the terminal.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Only totals: no event log and no hash of it, which is faster for very many events.
    #[arg(long, conflicts_with_all = ["golden", "update_golden"])]
    totals: bool,
    /// Compare the event log with this file; a difference ends with 1.
    #[arg(long, value_name = "FILE")]
    golden: Option<PathBuf>,
    /// Write the event log to the file of --golden instead of comparing.
    #[arg(long, requires = "golden")]
    update_golden: bool,
    /// Write the expectations as JUnit XML here.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// How much is simulated where nothing is said: today, by the calendar of the file's zone.
const ONE_DAY: SignedDuration = SignedDuration::from_hours(24);

/// The forms of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A report for people.
    Text,
    /// The report for programs.
    Json,
    /// The event log: one decision a line.
    Jsonl,
    /// A timeline.
    Svg,
    /// A timeline in a page of its own, with totals.
    Html,
}

/// What is simulated.
struct Case<'a> {
    file: &'a JobsFile,
    written: Written,
    window: Window,
    scenario: Scenario,
    zone: String,
    max_concurrent: usize,
}

/// What came of it.
struct Outcome {
    report: Report,
    log: Option<LogSum>,
    golden: Option<golden::Golden>,
    zones: String,
    unmet: Vec<Unmet>,
    /// The timeline, where one is asked for.
    drawing: String,
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let now = SystemClock.now();
    let loaded = jobs_file::load(&arguments.file, now)?;
    let Some(case) = prepare(arguments, &loaded, now)? else {
        return Ok(Exit::DoesNotHold);
    };
    let what = if arguments.update_golden {
        golden::Use::Update
    } else {
        golden::Use::Compare
    };
    refuse_shared_files(arguments)?;
    if arguments.totals && arguments.format == Format::Jsonl {
        let message = "`--totals` makes no event log, which `--format jsonl` prints";
        return Err(Failure::new(Exit::Usage, message).help("leave out one of them"));
    }
    // What is only read comes first: a mistake in it empties nothing.
    let golden = golden::Golden::open(arguments.golden.as_deref(), what)?;
    let mut output = Output::open(arguments.out.as_deref())?;
    let mut junit = arguments.junit.as_deref().map(output::create).transpose()?;
    let mut outcome = simulate(arguments, &case, golden, &mut output)?;
    let golden = outcome.golden.take().map(golden::Golden::settle);
    let answer = golden.unwrap_or(Ok(golden::Answer::NotAsked))?;
    let jobs_left_out = loaded.has_errors();
    match arguments.format {
        Format::Text => {
            let screen = output.screen(Screen::of_stdout());
            output.text(&text::render(&case, &outcome, screen)?)?;
        }
        Format::Json => output.text(&json::render(&case, &outcome)?)?,
        Format::Svg | Format::Html => output.text(&outcome.drawing)?,
        Format::Jsonl => eprint!("{}", text::sums(&outcome)),
    }
    output.end()?;
    if let Some(junit) = &mut junit {
        let file = arguments.file.display().to_string();
        junit.text(&expectations::junit(&file, &case, &outcome, &answer))?;
        junit.end()?;
    }
    eprint!("{}", expectations::failures(&outcome.unmet));
    eprint!("{}", answer.text());
    if jobs_left_out {
        eprintln!(
            "{}",
            super::next::left_out_note(&arguments.file, case.file, &loaded)
        );
    }
    let holds = outcome.unmet.is_empty() && !answer.differs() && !jobs_left_out;
    Ok(if holds { Exit::Fine } else { Exit::DoesNotHold })
}

/// No file that is written may be another one of this command: it would be lost.
fn refuse_shared_files(arguments: &Arguments) -> Result<(), Failure> {
    let named = [
        ("--out", arguments.out.as_deref()),
        ("--junit", arguments.junit.as_deref()),
        ("--golden", arguments.golden.as_deref()),
        ("--scenario", arguments.scenario.as_deref()),
        ("--history", arguments.history.as_deref()),
        ("the jobs file", Some(arguments.file.as_path())),
    ];
    let named: Vec<_> = named
        .into_iter()
        .filter_map(|(name, path)| {
            let path = path?;
            Some((
                name,
                path,
                path.canonicalize()
                    .or_else(|_| std::path::absolute(path))
                    .ok()?,
            ))
        })
        .collect();
    for (place, (name, path, whole)) in named
        .iter()
        .enumerate()
        .take_while(|(_, (name, ..))| *name != "--scenario")
    {
        if let Some((other, ..)) = named[place + 1..].iter().find(|(.., other)| other == whole) {
            let message = format!("`{name}`: `{}` is the file of {other} too", path.display());
            return Err(Failure::new(Exit::Usage, message).help("give each a file of its own"));
        }
    }
    Ok(())
}

/// Puts together what is simulated; nothing where a file is too wrong for it, which is then told.
fn prepare<'a>(
    arguments: &Arguments,
    loaded: &'a Loaded,
    now: Timestamp,
) -> Result<Option<Case<'a>>, Failure> {
    let path = arguments.file.display().to_string();
    let tell = || eprint!("{}", report::text(&path, loaded, Colour::of_stderr()));
    let Some(file) = &loaded.file else {
        tell();
        return Ok(None);
    };
    let under = match (&arguments.scenario, &file.simulate) {
        (Some(path), _) => scenario::load(path, file)?,
        (None, Some(written)) => written.clone(),
        (None, None) => {
            tell();
            return Err(scenario::wrong(&path));
        }
    };
    let mut written = arguments.world.written(file, &path)?.over(under);
    if let Some(database) = &arguments.history {
        written = written.over(history::run_times(database, &file.jobs)?);
    }
    if written.from.is_none() && written.to.is_none() {
        written.length.get_or_insert(ONE_DAY);
    }
    let zone = file
        .timezone
        .clone()
        .unwrap_or_else(|| words::common_zone(file.jobs.iter()));
    let tz = words::zone(&zone);
    let today = today(now, &tz);
    let (window, world) = scenario::resolve(&written, (&zone, &tz), today, &file.jobs)?;
    let max_concurrent = written.max_concurrent.unwrap_or(file.max_concurrent);
    Ok(Some(Case {
        file,
        written,
        window,
        scenario: world,
        zone,
        max_concurrent: usize::try_from(max_concurrent).unwrap_or(usize::MAX),
    }))
}

/// The beginning of the day.
fn today(now: Timestamp, zone: &TimeZone) -> Timestamp {
    let date = now.to_zoned_datetime(zone.clone()).date();
    zone.to_timestamp(date.to_datetime(jiff::civil::Time::midnight()))
        .unwrap_or(now)
}

fn simulate(
    arguments: &Arguments,
    case: &Case<'_>,
    golden: Option<golden::Golden>,
    output: &mut Output,
) -> Result<Outcome, Failure> {
    let jobs: Vec<Job> = case.file.jobs.clone();
    let zones = jobs.iter().map(|job| job.schedule.zone.as_str());
    let zones = zones_fingerprint(zones, case.window).map_err(|error| failed(&error))?;
    let chats = &case.file.directory.chats;
    let begun = Simulation::new(
        jobs,
        chats,
        case.max_concurrent,
        &case.scenario,
        case.window.from,
    );
    let mut simulation = begun.map_err(|error| failed(&error))?;
    if let Some(report) = quick_totals(arguments, case, &simulation) {
        return Ok(Outcome {
            report,
            log: None,
            golden: None,
            zones,
            unmet: Vec::new(),
            drawing: String::new(),
        });
    }
    let tally = Tally::new(&simulation, case.window);
    let checker = Checker::new(&case.written.expects, &simulation);
    let is_log = arguments.format == Format::Jsonl;
    let target = LogTarget {
        out: is_log.then_some(output),
        golden,
    };
    let log = (!arguments.totals || is_log).then(|| Log::new(target));
    let timeline = match arguments.format {
        Format::Svg | Format::Html => Some(timeline(case, &simulation)?),
        Format::Text | Format::Json | Format::Jsonl => None,
    };
    let mut sinks = ((tally, checker), (log, timeline));
    progress::run(&mut simulation, case.window, &mut sinks);
    simulation.close(&mut sinks);
    let ((tally, checker), (log, timeline)) = sinks;
    let report = tally.finish(&simulation);
    let unmet = checker.finish(&report);
    let drawing = match timeline {
        Some(timeline) if arguments.format == Format::Html => timeline.html(&report),
        Some(timeline) => timeline.svg(),
        None => String::new(),
    };
    let finished = log.map(Log::finish).transpose();
    let finished = finished.map_err(|error| output::unwritable(&error))?;
    let (target, log) = finished.unzip();
    Ok(Outcome {
        report,
        log,
        golden: target.and_then(|target| target.golden),
        zones,
        unmet,
        drawing,
    })
}

/// Totals alone, where nobody wants to see an event.
fn quick_totals(arguments: &Arguments, case: &Case<'_>, simulation: &Simulation) -> Option<Report> {
    let no_events = match arguments.format {
        Format::Text | Format::Json => arguments.totals && case.written.expects.is_empty(),
        Format::Jsonl | Format::Svg | Format::Html => false,
    };
    no_events
        .then(|| totals(simulation, &case.scenario, case.window))
        .flatten()
}

fn timeline(case: &Case<'_>, simulation: &Simulation) -> Result<Timeline, Failure> {
    let changes = changes::met(&case.file.jobs, case.window)?;
    let several = changes.iter().any(|change| change.zone != case.zone);
    let changes = changes.iter().map(|change| {
        let place = if several { change.zone } else { "" };
        let (from, to) = (change.local_before.time(), change.local_after.time());
        let words = format!(
            "{} \u{2192} {} {place}",
            words::clock(from),
            words::clock(to)
        );
        (change.at, words.trim_end().to_owned())
    });
    let steps = case.scenario.clock_steps.iter().map(|step| {
        let way = if step.by.is_negative() {
            "back"
        } else {
            "forward"
        };
        (
            step.at,
            format!("set {way} {}", words::exact(step.by.abs())),
        )
    });
    let mut changes: Vec<_> = changes.chain(steps).collect();
    changes.sort();
    let zone = (case.zone.as_str(), words::zone(&case.zone));
    Ok(Timeline::new(simulation, case.window, zone, changes))
}

fn failed(error: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::DoesNotHold, error.to_string())
        .help("`chatcron check` tells what is wrong with the file")
}
