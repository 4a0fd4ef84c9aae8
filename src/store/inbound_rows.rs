//! What a channel brought in, as the store takes it.

use crate::{channel::inbound::Position, ids::SessionKey};

use super::{InboundMessage, WorkerId};

/// A source that may be read by who asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFrom {
    /// How far it was taken; `None` before the first message.
    pub position: Option<Position>,
}

/// What one call of a channel brought, to be stored as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct InboundBatch {
    /// The source.
    pub source: String,
    /// Who reads it.
    pub worker: WorkerId,
    /// The position behind it.
    pub position: String,
    /// The messages of chats that are answered, oldest first.
    pub messages: Vec<InboundMessage>,
    /// Chats that have a new address.
    pub moved: Vec<(SessionKey, String)>,
}
