//! How the worker is asked to stop.

use tokio::signal::unix::{SignalKind, signal};

use crate::{cli::run::service_manager, worker::Stop};

/// The first Ctrl-C or SIGTERM asks the worker to finish what runs, the second to leave it.
pub(super) async fn listen(stop: Stop) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        tracing::warn!("signals cannot be caught; Ctrl-C ends the worker at once");
        return;
    };
    for token in [&stop.drain, &stop.now] {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        token.cancel();
        if token == &stop.drain {
            service_manager::is_stopping();
            tracing::info!(
                "stopping: what runs gets up to 30 s (again to leave it for the next start)"
            );
        }
    }
}
