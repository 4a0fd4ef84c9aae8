//! What the service manager that started chatcron is told, if there is one (systemd's `sd_notify`):
//! that it is ready, that it lives, what keeps it from working, and that it stops.

use std::{convert::Infallible, future, time::Duration};

use sd_notify::NotifyState;
use tokio::sync::watch;

use crate::clock::{Clock, SystemClock};

/// How long the worker's loop may be silent. It goes round every 30 s at least, and its end may
/// take another 36 s.
const SILENT_MAX: Duration = Duration::from_secs(90);

/// Before a wait counts as one that the service manager should know of.
const SOON: Duration = Duration::from_secs(1);

/// The worker runs, or waits as it should.
pub(super) fn is_ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// It was asked to stop.
pub(in crate::cli) fn is_stopping() {
    tell(&[
        NotifyState::Stopping,
        NotifyState::Status("stopping: what runs may finish"),
    ]);
}

/// Waits for something that may take as long as it will, such as the end of another worker: that is
/// no failure to start, and no silence.
pub(super) async fn waiting<T>(status: &str, wait: impl Future<Output = T>) -> T {
    tokio::pin!(wait);
    tokio::select! {
        done = &mut wait => return done,
        () = tokio::time::sleep(SOON) => is_ready(status),
    }
    tokio::select! {
        done = wait => done,
        never = tell_while(|| true) => match never {},
    }
}

/// Says that the worker lives while its loop goes round. Where it does not, the watchdog is left to
/// do its work. Never ends by itself.
pub(super) async fn tell_life(pulse: watch::Receiver<Duration>) {
    tell_while(|| is_alive(*pulse.borrow(), SystemClock.elapsed())).await;
}

/// Says it as often as the service manager wants to hear it.
async fn tell_while(is_alive: impl Fn() -> bool) -> Infallible {
    let Some(patience) = sd_notify::watchdog_enabled() else {
        return future::pending().await;
    };
    loop {
        if is_alive() {
            tell(&[NotifyState::Watchdog]);
        }
        tokio::time::sleep(patience / 3).await;
    }
}

/// Says what keeps the worker from working, as it comes and goes.
pub(super) async fn tell_trouble(mut trouble: watch::Receiver<Option<String>>) {
    while trouble.changed().await.is_ok() {
        let status = match &*trouble.borrow_and_update() {
            Some(what) => format!("nothing begins: {what}"),
            None => String::from("running"),
        };
        tell(&[NotifyState::Status(&status)]);
    }
}

fn is_alive(last: Duration, now: Duration) -> bool {
    now.saturating_sub(last) <= SILENT_MAX
}

/// Where nobody wants to hear it this does nothing.
fn tell(what: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(what) {
        tracing::debug!(%error, "the service manager cannot be told");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_has_stood_still_for_too_long_is_not_alive() {
        let last = Duration::from_secs(1000);
        assert!(is_alive(last, last + Duration::from_secs(66)));
        assert!(!is_alive(last, last + Duration::from_secs(91)));
        assert!(is_alive(last, last - Duration::from_secs(1)));
    }
}
