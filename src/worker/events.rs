//! What happens, told to whoever wants to know: after it is committed, and only by the process that
//! did it.

use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::broadcast;

use crate::{
    ids::{JobId, MessageId, PartId, RunId, SessionKey, TurnId},
    message::{Origin, PartState},
    occurrence::{Cause, Outcome},
    policy::{AttemptResult, OwnedEvent, outbox::Transition},
    store::{AttemptEnd, ClaimedPart, ClaimedRun, TurnResult},
};

/// How many events wait for a reader that is slow; what is older it misses, and is told how many.
const KEPT: usize = 1024;

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Event {
    /// When it was committed.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub what: Happened,
}

/// The kinds of event.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Happened {
    /// An attempt of a run has begun.
    RunStarted {
        /// The job.
        job_id: JobId,
        /// The run.
        run_id: RunId,
        /// Which attempt, from 1.
        attempt: u32,
        /// Why it runs.
        cause: Cause,
    },
    /// An attempt of a run has ended; another one may follow.
    AttemptFinished {
        /// The job.
        job_id: JobId,
        /// The run.
        run_id: RunId,
        /// Which attempt, from 1.
        attempt: u32,
        /// `done`, `silent`, or why it failed.
        result: &'static str,
        /// The error in words, if it failed.
        error: Option<String>,
    },
    /// A run has ended.
    RunFinished {
        /// The job.
        job_id: JobId,
        /// The run.
        run_id: RunId,
        /// `done`, `failed`, `cancelled` or `skipped`.
        state: &'static str,
        /// The reason for that.
        reason: Option<&'static str>,
    },
    /// A person's turn has begun.
    TurnStarted {
        /// The turn.
        turn_id: TurnId,
        /// The chat's session.
        session_key: SessionKey,
    },
    /// A person's turn has ended, or waits again.
    TurnFinished {
        /// The turn.
        turn_id: TurnId,
        /// The chat's session.
        session_key: SessionKey,
        /// `done`, `failed` or `waiting`.
        state: &'static str,
        /// Why it failed.
        error: Option<String>,
    },
    /// A part of a message was shown, or it is known what else became of it for now.
    Delivered {
        /// The message.
        message_id: MessageId,
        /// The part.
        part_id: PartId,
        /// The chat's session, or the webhook's.
        session_key: SessionKey,
        /// What the message is.
        origin: Origin,
        /// The run it comes from.
        run_id: Option<RunId>,
        /// `confirmed`, `unknown`, `failed`, or `pending` and `sending` where it is tried again.
        state: PartState,
        /// The channel's id of it.
        channel_message_id: Option<String>,
        /// The channel's answer in words, where it was not shown.
        why: Option<String>,
    },
    /// A person is told that a job fails, or that it works again.
    Alert {
        /// The job.
        job_id: JobId,
        /// Whether it is a failure alert or a recovery.
        origin: Origin,
        /// The chat's session.
        session_key: SessionKey,
    },
    /// A job was created or removed, or is otherwise than before.
    JobChanged {
        /// The job.
        job_id: JobId,
        /// How.
        change: JobChange,
    },
}

/// How a job has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum JobChange {
    /// It is there, or its definition is another one.
    Defined,
    /// It is gone.
    Removed,
    /// Nothing of it starts.
    Paused,
    /// It runs again.
    Resumed,
}

impl JobChange {
    /// What an event changes about a job, if anything that a person would call a change.
    pub(crate) fn of(event: &OwnedEvent) -> Option<Self> {
        match event {
            OwnedEvent::DefinitionChanged { .. } => Some(Self::Defined),
            OwnedEvent::Removed => Some(Self::Removed),
            OwnedEvent::Paused { .. } => Some(Self::Paused),
            OwnedEvent::Resumed => Some(Self::Resumed),
            OwnedEvent::WakeUp
            | OwnedEvent::AttemptFinished { .. }
            | OwnedEvent::LeaseLost { .. }
            | OwnedEvent::RunCancelled { .. }
            | OwnedEvent::ManualTrigger { .. }
            | OwnedEvent::Backfill { .. } => None,
        }
    }
}

/// Where events are told. Clones tell the same readers.
#[derive(Debug, Clone)]
pub struct Events {
    sender: broadcast::Sender<Event>,
}

impl Default for Events {
    fn default() -> Self {
        let (sender, _) = broadcast::channel(KEPT);
        Self { sender }
    }
}

/// How many events a slow reader has missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{missed} events were missed")]
pub struct Missed {
    /// How many.
    pub missed: u64,
}

/// Reads events as they happen, from when it was made on.
#[derive(Debug)]
pub struct EventReader {
    receiver: broadcast::Receiver<Event>,
}

impl EventReader {
    /// The next event; `None` once nobody can tell one any more.
    ///
    /// # Errors
    /// [`Missed`] where it was read too slowly; the next call goes on with the oldest that is kept.
    pub async fn next(&mut self) -> Option<Result<Event, Missed>> {
        match self.receiver.recv().await {
            Ok(event) => Some(Ok(event)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Err(Missed { missed })),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

impl Events {
    /// A reader of what happens from now on.
    pub fn read(&self) -> EventReader {
        EventReader {
            receiver: self.sender.subscribe(),
        }
    }

    /// Tells what was committed at `at`.
    pub(crate) fn tell(&self, at: Timestamp, what: Happened) {
        // Nobody need be listening.
        let _ = self.sender.send(Event { at, what });
    }

    pub(crate) fn job(&self, at: Timestamp, job_id: &JobId, change: JobChange) {
        let job_id = job_id.clone();
        self.tell(at, Happened::JobChanged { job_id, change });
    }
}

impl Happened {
    pub(super) fn run_started(run: &ClaimedRun) -> Self {
        Self::RunStarted {
            job_id: run.job.id.clone(),
            run_id: run.run_id,
            attempt: run.attempt,
            cause: run.cause,
        }
    }

    pub(super) fn attempt_finished(
        job_id: &JobId,
        end: &AttemptEnd,
        result: AttemptResult,
    ) -> Self {
        Self::AttemptFinished {
            job_id: job_id.clone(),
            run_id: end.run_id,
            attempt: end.attempt,
            result: match result {
                AttemptResult::Done => "done",
                AttemptResult::Silent => "silent",
                AttemptResult::Failed(reason) => reason.as_str(),
            },
            error: end.error.clone(),
        }
    }

    pub(super) fn run_finished(job_id: &JobId, run_id: RunId, outcome: Outcome) -> Self {
        Self::RunFinished {
            job_id: job_id.clone(),
            run_id,
            state: outcome.state(),
            reason: outcome.reason(),
        }
    }

    pub(super) fn turn_finished(turn_id: TurnId, chat: &SessionKey, result: &TurnResult) -> Self {
        let (state, error) = match result {
            TurnResult::Done => ("done", None),
            TurnResult::Failed { error } => ("failed", Some(error.clone())),
            TurnResult::Requeued => ("waiting", None),
        };
        Self::TurnFinished {
            turn_id,
            session_key: chat.clone(),
            state,
            error,
        }
    }

    pub(super) fn delivered(
        part: &ClaimedPart,
        transition: &Transition,
        why: Option<&String>,
    ) -> Self {
        let (state, channel_message_id) = match transition {
            Transition::Confirm(receipt) => {
                (PartState::Confirmed, Some(receipt.message_id.clone()))
            }
            Transition::TryAgain { state, .. } => (*state, None),
            Transition::Readdress { .. } => (PartState::Pending, None),
            Transition::Unknown => (PartState::Unknown, None),
            Transition::Fail { .. } => (PartState::Failed, None),
        };
        Self::Delivered {
            message_id: part.message_id,
            part_id: part.part_id,
            session_key: part.session_key.clone(),
            origin: part.origin,
            run_id: part.run_id,
            state,
            channel_message_id,
            why: why.cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(number: usize) -> Happened {
        Happened::JobChanged {
            job_id: JobId::new(format!("job-{number}")).unwrap(),
            change: JobChange::Defined,
        }
    }

    #[tokio::test]
    async fn a_slow_reader_is_told_how_many_events_it_has_missed() {
        let events = Events::default();
        let mut reader = events.read();
        for number in 0..KEPT + 7 {
            events.tell(Timestamp::UNIX_EPOCH, changed(number));
        }
        assert_eq!(reader.next().await, Some(Err(Missed { missed: 7 })));
        let next = reader.next().await.unwrap().unwrap();
        assert_eq!(next.what, changed(7));
        drop(events);
        for _ in 8..KEPT + 7 {
            assert!(reader.next().await.unwrap().is_ok());
        }
        assert_eq!(reader.next().await, None);
    }
}
