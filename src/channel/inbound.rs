//! What a channel must be able to do to bring in what people write.
//!
//! A channel that can is asked again and again, one call at a time, by whoever owns the reading. What
//! it brings is stored together with the position behind it, in one commit, so that a crash neither
//! loses a message nor brings one in twice.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use crate::transcript::Content;

/// Brings in what people write.
#[async_trait]
pub trait Inbound: Send + Sync {
    /// Whose messages these are, such as the account that reads them: the same after every restart,
    /// and without a secret. The position is stored under it.
    fn source(&self) -> String;

    /// Waits for what was written behind this position, for a minute at most. The same position must
    /// bring the same messages again: a caller that dies has stored nothing of them.
    ///
    /// # Errors
    /// [`PollError`] says what can be done about it. Its texts carry no message and no secret.
    async fn poll(&self, position: Option<&Position>, now: Timestamp)
    -> Result<Arrived, PollError>;
}

/// How far the messages of a source were taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// In the channel's own words.
    pub at: String,
    /// When it was last moved.
    pub moved_at: Timestamp,
}

/// What one call brought.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arrived {
    /// What happened, in order.
    pub events: Vec<InboundEvent>,
    /// The position behind all of it; `None` where nothing came.
    pub position: Option<String>,
}

/// Something that happened in a chat.
#[derive(Debug, Clone, PartialEq)]
pub enum InboundEvent {
    /// Somebody wrote.
    Said(Box<Said>),
    /// The chat at one address is the one at another from now on.
    Moved {
        /// The old address.
        from: String,
        /// The new address.
        to: String,
    },
}

/// A person's message, as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// Where.
    pub place: InboundPlace,
    /// The channel's id of the message.
    pub message_id: String,
    /// The words; framing of a connector may still be in front.
    pub content: Content,
    /// The sender's name.
    pub sender_display: Option<String>,
    /// The channel's id of the sender.
    pub sender_id: Option<String>,
    /// The channel's own form, JSON text.
    pub raw_entry: Option<String>,
}

/// Where a message came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InboundPlace {
    /// The chat's exact address.
    pub address: String,
    /// Its public name, where it has one, as another spelling of the address.
    pub public_name: Option<String>,
    /// The thread or topic inside the chat.
    pub thread: Option<String>,
}

/// Why nothing was brought in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PollError {
    /// It may work later: unreachable, overloaded, rate-limited.
    #[error("{why}")]
    Later {
        /// How long the channel asks to wait.
        retry_after: Option<SignedDuration>,
        /// What happened.
        why: String,
    },
    /// Somebody else reads the same messages; one of the two has to end.
    #[error("{why}")]
    Competing {
        /// What happened, and what can be done.
        why: String,
    },
    /// A person has to put something right: a wrong token.
    #[error("{why}")]
    Refused {
        /// What happened.
        why: String,
    },
}
