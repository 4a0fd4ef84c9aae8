//! The one place that reads a clock.
//!
//! Everything else takes `now` as an argument, or asks a [`Clock`] at the edge of the shell.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

/// Wall time, and waiting for it.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// The present instant.
    fn now(&self) -> Timestamp;

    /// Waits until about `duration` has passed on this clock.
    async fn sleep(&self, duration: Duration);
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "this is the clock")]
        Timestamp::now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
