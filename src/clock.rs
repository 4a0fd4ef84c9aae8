//! The one place that reads a clock.
//!
//! Everything else takes `now` as an argument, or asks a [`Clock`] at the edge of the shell.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

/// Wall time, and waiting for it.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// The present instant, as the machine's clock shows it; somebody may set that.
    fn now(&self) -> Timestamp;

    /// How long it is since some fixed instant, on a clock that nobody can set.
    fn elapsed(&self) -> Duration;

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

    fn elapsed(&self) -> Duration {
        elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// The time since the machine was started. On Linux it goes on while the machine sleeps, so that a
/// night's sleep is not taken for a clock that was set.
fn elapsed() -> Duration {
    #[cfg(target_os = "linux")]
    const SINCE_BOOT: libc::clockid_t = libc::CLOCK_BOOTTIME;
    #[cfg(not(target_os = "linux"))]
    const SINCE_BOOT: libc::clockid_t = libc::CLOCK_MONOTONIC;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: it writes to the one place that it is given, which outlives the call.
    let failed = unsafe { libc::clock_gettime(SINCE_BOOT, &raw mut time) } != 0;
    if failed {
        return Duration::ZERO;
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_where_nobody_can_set_it() {
        let before = SystemClock.elapsed();
        std::thread::sleep(Duration::from_millis(5));
        assert!(SystemClock.elapsed() >= before + Duration::from_millis(5));
    }
}
