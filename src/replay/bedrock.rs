//! The blocks of a Bedrock Converse request.

use serde_json::{Value, json};

use super::object;
use crate::transcript::Block;

pub(super) fn block(block: &Block) -> Value {
    match block {
        Block::Text { text } => json!({"text": text}),
        Block::ToolUse { id, name, input } => {
            json!({"toolUse": {"toolUseId": id, "name": name, "input": object(input)}})
        }
        Block::ToolResult {
            tool_use_id,
            content,
            is_error,
        } => {
            let status = if *is_error { "error" } else { "success" };
            json!({"toolResult": {
                "toolUseId": tool_use_id,
                "content": [{"text": content}],
                "status": status,
            }})
        }
        Block::Opaque(value) => value.clone(),
    }
}
