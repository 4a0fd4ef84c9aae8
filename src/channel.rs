//! What a chat channel must be able to do. Adapters are in `channel/`, one outside system a file.

pub mod console;
pub mod inbound;
pub mod log;
#[cfg(feature = "http-client")]
pub mod telegram;
#[cfg(feature = "http-client")]
pub mod webhook;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    ids::IdempotencyKey,
    message::{Destination, SendAnswer},
};

pub use crate::message::{TextLimit, TextUnit};
pub use inbound::Inbound;

/// Shows messages to people. Only the outbound writer calls [`Channel::send`].
#[async_trait]
pub trait Channel: Send + Sync + 'static {
    /// What can be done about a part of which nobody knows whether it was shown.
    fn ability(&self) -> Ability;

    /// How long one message may be.
    fn limit(&self) -> TextLimit;

    /// How long one send may take before its answer counts as lost.
    fn send_timeout(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// The side that brings in what people write, for a channel that has one. It is asked again and
    /// again while a worker runs.
    fn inbound(&self) -> Option<&dyn Inbound> {
        None
    }

    /// Shows one part, and says what is known about it. Never retries by itself.
    ///
    /// `now` is the wall time of the attempt.
    async fn send(&self, part: &OutgoingPart, now: Timestamp) -> SendAnswer;
}

/// What a channel can do about an ambiguous part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// A part sent again with the same key inside the window is shown once.
    Keyed {
        /// How long the channel remembers a key; `None` for ever.
        window: Option<Duration>,
    },
    /// Nothing: the part becomes `unknown`.
    Blind,
}

/// One part on its way out.
#[derive(Debug, Clone, PartialEq)]
pub struct OutgoingPart {
    /// Where it goes.
    pub destination: Destination,
    /// The key of every attempt to send it.
    pub key: IdempotencyKey,
    /// What the chat shows.
    pub body: OutgoingBody,
    /// Which part of its message it is, from 1.
    pub part: u32,
    /// How many parts the message has.
    pub parts: u32,
    /// When the message was enqueued: the event time, the same on every attempt.
    pub enqueued_at: Timestamp,
    /// Who says it, for channels that show a name: the job, or the agent of the turn.
    pub speaker: String,
}

/// What is sent.
#[derive(Debug, Clone, PartialEq)]
pub enum OutgoingBody {
    /// Words.
    Text(String),
    /// The channel's own JSON.
    Native(serde_json::Value),
}
