//! An outbound message as data: where it goes, what it says, and what the channel answered.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    ids::{ChannelName, ChatKind, ChatName, SessionKey},
    job::WebhookTarget,
};

mod limit;
mod part;
mod place;
mod split;

pub use limit::{TextLimit, TextUnit};
pub use part::{PartReason, PartState};
pub(crate) use place::{alert_place, place};
#[cfg(feature = "runtime")]
pub(crate) use split::split;

/// The most bytes of a channel's id of a message. A longer one cannot be in a database's index.
pub const MESSAGE_ID_MAX: usize = 256;

/// Whether a text can be a channel's id of a message.
pub(crate) fn is_message_id(id: &str) -> bool {
    (1..=MESSAGE_ID_MAX).contains(&id.len())
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "http-api", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The reply of a turn that runs in the same conversation.
    TurnReply,
    /// The result of a background job.
    JobResult,
    /// A failure alert.
    FailureAlert,
    /// The notice that an incident is over.
    Recovery,
    /// A send by an agent's message tool.
    MessageTool,
    /// A subagent's announcement.
    SubagentAnnouncement,
    /// A gateway's own send.
    Gateway,
}

impl Origin {
    /// The word stored in columns and mixed into keys.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TurnReply => "turn_reply",
            Self::JobResult => "job_result",
            Self::FailureAlert => "failure_alert",
            Self::Recovery => "recovery",
            Self::MessageTool => "message_tool",
            Self::SubagentAnnouncement => "subagent_announcement",
            Self::Gateway => "gateway",
        }
    }

    /// The origin that is stored as this word.
    pub fn from_stored(word: &str) -> Option<Self> {
        [
            Self::TurnReply,
            Self::JobResult,
            Self::FailureAlert,
            Self::Recovery,
            Self::MessageTool,
            Self::SubagentAnnouncement,
            Self::Gateway,
        ]
        .into_iter()
        .find(|origin| origin.as_str() == word)
    }
}

/// Where a message goes: exactly one place, resolved and frozen when its run starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Destination {
    /// A chat.
    Chat(ChatAddress),
    /// A webhook.
    Webhook(WebhookTarget),
}

impl Destination {
    /// The session whose lane the message takes.
    pub fn session_key(&self) -> SessionKey {
        match self {
            Self::Chat(chat) => chat.session_key(),
            Self::Webhook(webhook) => SessionKey::webhook(&webhook.url),
        }
    }
}

/// The exact address of a chat.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChatAddress {
    /// What the jobs file calls the chat.
    pub chat: ChatName,
    /// The channel.
    pub channel: ChannelName,
    /// The account on that channel.
    pub account: Option<String>,
    /// What sort of chat it is.
    pub kind: ChatKind,
    /// The exact address.
    pub address: String,
    /// The thread or topic.
    pub thread: Option<String>,
}

impl ChatAddress {
    /// The name of the chat's conversation.
    pub fn session_key(&self) -> SessionKey {
        SessionKey::chat(
            self.channel.as_str(),
            self.account.as_deref(),
            self.kind,
            &self.address,
            self.thread.as_deref(),
        )
    }
}

impl From<&crate::directory::Chat> for ChatAddress {
    fn from(chat: &crate::directory::Chat) -> Self {
        Self {
            chat: chat.name.clone(),
            channel: chat.channel.clone(),
            account: chat.account.clone(),
            kind: chat.kind,
            address: chat.address.clone(),
            thread: chat.thread.clone(),
        }
    }
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// Words; split into parts by the channel's limit.
    Text(String),
    /// The channel's own JSON, sent as one part, with the honest text of it if there is one.
    Native {
        /// What the channel's API is given.
        body: serde_json::Value,
        /// What a reader of the chat sees in words.
        text: Option<String>,
    },
}

/// The proof of a channel that a message was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The channel's id of the message.
    pub message_id: String,
    /// When the chat showed it, as far as the channel says.
    pub shown_at: Option<Timestamp>,
}

/// What a channel answered to one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendAnswer {
    /// Shown. An answer that says "I have this key already" is a receipt too.
    Receipt(Receipt),
    /// Certainly not shown, and worth trying again: name look-up, connect, TLS, 429.
    Refused {
        /// How long the channel asks to wait.
        retry_after: Option<SignedDuration>,
        /// Whether the wait binds this chat or the whole channel.
        scope: RefusalScope,
        /// What the channel said, without secrets.
        why: String,
    },
    /// Certainly not shown, and not worth it.
    Permanent {
        /// What the channel said, without secrets.
        why: String,
        /// Whether the address is stopped until it is confirmed again (403, 410).
        stops_address: StopsAddress,
    },
    /// The chat has a new address; certainly not shown at the old one.
    Moved {
        /// The new address.
        to: String,
    },
    /// Bytes may have left, and nobody knows whether the chat showed them.
    Ambiguous {
        /// What happened, without secrets.
        why: String,
    },
}

/// What a refusal binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalScope {
    /// The chat that was addressed.
    Chat,
    /// Everything on the channel.
    Channel,
}

/// Whether a permanent refusal stops the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopsAddress {
    /// Only this message failed.
    No,
    /// The chat is gone or has blocked the sender.
    Yes,
}
