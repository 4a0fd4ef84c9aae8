//! The messages of an Anthropic Messages request.

use serde_json::{Value, json};

use super::{Message, object};
use crate::transcript::{Block, Role};

/// Content is always a list of blocks, so that a message that grows keeps its beginning.
pub(super) fn messages(messages: &[Message]) -> Vec<Value> {
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

fn block(block: &Block) -> Value {
    match block {
        Block::Text { text } => json!({"type": "text", "text": text}),
        Block::ToolUse { id, name, input } => {
            json!({"type": "tool_use", "id": id, "name": name, "input": object(input)})
        }
        Block::ToolResult {
            tool_use_id,
            content,
            is_error,
        } => {
            let mut result =
                json!({"type": "tool_result", "tool_use_id": tool_use_id, "content": content});
            if *is_error {
                result["is_error"] = Value::Bool(true);
            }
            result
        }
        Block::Opaque(value) => value.clone(),
    }
}
