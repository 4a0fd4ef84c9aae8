//! What is believed of a clock that somebody may set, and what a cursor does that is ahead of it.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::JobState;

/// A clock that is further ahead than this is not believed until somebody confirms it.
pub const FORWARD_MAX: SignedDuration = SignedDuration::from_hours(24);

/// A cursor that is further ahead of the clock than this is put back to it.
pub const AHEAD_MAX: SignedDuration = SignedDuration::from_hours(1);

/// By how much the clock is further ahead of where it should be than can be believed.
pub fn doubt(expected: Timestamp, now: Timestamp) -> Option<SignedDuration> {
    let ahead = now.duration_since(expected);
    (ahead > FORWARD_MAX).then_some(ahead)
}

/// Whether the clock was set back so far, from the latest instant it showed, that cursors may be
/// too far ahead of it.
pub fn is_set_back(latest: Timestamp, now: Timestamp) -> bool {
    latest.duration_since(now) > AHEAD_MAX
}

/// Slots that have their records although the cursor has yet to come to them: the clock was ahead,
/// and was put right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountedSpan {
    /// Its slots come after this instant.
    pub after: Timestamp,
    /// Its last slot comes at or before this instant.
    pub until: Timestamp,
}

impl JobState {
    /// How far the cursor is ahead of the clock, where it is too far.
    pub fn ahead_of(&self, now: Timestamp) -> Option<SignedDuration> {
        let ahead = self.cursor.duration_since(now);
        (ahead > AHEAD_MAX).then_some(ahead)
    }

    /// Puts a cursor back that is too far ahead. What has been accounted for stays so.
    pub(super) fn put_back(&mut self, now: Timestamp) {
        if self.ahead_of(now).is_none() {
            return;
        }
        let planned_from = self.planned_from.unwrap_or(Timestamp::MIN);
        let after = planned_from.max(now);
        if after < self.cursor {
            let until = self.cursor;
            self.accounted.push(AccountedSpan { after, until });
            self.accounted.sort_unstable_by_key(|span| span.after);
        }
        if now < planned_from {
            self.planned_from = Some(now);
        }
        self.cursor = now;
    }

    /// Up to where slots have their records, from the cursor on without a gap.
    pub fn accounted_to(&self) -> Timestamp {
        self.accounted
            .iter()
            .filter(|span| span.until > self.cursor)
            .fold(self.cursor, |to, span| {
                if span.after <= to {
                    to.max(span.until)
                } else {
                    to
                }
            })
    }

    /// The next stretch after the cursor and up to `now` whose slots have no records yet; the
    /// cursor is moved over those that have.
    pub(super) fn unaccounted_to(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.cursor = self.accounted_to().min(now).max(self.cursor);
        let cursor = self.cursor;
        self.accounted.retain(|span| span.until > cursor);
        if cursor >= now {
            return None;
        }
        let next = self
            .accounted
            .first()
            .map_or(now, |span| span.after.min(now));
        Some(next)
    }

    /// Where the span ends that has this slot, if one does.
    pub(super) fn accounted_past(&self, nominal: Timestamp) -> Option<Timestamp> {
        let mut spans = self.accounted.iter();
        spans
            .find(|span| span.after < nominal && nominal <= span.until)
            .map(|span| span.until)
    }
}
