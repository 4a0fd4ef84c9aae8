//! The one place where commands get to run async code.

use crate::cli::{Exit, failure::Failure};

/// Runs a command to its end on this thread.
///
/// # Errors
/// Those of the command, and where the system gives no runtime.
pub(super) fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    run(tokio::runtime::Builder::new_current_thread(), command)
}

/// Runs the worker, whose tasks spread over two threads.
///
/// # Errors
/// Those of the worker, and where the system gives no runtime.
pub(super) fn work<T>(worker: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    threads.worker_threads(2);
    run(threads, worker)
}

fn run<T>(
    mut runtime: tokio::runtime::Builder,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    runtime
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new(Exit::CannotRead, format!("cannot start: {error}"))
                .help("the machine allows no more threads or open files: see `ulimit -a`")
        })?
        .block_on(work)
}
