//! Slots of the past that somebody wants to run again.
//!
//! They run one after another, when nothing is active and nothing that came due waits. A run of a
//! backfill touches neither the cursor nor what ends a job, and the record of the slot stays.

use jiff::Timestamp;

use super::Draft;
use crate::{
    occurrence::{Cause, OccurrenceRef},
    policy::{BackfillSlot, JobPlan, Refusal, WaitsFor},
};

/// How many slots of a job may wait for a backfill: they are part of the job's state, which every
/// decision about it writes.
pub const BACKFILL_MAX: usize = 500;

impl Draft {
    /// Lets slots wait for their backfill, all or none; one that waits already waits once.
    pub(super) fn take_on(&mut self, plan: &JobPlan, slots: &[BackfillSlot]) {
        if !plan.job.enabled {
            self.refusal = Some(Refusal::Disabled);
            return;
        }
        let waiting = &self.state.backfill;
        let is_new = |new: &&BackfillSlot| waiting.iter().all(|known| known.slot != new.slot);
        let new: Vec<_> = slots.iter().filter(is_new).cloned().collect();
        if waiting.len() + new.len() > BACKFILL_MAX {
            self.refusal = Some(Refusal::BackfillFull);
            return;
        }
        self.state.backfill.extend(new);
    }

    /// Starts the next slot of a backfill, where nothing of the schedule is in its way.
    pub(super) fn start_backfill(&mut self, now: Timestamp) {
        let mut waiting = self.state.waiting.iter();
        let is_in_the_way = waiting.any(|slot| slot.waits_for != WaitsFor::Instant);
        if !self.state.active.is_empty() || is_in_the_way || self.state.backfill.is_empty() {
            return;
        }
        let BackfillSlot {
            request,
            slot,
            nominal,
        } = self.state.backfill.remove(0);
        let occurrence = OccurrenceRef::Backfill(request, slot);
        self.start_requested(occurrence, nominal, Cause::Backfill, now);
    }
}
