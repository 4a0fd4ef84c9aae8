//! The rules once more, as slowly as they read: a walk over every real half minute of a zone.

use std::collections::BTreeMap;

use jiff::{
    SignedDuration, Span, Timestamp,
    civil::{Date, DateTime},
    tz::TimeZone,
};

use crate::expr::Expr;

/// What the naive walk needs to know of a job.
pub(crate) struct Job<'t> {
    pub(crate) expr: &'t Expr,
    pub(crate) zone: TimeZone,
    pub(crate) from: Option<DateTime>,
    pub(crate) until: Option<DateTime>,
    pub(crate) exclude: &'t [Date],
}

/// Offsets with half minutes exist (Monrovia had -00:44:30), finer ones not after 1965.
const STEP: SignedDuration = SignedDuration::from_secs(30);

impl Job<'_> {
    fn counts(&self, at: DateTime) -> bool {
        self.expr.names(at)
            && self.from.is_none_or(|from| at >= from)
            && self.until.is_none_or(|until| at < until)
            && !self.exclude.contains(&at.date())
    }

    /// The instants at which it fires, after `after` and not after `until`.
    pub(crate) fn firing(&self, after: Timestamp, until: Timestamp) -> Vec<Timestamp> {
        // Local time shown before the walk begins must be known, for an overlap in the first hours.
        let mut at = floor_step(after - SignedDuration::from_hours(72));
        let mut shown_to: Option<DateTime> = None;
        let mut fired = BTreeMap::new();
        while at <= until {
            let local = self.zone.to_datetime(at);
            let next_local = local + STEP;
            if !self.expr.is_fixed() {
                if self.counts(local) {
                    fired.insert(at, ());
                }
            } else {
                let start = shown_to.unwrap_or(local);
                if self.any_written(start, local) {
                    fired.insert(at, ());
                }
                shown_to = Some(start.max(next_local));
            }
            at += STEP;
        }
        fired.into_keys().filter(|at| *at > after).collect()
    }

    /// Whether a written time that counts lies between both, on a date that the zone did not skip.
    fn any_written(&self, start: DateTime, end: DateTime) -> bool {
        let mut at = start;
        while at <= end {
            let day = at.date().to_datetime(jiff::civil::Time::midnight());
            let skipped_whole = start <= day && day + Span::new().days(1) <= end;
            if self.counts(at) && !skipped_whole {
                return true;
            }
            at += STEP;
        }
        false
    }
}

fn floor_step(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second().div_euclid(30) * 30).unwrap()
}
