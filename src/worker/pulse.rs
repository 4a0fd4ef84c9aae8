//! Whether the worker's loop goes round.

use std::time::Duration;

use tokio::sync::watch;

/// When the loop last went round, on the clock that nobody can set.
#[derive(Debug)]
pub(super) struct Pulse {
    beat: watch::Sender<Duration>,
}

impl Pulse {
    pub(super) fn starting_at(elapsed: Duration) -> Self {
        Self {
            beat: watch::Sender::new(elapsed),
        }
    }

    /// A view of it for others.
    pub(super) fn watch(&self) -> watch::Receiver<Duration> {
        self.beat.subscribe()
    }

    /// The loop goes round.
    pub(super) fn beat(&self, elapsed: Duration) {
        self.beat.send_replace(elapsed);
    }
}
