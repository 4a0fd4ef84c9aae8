//! What the worker's tasks are doing, so that it can be counted and called off.

use std::collections::{HashMap, HashSet};

use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::{
    ids::{PartId, RunId, SessionKey, TurnId},
    store::ClaimedRun,
};

/// An attempt under way.
struct Run {
    claimed: ClaimedRun,
    cancel: CancellationToken,
    /// What is logged of it names the job and the run.
    span: Span,
}

/// Attempts, turns and sends under way.
#[derive(Default)]
pub(super) struct InFlight {
    runs: HashMap<RunId, Run>,
    turns: HashMap<TurnId, (SessionKey, CancellationToken)>,
    parts: HashMap<PartId, SessionKey>,
}

impl InFlight {
    pub(super) fn begin_run(&mut self, run: &ClaimedRun) -> (CancellationToken, Span) {
        let cancel = CancellationToken::new();
        let span =
            tracing::info_span!("run", job = %run.job.id, run = %run.run_id, attempt = run.attempt);
        let under_way = Run {
            claimed: run.clone(),
            cancel: cancel.clone(),
            span: span.clone(),
        };
        self.runs.insert(run.run_id, under_way);
        (cancel, span)
    }

    pub(super) fn begin_turn(&mut self, turn: TurnId, session: &SessionKey) -> CancellationToken {
        let cancel = CancellationToken::new();
        self.turns.insert(turn, (session.clone(), cancel.clone()));
        cancel
    }

    pub(super) fn begin_part(&mut self, part: PartId, session: &SessionKey) {
        self.parts.insert(part, session.clone());
    }

    /// The attempt has ended; returns the span in which that is told.
    pub(super) fn end_run(&mut self, run: RunId) -> Span {
        self.runs
            .remove(&run)
            .map_or_else(Span::none, |run| run.span)
    }

    pub(super) fn end_turn(&mut self, turn: TurnId) {
        self.turns.remove(&turn);
    }

    pub(super) fn end_part(&mut self, part: PartId) {
        self.parts.remove(&part);
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
        for (_, cancel) in self.turns.values() {
            cancel.cancel();
        }
    }

    /// Asks the turns and attempts of a session to stop, and returns the attempts.
    pub(super) fn abort_session(&self, session: &SessionKey) -> Vec<ClaimedRun> {
        for (_, cancel) in self.turns.values().filter(|(lane, _)| lane == session) {
            cancel.cancel();
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
        self.parts.values().any(|lane| lane == session)
    }

    /// Who holds lanes on behalf of this worker, as the store spells it.
    pub(super) fn holders(&self) -> HashSet<String> {
        let runs = self.runs.keys().map(|id| format!("run:{id}"));
        let turns = self.turns.keys().map(|id| format!("turn:{id}"));
        let parts = self.parts.keys().map(|id| format!("part:{id}"));
        runs.chain(turns).chain(parts).collect()
    }
}
