//! Messages that a program sends by itself: through the one writer, once for each key.

use jiff::Timestamp;

use crate::{
    ids::{AgentName, ChatName, InvalidName, MessageId},
    job::{OnUnknown, WebhookTarget},
    message::{Destination, Origin, Payload},
    outbound::{Author, compose},
    store::{Conflict, OwnSend, Sent, Store, StoreError},
    transcript::TriggerSource,
    worker::Services,
};

use super::{Chatcron, UnknownChat};

/// The longest key of a program, in bytes.
const KEY_MAX: usize = 512;

/// The name under which a program speaks to a webhook, where it gives no other.
const NOBODY: &str = "gateway";

/// What a message of a program's own is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnOrigin {
    /// A send by an agent's message tool.
    MessageTool,
    /// A subagent's announcement.
    SubagentAnnouncement,
    /// Anything else.
    Gateway,
}

impl From<OwnOrigin> for Origin {
    fn from(origin: OwnOrigin) -> Self {
        match origin {
            OwnOrigin::MessageTool => Self::MessageTool,
            OwnOrigin::SubagentAnnouncement => Self::SubagentAnnouncement,
            OwnOrigin::Gateway => Self::Gateway,
        }
    }
}

/// Where a message of a program's own goes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum To {
    /// A chat, by name.
    Chat(String),
    /// A webhook.
    Webhook(WebhookTarget),
}

/// A message of a program's own.
///
/// ```
/// use chatcron::{OutboundMessage, OwnOrigin};
///
/// let now = "2026-12-01T08:00:00Z".parse()?;
/// let message = OutboundMessage::to_chat("order-4711-shipped", "me", "It is on its way.", now)
///     .as_origin(OwnOrigin::SubagentAnnouncement);
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct OutboundMessage {
    key: String,
    to: To,
    payload: Payload,
    created_at: Timestamp,
    origin: OwnOrigin,
    agent: Option<String>,
    trigger: Option<TriggerSource>,
    on_unknown: OnUnknown,
}

impl OutboundMessage {
    /// A message with a key that is the caller's own: the same key is the same message, however
    /// often it is sent. `created_at` is when the caller was asked for it, or decided on it, and
    /// stays the same when it is sent again.
    pub fn new(key: impl Into<String>, to: To, payload: Payload, created_at: Timestamp) -> Self {
        Self {
            key: key.into(),
            to,
            payload,
            created_at,
            origin: OwnOrigin::Gateway,
            agent: None,
            trigger: None,
            on_unknown: OnUnknown::Hold,
        }
    }

    /// Words for a chat.
    pub fn to_chat(
        key: impl Into<String>,
        chat: impl Into<String>,
        text: impl Into<String>,
        created_at: Timestamp,
    ) -> Self {
        Self::new(
            key,
            To::Chat(chat.into()),
            Payload::Text(text.into()),
            created_at,
        )
    }

    /// The same, as something else than [`OwnOrigin::Gateway`].
    #[must_use]
    pub fn as_origin(mut self, origin: OwnOrigin) -> Self {
        self.origin = origin;
        self
    }

    /// The same, as the words of this agent. In a chat that is bound to another agent they are shown,
    /// and are in nobody's history.
    #[must_use]
    pub fn by_agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// The same, with who triggered it.
    #[must_use]
    pub fn triggered_by(mut self, trigger: TriggerSource) -> Self {
        self.trigger = Some(trigger);
        self
    }

    /// The same, sent again where nobody knows whether the chat has shown it.
    #[must_use]
    pub fn resend_on_unknown(mut self) -> Self {
        self.on_unknown = OnUnknown::Resend;
        self
    }
}

/// A message that is in the outbox; [`super::Outbox::list`] tells what becomes of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Accepted {
    /// The message.
    pub message_id: MessageId,
    /// Whether it was there before, by the same key and in the same words.
    pub was_there: bool,
}

/// Why a message was not taken. Nothing was sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The key is none.
    #[error("the key has {found} bytes; 1 to {KEY_MAX} are accepted")]
    Key {
        /// How long it is.
        found: usize,
    },
    /// No chat has this name.
    #[error(transparent)]
    UnknownChat(#[from] UnknownChat),
    /// The agent's name is none.
    #[error(transparent)]
    Agent(#[from] InvalidName),
    /// A webhook's address is none.
    #[error("`{found}` is not an absolute `http` or `https` URL")]
    Url {
        /// What was given.
        found: String,
    },
    /// There is no channel for webhooks.
    #[error(
        "nothing sends to webhooks here: register a channel for them, or build with the cargo feature `http-client`"
    )]
    NoWebhookChannel,
    /// It has nothing to show.
    #[error("the text has nothing to show")]
    Nothing,
    /// Another message was sent under its key.
    #[error(
        "another message was sent under the key `{key}`: other words, or to another place; a new message needs a key of its own"
    )]
    OtherMessage {
        /// The key.
        key: String,
    },
    /// Its key may have been forgotten, so that nobody can say whether it was sent.
    #[error(
        "it was created at {created_at}, and what was sent before {pruned_before} may be forgotten"
    )]
    TooOld {
        /// When it was created.
        created_at: Timestamp,
        /// What is accepted: messages that were created from then on.
        pruned_before: Timestamp,
    },
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The way out for a program's own messages.
#[derive(Clone, Copy)]
pub struct Outbound<'a> {
    pub(super) chatcron: &'a Chatcron,
}

impl Outbound<'_> {
    /// Puts a message in the outbox, durably; a worker sends it when its chat is free, and it
    /// becomes history when the chat has shown it. The same key twice returns the first result.
    ///
    /// # Errors
    /// [`SendError::OtherMessage`] where the key was used for another message, and whatever is wrong
    /// with the message.
    pub async fn send(self, message: OutboundMessage) -> Result<Accepted, SendError> {
        let inner = &self.chatcron.inner;
        let setup = self.chatcron.setup().await;
        let way = Way {
            store: inner.store.as_ref(),
            store_id: &inner.store_id,
            services: &setup.services,
        };
        let accepted = way.send(message, self.chatcron.now()).await;
        self.chatcron.look();
        accepted
    }
}

/// What a program's own messages are sent by, wherever the program is.
pub(crate) struct Way<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) store_id: &'a str,
    pub(crate) services: &'a Services,
}

impl Way<'_> {
    /// Puts a message in the outbox, as [`Outbound::send`] says.
    pub(crate) async fn send(
        &self,
        message: OutboundMessage,
        now: Timestamp,
    ) -> Result<Accepted, SendError> {
        let length = message.key.len();
        if length == 0 || length > KEY_MAX {
            return Err(SendError::Key { found: length });
        }
        let (destination, agent) = self.destination(&message)?;
        let agent = match &message.agent {
            Some(agent) => AgentName::new(agent.clone())?,
            None => agent,
        };
        let author = Author {
            // A store's keys are its own: two of them never send one key.
            producer: format!("{}:own:{}", self.store_id, message.key),
            origin: message.origin.into(),
            agent,
            trigger_source: message.trigger,
            posted_by: None,
            run: None,
            turn_id: None,
            on_unknown: message.on_unknown,
            late: None,
        };
        let (key, created_at) = (message.key, message.created_at);
        let channels = &self.services.channels;
        let composed = compose(author, 0, destination, message.payload, channels);
        let send = OwnSend {
            message: composed.ok_or(SendError::Nothing)?,
            created_at,
        };
        let sent = self.store.send_own(send, now).await?;
        match sent {
            Ok(Sent::New(message_id)) => Ok(Accepted {
                message_id,
                was_there: false,
            }),
            Ok(Sent::Again(message_id)) => Ok(Accepted {
                message_id,
                was_there: true,
            }),
            Err(Conflict::TooOld { pruned_before }) => Err(SendError::TooOld {
                created_at,
                pruned_before,
            }),
            Ok(Sent::Otherwise) | Err(_) => Err(SendError::OtherMessage { key }),
        }
    }

    /// Where it goes, and whose words go there where nobody says.
    fn destination(
        &self,
        message: &OutboundMessage,
    ) -> Result<(Destination, AgentName), SendError> {
        match &message.to {
            To::Chat(name) => {
                let chats = &self.services.directory.chats;
                let chat = chats.get(name.as_str()).ok_or_else(|| UnknownChat {
                    found: name.to_owned(),
                    known: chats.keys().map(ChatName::to_string).collect(),
                })?;
                Ok((Destination::Chat(chat.into()), chat.agent.clone()))
            }
            To::Webhook(target) => {
                let is_http = |scheme: &&str| target.url.starts_with(*scheme);
                if !["http://", "https://"].iter().any(is_http) {
                    return Err(SendError::Url {
                        found: target.url.clone(),
                    });
                }
                if self.services.channels.webhook.is_none() {
                    return Err(SendError::NoWebhookChannel);
                }
                let nobody = AgentName::new(NOBODY)?;
                Ok((Destination::Webhook(target.clone()), nobody))
            }
        }
    }
}
