//! One incarnation of a job: its stretches against its records.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

use crate::{
    ids::JobId,
    occurrence::{Outcome, SkipReason, Slot},
    schedule::{Planned, Planner},
};

use super::{AuditReport, Finding, FindingKind, Record, Stretch, ZoneData};

/// No change of a zone's rules moves a slot by more than this: from one end of the offsets in use to
/// the other.
const MOVES_MAX: SignedDuration = SignedDuration::from_hours(26);

/// Holds the records of one incarnation against its plan. They are taken in the order of their
/// (first) nominal instants; memory does not grow with them.
#[derive(Debug)]
pub struct LedgerAudit<'s> {
    job: &'s JobId,
    /// By where they begin.
    stretches: &'s [Stretch],
    /// From where on the stretches tell everything; what was recorded up to here is not theirs.
    known_from: Timestamp,
    /// Records of slots before this instant may have been pruned.
    pruned_before: Option<Timestamp>,
    /// The stretch whose slots are expected now.
    current: usize,
    /// Slots up to here have been dealt with.
    position: Timestamp,
    last: Option<Record>,
    /// Slots that were recorded with other zone data, and their instants by that. Where today's data
    /// has them later, they need no second record. Only those of the last [`MOVES_MAX`] are kept.
    moved: VecDeque<(Timestamp, Slot)>,
    hole: Option<Hole>,
    report: AuditReport,
}

#[derive(Debug)]
struct Hole {
    first: String,
    last: String,
    slots: u64,
}

impl<'s> LedgerAudit<'s> {
    /// Nothing has been taken yet. The stretches are in the order in which they begin; `known_from`
    /// is where the first of them begins, if something may have been recorded before it.
    pub fn new(
        job: &'s JobId,
        stretches: &'s [Stretch],
        known_from: Option<Timestamp>,
        pruned_before: Option<Timestamp>,
    ) -> Self {
        Self {
            job,
            stretches,
            known_from: known_from.unwrap_or(Timestamp::MIN),
            pruned_before,
            current: 0,
            position: Timestamp::MIN,
            last: None,
            moved: VecDeque::new(),
            hole: None,
            report: AuditReport::default(),
        }
    }

    /// Takes the next record.
    pub fn take(&mut self, record: Record) {
        self.check_words(&record);
        if self.meets_the_last(&record) {
            return;
        }
        self.pass_slots_before(record.first());
        match self.expected() {
            Some(planned) if planned.nominal == record.first() => self.hold(&record, &planned),
            Some(_) | None => self.without_a_plan(&record),
        }
        self.last = Some(record);
    }

    /// What is left of the plan has no record; returns everything that was found.
    pub fn finish(mut self) -> AuditReport {
        self.pass_slots_before(Timestamp::MAX);
        self.close_hole();
        self.report
    }

    /// Whether the record takes a place that the one before it has; then it is told.
    fn meets_the_last(&mut self, record: &Record) -> bool {
        let Some(last) = &self.last else {
            return false;
        };
        // Two plans that cross may have slots of their own at one instant.
        if record.first() > last.last() || self.plans_cross(record.first()) {
            return false;
        }
        let what = format!("{} meets {}", record.words(), last.words());
        if record.last() > last.last() {
            self.last = Some(record.clone());
        }
        self.find(FindingKind::Double, what);
        true
    }

    /// The next slot that must have a record.
    fn expected(&mut self) -> Option<Planned> {
        loop {
            let stretch = self.stretches.get(self.current)?;
            let following = self.stretches.get(self.current + 1);
            if stretch.zone_data == ZoneData::Same {
                let from = self.position.max(stretch.after);
                // Where the next one begins earlier, its slots are the ones expected.
                let until = following.map_or(stretch.until, |next| stretch.until.min(next.after));
                let next = stretch.planner.between(from, until).next();
                if next.is_some() {
                    return next;
                }
            }
            self.current += 1;
            self.position = self.position.max(following?.after);
        }
    }

    fn planner(&self) -> Option<&'s Planner> {
        let stretch = self.stretches.get(self.current)?;
        Some(&stretch.planner)
    }

    fn pass_slots_before(&mut self, at: Timestamp) {
        while let Some(planned) = self.expected().filter(|planned| planned.nominal < at) {
            self.position = planned.nominal;
            if self
                .pruned_before
                .is_some_and(|mark| planned.nominal < mark)
            {
                self.report.pruned += 1;
                self.close_hole();
                continue;
            }
            let Some(planner) = self.planner() else {
                return;
            };
            let slot = planner.slot(&planned);
            if self.has_moved(&slot, planned.nominal) {
                continue;
            }
            let slot = slot.to_string();
            match &mut self.hole {
                Some(hole) => {
                    hole.last = slot;
                    hole.slots += 1;
                }
                None => {
                    self.hole = Some(Hole {
                        first: slot.clone(),
                        last: slot,
                        slots: 1,
                    });
                }
            }
        }
    }

    /// Whether the slot has its record from before it moved to this instant.
    fn has_moved(&mut self, slot: &Slot, to: Timestamp) -> bool {
        self.forget_moved(to);
        self.moved.iter().any(|(_, moved)| moved == slot)
    }

    fn forget_moved(&mut self, now: Timestamp) {
        let is_far = |at: &Timestamp| now.duration_since(*at) > MOVES_MAX;
        while self.moved.front().is_some_and(|(at, _)| is_far(at)) {
            self.moved.pop_front();
        }
    }

    /// Remembers the end of a record that other zone data has made.
    fn may_have_moved(&mut self, record: &Record) {
        self.forget_moved(record.last());
        let slot = match record {
            Record::Row { slot, .. } => slot,
            Record::Range { last, .. } => last,
        };
        self.moved.push_back((record.last(), slot.clone()));
    }

    fn close_hole(&mut self) {
        let Some(hole) = self.hole.take() else {
            return;
        };
        let what = if hole.slots == 1 {
            format!("slot {} has no record", hole.first)
        } else {
            format!(
                "{} slots from {} to {} have no record",
                hole.slots, hole.first, hole.last
            )
        };
        self.find(FindingKind::Hole, what);
    }

    /// The record begins where a slot is expected.
    fn hold(&mut self, record: &Record, planned: &Planned) {
        self.close_hole();
        let Some(stretch) = self.stretches.get(self.current) else {
            return;
        };
        let planner = &stretch.planner;
        let before = planned
            .nominal
            .checked_sub(SignedDuration::from_micros(1))
            .unwrap_or(Timestamp::MIN);
        let until = record.last().min(stretch.until);
        let (mut slots, mut last) = (0, *planned);
        for planned in planner.between(before, until) {
            slots += 1;
            last = planned;
        }
        self.position = until.max(planned.nominal);
        let (first_slot, last_slot) = (planner.slot(planned), planner.slot(&last));
        let (first, end) = match record {
            Record::Row { slot, .. } => (slot, slot),
            Record::Range { first, last, .. } => (first, last),
        };
        if *first != first_slot || *end != last_slot || slots != record.slots() {
            let plan = if slots == 1 {
                format!("slot {first_slot}")
            } else {
                format!("{slots} slots from {first_slot} to {last_slot}")
            };
            let what = format!("{} stands where the plan has {plan}", record.words());
            self.find(FindingKind::Wrong, what);
        } else {
            self.report.slots += slots;
        }
    }

    /// The record begins where no slot is expected by the present stretch.
    fn without_a_plan(&mut self, record: &Record) {
        let at = record.first();
        let mut of_other_data = self
            .stretches
            .iter()
            .filter(|stretch| stretch.zone_data == ZoneData::Other);
        if at <= self.known_from || of_other_data.any(|stretch| stretch.has(at)) {
            self.report.unproved += record.slots();
            self.may_have_moved(record);
            return;
        }
        if self
            .stretches
            .iter()
            .any(|stretch| planned_by(stretch, record))
        {
            self.report.slots += record.slots();
            return;
        }
        let what = format!("{} is in no plan that the job had then", record.words());
        self.find(FindingKind::Orphan, what);
    }

    /// Whether two stretches claim this instant: an edit while the clock was being put right.
    fn plans_cross(&self, at: Timestamp) -> bool {
        self.stretches
            .iter()
            .filter(|stretch| stretch.has(at))
            .count()
            > 1
    }

    /// A state that is stored with a reason and an end as they belong together.
    fn check_words(&mut self, record: &Record) {
        let what = match record {
            Record::Range { reason, .. } => {
                if SkipReason::from_stored(reason).is_some() {
                    return;
                }
                format!("{} has the reason `{reason}`", record.words())
            }
            Record::Row {
                state,
                reason,
                has_ended,
                ..
            } => {
                let is_open = matches!(state.as_str(), "waiting" | "active");
                let is_outcome = Outcome::from_stored(state, reason.as_deref()).is_some();
                if is_open && !has_ended && reason.is_none() || is_outcome && *has_ended {
                    return;
                }
                let reason = reason.as_deref().unwrap_or("none");
                let ended = if *has_ended {
                    "has ended"
                } else {
                    "has not ended"
                };
                format!(
                    "{} is {state}, its reason is {reason}, and it {ended}",
                    record.words()
                )
            }
        };
        self.find(FindingKind::Contradiction, what);
    }

    fn find(&mut self, kind: FindingKind, what: String) {
        self.report.findings.push(Finding {
            job: Some(self.job.clone()),
            kind,
            what,
        });
    }
}

/// Whether the stretch has the first slot of the record.
fn planned_by(stretch: &Stretch, record: &Record) -> bool {
    let at = record.first();
    if !stretch.has(at) || stretch.zone_data == ZoneData::Other {
        return false;
    }
    let before = at.checked_sub(SignedDuration::from_micros(1)).unwrap_or(at);
    let slot = match record {
        Record::Row { slot, .. } => slot,
        Record::Range { first, .. } => first,
    };
    let mut planned = stretch.planner.between(before, at);
    planned.any(|planned| stretch.planner.slot(&planned) == *slot)
}
