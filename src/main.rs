//! The chatcron binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    chatcron::cli::run(std::env::args_os())
}
