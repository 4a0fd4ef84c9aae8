//! The contents of a Gemini generateContent request.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{Message, object};
use crate::transcript::{Block, Role};

pub(super) fn contents(messages: &[Message]) -> Vec<Value> {
    // A result names its tool, which only the call has.
    let mut names = HashMap::new();
    let mut contents = Vec::with_capacity(messages.len());
    for message in messages {
        let role = match message.role {
            Role::User | Role::Tool => "user",
            Role::Assistant => "model",
        };
        contents.push(json!({"role": role, "parts": parts(&message.blocks, &mut names)}));
    }
    contents
}

fn parts<'m>(blocks: &'m [Block], names: &mut HashMap<&'m str, &'m str>) -> Vec<Value> {
    let mut parts = Vec::with_capacity(blocks.len());
    let mut signature = None;
    for block in blocks {
        match block {
            Block::Text { text } => parts.push(json!({"text": text})),
            Block::ToolUse { id, name, input } => {
                names.insert(id, name);
                let call = json!({"id": id, "name": name, "args": object(input)});
                let mut part = json!({"functionCall": call});
                if let Some(signature) = signature.take() {
                    part["thoughtSignature"] = signature;
                }
                parts.push(part);
            }
            Block::ToolResult {
                tool_use_id,
                content,
                is_error,
            } => {
                let key = if *is_error { "error" } else { "result" };
                let name = names.get(tool_use_id.as_str()).copied().unwrap_or("tool");
                let response = json!({"id": tool_use_id, "name": name, "response": {key: content}});
                parts.push(json!({"functionResponse": response}));
            }
            // A signature belongs to the call behind it.
            Block::Opaque(value) if value.get("type").is_some() => {
                signature = value.get("signature").cloned();
            }
            Block::Opaque(value) => parts.push(value.clone()),
        }
    }
    parts
}
