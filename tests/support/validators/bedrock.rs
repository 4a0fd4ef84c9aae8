//! Bedrock's Converse: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html>
//! with its types Message, ContentBlock, ToolUseBlock and ToolResultBlock, and what its server
//! answers: "A conversation must start with a user message", "roles must alternate", "The text field
//! in the ContentBlock object is blank", "The toolConfig field must be defined".

use serde_json::Value;

use super::{Calls, Verdict, is_word, list, require, said, text};

pub(super) fn check(request: &Value) -> Verdict {
    for block in list(request, "system")? {
        said(block, "text")?;
    }
    let mut calls = Calls::default();
    let mut before = "assistant";
    let mut uses_tools = false;
    for message in list(request, "messages")? {
        let role = text(message, "role")?;
        require(matches!(role, "user" | "assistant"), "an unknown role")?;
        require(role != before, "roles do not alternate")?;
        before = role;
        if role == "assistant" {
            calls.none_open()?;
        }
        let blocks = list(message, "content")?;
        let mut results = 0;
        let mut has = (false, false);
        for block in blocks {
            let fields = block.as_object().map_or(0, serde_json::Map::len);
            require(fields == 1, "a block that is not of one kind")?;
            if block.get("text").is_some() {
                said(block, "text")?;
                has.0 = true;
            } else if let Some(call) = block.get("toolUse") {
                uses_tools = true;
                require(role == "assistant", "a call by the user")?;
                let (id, name) = (text(call, "toolUseId")?, text(call, "name")?);
                require(is_word(id, "_.:-", 64), "an id that no call can have")?;
                require(is_word(name, "_-", 64), "a name that no tool can have")?;
                require(call["input"].is_object(), "arguments that are no object")?;
                calls.open(id)?;
            } else if let Some(result) = block.get("toolResult") {
                uses_tools = true;
                results += 1;
                require(role == "user", "a result by the agent")?;
                for part in list(result, "content")? {
                    said(part, "text")?;
                }
                calls.answer(text(result, "toolUseId")?)?;
            } else if block.get("document").is_some() {
                has.1 = true;
            } else {
                let known = block.get("image").is_some() || block.get("reasoningContent").is_some();
                require(known, "an unknown block")?;
            }
        }
        require(has.0 || !has.1, "a document without words")?;
        // Llama and Mistral on Bedrock take nothing else in such a turn.
        require(
            results == 0 || results == blocks.len(),
            "words beside a result",
        )?;
        if role == "user" {
            calls.none_open()?;
        }
    }
    calls.none_open()?;
    require(before == "user", "the last message is the agent's")?;
    if uses_tools {
        list(&request["toolConfig"], "tools")?;
    }
    let choice = request.pointer("/toolConfig/toolChoice/none");
    require(choice.is_none(), "no tool choice `none` here")
}
