//! Free lanes: what waits in them is admitted by the policy, claimed in one commit, and started.

use std::sync::Arc;

use jiff::Timestamp;
use tracing::Instrument;

use crate::{
    policy::{Grant, LaneQueue, admit},
    store::{ClaimRequest, Claimed, LaneLimits, StoreError},
};

use super::{
    BATCH, SENDS_MAX, Scope, TURNS_MAX, Worker, absorb::Completion, execute, in_flight::Holder,
};

impl Worker {
    /// Grants free lanes until nothing more can be granted.
    pub(super) async fn fill_lanes(&mut self, now: Timestamp) -> Result<(), StoreError> {
        if !self.believes(now).await? {
            return Ok(());
        }
        loop {
            let queues = self.store.lane_queues(now, self.limits()).await?;
            let queues: Vec<_> = queues
                .into_iter()
                .filter_map(|queue| self.in_scope(queue))
                .collect();
            let requests = self.requests(&queues, now);
            if requests.is_empty() {
                return Ok(());
            }
            let mut started = false;
            for claimed in self.store.claim(self.id, requests, now).await? {
                match claimed {
                    Ok(claimed) => {
                        started = true;
                        self.start(claimed);
                    }
                    Err(conflict) => tracing::debug!(%conflict, "a lane was not taken"),
                }
            }
            if !started {
                return Ok(());
            }
        }
    }

    /// An errand looks past everything that is not its own.
    fn limits(&self) -> LaneLimits {
        match self.scope {
            Scope::All => LaneLimits {
                runs: self.slots_free().min(BATCH),
                others: BATCH,
            },
            Scope::Session(_) => LaneLimits {
                runs: 0,
                others: usize::MAX,
            },
            Scope::Run { .. } => LaneLimits {
                runs: usize::MAX,
                others: usize::MAX,
            },
        }
    }

    fn slots_free(&self) -> usize {
        let max_concurrent = self.services.max_concurrent;
        max_concurrent.saturating_sub(self.in_flight.runs())
    }

    /// What of a lane's queue this worker works on.
    fn in_scope(&self, mut queue: LaneQueue) -> Option<LaneQueue> {
        let concerns_it = match &self.scope {
            Scope::All => true,
            Scope::Session(session) => {
                queue.run = None;
                queue.session_key == *session
            }
            Scope::Run {
                run_id, shown_in, ..
            } => {
                queue.turn = None;
                queue.run = queue.run.filter(|run| run.run_id == *run_id);
                queue.run.is_some() || shown_in.as_ref() == Some(&queue.session_key)
            }
        };
        concerns_it.then_some(queue)
    }

    /// What the policy grants, as far as the worker's own bounds allow.
    fn requests(&self, queues: &[LaneQueue], now: Timestamp) -> Vec<ClaimRequest> {
        let mut sends_free = SENDS_MAX.saturating_sub(self.in_flight.parts());
        let mut turns_free = TURNS_MAX.saturating_sub(self.in_flight.turns());
        let mut requests = Vec::new();
        for (session_key, grant) in admit(queues, self.slots_free(), now) {
            let has_room = match grant {
                Grant::Deliver(_) => take_one(&mut sends_free),
                Grant::Turn(_) => !self.is_draining && take_one(&mut turns_free),
                Grant::Run(_) => !self.is_draining,
            };
            if has_room {
                requests.push(ClaimRequest { session_key, grant });
            }
        }
        requests
    }

    /// Starts the task of what was claimed.
    fn start(&mut self, claimed: Claimed) {
        let call = execute::Call {
            store: self.store.clone(),
            store_id: self.store_id.clone(),
            clock: self.clock.clone(),
            services: self.services.clone(),
            journal: self.journal.clone(),
        };
        match claimed {
            Claimed::Run(run) => {
                let run_id = run.run_id;
                let (cancel, span) = self.in_flight.begin_run(&run);
                span.in_scope(|| tracing::info!(cause = run.cause.as_str(), "started"));
                let attempt = async move {
                    let done = execute::run(&call, &run, cancel).await;
                    Completion::Run(run, Box::new(done))
                };
                let holder = Holder::Run(run_id);
                self.work(holder, attempt.instrument(span));
            }
            Claimed::Turn(turn) => {
                tracing::info!(chat = %turn.session_key, turn = turn.turn_id.0, "turn started");
                let cancel = self.in_flight.begin_turn(turn.turn_id, &turn.session_key);
                let holder = Holder::Turn(turn.turn_id);
                self.work(holder, async move {
                    let end = execute::turn(&call, &turn, cancel).await;
                    Completion::Turn(turn, Box::new(end))
                });
            }
            Claimed::Withheld(part) => {
                let to = &part.session_key;
                tracing::warn!(%to, part = part.part_id.0, "withheld: it is too late to be sent");
            }
            Claimed::Part(part) => {
                self.in_flight.begin_part(part.part_id, &part.session_key);
                let writer = Arc::clone(&self.writer);
                let holder = Holder::Part(part.part_id);
                self.work(holder, async move {
                    let settlement = writer.send(&part).await;
                    Completion::Part(part, Box::new(settlement))
                });
            }
        }
    }

    fn work(&mut self, holder: Holder, task: impl Future<Output = Completion> + Send + 'static) {
        let task = self.tasks.spawn(task);
        self.in_flight.is_done_by(task.id(), holder);
    }
}

fn take_one(free: &mut usize) -> bool {
    let had_one = *free > 0;
    *free = free.saturating_sub(1);
    had_one
}
