//! The log: for people by default, one JSON object a line for machines.

use std::{
    io::{self, IsTerminal},
    path::Path,
};

use clap::ValueEnum;
use jiff::tz::TimeZone;
use tracing_subscriber::{
    EnvFilter,
    fmt::{format::Writer, time::FormatTime},
};

use crate::{
    cli::{Colour, report},
    clock::{Clock, SystemClock},
    config::{Level, Loaded, Position},
};

/// The forms of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum LogFormat {
    /// A line for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What is logged unless `RUST_LOG` says otherwise. Libraries speak up when something is wrong.
const DEFAULT_FILTER: &str = "warn,chatcron=info";

/// Tells what is wrong in the jobs file: as `check` does, or as events where the log is JSON.
pub(super) fn tell_problems(format: LogFormat, path: &Path, loaded: &Loaded) {
    if loaded.problems.is_empty() {
        return;
    }
    let name = path.display().to_string();
    match format {
        LogFormat::Text => eprint!("{}", report::text(&name, loaded, Colour::of_stderr())),
        LogFormat::Json => {
            for problem in &loaded.problems {
                let line = Position::of(&loaded.source, problem.span.start).line;
                let (code, message) = (problem.code.as_str(), problem.message.as_str());
                match problem.level {
                    Level::Error => tracing::error!(file = name, line, code, "{message}"),
                    Level::Warning => tracing::warn!(file = name, line, code, "{message}"),
                }
            }
        }
    }
}

/// Sends the log to stderr, so that stdout is left to the chat.
pub(super) fn start(format: LogFormat) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && !refused);
    match format {
        LogFormat::Text => log
            .with_target(false)
            .with_timer(TimeOfDay)
            .compact()
            .init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

/// The machine's wall time, as a person at its terminal reads it.
struct TimeOfDay;

impl FormatTime for TimeOfDay {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let now = SystemClock.now().to_zoned_datetime(TimeZone::system());
        write!(writer, "{}", now.strftime("%H:%M:%S"))
    }
}
