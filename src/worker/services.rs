//! What a worker is given from outside: agents, channels, and what they are called.

use std::sync::Arc;

use jiff::SignedDuration;

use crate::{
    directory::{Directory, Retention},
    outbound::Channels,
    session::Agents,
};

/// Everything that a jobs file, or a gateway, brings besides jobs.
#[derive(Clone)]
pub struct Services {
    /// Chats, and what is configured about channels and agents.
    pub directory: Directory,
    /// The agents.
    pub agents: Agents,
    /// The channels.
    pub channels: Arc<Channels>,
    /// How many runs may be under way at the same time.
    pub max_concurrent: usize,
    /// How long a person's turn may take.
    pub turn_timeout: SignedDuration,
    /// How long rows are kept; `None` where nobody can say, so that nothing is pruned.
    pub retention: Option<Retention>,
    /// A fingerprint of the zone data in use.
    pub zone_data: String,
}

impl Services {
    /// How long a person's turn may take, where nothing is said.
    pub const TURN_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);
}
