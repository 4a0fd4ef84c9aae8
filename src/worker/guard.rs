//! Whether the machine's clock can be believed: held against one that nobody can set.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::{
    clock::Clock,
    policy::clock::{doubt, is_set_back},
    store::{Store, StoreError},
};

use super::Worker;

/// What the clock showed when it was last believed.
#[derive(Debug)]
pub(super) struct Guard {
    at: Timestamp,
    elapsed: Duration,
    /// The latest instant that was believed.
    latest: Timestamp,
    /// Whether it is doubted now.
    doubts: bool,
}

/// What is to be thought of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Right,
    /// It was set back so far that cursors may be ahead of it.
    SetBack,
    /// It was set forward further than can be believed.
    Doubtful(SignedDuration),
}

impl Guard {
    pub(super) fn new(clock: &dyn Clock) -> Self {
        let now = clock.now();
        Self {
            at: now,
            elapsed: clock.elapsed(),
            latest: now,
            doubts: false,
        }
    }

    pub(super) fn doubts(&self) -> bool {
        self.doubts
    }

    fn look(&mut self, now: Timestamp, elapsed: Duration) -> Verdict {
        let passed = elapsed.saturating_sub(self.elapsed);
        let expected = self.at.saturating_add(passed).unwrap_or(now);
        if let Some(by) = doubt(expected, now) {
            return Verdict::Doubtful(by);
        }
        let verdict = if is_set_back(self.latest, now) {
            self.latest = now;
            Verdict::SetBack
        } else {
            Verdict::Right
        };
        self.believe(now, elapsed);
        verdict
    }

    fn believe(&mut self, now: Timestamp, elapsed: Duration) {
        self.at = now;
        self.elapsed = elapsed;
        self.latest = self.latest.max(now);
    }
}

/// By how much the clock is further ahead of what the store knows than can be believed, before a
/// worker begins; nothing is started then until somebody confirms it.
///
/// # Errors
/// [`StoreError`] where the store cannot be read.
pub async fn clock_doubt(
    store: &dyn Store,
    now: Timestamp,
) -> Result<Option<SignedDuration>, StoreError> {
    let seen = store.clock_seen().await?;
    Ok(seen.and_then(|seen| doubt(seen, now)))
}

impl Worker {
    /// Whether anything may be begun or committed at this instant: not while the clock is further
    /// ahead than can be believed.
    pub(super) async fn believes(&mut self, now: Timestamp) -> Result<bool, StoreError> {
        let elapsed = self.clock.elapsed();
        match self.guard.look(now, elapsed) {
            Verdict::Right => {}
            Verdict::SetBack => {
                tracing::warn!(%now, "the clock was set back: every job is planned anew from now");
                self.store.look_again(now).await?;
            }
            Verdict::Doubtful(by) => {
                if clock_doubt(self.store.as_ref(), now).await?.is_some() {
                    if !self.guard.doubts {
                        tracing::error!(
                            %now,
                            hours = by.as_hours(),
                            "the clock was set forward by more than a day: nothing is started until \
                             it is right again, or `chatcron accept-clock` confirms it"
                        );
                    }
                    self.guard.doubts = true;
                    return Ok(false);
                }
                self.guard.believe(now, elapsed);
            }
        }
        if self.guard.doubts {
            tracing::warn!(%now, "the clock is believed again");
            self.guard.doubts = false;
            self.store.see_clock(now).await?;
        }
        Ok(true)
    }
}
