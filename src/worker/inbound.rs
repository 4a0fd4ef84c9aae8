//! What people write, brought in by channels that listen: each is asked in a task of its own, and
//! the loop stores what it brought, with the position behind it, in one commit.
//!
//! Nothing is kept here that matters: a channel whose answer was not stored is asked the same again.

mod places;

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt;
use jiff::SignedDuration;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use crate::{
    channel::{
        Channel,
        inbound::{Arrived, InboundEvent, PollError, Said},
    },
    clock::Clock,
    directory::ChannelConfig,
    ids::ChannelName,
    store::{InboundBatch, ReadFrom, StoreError},
};

use super::{Scope, Services, Worker};
use places::Places;

/// The first wait after a failure; each further one is twice as long.
const FIRST_WAIT: SignedDuration = SignedDuration::from_secs(1);
/// The longest wait after a failure.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(5);
/// How long one that competes with another reader waits: two that ask at once only end each other.
const COMPETING_WAIT: SignedDuration = SignedDuration::from_secs(30);
/// How soon it is looked again whether another worker of this database still reads a source.
const STANDBY_WAIT: Duration = Duration::from_secs(5);
/// A call that brought nothing in less than this was no waiting.
const SHORTEST_CALL: Duration = Duration::from_secs(1);
/// How many chats that are not in the jobs file are told of, once each.
const STRANGERS_MAX: usize = 256;

/// The channels that are listened to.
#[derive(Default)]
pub(super) struct Listening {
    polls: JoinSet<Polled>,
    listeners: BTreeMap<ChannelName, Listener>,
    /// Chats that were told of and are not answered.
    strangers: BTreeSet<(ChannelName, String)>,
}

/// One channel that is listened to.
#[derive(Default)]
struct Listener {
    config: Option<ChannelConfig>,
    source: String,
    poll: Option<AbortHandle>,
    failures: u32,
    /// How long the next call waits.
    wait: SignedDuration,
    /// What keeps it from working, as it was told last.
    trouble: Option<String>,
}

/// A call that has ended.
pub(super) type Answered = Result<(Id, Polled), JoinError>;

/// What one call of a channel came to.
pub(super) struct Polled {
    channel: ChannelName,
    source: String,
    outcome: Result<Arrived, PollError>,
    took: Duration,
}

impl Listening {
    /// Waits until a channel has answered. For ever, where none is asked.
    pub(super) async fn next(&mut self) -> Answered {
        match self.polls.join_next_with_id().await {
            Some(answered) => answered,
            None => std::future::pending().await,
        }
    }

    /// Ends all calls. Nothing is lost: what they would have brought comes again.
    pub(super) fn stop(&mut self) {
        self.polls.abort_all();
        self.listeners.clear();
    }

    /// Ends calls of channels that are gone or are others now, or have failed: what was wrong may be
    /// right in the new file, or in one that it names.
    pub(super) fn keep_to(&mut self, services: &Services) {
        let directory = &services.directory;
        self.listeners.retain(|name, listener| {
            let channel = services.channels.named.get(name);
            let listens = channel.is_some_and(|channel| channel.inbound().is_some());
            let is_same = directory.channels.get(name) == listener.config.as_ref();
            let is_kept = listens && is_same && listener.failures == 0;
            if let (Some(poll), false) = (&listener.poll, is_kept) {
                poll.abort();
            }
            is_kept
        });
    }

    /// Channels that listen and are not being asked, each with its source.
    fn idle(&mut self, services: &Services) -> Vec<(ChannelName, Arc<dyn Channel>, String)> {
        let mut idle = Vec::new();
        for (name, channel) in &services.channels.named {
            let Some(inbound) = channel.inbound() else {
                continue;
            };
            let source = inbound.source();
            let other = self
                .listeners
                .iter()
                .find(|(other, listener)| *other != name && listener.source == source);
            let other = other.map(|(other, _)| other.clone());
            let listener = self
                .listeners
                .entry(name.clone())
                .or_insert_with(|| Listener {
                    config: services.directory.channels.get(name).cloned(),
                    ..Listener::default()
                });
            if let Some(other) = other {
                listener.tell(name, &format!("channel `{other}` reads the same account"));
            } else if listener.poll.is_none() {
                listener.source.clone_from(&source);
                idle.push((name.clone(), channel.clone(), source));
            }
        }
        idle
    }

    fn ask(&mut self, call: CallFor, clock: Arc<dyn Clock>) {
        let name = call.channel_name.clone();
        let Some(listener) = self.listeners.get_mut(&name) else {
            return;
        };
        let wait = Duration::try_from(listener.wait).unwrap_or(Duration::ZERO);
        let poll = self.polls.spawn(async move {
            clock.sleep(wait).await;
            call.make(clock.as_ref()).await
        });
        listener.poll = Some(poll);
    }

    fn is_stranger(&mut self, channel: &ChannelName, address: &str) -> bool {
        self.strangers.len() < STRANGERS_MAX
            && self.strangers.insert((channel.clone(), address.to_owned()))
    }
}

/// A call that is to be made.
struct CallFor {
    channel_name: ChannelName,
    channel: Arc<dyn Channel>,
    source: String,
    /// From where; nothing is read where somebody else reads.
    from: Option<ReadFrom>,
}

impl CallFor {
    async fn make(self, clock: &dyn Clock) -> Polled {
        let asked_at = clock.elapsed();
        let outcome = match (self.channel.inbound(), self.from) {
            (Some(inbound), Some(from)) => {
                let asking = inbound.poll(from.position.as_ref(), clock.now());
                let asked = AssertUnwindSafe(asking).catch_unwind().await;
                asked.unwrap_or_else(|_panic| {
                    Err(PollError::Later {
                        retry_after: None,
                        why: "the channel's code panicked".to_owned(),
                    })
                })
            }
            (_, _) => {
                clock.sleep(STANDBY_WAIT).await;
                Ok(Arrived::default())
            }
        };
        Polled {
            channel: self.channel_name,
            source: self.source,
            outcome,
            took: clock.elapsed().saturating_sub(asked_at),
        }
    }
}

impl Listener {
    fn tell(&mut self, channel: &ChannelName, words: &str) {
        if self.trouble.as_deref() != Some(words) {
            tracing::error!(%channel, "messages are not read: {words}");
            self.trouble = Some(words.to_owned());
        }
    }

    fn works(&mut self, channel: &ChannelName) {
        self.failures = 0;
        self.wait = SignedDuration::ZERO;
        if self.trouble.take().is_some() {
            tracing::info!(%channel, "messages are read again");
        }
    }

    fn failed(&mut self, channel: &ChannelName, error: &PollError) {
        self.failures = self.failures.saturating_add(1);
        let doubled = FIRST_WAIT * (1_i32 << (self.failures - 1).min(9));
        self.wait = match error {
            PollError::Later { retry_after, .. } => retry_after.unwrap_or(doubled),
            PollError::Competing { .. } => COMPETING_WAIT,
            PollError::Refused { .. } => LONGEST_WAIT,
        }
        .clamp(FIRST_WAIT, LONGEST_WAIT);
        self.tell(channel, &error.to_string());
    }
}

impl Worker {
    /// Asks every channel that listens and is not being asked.
    pub(super) async fn listen(&mut self) {
        if self.scope != Scope::All || self.guard.doubts() {
            return;
        }
        for (channel_name, channel, source) in self.listening.idle(&self.services) {
            let from = match self.store.read_source(&source, self.id).await {
                Ok(from) => from.ok(),
                // The next step meets it too, and waits.
                Err(error) => return self.trouble.has(&error),
            };
            let call = CallFor {
                channel_name,
                channel,
                source,
                from,
            };
            self.listening.ask(call, self.clock.clone());
        }
    }

    /// Stores what a channel brought.
    pub(super) async fn absorb_poll(&mut self, answered: Answered) {
        // One that was ended has no listener any more.
        let Ok((id, polled)) = answered else { return };
        let name = polled.channel.clone();
        let listener = self.listening.listeners.get(&name);
        let poll = listener.and_then(|listener| listener.poll.as_ref());
        if poll.is_none_or(|poll| poll.id() != id) {
            return;
        }
        // A channel that does not wait for what comes is not asked all the time.
        let nothing_came = matches!(&polled.outcome, Ok(arrived) if arrived.position.is_none());
        let is_hasty = nothing_came && polled.took < SHORTEST_CALL;
        let outcome = match polled.outcome {
            Ok(arrived) => self.receive(&name, polled.source, arrived).await,
            Err(error) => Ok(Err(error)),
        };
        let Some(listener) = self.listening.listeners.get_mut(&name) else {
            return;
        };
        listener.poll = None;
        match outcome {
            Ok(Ok(())) => {
                listener.works(&name);
                if is_hasty {
                    listener.wait = FIRST_WAIT;
                }
            }
            Ok(Err(error)) => listener.failed(&name, &error),
            Err(error) => {
                listener.wait = FIRST_WAIT;
                self.trouble.has(&error);
            }
        }
    }

    async fn receive(
        &mut self,
        channel: &ChannelName,
        source: String,
        arrived: Arrived,
    ) -> Result<Result<(), PollError>, StoreError> {
        let now = self.clock.now();
        let Some(position) = arrived.position else {
            return Ok(Ok(()));
        };
        // What is not stored comes again.
        if !self.believes(now).await? {
            return Ok(Ok(()));
        }
        let known = self.store.moved_chats().await?;
        let services = self.services.clone();
        let mut places = Places::new(&services.directory, channel, known);
        let mut messages = Vec::new();
        for event in arrived.events {
            match event {
                InboundEvent::Moved { from, to } => places.move_chats(&from, &to),
                InboundEvent::Said(said) => match places.turn(&said) {
                    Some(turn) => messages.push(turn),
                    None => self.tell_stranger(channel, &said),
                },
            }
        }
        let sessions: Vec<_> = messages
            .iter()
            .map(|message| message.session_key.clone())
            .collect();
        let batch = InboundBatch {
            source,
            worker: self.id,
            position,
            messages,
            moved: places.moved,
        };
        match self.store.receive(batch, now).await? {
            Ok(turns) => {
                for (chat, turn) in sessions.iter().zip(turns) {
                    tracing::info!(%chat, turn = turn.0, "a message came in");
                }
                Ok(Ok(()))
            }
            // Another worker reads the source now, and is given the same.
            Err(conflict) => {
                tracing::info!(%channel, %conflict, "what was read is left to another worker");
                Ok(Ok(()))
            }
        }
    }

    fn tell_stranger(&mut self, channel: &ChannelName, said: &Said) {
        let place = &said.place;
        if self.listening.is_stranger(channel, &place.address) {
            let thread = place.thread.as_deref();
            tracing::warn!(
                %channel,
                to = place.address,
                thread,
                "a message came from a chat that is not in the jobs file; it gets no answer"
            );
        }
    }
}
