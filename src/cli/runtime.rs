//! The one place where commands that only ask the store get to run async code.

use crate::cli::{Exit, failure::Failure};

/// Runs a future to its end on this thread.
///
/// # Errors
/// Those of the future, and where the system gives no runtime.
pub(super) fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::CannotRead, format!("cannot start: {error}")))?
        .block_on(future)
}
