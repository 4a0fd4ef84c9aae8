//! The command line: one file a command, and what all commands share.

use std::{
    ffi::OsString,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use clap::{Parser, Subcommand, error::ErrorKind};

mod accept_clock;
mod audit;
mod backfill;
mod backup;
mod chat;
mod check;
mod control;
mod database;
mod errand;
mod exit;
mod explain;
mod failure;
mod incidents;
mod jobs_file;
mod json;
mod list;
mod logs;
mod moment;
mod names;
mod next;
mod outbox;
mod outcome;
mod parts;
mod plain;
mod plan;
mod reading;
mod recheck;
mod reload;
mod report;
mod reset;
mod run;
mod runs;
mod runtime;
#[cfg(test)]
mod samples;
mod say;
mod schema;
mod show;
mod signals;
mod simulate;
mod stats;
mod table;
mod transcript;
mod trigger;
mod verify;
mod words;

pub use exit::Exit;

use failure::Failure;

/// Schedules the jobs of chat agents: each runs once at its time, and shows its result in one
/// place.
#[derive(Debug, Parser)]
#[command(name = "chatcron", version, after_help = exit::HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Arguments),
    Check(check::Arguments),
    Next(next::Arguments),
    Explain(explain::Arguments),
    Simulate(Box<simulate::Arguments>),
    List(list::Arguments),
    Show(show::Arguments),
    Runs(runs::Arguments),
    Transcript(transcript::Arguments),
    Stats(stats::Arguments),
    Outbox(outbox::Arguments),
    Verify(verify::Arguments),
    Audit(audit::Arguments),
    Schema(schema::Arguments),
    Recheck(recheck::Arguments),
    Trigger(trigger::Arguments),
    Backfill(backfill::Arguments),
    Backup(backup::Arguments),
    Pause(control::PauseArguments),
    Resume(control::ResumeArguments),
    Say(say::Arguments),
    Chat(chat::Arguments),
    Reset(reset::Arguments),
    AcceptClock(accept_clock::Arguments),
}

/// Runs the command that the arguments name, and says how it went.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            return tell_usage(&error).into();
        }
    };
    let outcome = match &arguments.command {
        Command::Run(arguments) => runtime::work(run::run(arguments)),
        Command::Check(arguments) => check::run(arguments),
        Command::Next(arguments) => next::run(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Simulate(arguments) => simulate::run(arguments),
        Command::List(arguments) => list::run(arguments),
        Command::Show(arguments) => show::run(arguments),
        Command::Runs(arguments) => runs::run(arguments),
        Command::Transcript(arguments) => transcript::run(arguments),
        Command::Stats(arguments) => stats::run(arguments),
        Command::Outbox(arguments) => outbox::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Audit(arguments) => audit::run(arguments),
        Command::Schema(arguments) => schema::run(arguments),
        Command::Recheck(arguments) => recheck::run(arguments),
        Command::Trigger(arguments) => runtime::block_on(trigger::run(arguments)),
        Command::Backfill(arguments) => runtime::block_on(backfill::run(arguments)),
        Command::Backup(arguments) => runtime::block_on(backup::run(arguments)),
        Command::Pause(arguments) => runtime::block_on(control::pause(arguments)),
        Command::Resume(arguments) => runtime::block_on(control::resume(arguments)),
        Command::Say(arguments) => runtime::block_on(say::run(arguments)),
        Command::Chat(arguments) => runtime::block_on(chat::run(arguments)),
        Command::Reset(arguments) => runtime::block_on(reset::run(arguments)),
        Command::AcceptClock(arguments) => runtime::block_on(accept_clock::run(arguments)),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            let _ = writeln!(io::stderr(), "{failure}");
            failure.exit.into()
        }
    }
}

/// Help and version come as errors too; if nobody reads them, there is no one to tell.
fn tell_usage(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Fine;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return Exit::Usage;
    }
    let told = error.render();
    let told = match Colour::of_stderr() {
        Colour::Plain => told.to_string(),
        Colour::Styled => told.ansi().to_string(),
    };
    // The last paragraph is clap's way to say what the last line of every error says here.
    let told = match told.rsplit_once("\n\nFor more information") {
        Some((told, _)) => told,
        None => told.trim_end(),
    };
    let _ = writeln!(
        io::stderr(),
        "{told}\nhelp: the same command with `--help` tells what is accepted"
    );
    Exit::Usage
}

/// Writes the output of a command. A reader that has seen enough, such as `head`, is no failure.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(
            Exit::CannotRead,
            format!("cannot write the output: {error}"),
        )),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whether the output may be coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Colour {
    Plain,
    Styled,
}

impl Colour {
    /// Colour only where a person looks, and not where they said no.
    fn of_stdout() -> Self {
        Self::of(&io::stdout())
    }

    /// The same for what is told on stderr.
    fn of_stderr() -> Self {
        Self::of(&io::stderr())
    }

    fn of(stream: &impl IsTerminal) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if refused || !stream.is_terminal() {
            Self::Plain
        } else {
            Self::Styled
        }
    }
}
