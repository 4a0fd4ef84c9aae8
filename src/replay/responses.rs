//! The items of a Responses request.

use serde_json::{Value, json};

use super::Message;
use crate::transcript::{Block, Role};

pub(super) fn items(messages: &[Message]) -> Vec<Value> {
    messages.iter().flat_map(message).collect()
}

fn message(message: &Message) -> Vec<Value> {
    match message.role {
        Role::User => {
            let content: Vec<Value> = message.blocks.iter().filter_map(user_part).collect();
            vec![json!({"type": "message", "role": "user", "content": content})]
        }
        Role::Assistant => assistant(&message.blocks),
        Role::Tool => message.blocks.iter().filter_map(output).collect(),
    }
}

fn user_part(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text } => Some(json!({"type": "input_text", "text": text})),
        Block::Opaque(value) => Some(value.clone()),
        Block::ToolUse { .. } | Block::ToolResult { .. } => None,
    }
}

/// Texts that stand together are one message; calls and reasoning are items of their own.
fn assistant(blocks: &[Block]) -> Vec<Value> {
    let mut items = Vec::new();
    let mut texts: Vec<&str> = Vec::new();
    for block in blocks {
        let item = match block {
            Block::Text { text } => {
                texts.push(text);
                continue;
            }
            Block::ToolUse { id, name, input } => json!({
                "type": "function_call",
                "call_id": id,
                "name": name,
                "arguments": input.to_string(),
            }),
            Block::Opaque(value) => value.clone(),
            Block::ToolResult { .. } => continue,
        };
        items.extend(said(&mut texts));
        items.push(item);
    }
    items.extend(said(&mut texts));
    items
}

fn said(texts: &mut Vec<&str>) -> Option<Value> {
    if texts.is_empty() {
        return None;
    }
    let text = std::mem::take(texts).join("\n\n");
    Some(json!({"type": "message", "role": "assistant", "content": text}))
}

fn output(block: &Block) -> Option<Value> {
    match block {
        Block::ToolResult {
            tool_use_id,
            content,
            ..
        } => Some(json!({
            "type": "function_call_output",
            "call_id": tool_use_id,
            "output": content,
        })),
        Block::Text { .. } | Block::ToolUse { .. } | Block::Opaque(_) => None,
    }
}
