//! Lanes in memory: what waits in each, and which could go on. Who goes on is the policy's answer.

use std::collections::{BTreeSet, HashMap, VecDeque};

use jiff::Timestamp;

use crate::{
    ids::{JobId, MessageId, PartId, RunId, SessionKey},
    occurrence::{Cause, Slot},
    policy::{DeliveryHead, LaneQueue, RunHead},
};

/// A message on its way; it has one part.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) message: i64,
    pub(super) job: usize,
    pub(super) slot: Slot,
    pub(super) nominal: Timestamp,
    pub(super) enqueued_at: Timestamp,
    pub(super) first_attempt_at: Option<Timestamp>,
    pub(super) next_attempt_at: Timestamp,
    pub(super) attempts: u32,
    /// Whether it goes before everything else of its lane.
    pub(super) begun: bool,
}

/// A run that waits for its lane: when it is due, its job's place, and its own.
pub(super) type Queued = (Timestamp, usize, usize);

#[derive(Debug, Clone)]
struct Lane {
    key: SessionKey,
    held: bool,
    parts: VecDeque<Part>,
    runs: BTreeSet<(Queued, IsCatchUp)>,
}

/// Whether a run makes up for a missed slot; those go last.
pub(super) type IsCatchUp = bool;

/// The lanes that could go on are kept in the order in which the store finds them.
#[derive(Debug, Clone, Default)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    by_key: HashMap<SessionKey, usize>,
    runnable: BTreeSet<(IsCatchUp, Timestamp, usize, usize)>,
    deliverable: BTreeSet<(Timestamp, i64, usize)>,
    /// Every run that waits, in whatever lane.
    queued: BTreeSet<Queued>,
}

impl Lanes {
    /// The place of the lane with this key.
    pub(super) fn open(&mut self, key: &SessionKey) -> usize {
        if let Some(lane) = self.by_key.get(key) {
            return *lane;
        }
        self.lanes.push(Lane {
            key: key.clone(),
            held: false,
            parts: VecDeque::new(),
            runs: BTreeSet::new(),
        });
        self.by_key.insert(key.clone(), self.lanes.len() - 1);
        self.lanes.len() - 1
    }

    pub(super) fn place_of(&self, key: &SessionKey) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    pub(super) fn queue_run(&mut self, lane: usize, run: Queued, cause: Cause) {
        self.queued.insert(run);
        self.change(lane, |lane| {
            lane.runs.insert((run, cause == Cause::CatchUp));
        });
    }

    pub(super) fn remove_run(&mut self, lane: usize, run: Queued, cause: Cause) {
        self.queued.remove(&run);
        self.change(lane, |lane| {
            lane.runs.remove(&(run, cause == Cause::CatchUp));
        });
    }

    pub(super) fn queue_part(&mut self, lane: usize, part: Part) {
        self.change(lane, |lane| lane.add(part));
    }

    /// Takes the lane for its first part.
    pub(super) fn take_for_part(&mut self, lane: usize) -> Option<Part> {
        self.change(lane, |lane| {
            lane.held = true;
            lane.parts.pop_front()
        })
    }

    /// Gives the lane back, with the part if it is to be tried again.
    pub(super) fn give_back(&mut self, lane: usize, again: Option<Part>) {
        self.change(lane, |lane| {
            lane.held = false;
            if let Some(part) = again {
                lane.add(part);
            }
        });
    }

    pub(super) fn take_for_run(&mut self, lane: usize, run: Queued, cause: Cause) {
        self.queued.remove(&run);
        self.change(lane, |lane| {
            lane.held = true;
            lane.runs.remove(&(run, cause == Cause::CatchUp));
        });
    }

    /// Changes a lane, and what is known of whether it could go on.
    fn change<T>(&mut self, place: usize, change: impl FnOnce(&mut Lane) -> T) -> T {
        if let Some(key) = self.lanes[place].runnable(place) {
            self.runnable.remove(&key);
        }
        if let Some(key) = self.lanes[place].deliverable(place) {
            self.deliverable.remove(&key);
        }
        let result = change(&mut self.lanes[place]);
        self.runnable.extend(self.lanes[place].runnable(place));
        self.deliverable
            .extend(self.lanes[place].deliverable(place));
        result
    }

    /// When the next part may be tried that cannot be yet, or a run is due that is not: one that
    /// waited is not due any more after the clock was set back.
    pub(super) fn next_instant(&self, now: Timestamp) -> Option<Timestamp> {
        let later = self.deliverable.range((now, i64::MAX, usize::MAX)..);
        let due = self.queued.range((now, usize::MAX, usize::MAX)..);
        let due = due.map(|(at, ..)| *at).next();
        later
            .map(|(at, ..)| *at)
            .next()
            .into_iter()
            .chain(due)
            .min()
    }

    /// The lanes that could go on now, at most so many for runs alone, in the store's order.
    pub(super) fn queues<'j>(
        &self,
        now: Timestamp,
        slots_free: usize,
        id_of: impl Fn(usize) -> &'j JobId,
    ) -> Vec<LaneQueue> {
        let ready = self
            .deliverable
            .range(..=(now, i64::MAX, usize::MAX))
            .map(|(.., lane)| *lane);
        let due = self
            .runnable
            .iter()
            .filter(|(_, due_at, ..)| *due_at <= now);
        let runnable = due.take(slots_free).map(|(.., lane)| *lane);
        let mut found: Vec<_> = ready
            .chain(runnable)
            .map(|place| {
                let queue = self.lanes[place].queue(now, &id_of);
                let enqueued = queue.delivery.as_ref().map_or(now, |head| head.enqueued_at);
                let due = queue.run.as_ref().map_or(now, |head| head.due_at);
                (enqueued.min(due), queue)
            })
            .collect();
        found.sort_by(|(a, left), (b, right)| (a, &left.session_key).cmp(&(b, &right.session_key)));
        found.into_iter().map(|(_, queue)| queue).collect()
    }
}

impl Lane {
    /// In the store's order: what was begun, then the rest, each by message.
    fn add(&mut self, part: Part) {
        let order = |part: &Part| (!part.begun, part.message);
        let place = self
            .parts
            .partition_point(|other| order(other) < order(&part));
        self.parts.insert(place, part);
    }

    /// How it is found by its runs: not behind parts, which are found by themselves.
    fn runnable(&self, place: usize) -> Option<(IsCatchUp, Timestamp, usize, usize)> {
        if self.held || !self.parts.is_empty() {
            return None;
        }
        let ((due_at, job, _), catch_up) = self.runs.first()?;
        Some((*catch_up, *due_at, *job, place))
    }

    fn deliverable(&self, place: usize) -> Option<(Timestamp, i64, usize)> {
        let part = self.parts.front().filter(|_| !self.held)?;
        Some((part.next_attempt_at, part.message, place))
    }

    fn queue<'j>(&self, now: Timestamp, id_of: impl Fn(usize) -> &'j JobId) -> LaneQueue {
        let delivery = self.parts.front().map(|part| DeliveryHead {
            message_id: MessageId(part.message),
            part_id: PartId(part.message),
            next_attempt_at: part.next_attempt_at,
            enqueued_at: part.enqueued_at,
            first: part.begun,
        });
        let run = self.runs.first().filter(|((due_at, ..), _)| *due_at <= now);
        let run = run.map(|((due_at, job, run), catch_up)| RunHead {
            run_id: RunId(*run as i64),
            job_id: id_of(*job).clone(),
            due_at: *due_at,
            cause: if *catch_up {
                Cause::CatchUp
            } else {
                Cause::Scheduled
            },
        });
        LaneQueue {
            session_key: self.key.clone(),
            delivery,
            turn: None,
            run,
        }
    }
}
