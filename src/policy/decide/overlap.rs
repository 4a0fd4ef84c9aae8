//! What a slot does when its time has come: by what is active, and by the overlap policy.

use jiff::Timestamp;

use crate::{
    job::{CatchUp, Overlap},
    occurrence::{OccurrenceKind, OccurrenceRef, Outcome, SkipReason, Slot},
};

use super::{Draft, account};
use crate::policy::{ActiveRun, Effect, JobPlan, Phase, SkippedRange, WaitingSlot, WaitsFor};

/// How many slots of a job wait at most, buffered and queued together.
pub const QUEUE_MAX: usize = 100;

/// Whether a slot that wants to start has its record already.
pub(super) enum Candidate {
    /// It was waiting.
    Recorded,
    /// Its time came just now.
    Fresh { merged: Vec<Slot> },
}

impl Candidate {
    fn merged(self) -> Vec<Slot> {
        match self {
            Self::Recorded => Vec::new(),
            Self::Fresh { merged } => merged,
        }
    }
}

/// What keeps a slot from starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occupant {
    Nothing,
    ScheduledRun,
    /// A manual run or one of a backfill, and no scheduled one.
    RequestedRun,
}

/// What waits already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    Empty,
    /// Something is buffered, and there is room.
    Begun,
    Full,
}

/// What a slot does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Start,
    Wait,
    Skip,
    CancelThenStart,
}

/// The overlap policies as a table. A requested run drops nothing that is queued: one slot waits
/// for its end whatever the policy.
pub(super) fn step(occupant: Occupant, overlap: Overlap, queue: Queue) -> Step {
    use Occupant::{Nothing, RequestedRun, ScheduledRun};
    use Overlap::{Allow, BufferAll, BufferOne, CancelRunning, Skip};
    match (occupant, overlap, queue) {
        (Nothing, _, _) | (ScheduledRun | RequestedRun, Allow, _) => Step::Start,
        (ScheduledRun, CancelRunning, _) => Step::CancelThenStart,
        (ScheduledRun, BufferOne | BufferAll, Queue::Empty)
        | (ScheduledRun | RequestedRun, BufferAll, Queue::Begun)
        | (RequestedRun, Skip | BufferOne | BufferAll | CancelRunning, Queue::Empty) => Step::Wait,
        (ScheduledRun | RequestedRun, BufferAll, Queue::Full)
        | (ScheduledRun | RequestedRun, BufferOne, Queue::Begun | Queue::Full)
        | (RequestedRun, Skip | CancelRunning, Queue::Begun | Queue::Full)
        | (ScheduledRun, Skip, _) => Step::Skip,
    }
}

impl Draft {
    /// Starts, or gives up, the waiting slots whose time has come, in nominal order.
    pub(super) fn start_waiting(&mut self, plan: &JobPlan, now: Timestamp) {
        for slot in std::mem::take(&mut self.state.waiting) {
            if slot.fire_at > now {
                self.state.waiting.push(slot);
            } else if let Some(reason) = too_late(plan, &slot, now) {
                self.end_waiting(&slot, Outcome::Skipped(reason));
            } else if self.is_held(&slot) {
                self.state.waiting.push(slot);
            } else {
                self.start(plan, slot, Candidate::Recorded);
            }
        }
    }

    /// Whether a slot waits for more than its instant; what waits before it has been looked at.
    pub(super) fn is_held(&self, slot: &WaitingSlot) -> bool {
        match slot.waits_for {
            WaitsFor::Instant => false,
            WaitsFor::Run => !self.state.active.is_empty(),
            WaitsFor::Queue => !self.state.active.is_empty() || self.is_queueing(),
        }
    }

    /// Whether slots of `catch_up = "all"` wait for their turn.
    fn is_queueing(&self) -> bool {
        let waiting = &self.state.waiting;
        waiting.iter().any(|slot| slot.waits_for == WaitsFor::Queue)
    }

    /// Whether a slot that comes due joins the queue of `catch_up = "all"`.
    pub(super) fn is_catching_up(&self) -> bool {
        self.is_queueing() || self.state.active.iter().any(|run| run.from_queue)
    }

    /// How many more slots may wait.
    pub(super) fn room(&self) -> usize {
        QUEUE_MAX.saturating_sub(self.state.waiting.len())
    }

    /// Lets a slot start or wait, or skips it, by what is active and by the overlap policy.
    pub(super) fn start(&mut self, plan: &JobPlan, mut slot: WaitingSlot, candidate: Candidate) {
        let queue = match (self.room(), self.state.waiting.is_empty()) {
            (0, _) => Queue::Full,
            (_, true) => Queue::Empty,
            (_, false) => Queue::Begun,
        };
        match step(self.occupied_by(), plan.job.policies.overlap, queue) {
            Step::Start => self.start_scheduled(slot, candidate),
            Step::CancelThenStart => {
                self.cancel_active(|kind| kind == OccurrenceKind::Scheduled);
                self.start_scheduled(slot, candidate);
            }
            Step::Wait => {
                slot.waits_for = WaitsFor::Run;
                self.wait(slot, candidate);
            }
            Step::Skip => self.skip_for_overlap(slot, &candidate),
        }
    }

    fn skip_for_overlap(&mut self, slot: WaitingSlot, candidate: &Candidate) {
        match candidate {
            Candidate::Recorded => self.end_waiting(&slot, Outcome::Skipped(SkipReason::Overlap)),
            Candidate::Fresh { .. } => self.effects.push(Effect::Skip(SkippedRange {
                first: slot.slot.clone(),
                first_nominal: slot.nominal,
                last: slot.slot,
                last_nominal: slot.nominal,
                count: 1,
                reason: SkipReason::Overlap,
            })),
        }
    }

    fn start_scheduled(&mut self, slot: WaitingSlot, candidate: Candidate) {
        let occurrence = OccurrenceRef::Scheduled(slot.slot);
        self.state.started_runs += 1;
        self.state.active.push(ActiveRun {
            occurrence: occurrence.clone(),
            phase: Phase::Open,
            from_queue: slot.waits_for == WaitsFor::Queue,
        });
        self.effects.push(Effect::Start {
            occurrence,
            nominal: slot.nominal,
            fire_at: slot.fire_at,
            cause: slot.cause,
            merged: candidate.merged(),
        });
    }

    pub(super) fn occupied_by(&self) -> Occupant {
        let kinds = self.state.active.iter().map(|run| run.occurrence.kind());
        kinds.fold(Occupant::Nothing, |occupant, kind| match (occupant, kind) {
            (Occupant::ScheduledRun, _) | (_, OccurrenceKind::Scheduled) => Occupant::ScheduledRun,
            (
                Occupant::Nothing | Occupant::RequestedRun,
                OccurrenceKind::Manual | OccurrenceKind::Backfill,
            ) => Occupant::RequestedRun,
        })
    }

    /// Lets a slot wait; it gets its record now unless it has one.
    pub(super) fn wait(&mut self, slot: WaitingSlot, candidate: Candidate) {
        if let Candidate::Fresh { merged } = candidate {
            self.effects.push(Effect::Wait {
                waiting: slot.clone(),
                merged,
            });
        }
        self.state.waiting.push(slot);
    }

    /// Ends a slot that has a record and did not start.
    pub(super) fn end_waiting(&mut self, slot: &WaitingSlot, outcome: Outcome) {
        self.effects.push(Effect::End {
            occurrence: OccurrenceRef::Scheduled(slot.slot.clone()),
            outcome,
        });
    }

    /// Calls off the active runs of these kinds.
    pub(super) fn cancel_active(&mut self, which: impl Fn(OccurrenceKind) -> bool) {
        let active = self.state.active.iter().map(|run| run.occurrence.clone());
        let chosen: Vec<_> = active.filter(|of| which(of.kind())).collect();
        for occurrence in chosen {
            self.end(&occurrence, Outcome::Cancelled);
        }
    }
}

/// Why a waiting slot whose time has come no longer starts, if it does not.
fn too_late(plan: &JobPlan, slot: &WaitingSlot, now: Timestamp) -> Option<SkipReason> {
    let on_time = account::is_on_time(slot.fire_at, now);
    let missed = match (slot.waits_for, plan.job.policies.catch_up) {
        (WaitsFor::Instant, CatchUp::None) => true,
        (WaitsFor::Instant, CatchUp::Latest | CatchUp::All) => {
            !account::is_in_window(plan, slot.nominal, now)
        }
        (WaitsFor::Run | WaitsFor::Queue, _) => !account::is_kept(plan, slot.nominal, now),
    };
    (!on_time && missed).then_some(SkipReason::Missed)
}
