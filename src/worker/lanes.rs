//! Free lanes: what waits in them is admitted by the policy, claimed in one commit, and started.

use std::{collections::HashMap, sync::Arc};

use futures_util::{StreamExt, stream::FuturesOrdered};
use jiff::Timestamp;
use tracing::Instrument;

use crate::{
    clock::{Clock, SystemClock},
    ids::Epoch,
    measure,
    policy::{Grant, LaneQueue, RunHead, admit, goes_last},
    store::{
        ClaimRequest, Claimant, Claimed, ClaimedRun, Conflict, LaneLimits, StoreError, StoredJob,
    },
};

use super::{
    BATCH, CHUNK, Happened, SENDS_MAX, Scope, TURNS_MAX, Worker, absorb::Completion, execute,
    in_flight::Holder,
};

/// What came of claims.
enum Taken {
    Nothing,
    /// Some of the lanes are free still, and may have other work.
    Some,
    All,
}

impl Worker {
    /// Grants free lanes until nothing more can be granted.
    pub(super) async fn fill_lanes(&mut self, now: Timestamp) -> Result<(), StoreError> {
        if !self.believes(now).await? {
            return Ok(());
        }
        loop {
            let slots_free = self.slots_free().await?;
            let limits = self.limits(slots_free);
            let queues = self.store.lane_queues(now, limits).await?;
            let is_cut = is_cut(&queues, limits);
            let queues: Vec<_> = queues
                .into_iter()
                .filter_map(|queue| self.in_scope(queue))
                .collect();
            let requests = self.requests(&queues, slots_free, now);
            if requests.is_empty() || self.lease.term().left().is_zero() {
                return Ok(());
            }
            match self.claim(requests, now).await? {
                Taken::Nothing => return Ok(()),
                Taken::All if !is_cut => return Ok(()),
                Taken::All | Taken::Some => {}
            }
        }
    }

    /// Begins the waiting runs that go before the due job `first`, and says what room there is after
    /// that.
    pub(super) async fn claim_runs_before(
        &mut self,
        first: &StoredJob,
        now: Timestamp,
    ) -> Result<Room, StoreError> {
        let free = self.own_slots_free();
        if free == 0 || !self.believes(now).await? {
            return Ok(Room::default());
        }
        if !self.store.has_waiting_run(now).await? {
            let any = LaneLimits { runs: 0, others: 1 };
            let others_wait = !self.store.lane_queues(now, any).await?.is_empty();
            return Ok(Room {
                slots: free,
                others_wait,
            });
        }
        // A run may go before the turn or the delivery that waits in its lane, too.
        let limits = LaneLimits {
            runs: free.min(BATCH),
            others: BATCH,
        };
        let mut queues = self.store.lane_queues(now, limits).await?;
        let others_wait = queues.iter().any(has_other_work);
        let is_cut = is_cut(&queues, limits);
        let found = queues.iter().filter(|queue| queue.run.is_some()).count();
        let is_before = |run: &RunHead| goes_before(run, first);
        queues.retain(|queue| queue.run.as_ref().is_some_and(is_before));
        // A queue that was left out, or not read, may hold a run that goes first.
        let is_everything = !is_cut && queues.len() == found && found < limits.runs;
        let mut requests = self.requests(&queues, free, now);
        requests.retain(|request| matches!(request.grant, Grant::Run(_)));
        let are_begun =
            requests.is_empty() || matches!(self.claim(requests, now).await?, Taken::All);
        Ok(Room {
            slots: match is_everything && are_begun {
                true => self.own_slots_free(),
                false => 0,
            },
            others_wait,
        })
    }

    /// Claims lanes and starts their tasks, the first while the next are claimed.
    async fn claim(
        &mut self,
        requests: Vec<ClaimRequest>,
        now: Timestamp,
    ) -> Result<Taken, StoreError> {
        let by = Claimant {
            worker: self.id,
            max_concurrent: self.services.max_concurrent,
        };
        let store = Arc::clone(&self.store);
        let asked_at = SystemClock.elapsed();
        let chunks = requests.chunks(CHUNK).map(<[_]>::to_vec);
        let mut answers: FuturesOrdered<_> =
            chunks.map(|chunk| store.claim(by, chunk, now)).collect();
        let mut taken = 0;
        let mut are_held = true;
        let mut failure = None;
        // What was claimed is begun, whatever becomes of the rest.
        while let Some(answer) = answers.next().await {
            let claimed = match answer {
                Ok(claimed) => claimed,
                Err(error) => {
                    failure = Some(error);
                    continue;
                }
            };
            for claimed in claimed {
                are_held &= matches!(&claimed, Ok(held) if !matches!(held, Claimed::Withheld(_)));
                match claimed {
                    Ok(claimed) => {
                        if taken == 0 {
                            self.lease.claimed(asked_at);
                        }
                        taken += 1;
                        measure::begins(&claimed, now);
                        self.start(claimed);
                    }
                    Err(Conflict::LeaseLost) => self.lease.lose(),
                    Err(conflict) => tracing::debug!(%conflict, "a lane was not taken"),
                }
            }
        }
        failure.map_or(Ok(()), Err)?;
        Ok(match taken {
            0 => Taken::Nothing,
            _ if are_held => Taken::All,
            _ => Taken::Some,
        })
    }

    /// An errand looks past everything that is not its own.
    fn limits(&self, slots_free: usize) -> LaneLimits {
        match self.scope {
            Scope::All => LaneLimits {
                runs: slots_free.min(BATCH),
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

    /// How many more runs may be under way, over all workers that share the database.
    async fn slots_free(&self) -> Result<usize, StoreError> {
        if !self.lease.is_shared() {
            return Ok(self.own_slots_free());
        }
        let running = self.store.running_runs().await?;
        Ok(self.services.max_concurrent.saturating_sub(running))
    }

    /// Likewise, where this worker has the database for itself.
    pub(super) fn own_slots_free(&self) -> usize {
        let running = self.in_flight.runs();
        self.services.max_concurrent.saturating_sub(running)
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
    fn requests(
        &self,
        queues: &[LaneQueue],
        slots_free: usize,
        now: Timestamp,
    ) -> Vec<ClaimRequest> {
        let mut sends_free = SENDS_MAX.saturating_sub(self.in_flight.parts());
        let mut turns_free = TURNS_MAX.saturating_sub(self.in_flight.turns());
        let mut requests = Vec::new();
        let of_lane: HashMap<_, _> = queues.iter().map(|of| (&of.session_key, of)).collect();
        for (session_key, grant) in admit(queues, slots_free, now) {
            let has_room = match grant {
                Grant::Deliver(_) => take_one(&mut sends_free),
                Grant::Turn(_) => !self.is_draining && take_one(&mut turns_free),
                Grant::Run(_) => !self.is_draining,
            };
            if has_room {
                if let Some(queue) = of_lane.get(&session_key) {
                    measure::lane_wait(queue, grant, now);
                }
                requests.push(ClaimRequest { session_key, grant });
            }
        }
        requests
    }

    /// Starts the attempt of a run that began with the decision which started it.
    pub(super) fn begin_run(&mut self, run: ClaimedRun, now: Timestamp) {
        let claimed = Claimed::Run(Box::new(run));
        measure::no_lane_wait();
        measure::begins(&claimed, now);
        self.start(claimed);
    }

    /// Starts the task of what was claimed.
    fn start(&mut self, claimed: Claimed) {
        let call = execute::Call {
            store: self.store.clone(),
            store_id: self.store_id.clone(),
            clock: self.clock.clone(),
            services: self.services.clone(),
            journal: self.journal.clone(),
            events: self.events.clone(),
        };
        let now = self.clock.now();
        match claimed {
            Claimed::Run(run) => {
                let (run_id, epoch) = (run.run_id, run.epoch);
                let (cancel, span) = self.in_flight.begin_run(&run);
                span.in_scope(|| tracing::info!(cause = run.cause.as_str(), "started"));
                self.events.tell(now, Happened::run_started(&run));
                let attempt = async move {
                    let done = execute::run(&call, &run, cancel).await;
                    Completion::Run(run, Box::new(done))
                };
                self.work(Holder::Run(run_id), epoch, attempt.instrument(span));
            }
            Claimed::Turn(turn) => {
                tracing::info!(chat = %turn.session_key, turn = turn.turn_id.0, "turn started");
                let cancel = self.in_flight.begin_turn(&turn);
                let (turn_id, session_key) = (turn.turn_id, turn.session_key.clone());
                let started = Happened::TurnStarted {
                    turn_id,
                    session_key,
                };
                self.events.tell(now, started);
                let runners = Arc::clone(&self.runners);
                let (holder, epoch) = (Holder::Turn(turn_id), turn.epoch);
                self.work(holder, epoch, async move {
                    let end = match &turn.runner {
                        Some(token) => execute::lend(&call, &turn, token, &runners, cancel).await,
                        None => execute::turn(&call, &turn, cancel).await,
                    };
                    Completion::Turn(turn, Box::new(end))
                });
            }
            Claimed::Withheld(part) => {
                let to = &part.session_key;
                tracing::warn!(%to, part = part.part_id.0, "withheld: it is too late to be sent");
            }
            Claimed::Part(part) => {
                self.in_flight.begin_part(&part);
                let (writer, term) = (Arc::clone(&self.writer), self.lease.term());
                let (holder, epoch) = (Holder::Part(part.part_id), part.epoch);
                self.work(holder, epoch, async move {
                    let settlement = writer.send(&part, term.left()).await;
                    Completion::Part(part, Box::new(settlement))
                });
            }
        }
    }

    fn work(
        &mut self,
        holder: Holder,
        epoch: Epoch,
        task: impl Future<Output = Completion> + Send + 'static,
    ) {
        let task = self.tasks.spawn(task);
        self.in_flight.is_done_by(task.id(), holder, epoch);
    }
}

/// What may begin beside what waits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Room {
    /// For how many runs there is a slot; 0 where anything still waits for one, so that no new run
    /// overtakes it.
    pub(super) slots: usize,
    /// Whether turns or deliveries wait for free lanes.
    pub(super) others_wait: bool,
}

/// Whether a waiting run goes before the run of a job that is due, and of those after it.
fn goes_before(run: &RunHead, first: &StoredJob) -> bool {
    let due = first.wake_at.unwrap_or(Timestamp::MAX);
    !goes_last(run.cause) && (run.due_at, &run.job_id) < (due, &first.job.id)
}

fn has_other_work(queue: &LaneQueue) -> bool {
    queue.delivery.is_some() || queue.turn.is_some()
}

/// Whether there may be more than was found.
fn is_cut(queues: &[LaneQueue], limits: LaneLimits) -> bool {
    let others = queues.iter().filter(|queue| has_other_work(queue)).count();
    others >= limits.others || (limits.runs == BATCH && queues.len() - others >= BATCH)
}

fn take_one(free: &mut usize) -> bool {
    let had_one = *free > 0;
    *free = free.saturating_sub(1);
    had_one
}
