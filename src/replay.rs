//! One stored history to each provider's request, as pure functions.
//!
//! Stored rows are never rewritten, merged or reordered; what a provider demands of roles is met in
//! the request only. Every rule depends only on the rows so far, so a longer history gives a longer
//! request with the same beginning, and a provider's prompt cache stays warm.

mod anthropic;
mod bedrock;
mod calls;
mod family;
mod gemini;
mod note;
mod openai;
mod projection;
mod request;
mod responses;
mod tool;

pub use family::Family;
#[cfg(feature = "testing")]
pub use note::SYSTEM_NOTE;
pub use note::{neutralise, posting_note, strip_echoed_note, system_prompt};
pub use projection::project;
pub use request::{Settings, request};
pub use tool::{Tool, ToolCalls};

use serde_json::{Value, json};

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

/// One message of a request, before it is spelled in a provider's JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Who speaks; results of tool calls are [`Role::Tool`] for every family.
    pub role: Role,
    /// What is said, at least one block, no text of it blank.
    pub blocks: Vec<Block>,
}

/// Spells messages as a request's list of messages, items or contents.
pub fn to_json(messages: &[Message], family: Family) -> Vec<Value> {
    match family {
        Family::OpenAiChat | Family::Mistral | Family::StrictChat => openai::messages(messages),
        Family::OpenAiResponses => responses::items(messages),
        Family::AnthropicMessages => in_blocks(messages, anthropic::block),
        Family::Gemini => gemini::contents(messages),
        Family::BedrockConverse => in_blocks(messages, bedrock::block),
    }
}

/// Messages whose content is always a list of blocks, so that one that grows keeps its beginning.
/// Results of tool calls are in the user's role.
fn in_blocks(messages: &[Message], block: fn(&Block) -> Value) -> Vec<Value> {
    messages
        .iter()
        .map(|message| {
            let role = match message.role {
                Role::User | Role::Tool => "user",
                Role::Assistant => "assistant",
            };
            let content: Vec<Value> = message.blocks.iter().map(block).collect();
            json!({"role": role, "content": content})
        })
        .collect()
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

/// Arguments as those providers want them that take nothing but an object.
fn object(input: &Value) -> Value {
    if input.is_object() {
        input.clone()
    } else {
        json!({ "value": input })
    }
}
