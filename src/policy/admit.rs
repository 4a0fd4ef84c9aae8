//! Which waiting turns, runs and deliveries go next.
//!
//! A lane does one thing at a time. A run takes lane and slot together or waits for both, so one
//! busy chat or one long run delays nobody else while a slot is free.

use jiff::{SignedDuration, Timestamp};

use crate::{
    ids::{JobId, MessageId, PartId, RunId, SessionKey, TurnId},
    occurrence::Cause,
};

/// A delivery that backs off longer than this lets a waiting user turn go first.
const YIELD_AFTER: SignedDuration = SignedDuration::from_secs(10);

/// What waits in one free lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneQueue {
    /// The lane.
    pub session_key: SessionKey,
    /// The first part of the first message that is not settled.
    pub delivery: Option<DeliveryHead>,
    /// The oldest user turn that has not begun.
    pub turn: Option<TurnHead>,
    /// The oldest run that has not begun.
    pub run: Option<RunHead>,
}

/// The next part to send in a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryHead {
    /// The message.
    pub message_id: MessageId,
    /// The part.
    pub part_id: PartId,
    /// When it may next be tried.
    pub next_attempt_at: Timestamp,
    /// When the message was enqueued.
    pub enqueued_at: Timestamp,
    /// Whether it goes before everything else: the rest of a message already begun, or the reply
    /// of a turn that had this lane.
    pub first: bool,
}

/// The next user turn of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnHead {
    /// The turn.
    pub turn_id: TurnId,
    /// When it was asked for.
    pub requested_at: Timestamp,
}

/// The next run of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunHead {
    /// The run.
    pub run_id: RunId,
    /// Its job.
    pub job_id: JobId,
    /// Since when it could start.
    pub due_at: Timestamp,
    /// Why it runs.
    pub cause: Cause,
}

/// A lane's next holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grant {
    /// Send this part.
    Deliver(PartId),
    /// Begin this user turn.
    Turn(TurnId),
    /// Begin an attempt of this run.
    Run(RunId),
}

/// Grants lanes, and slots to runs, at `now`. At most one grant a lane, in the order given to
/// deliveries and turns; runs in the order (made up for last, due instant, job id), as long as
/// `slots_free` lasts. User turns and deliveries take no slot.
pub fn admit(queues: &[LaneQueue], slots_free: usize, now: Timestamp) -> Vec<(SessionKey, Grant)> {
    let mut grants = Vec::new();
    let mut runs = Vec::new();
    for queue in queues {
        let without_run = grant_without_run(queue, now);
        match &queue.run {
            Some(run) if run_goes_next(queue, run, now) => runs.push((queue, run, without_run)),
            Some(_) | None => {
                grants.extend(without_run.map(|grant| (queue.session_key.clone(), grant)))
            }
        }
    }
    runs.sort_by_key(|(_, run, _)| (goes_last(run.cause), run.due_at, run.job_id.clone()));
    for (index, (queue, run, otherwise)) in runs.into_iter().enumerate() {
        // A full house of runs blocks no chat.
        let grant = if index < slots_free {
            Some(Grant::Run(run.run_id))
        } else {
            otherwise
        };
        grants.extend(grant.map(|grant| (queue.session_key.clone(), grant)));
    }
    grants
}

/// Whether runs of this cause go after all others, whenever they were due.
pub fn goes_last(cause: Cause) -> bool {
    cause == Cause::CatchUp
}

/// What the lane does next if its run is left out.
fn grant_without_run(queue: &LaneQueue, now: Timestamp) -> Option<Grant> {
    let turn = queue.turn.as_ref();
    let begin_turn = turn.map(|turn| Grant::Turn(turn.turn_id));
    let Some(delivery) = &queue.delivery else {
        return begin_turn;
    };
    let deliver = Grant::Deliver(delivery.part_id);
    let ready = delivery.next_attempt_at <= now;
    let turn_is_older = turn.is_some_and(|turn| turn.requested_at < delivery.enqueued_at);
    match (ready, delivery.first, turn_is_older) {
        (true, true, _) | (true, false, false) => Some(deliver),
        (true, false, true) => begin_turn,
        // It was tried and backs off; only a person's turn may overtake it, and only a long wait.
        (false, _, _) => {
            begin_turn.filter(|_| delivery.next_attempt_at.duration_since(now) > YIELD_AFTER)
        }
    }
}

/// Whether the lane's run is its next holder, given a slot.
fn run_goes_next(queue: &LaneQueue, run: &RunHead, now: Timestamp) -> bool {
    let due = run.due_at <= now;
    let turn_is_older = queue
        .turn
        .as_ref()
        .is_some_and(|turn| turn.requested_at <= run.due_at);
    let delivery_goes_first = queue.delivery.as_ref().is_some_and(|delivery| {
        delivery.first || delivery.next_attempt_at > now || delivery.enqueued_at <= run.due_at
    });
    due && !turn_is_older && !delivery_goes_first
}

#[cfg(test)]
mod tests;
