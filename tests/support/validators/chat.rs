//! Chat completions: OpenAI's, Mistral's, and a strict chat template.
//!
//! OpenAI: <https://platform.openai.com/docs/api-reference/chat/create>, and "An assistant message
//! with 'tool_calls' must be followed by tool messages", which is what its server answers.
//! Mistral: <https://docs.mistral.ai/api/#tag/chat>; `MistralRequestValidatorV3` of mistral-common
//! for ids and roles; code 3230 and "Expected last role User or Tool" of its server.
//! Strict templates: the `raise_exception` calls in chat templates of Gemma 3, Mistral and Devstral.

use serde_json::Value;

use super::{Calls, Verdict, is_word, list, require, said, text};

pub(super) fn openai(request: &Value) -> Verdict {
    let messages = list(request, "messages")?;
    text(request, "model")?;
    let mut calls = Calls::default();
    for (at, message) in messages.iter().enumerate() {
        let role = text(message, "role")?;
        if role != "tool" {
            calls.none_open()?;
        }
        match role {
            "system" => {
                require(at == 0, "a system message in the middle")?;
                said(message, "content")?;
            }
            "user" => user(message)?,
            "assistant" => assistant(message, &mut calls)?,
            "tool" => {
                said(message, "content")?;
                calls.answer(text(message, "tool_call_id")?)?;
            }
            other => return Err(format!("a role `{other}`")),
        }
    }
    calls.none_open()
}

fn user(message: &Value) -> Verdict {
    if !message["content"].is_array() {
        return said(message, "content").map(drop);
    }
    for part in list(message, "content")? {
        match text(part, "type")? {
            "text" => drop(said(part, "text")?),
            "image_url" => drop(text(&part["image_url"], "url")?),
            other => return Err(format!("a part of type `{other}`")),
        }
    }
    Ok(())
}

fn assistant<'a>(message: &'a Value, calls: &mut Calls<'a>) -> Verdict {
    let has_calls = message.get("tool_calls").is_some();
    if message["content"].is_null() {
        require(has_calls, "neither words nor calls")?;
    } else {
        said(message, "content")?;
    }
    if !has_calls {
        return Ok(());
    }
    for call in list(message, "tool_calls")? {
        require(text(call, "type")? == "function", "a call of no function")?;
        let function = &call["function"];
        let name = text(function, "name")?;
        require(is_word(name, "_-", 64), "a name that no tool can have")?;
        let arguments = serde_json::from_str::<Value>(text(function, "arguments")?);
        require(arguments.is_ok(), "arguments that are no JSON")?;
        calls.open(text(call, "id")?)?;
    }
    Ok(())
}

pub(super) fn mistral(request: &Value) -> Verdict {
    openai(request)?;
    let messages = conversation(request)?;
    alternate(messages)?;
    for message in messages {
        let both = message.get("tool_calls").is_some() && !message["content"].is_null();
        require(!both, "words beside a call")?;
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let id = text(call, "id")?;
            let fits = id.len() == 9 && is_word(id, "", 9);
            require(fits, "an id that has not nine letters and digits")?;
        }
    }
    Ok(())
}

pub(super) fn strict(request: &Value) -> Verdict {
    openai(request)?;
    let messages = conversation(request)?;
    alternate(messages)?;
    for message in messages {
        require(
            !message["content"].is_array(),
            "content that is not a text: the template cannot show it",
        )?;
        let both = message.get("tool_calls").is_some() && !message["content"].is_null();
        require(!both, "words beside a call: the template drops them")?;
    }
    Ok(())
}

/// The messages after the system prompt.
fn conversation(request: &Value) -> Result<&[Value], String> {
    let messages = list(request, "messages")?;
    let skipped = usize::from(messages[0]["role"] == "system");
    Ok(&messages[skipped..])
}

/// User and agent take turns; results follow their call, and words of the agent follow them.
fn alternate(messages: &[Value]) -> Verdict {
    let mut before = "system";
    for message in messages {
        let role = text(message, "role")?;
        let fits = matches!(
            (before, role),
            ("system", "user")
                | ("user", "assistant")
                | ("tool", "tool" | "assistant")
                | ("assistant", "user" | "tool")
        );
        require(fits, &format!("`{role}` after `{before}`"))?;
        before = role;
    }
    require(
        matches!(before, "user" | "tool"),
        "the last role is not user or tool",
    )
}
