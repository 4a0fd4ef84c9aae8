//! The chatcron binary.

use std::process::ExitCode;

/// Rows go from the driver's threads to the worker's, and the system's allocator is slow where one
/// thread frees what another has made.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    chatcron::cli::run(std::env::args_os())
}
