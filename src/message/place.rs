//! Where a job's run takes place, and where its result goes.

use std::collections::BTreeMap;

use crate::{
    directory::Chat,
    ids::{ChatName, SessionKey},
    job::{Deliver, Job, Mode},
    message::{ChatAddress, Destination},
};

/// A job's lane and destination by the chats as they are now. A chat that is not known gives no
/// destination.
pub(crate) fn place(
    job: &Job,
    chats: &BTreeMap<ChatName, Chat>,
) -> (SessionKey, Option<Destination>) {
    let chat_destination = |name: &ChatName| {
        let chat = chats.get(name)?;
        Some(Destination::Chat(ChatAddress::from(chat)))
    };
    let own_session = SessionKey::job(&job.id);
    match &job.mode {
        Mode::InChat { chat, .. } => {
            let destination = chat_destination(chat);
            let lane = destination
                .as_ref()
                .map_or(own_session, Destination::session_key);
            (lane, destination)
        }
        Mode::Background { deliver, .. } => {
            let destination = match deliver {
                Deliver::Chat(chat) => chat_destination(chat),
                Deliver::Webhook(webhook) => Some(Destination::Webhook(webhook.clone())),
                Deliver::History => None,
            };
            (own_session, destination)
        }
    }
}

/// The chat that is told when a job fails: the one that its policies name, else the one in which it
/// is answered. `failed` is the lane of what failed, if a delivery did: nobody is told through it.
pub(crate) fn alert_place<'c>(
    job: &Job,
    chats: &'c BTreeMap<ChatName, Chat>,
    failed: Option<&SessionKey>,
) -> Option<&'c Chat> {
    job.policies
        .alert_to
        .iter()
        .chain(job.chat())
        .filter_map(|name| chats.get(name))
        .find(|chat| failed.is_none_or(|failed| chat.session_key() != *failed))
}
