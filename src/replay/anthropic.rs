//! The blocks of an Anthropic Messages request.

use serde_json::{Value, json};

use super::object;
use crate::transcript::Block;

pub(super) fn block(block: &Block) -> Value {
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
