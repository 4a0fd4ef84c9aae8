//! One stored history to each provider's request, as pure functions.
//!
//! Stored rows are never rewritten, merged or reordered; what a provider demands of roles is met in
//! the request only. Every rule depends only on the rows so far, so a longer history gives a longer
//! request with the same beginning, and a provider's prompt cache stays warm.

mod anthropic;
mod calls;
mod note;
mod openai;
mod projection;

pub use note::{SYSTEM_NOTE, neutralise, posting_note, strip_echoed_note, system_prompt};
pub use projection::project;

use serde_json::Value;

use crate::transcript::{Block, Role};

/// What stands in the user's role where a request needs that role and nobody spoke.
pub const BRIDGE: &str = "(conversation continued)";
/// What the agent says where a group of tool calls ended without words.
pub const NOTHING_SAID: &str = "(nothing said)";
/// What stands for a row without any visible character; no provider accepts a blank text.
pub const BLANK: &str = "(blank message)";
/// What stands for the result of a tool call that returned nothing.
pub const NO_OUTPUT: &str = "(no output)";
/// What stands for a result that was never recorded.
pub const NO_RESULT: &str = "(no result was recorded)";

/// The families of requests, by what they demand of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// OpenAI's chat completions: two messages of one role may stand together.
    OpenAiChat,
    /// The same form for servers that apply a model's strict chat template: roles alternate.
    StrictChat,
    /// Anthropic's Messages: roles alternate, and a message is a list of blocks.
    AnthropicMessages,
}

/// What happens to two messages of the user's role that stand together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UserMessages {
    Separate,
    Joined,
}

impl Family {
    fn user_messages(self) -> UserMessages {
        match self {
            Self::OpenAiChat => UserMessages::Separate,
            Self::StrictChat | Self::AnthropicMessages => UserMessages::Joined,
        }
    }

    /// Whether a provider's own block, kept as it came, can be given to this family.
    fn carries(self, role: Role, block: &Value) -> bool {
        let kind = block.get("type").and_then(Value::as_str).unwrap_or("");
        match (self, role) {
            (Self::OpenAiChat, Role::User) => kind == "image_url",
            (Self::AnthropicMessages, Role::User) => matches!(kind, "image" | "document"),
            (Self::AnthropicMessages, Role::Assistant) => {
                matches!(kind, "thinking" | "redacted_thinking")
            }
            (Self::OpenAiChat, Role::Assistant | Role::Tool)
            | (Self::StrictChat, _)
            | (Self::AnthropicMessages, Role::Tool) => false,
        }
    }
}

/// One message of a request, before it is spelled in a provider's JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Who speaks; results of tool calls are [`Role::Tool`] for every family.
    pub role: Role,
    /// What is said, at least one block, no text of it blank.
    pub blocks: Vec<Block>,
}

/// Spells messages as the `messages` of a request.
pub fn to_json(messages: &[Message], family: Family) -> Vec<Value> {
    match family {
        Family::OpenAiChat | Family::StrictChat => openai::messages(messages),
        Family::AnthropicMessages => anthropic::messages(messages),
    }
}

/// The names of all tools that are called, in the order of their first call.
///
/// Some providers refuse a history with tool calls unless the request declares the tools.
pub fn tools_called(messages: &[Message]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for block in messages.iter().flat_map(|message| &message.blocks) {
        if let Block::ToolUse { name, .. } = block
            && !names.contains(&name.as_str())
        {
            names.push(name);
        }
    }
    names
}
