//! Anthropic's Messages: <https://docs.claude.com/en/api/messages>, and its pages about tool use
//! ("tool_result blocks must immediately follow"), extended thinking, and what a model without
//! prefill refuses (<https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-6>).

use serde_json::Value;

use super::{Calls, Verdict, is_word, list, require, said, text};

pub(super) fn check(request: &Value) -> Verdict {
    text(request, "model")?;
    said(request, "system")?;
    require(
        request["max_tokens"].as_u64().is_some_and(|max| max > 0),
        "`max_tokens` is missing",
    )?;
    let messages = list(request, "messages")?;
    let mut calls = Calls::default();
    let mut before = "assistant";
    let mut tools = Vec::new();
    for message in messages {
        let role = text(message, "role")?;
        require(matches!(role, "user" | "assistant"), "an unknown role")?;
        require(role != before, "two messages of one role")?;
        before = role;
        let blocks = list(message, "content")?;
        if role == "user" {
            user(blocks, &mut calls)?;
        } else {
            calls.none_open()?;
            assistant(blocks, &mut calls, &mut tools)?;
        }
    }
    require(before == "user", "the last message is the agent's")?;
    for name in tools {
        let declared = request["tools"].as_array().into_iter().flatten();
        require(
            declared.into_iter().any(|tool| tool["name"] == name),
            "a tool that is not declared",
        )?;
    }
    Ok(())
}

fn user(blocks: &[Value], calls: &mut Calls<'_>) -> Verdict {
    let mut others = false;
    for block in blocks {
        match text(block, "type")? {
            "tool_result" => {
                require(!others, "words before a result")?;
                calls.answer(text(block, "tool_use_id")?)?;
            }
            "text" => {
                others = true;
                said(block, "text")?;
            }
            "image" | "document" => others = true,
            other => return Err(format!("a block of type `{other}`")),
        }
    }
    calls.none_open()
}

fn assistant<'a>(blocks: &'a [Value], calls: &mut Calls<'a>, tools: &mut Vec<&'a str>) -> Verdict {
    let mut called = false;
    let mut last = "";
    for block in blocks {
        last = text(block, "type")?;
        match last {
            "text" => drop(said(block, "text")?),
            "thinking" | "redacted_thinking" => require(!called, "thinking after a call")?,
            "tool_use" => {
                called = true;
                let id = text(block, "id")?;
                require(is_word(id, "_-", 64), "an id that no call can have")?;
                calls.open(id)?;
                require(block["input"].is_object(), "arguments that are no object")?;
                tools.push(text(block, "name")?);
            }
            other => return Err(format!("a block of type `{other}`")),
        }
    }
    require(
        !matches!(last, "thinking" | "redacted_thinking"),
        "the last block is thinking",
    )
}
