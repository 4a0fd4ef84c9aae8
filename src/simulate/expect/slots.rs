//! Which slots have started, beside those that are expected to.

use std::collections::BTreeMap;

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use crate::simulate::{Event, Happening};

/// How many slots that nobody expected are named.
const NAMED: usize = 20;

/// Counts starts by slot: those that are expected, and of the others the first few by name.
#[derive(Debug, Clone)]
pub(super) struct Started {
    /// How often each is expected to start yet; below zero where it started more often.
    missing: BTreeMap<DateTime, i64>,
    expected: BTreeMap<DateTime, i64>,
    others: BTreeMap<DateTime, i64>,
    unnamed: u64,
}

impl Started {
    pub(super) fn new(slots: &[DateTime]) -> Self {
        let expected = counted(slots);
        Self {
            missing: expected.clone(),
            expected,
            others: BTreeMap::new(),
            unnamed: 0,
        }
    }

    /// Counts one; whether it was expected.
    pub(super) fn take(&mut self, slot: DateTime) -> bool {
        if let Some(missing) = self.missing.get_mut(&slot) {
            *missing -= 1;
            return *missing >= 0;
        }
        if self.others.contains_key(&slot) || self.others.len() < NAMED {
            *self.others.entry(slot).or_default() += 1;
        } else {
            self.unnamed += 1;
        }
        false
    }

    /// Whether all that was expected has started, and nothing else.
    pub(super) fn is_as_expected(&self) -> bool {
        self.others.is_empty() && self.missing.values().all(|missing| *missing == 0)
    }

    /// What has started.
    pub(super) fn spelled(&self) -> String {
        let mut started = self.others.clone();
        for (slot, expected) in &self.expected {
            let times = expected - self.missing.get(slot).unwrap_or(&0);
            if times > 0 {
                started.insert(*slot, times);
            }
        }
        let mut text = listed(&started);
        if self.unnamed > 0 {
            text.push_str(&format!(", and {} more", self.unnamed));
        }
        text
    }
}

/// Slots as text.
pub(super) fn spelled(slots: &[DateTime]) -> String {
    listed(&counted(slots))
}

fn counted(slots: &[DateTime]) -> BTreeMap<DateTime, i64> {
    let mut counts = BTreeMap::new();
    for slot in slots {
        *counts.entry(*slot).or_default() += 1;
    }
    counts
}

fn listed(slots: &BTreeMap<DateTime, i64>) -> String {
    let slots = slots.iter().map(|(slot, times)| {
        let slot = slot.strftime("%FT%T");
        match times {
            1 => slot.to_string(),
            _ => format!("{slot} ({times} times)"),
        }
    });
    let slots: Vec<_> = slots.collect();
    if slots.is_empty() {
        String::from("none")
    } else {
        slots.join(", ")
    }
}

/// The wall time of the event's slot: as it was written, or where the grid of an `every` job falls.
pub(super) fn written(event: &Event<'_>, zone: &TimeZone) -> Option<DateTime> {
    let Happening::Attempt { slot, .. } = &event.what else {
        return None;
    };
    let text = slot.as_str();
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(instant.to_zoned_datetime(zone.clone()).datetime());
    }
    let text = text.split(['[', '/']).next().unwrap_or(text);
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: usize) -> DateTime {
        let minute = minute as i8;
        jiff::civil::date(2026, 10, 25).at(2 + minute / 60, minute % 60, 0, 0)
    }

    #[test]
    fn a_slot_that_starts_twice_is_expected_twice() {
        let mut once = Started::new(&[at(30)]);
        assert!(!once.is_as_expected() && once.take(at(30)) && once.is_as_expected());
        assert!(!once.take(at(30)));
        assert!(!once.is_as_expected());
        assert_eq!(once.spelled(), "2026-10-25T02:30:00 (2 times)");
        let mut twice = Started::new(&[at(30), at(30)]);
        assert!(twice.take(at(30)) && !twice.is_as_expected());
        assert_eq!(twice.spelled(), "2026-10-25T02:30:00");
        assert!(twice.take(at(30)) && twice.is_as_expected());
    }

    #[test]
    fn of_many_slots_that_nobody_expected_the_first_are_named() {
        let mut started = Started::new(&[]);
        assert_eq!(started.spelled(), "none");
        for minute in 0..100 {
            assert!(!started.take(at(minute)));
        }
        assert!(!started.is_as_expected());
        assert_eq!(started.others.len(), NAMED);
        assert!(started.spelled().ends_with(", and 80 more"));
    }
}
