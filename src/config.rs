//! The jobs file: TOML text to validated jobs, or every problem found, each with its place.
//!
//! Pure: reading files and showing problems to people is left to the caller. One bad job never
//! stops the good ones, and a bad one is named, so that nobody takes it for removed.

use std::{
    io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use toml::de::DeTable;

use crate::{
    directory::{Directory, Retention},
    job::Job,
    simulate::Written,
};

mod directory;
mod draft;
mod durations;
mod fields;
mod jobs;
mod keys;
mod known;
mod lints;
mod nearest;
mod policies;
mod problem;
mod reader;
mod scenario;
mod schedules;
mod schema;
mod secrets;
mod syntax;
mod tables;
mod texts;
mod values;
mod walk;

pub use draft::{InvalidJob, JobDraft};
pub(crate) use durations::parse as duration;
#[cfg(feature = "runtime")]
pub(crate) use nearest::nearest;
pub use problem::{Code, Label, Level, Position, Problem};
pub use scenario::{Names, parse_scenario};
pub use schema::schema;

use fields::Fields;
use known::Left;
use reader::Reader;

/// How many runs may be in progress at once where the file says nothing.
const MAX_CONCURRENT: u32 = 8;

/// What reading a jobs file came to.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What the file says; `None` where it is not TOML and so changes nothing.
    pub file: Option<JobsFile>,
    /// Everything that is wrong or may not be meant, from top to bottom.
    pub problems: Vec<Problem>,
    /// The source with secrets starred out, byte for byte as long: the one to show.
    pub source: String,
}

impl Loaded {
    /// Whether anything is an error.
    pub fn has_errors(&self) -> bool {
        self.count(Level::Error) > 0
    }

    /// How many problems have this level.
    pub fn count(&self, level: Level) -> usize {
        let of_level = |problem: &&Problem| problem.level == level;
        self.problems.iter().filter(of_level).count()
    }
}

/// What a jobs file says.
#[derive(Debug, Clone)]
pub struct JobsFile {
    /// The zone of all jobs that do not name their own.
    pub timezone: Option<String>,
    /// How many job runs may be in progress at once.
    pub max_concurrent: u32,
    /// Chats, channels and agents; those that are wrong are left out.
    pub directory: Directory,
    /// The good jobs, in the order of the file.
    pub jobs: Vec<Job>,
    /// The jobs that are in the file and left out. They keep their last good definition.
    pub bad_jobs: Vec<BadJob>,
    /// Files that prompts were to be read from, as written: a change in one is a change of the jobs.
    pub prompt_files: Vec<PathBuf>,
    /// How long rows are kept; `None` where the file's word on it is wrong, so that nothing may be
    /// pruned.
    pub retention: Option<Retention>,
    /// What `[simulate]` says, all of it optional; `None` where its word is wrong.
    pub simulate: Option<Written>,
}

impl JobsFile {
    /// A file without a word, where this is registered.
    #[cfg(feature = "sqlite")]
    pub(crate) fn empty(registered: Directory) -> Self {
        Self {
            timezone: None,
            max_concurrent: MAX_CONCURRENT,
            directory: registered,
            jobs: Vec::new(),
            bad_jobs: Vec::new(),
            prompt_files: Vec::new(),
            retention: Some(Retention::default()),
            simulate: Some(Written::default()),
        }
    }
}

/// A job that is in the file and left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadJob {
    /// Its id as written, which need not be a name.
    pub name: String,
    /// What it needs and is wrong, such as "channel `telegram`"; `None` where its own table is
    /// wrong.
    pub because: Option<String>,
}

/// The file's own zone.
enum FileZone {
    Named(String),
    Absent,
    Wrong,
}

/// Reads a jobs file.
///
/// `read_file` reads the text of a `prompt_file`, whose path is relative to the jobs file. `now`
/// tells what has passed already, and which clock change is the next.
///
/// ```
/// use chatcron::config::{Code, parse};
///
/// let source = r#"
///     [agents.main]
///     kind = "echo"
///
///     [jobs.good]
///     every = "2h"
///     deliver = "history"
///     prompt = "Look around."
///     alert = false
///
///     [jobs.bad]
///     every = "2h"
///     prompt = "Look around."
/// "#;
/// let no_files = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
/// let loaded = parse(source, &no_files, "2026-12-01T00:00:00Z".parse()?);
///
/// assert_eq!(loaded.problems[0].code, Code::NoMode);
/// let file = loaded.file.expect("it is TOML");
/// assert_eq!((file.jobs.len(), file.bad_jobs.len()), (1, 1));
/// # Ok::<(), jiff::Error>(())
/// ```
pub fn parse(
    source: &str,
    read_file: &dyn Fn(&Path) -> io::Result<String>,
    now: Timestamp,
) -> Loaded {
    parse_beside(&Directory::default(), source, read_file, now)
}

/// The same for a file that may also name chats, channels and agents which are `registered` by the
/// program that reads it. Where the file has one by the same name, what the file says of it counts.
pub fn parse_beside(
    registered: &Directory,
    source: &str,
    read_file: &dyn Fn(&Path) -> io::Result<String>,
    now: Timestamp,
) -> Loaded {
    let mut reader = Reader::new(source, read_file, now);
    reader.hidden.extend(secrets::shapes(source));
    let (table, errors) = DeTable::parse_recoverable(source);
    let file = read(&mut reader, table.get_ref(), registered);
    let is_toml = errors.is_empty();
    if !is_toml {
        reader.hidden.extend(secrets::in_lines(source));
        syntax::report(&mut reader, &errors);
    }
    let (mut problems, hidden) = reader.into_problems();
    for problem in &mut problems {
        secrets::censor(problem);
    }
    Loaded {
        file: is_toml.then_some(file),
        problems,
        source: secrets::mask(source, &hidden),
    }
}

fn read(reader: &mut Reader<'_>, table: &DeTable<'_>, registered: &Directory) -> JobsFile {
    for (key, value) in table {
        // Tables of named things look for secrets themselves, to know which of them has one.
        let named = ["jobs", "chats", "channels", "agents"].contains(&key.get_ref().as_ref());
        if !named || !value.get_ref().is_table() {
            for secret in secrets::in_value(key.get_ref(), &key.span(), value) {
                reader.report_secret(secret);
            }
        }
    }
    let place = walk::Place {
        table: &tables::FILE,
        name: String::from("the jobs file"),
        span: 0..0,
        siblings: &[],
    };
    let file = walk::table(reader, &place, table);
    let defaults = match file.table("defaults") {
        Some(defaults) => defaults.clone(),
        None if file.has("defaults") => Fields::unreadable(),
        None => Fields::default(),
    };
    let zone = zone(&file, registered);
    let known = directory::build(reader, &file, &defaults, registered);
    let shared = jobs::Shared {
        known: &known,
        defaults: &defaults,
        zone: &zone,
    };
    let mut jobs = Vec::new();
    let mut bad_jobs = Vec::new();
    for entry in file.entries("jobs") {
        let because = match jobs::build(reader, entry, &shared) {
            Ok(job) => {
                jobs.push(job);
                continue;
            }
            Err(Left::Because(because)) => Some(because),
            Err(Left::Reported) => None,
        };
        bad_jobs.push(BadJob {
            name: entry.name.clone(),
            because,
        });
    }
    let names_of = |key| file.entries(key).iter().map(|entry| &*entry.name).collect();
    let (job_names, chat_names): (Vec<&str>, Vec<&str>) = (names_of("jobs"), names_of("chats"));
    let names = Names {
        jobs: &job_names,
        chats: &chat_names,
    };
    let simulate = match file.table("simulate") {
        Some(table) => scenario::build(reader, table, names),
        None => (!file.has("simulate")).then(Written::default),
    };
    let file_read = JobsFile {
        timezone: file.owned_text("timezone"),
        max_concurrent: file.integer("max_concurrent").unwrap_or(MAX_CONCURRENT),
        directory: known.directory,
        jobs,
        bad_jobs,
        prompt_files: prompt_files(&file),
        retention: retention(&file),
        simulate,
    };
    lints::look(reader, &file, &file_read);
    file_read
}

/// The zone of jobs that name none: the file's, else the one that a program registered.
fn zone(file: &Fields, registered: &Directory) -> FileZone {
    match file.owned_text("timezone") {
        Some(zone) => FileZone::Named(zone),
        None if file.has("timezone") => FileZone::Wrong,
        None => match &registered.timezone {
            Some(zone) => FileZone::Named(zone.clone()),
            None => FileZone::Absent,
        },
    }
}

fn prompt_files(file: &Fields) -> Vec<PathBuf> {
    let of_job = |entry: &fields::Entry| entry.fields.text("prompt_file").map(PathBuf::from);
    let mut paths: Vec<PathBuf> = file.entries("jobs").iter().filter_map(of_job).collect();
    paths.sort();
    paths.dedup();
    paths
}

fn retention(file: &Fields) -> Option<Retention> {
    let standard = Retention::default();
    let Some(table) = file.table("retention") else {
        return (!file.has("retention")).then_some(standard);
    };
    Some(Retention {
        runs: table.duration("runs").unwrap_or(standard.runs),
        job_sessions: table
            .duration("job_sessions")
            .unwrap_or(standard.job_sessions),
        one_shots: table.duration("one_shots").unwrap_or(standard.one_shots),
    })
}
