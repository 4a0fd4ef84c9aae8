//! Where the output goes. It is opened before anything is simulated.

use std::{
    fs::File,
    io::{self, BufWriter, IsTerminal, Write},
    path::Path,
};

use super::golden::Golden;
use crate::cli::{Colour, Exit, failure::Failure, table::Screen};

/// Where the output goes: a file, or the terminal.
pub(super) struct Output {
    target: Box<dyn Write>,
    is_file: bool,
}

impl Output {
    pub(super) fn open(file: Option<&Path>) -> Result<Self, Failure> {
        match file {
            Some(path) => create(path),
            None => Ok(Self {
                target: Box::new(BufWriter::new(io::stdout())),
                is_file: false,
            }),
        }
    }

    /// Colours and widths are for terminals.
    pub(super) fn screen(&self, stdout: Screen) -> Screen {
        if self.is_file {
            Screen {
                colour: Colour::Plain,
                width: None,
            }
        } else {
            stdout
        }
    }

    pub(super) fn text(&mut self, text: &str) -> Result<(), Failure> {
        taken(self.write_all(text.as_bytes()))
    }

    pub(super) fn end(&mut self) -> Result<(), Failure> {
        taken(self.flush())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.target.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}

/// Makes a file, before there is anything to write into it.
pub(super) fn create(path: &Path) -> Result<Output, Failure> {
    let file = File::create(path).map_err(|error| {
        let message = format!("cannot write `{}`: {error}", path.display());
        Failure::new(Exit::CannotRead, message).help("nothing was simulated")
    })?;
    Ok(Output {
        target: Box::new(BufWriter::new(file)),
        is_file: true,
    })
}

/// Where the event log goes: to the output, and beside the one that is kept.
pub(super) struct LogTarget<'o> {
    pub(super) out: Option<&'o mut Output>,
    pub(super) golden: Option<Golden>,
}

impl Write for LogTarget<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pass_on(|out| out.write_all(bytes))?;
        if let Some(golden) = &mut self.golden {
            golden.take(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on(Write::flush)
    }
}

impl LogTarget<'_> {
    /// To a reader that has seen enough, nothing more is given; the log goes on for its sums.
    fn pass_on(&mut self, give: impl FnOnce(&mut Output) -> io::Result<()>) -> io::Result<()> {
        match self.out.as_mut().map_or(Ok(()), |out| give(out)) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.out = None;
                Ok(())
            }
            given => given,
        }
    }
}

pub(super) fn unwritable(error: &io::Error) -> Failure {
    Failure::new(
        Exit::CannotRead,
        format!("cannot write the output: {error}"),
    )
    .help("name a file that can be written, on a disk that has room")
}

/// A reader that has seen enough, such as `head`, is no failure.
fn taken(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(unwritable(&error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whether a person watches.
pub(super) fn is_watched() -> bool {
    io::stderr().is_terminal()
}
