//! The command line: one file a command, and what all commands share.

use std::{
    ffi::OsString,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

mod check;
mod exit;
mod failure;
mod jobs_file;
mod report;
mod schema;

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
    Check(check::Arguments),
    Schema(schema::Arguments),
}

/// Runs the command that the arguments name, and says how it went.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version come this way too; if nobody reads them, there is no one to tell.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage.into()
            } else {
                Exit::Fine.into()
            };
        }
    };
    let outcome = match &arguments.command {
        Command::Check(arguments) => check::run(arguments),
        Command::Schema(arguments) => schema::run(arguments),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            let _ = writeln!(io::stderr(), "{failure}");
            failure.exit.into()
        }
    }
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
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if refused || !io::stdout().is_terminal() {
            Self::Plain
        } else {
            Self::Styled
        }
    }
}
