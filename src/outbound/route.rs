//! Where a job's run takes place, and where its result goes.

use std::collections::BTreeMap;

use crate::{
    directory::Chat,
    ids::{ChatName, SessionKey},
    job::{Deliver, Job, Mode},
    message::{ChatAddress, Destination},
    store::Route,
};

/// Resolves a job's lane and destination by the chats as they are now; the result is frozen with
/// the occurrence. A chat that is not known gives no destination, and the run says so.
pub fn route(job: &Job, chats: &BTreeMap<ChatName, Chat>) -> Route {
    let chat_destination = |name: &ChatName| {
        let chat = chats.get(name)?;
        Some(Destination::Chat(ChatAddress::from(chat)))
    };
    let own_session = SessionKey::job(&job.id);
    match &job.mode {
        Mode::InChat { chat, .. } => {
            let destination = chat_destination(chat);
            Route {
                lane: destination
                    .as_ref()
                    .map_or(own_session, Destination::session_key),
                destination,
            }
        }
        Mode::Background { deliver, .. } => Route {
            lane: own_session,
            destination: match deliver {
                Deliver::Chat(chat) => chat_destination(chat),
                Deliver::Webhook(webhook) => Some(Destination::Webhook(webhook.clone())),
                Deliver::History => None,
            },
        },
    }
}
