//! What the worker's tasks are doing, so that it can be counted and called off.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    fmt,
};

use tokio::task;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::{
    ids::{Epoch, PartId, RunId, SessionKey, TurnId},
    store::{ClaimedPart, ClaimedRun, ClaimedTurn},
};

/// An attempt under way.
struct Run {
    claimed: ClaimedRun,
    cancel: CancellationToken,
    /// What is logged of it names the job and the run.
    span: Span,
}

/// A turn under way.
struct Turn {
    epoch: Epoch,
    session: SessionKey,
    cancel: CancellationToken,
}

/// A send under way.
struct Part {
    epoch: Epoch,
    session: SessionKey,
}

/// Attempts, turns and sends under way. The same run, turn or part may have been under way before
/// under another lease, whose task has not noticed yet; it is told by its epoch.
#[derive(Default)]
pub(super) struct InFlight {
    runs: HashMap<RunId, Run>,
    turns: HashMap<TurnId, Turn>,
    parts: HashMap<PartId, Part>,
    /// The tasks, so that one which ends without a report can be told by what it held.
    tasks: HashMap<task::Id, (Holder, Epoch)>,
}

/// What holds a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Run(RunId),
    Turn(TurnId),
    Part(PartId),
}

impl fmt::Display for Holder {
    /// As the store spells it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(id) => write!(f, "run:{id}"),
            Self::Turn(id) => write!(f, "turn:{id}"),
            Self::Part(id) => write!(f, "part:{id}"),
        }
    }
}

impl InFlight {
    pub(super) fn begin_run(&mut self, run: &ClaimedRun) -> (CancellationToken, Span) {
        let cancel = CancellationToken::new();
        let span = tracing::info_span!("run", job = %run.job.id, run = run.run_id.0, attempt = run.attempt);
        let under_way = Run {
            claimed: run.clone(),
            cancel: cancel.clone(),
            span: span.clone(),
        };
        self.runs.insert(run.run_id, under_way);
        (cancel, span)
    }

    pub(super) fn begin_turn(&mut self, turn: &ClaimedTurn) -> CancellationToken {
        let cancel = CancellationToken::new();
        let under_way = Turn {
            epoch: turn.epoch,
            session: turn.session_key.clone(),
            cancel: cancel.clone(),
        };
        self.turns.insert(turn.turn_id, under_way);
        cancel
    }

    pub(super) fn begin_part(&mut self, part: &ClaimedPart) {
        let under_way = Part {
            epoch: part.epoch,
            session: part.session_key.clone(),
        };
        self.parts.insert(part.part_id, under_way);
    }

    /// The attempt has ended; returns the span in which that is told.
    pub(super) fn end_run(&mut self, run: RunId, epoch: Epoch) -> Span {
        match self.runs.entry(run) {
            Entry::Occupied(own) if own.get().claimed.epoch == epoch => own.remove().span,
            Entry::Occupied(_) | Entry::Vacant(_) => Span::none(),
        }
    }

    pub(super) fn end_turn(&mut self, turn: TurnId, epoch: Epoch) {
        self.turns
            .retain(|id, own| *id != turn || own.epoch != epoch);
    }

    pub(super) fn end_part(&mut self, part: PartId, epoch: Epoch) {
        self.parts
            .retain(|id, own| *id != part || own.epoch != epoch);
    }

    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    pub(super) fn turns(&self) -> usize {
        self.turns.len()
    }

    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Asks an attempt to stop; its outcome is no longer wanted.
    pub(super) fn abort_run(&self, run: RunId) {
        if let Some(run) = self.runs.get(&run) {
            run.cancel.cancel();
        }
    }

    /// Asks every attempt and turn to stop.
    pub(super) fn abort_all(&self) {
        for run in self.runs.values() {
            run.cancel.cancel();
        }
        for turn in self.turns.values() {
            turn.cancel.cancel();
        }
    }

    /// Asks the turns and attempts of a session to stop, and returns the attempts.
    pub(super) fn abort_session(&self, session: &SessionKey) -> Vec<ClaimedRun> {
        for turn in self.turns.values().filter(|turn| turn.session == *session) {
            turn.cancel.cancel();
        }
        let mut aborted = Vec::new();
        for run in self.runs.values() {
            if run.claimed.lane == *session {
                run.cancel.cancel();
                aborted.push(run.claimed.clone());
            }
        }
        aborted
    }

    /// Whether a part of the session is being sent.
    pub(super) fn is_sending(&self, session: &SessionKey) -> bool {
        self.parts.values().any(|part| part.session == *session)
    }

    /// Who holds lanes on behalf of this worker, as the store spells it.
    pub(super) fn holders(&self) -> HashSet<String> {
        let runs = self.runs.keys().map(|id| Holder::Run(*id));
        let turns = self.turns.keys().map(|id| Holder::Turn(*id));
        let parts = self.parts.keys().map(|id| Holder::Part(*id));
        let all = runs.chain(turns).chain(parts);
        all.map(|holder| holder.to_string()).collect()
    }

    /// This task works for that holder, under that lease.
    pub(super) fn is_done_by(&mut self, task: task::Id, holder: Holder, epoch: Epoch) {
        self.tasks.insert(task, (holder, epoch));
    }

    /// A task has reported; its holder stays until the report is saved.
    pub(super) fn has_reported(&mut self, task: task::Id) {
        self.tasks.remove(&task);
    }

    /// A task has ended without a report: its lane is taken back at the next reaping.
    pub(super) fn lost(&mut self, task: task::Id) {
        match self.tasks.remove(&task) {
            Some((Holder::Run(id), epoch)) => drop(self.end_run(id, epoch)),
            Some((Holder::Turn(id), epoch)) => self.end_turn(id, epoch),
            Some((Holder::Part(id), epoch)) => self.end_part(id, epoch),
            None => {}
        }
    }
}
