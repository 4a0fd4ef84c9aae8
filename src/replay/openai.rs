//! The messages of a chat-completions request.

use serde_json::{Value, json};

use super::Message;
use crate::transcript::{Block, Role};

pub(super) fn messages(messages: &[Message]) -> Vec<Value> {
    messages.iter().flat_map(message).collect()
}

fn message(message: &Message) -> Vec<Value> {
    match message.role {
        Role::User => vec![json!({"role": "user", "content": user_content(&message.blocks)})],
        Role::Assistant => vec![assistant(&message.blocks)],
        Role::Tool => message.blocks.iter().filter_map(result).collect(),
    }
}

/// Plain words where there are only words: many servers accept nothing else.
fn user_content(blocks: &[Block]) -> Value {
    let has_others = blocks.iter().any(|block| matches!(block, Block::Opaque(_)));
    if !has_others {
        return Value::String(words(blocks).unwrap_or_default());
    }
    let parts = blocks.iter().filter_map(|block| match block {
        Block::Text { text } => Some(json!({"type": "text", "text": text})),
        Block::Opaque(value) => Some(value.clone()),
        Block::ToolUse { .. } | Block::ToolResult { .. } => None,
    });
    Value::Array(parts.collect())
}

fn assistant(blocks: &[Block]) -> Value {
    let calls: Vec<Value> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::ToolUse { id, name, input } => Some(json!({
                "id": id,
                "type": "function",
                "function": {"name": name, "arguments": input.to_string()},
            })),
            Block::Text { .. } | Block::ToolResult { .. } | Block::Opaque(_) => None,
        })
        .collect();
    let mut message = json!({"role": "assistant", "content": words(blocks)});
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    message
}

fn result(block: &Block) -> Option<Value> {
    match block {
        Block::ToolResult {
            tool_use_id,
            content,
            ..
        } => Some(json!({"role": "tool", "tool_call_id": tool_use_id, "content": content})),
        Block::Text { .. } | Block::ToolUse { .. } | Block::Opaque(_) => None,
    }
}

fn words(blocks: &[Block]) -> Option<String> {
    let texts: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            Block::ToolUse { .. } | Block::ToolResult { .. } | Block::Opaque(_) => None,
        })
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}
