//! What has become of a person's turn, for those who wait for its end.

use std::time::Duration;

use crate::{
    ids::TurnId,
    store::{OutboxRow, Store, StoreError, TurnRow},
};

use super::{EventReader, Events, Happened};

/// How often it is looked where nothing is told: another process may run the turn, and what that does
/// is not told here.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What is known of a turn.
#[derive(Debug)]
pub(crate) struct TurnRows {
    pub(crate) turn: TurnRow,
    /// The messages of the turn: its reply, and what tools have sent.
    pub(crate) parts: Vec<OutboxRow>,
}

impl TurnRows {
    /// A turn and its messages; `None` where there is none.
    ///
    /// # Errors
    /// [`StoreError`] where the store cannot be read.
    pub(crate) async fn of(store: &dyn Store, id: TurnId) -> Result<Option<Self>, StoreError> {
        // Its parts are committed with its end: looked at after it, none is missed.
        let Some(turn) = store.turn(id).await? else {
            return Ok(None);
        };
        let parts = store.turn_parts(id).await?;
        Ok(Some(Self { turn, parts }))
    }

    /// The same once the turn is over, however long that takes.
    ///
    /// # Errors
    /// [`StoreError`] where the store cannot be read.
    pub(crate) async fn when_over(
        store: &dyn Store,
        events: &Events,
        id: TurnId,
    ) -> Result<Option<Self>, StoreError> {
        // Listened to before the first look: what happens after a look is told to who waits.
        let mut told = events.read();
        loop {
            match Self::of(store, id).await? {
                Some(rows) if !rows.is_over() => {
                    let _ = tokio::time::timeout(LOOK_AGAIN, rows.news(&mut told)).await;
                }
                found => return Ok(found),
            }
        }
    }

    /// Whether it has ended and every part of its messages is settled.
    pub(crate) fn is_over(&self) -> bool {
        let is_open = matches!(self.turn.state.as_str(), "waiting" | "running");
        !is_open && self.parts.iter().all(|part| part.state.is_settled())
    }

    /// Ends when something is told that may be the end of it.
    async fn news(&self, told: &mut EventReader) {
        loop {
            match told.next().await {
                Some(Ok(event)) if self.is_told_by(&event.what) => return,
                Some(Ok(_)) => {}
                // It may be among those that were missed.
                Some(Err(_)) => return,
                None => std::future::pending().await,
            }
        }
    }

    /// Whether an event is the turn's end, or may be the end of one of its messages: a delivery in its
    /// chat that is no run's.
    fn is_told_by(&self, what: &Happened) -> bool {
        let ended = matches!(what, Happened::TurnFinished { turn_id, .. }
            if *turn_id == self.turn.turn_id);
        let delivered = matches!(what, Happened::Delivered { session_key, run_id: None, .. }
            if *session_key == self.turn.session_key);
        ended || delivered
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use jiff::Timestamp;

    use super::*;
    use crate::{
        ids::{JobId, MessageId, PartId, RunId, SessionKey},
        message::{Origin, PartState},
        worker::JobChange,
    };

    fn running() -> TurnRows {
        TurnRows {
            turn: TurnRow {
                turn_id: TurnId(7),
                session_key: SessionKey::from_stored("phone:direct:1"),
                state: "running".to_owned(),
                requested_at: Timestamp::UNIX_EPOCH,
                started_at: None,
                ended_at: None,
                error: None,
                runner: None,
            },
            parts: Vec::new(),
        }
    }

    fn finished(turn_id: i64) -> Happened {
        Happened::TurnFinished {
            turn_id: TurnId(turn_id),
            session_key: SessionKey::from_stored("phone:direct:1"),
            state: "done",
            error: None,
        }
    }

    fn delivered(chat: &str, run_id: Option<RunId>) -> Happened {
        Happened::Delivered {
            message_id: MessageId(1),
            part_id: PartId(1),
            session_key: SessionKey::from_stored(chat),
            origin: Origin::TurnReply,
            run_id,
            state: PartState::Confirmed,
            channel_message_id: None,
            why: None,
        }
    }

    #[test]
    fn who_waits_for_a_turn_is_woken_by_its_own_news_alone() {
        let changed = Happened::JobChanged {
            job_id: JobId::new("report").unwrap(),
            change: JobChange::Paused,
        };
        for (what, is_news) in [
            (finished(7), true),
            (delivered("phone:direct:1", None), true),
            (finished(8), false),
            (delivered("phone:direct:2", None), false),
            (delivered("phone:direct:1", Some(RunId(1))), false),
            (changed, false),
        ] {
            let events = Events::default();
            let mut told = events.read();
            events.tell(Timestamp::UNIX_EPOCH, what.clone());
            let is_woken = running().news(&mut told).now_or_never().is_some();
            assert_eq!(is_woken, is_news, "{what:?}");
        }
    }

    #[test]
    fn who_has_missed_events_looks_again() {
        let events = Events::default();
        let mut told = events.read();
        for _ in 0..2000 {
            events.tell(Timestamp::UNIX_EPOCH, finished(8));
        }
        let woken = running().news(&mut told).now_or_never();
        assert!(woken.is_some());
    }
}
