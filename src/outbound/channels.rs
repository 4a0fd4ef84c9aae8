//! The channels a worker has, by name.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    channel::{Channel, TextLimit},
    ids::ChannelName,
    message::Destination,
};

/// The channels that messages leave by.
#[derive(Clone, Default)]
pub struct Channels {
    /// Those of the jobs file, or a gateway's own.
    pub named: BTreeMap<ChannelName, Arc<dyn Channel>>,
    /// The one for destinations that are webhooks of their own.
    pub webhook: Option<Arc<dyn Channel>>,
}

impl Channels {
    /// The channel that a destination is on, if there is one.
    pub fn of(&self, destination: &Destination) -> Option<&Arc<dyn Channel>> {
        match destination {
            Destination::Chat(chat) => self.named.get(&chat.channel),
            Destination::Webhook(_) => self.webhook.as_ref(),
        }
    }

    /// How long one message to a destination may be. Without its channel nothing can be sent, and
    /// nothing needs to be split yet; the text is kept whole.
    pub fn limit(&self, destination: &Destination) -> Option<TextLimit> {
        self.of(destination).map(|channel| channel.limit())
    }
}
