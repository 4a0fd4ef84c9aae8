//! Turns that a program runs itself, while the worker holds their lane for it.
//!
//! A program waits under a token. The worker claims the turn as any other and hands it over; what
//! the program comes to is reported and committed as an agent's answer is.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{AgentReply, AgentTurn},
    ids::TurnId,
    message::Receipt,
    store::{Conflict, TurnResult},
};

/// How many turns wait to be taken up again by a program, at most.
const HANDED_BACK_MAX: usize = 256;

/// A turn whose lane is held for a program.
pub(crate) struct Lent {
    pub(crate) turn_id: TurnId,
    /// What an agent would be asked, with its tools.
    pub(crate) asked: AgentTurn,
    /// The lane is held no longer: the chat was reset, the worker stops, or it took too long.
    pub(crate) over: CancellationToken,
    /// What the program comes to; dropping it fails the turn.
    pub(crate) end: oneshot::Sender<LentEnd>,
    /// Whether that was committed.
    pub(crate) saved: oneshot::Receiver<Saved>,
}

/// How a turn ended in the store, or why it did not.
pub(crate) type Saved = Result<TurnResult, Conflict>;

/// What a program came to.
pub(crate) enum LentEnd {
    /// The reply is to be sent.
    Reply(AgentReply),
    /// The program has shown the reply in these parts itself, in order.
    Shown(AgentReply, Vec<(String, Receipt)>),
    /// There is no reply.
    Failed(String),
}

/// The programs that wait for lanes, in this process.
#[derive(Default)]
pub(crate) struct Runners {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    waiting: HashMap<String, oneshot::Sender<Lent>>,
    /// Where turns go whose program is gone.
    handed_back: Option<mpsc::Sender<Lent>>,
    /// Who waits for the commit of an end.
    unsaved: HashMap<TurnId, oneshot::Sender<Saved>>,
}

/// A place in the queue, which is given up when it is dropped.
pub(crate) struct Place<'a> {
    runners: &'a Runners,
    token: String,
    lent: oneshot::Receiver<Lent>,
}

impl Place<'_> {
    /// Waits for the lane; `None` where nobody will hand it over any more.
    pub(crate) async fn lent(&mut self) -> Option<Lent> {
        (&mut self.lent).await.ok()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.runners.with(|inner| inner.waiting.remove(&self.token));
    }
}

impl Runners {
    fn with<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        act(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits under this token, which nobody else has.
    pub(crate) fn wait(&self, token: String) -> Place<'_> {
        let (sender, lent) = oneshot::channel();
        self.with(|inner| inner.waiting.insert(token.clone(), sender));
        Place {
            runners: self,
            token,
            lent,
        }
    }

    /// Takes up turns whose program is gone; whoever did so before does so no longer.
    pub(crate) fn take_back(&self) -> mpsc::Receiver<Lent> {
        let (sender, handed_back) = mpsc::channel(HANDED_BACK_MAX);
        self.with(|inner| inner.handed_back = Some(sender));
        handed_back
    }

    /// Has somebody told when the end of this turn is committed.
    pub(super) fn tell_when_saved(&self, turn_id: TurnId) -> oneshot::Receiver<Saved> {
        let (sender, saved) = oneshot::channel();
        self.with(|inner| inner.unsaved.insert(turn_id, sender));
        saved
    }

    /// The worker is gone: nothing that it has not committed will be.
    pub(crate) fn forget(&self) {
        self.with(|inner| inner.unsaved.clear());
    }

    /// The end of a turn was committed, or refused.
    pub(super) fn saved(&self, turn_id: TurnId, answer: Saved) {
        if let Some(sender) = self.with(|inner| inner.unsaved.remove(&turn_id)) {
            // The program need not be waiting for it.
            let _ = sender.send(answer);
        }
    }

    /// Hands a turn over to whoever waits under the token, or to whoever takes up what others have
    /// left; whether there is somebody.
    pub(super) fn hand_over(&self, token: &str, lent: Lent) -> bool {
        let (waiting, handed_back) = self.with(|inner| {
            let waiting = inner.waiting.remove(token);
            (waiting, inner.handed_back.clone())
        });
        let lent = match waiting {
            Some(waiting) => match waiting.send(lent) {
                Ok(()) => return true,
                Err(lent) => lent,
            },
            None => lent,
        };
        handed_back.is_some_and(|handed_back| handed_back.try_send(lent).is_ok())
    }
}
