//! The exit codes, which are part of the documented interface.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything is fine; warnings do not count.
    Fine = 0,
    /// What was checked does not hold: a bad file, a failed expectation, a difference.
    DoesNotHold = 1,
    /// The command line is wrong.
    Usage = 2,
    /// What was named cannot be opened, read or written.
    CannotRead = 3,
    /// Refused, because something else holds it or a newer version wrote it.
    Refused = 4,
    /// Interrupted by the person.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The same for `--help`.
pub(super) const HELP: &str = "\
Exit codes:
    0  fine
    1  what was checked does not hold
    2  wrong usage
    3  cannot open or read what was named
    4  refused: something else holds it, or a newer version wrote it
  130  interrupted";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_text_lists_every_code() {
        for exit in [
            Exit::Fine,
            Exit::DoesNotHold,
            Exit::Usage,
            Exit::CannotRead,
            Exit::Refused,
            Exit::Interrupted,
        ] {
            let code = format!("{:>5}  ", exit as u8);
            assert!(HELP.lines().any(|line| line.starts_with(&code)), "{exit:?}");
        }
    }
}
