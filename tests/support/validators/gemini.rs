//! Gemini's generateContent: <https://ai.google.dev/api/caching#Content>, its pages about function
//! calling ("function call turn comes immediately after a user turn or after a function response
//! turn", "the number of function response parts is equal to the number of function call parts") and
//! <https://ai.google.dev/gemini-api/docs/thought-signatures>; turns alternate in Google's own SDK.

use serde_json::Value;

use super::{Verdict, is_word, list, require, said, text};

pub(super) fn check(request: &Value) -> Verdict {
    for part in list(&request["systemInstruction"], "parts")? {
        said(part, "text")?;
    }
    let mut before = "model";
    let mut open: Vec<(&str, &str)> = Vec::new();
    for content in list(request, "contents")? {
        let role = text(content, "role")?;
        require(matches!(role, "user" | "model"), "an unknown role")?;
        require(role != before, "two contents of one role")?;
        before = role;
        let parts = list(content, "parts")?;
        let mut answered = Vec::new();
        let mut called = Vec::new();
        for part in parts {
            one_kind(part)?;
            if part.get("text").is_some() {
                said(part, "text")?;
            } else if let Some(call) = part.get("functionCall") {
                require(role == "model", "a call by the user")?;
                require(call["args"].is_object(), "arguments that are no object")?;
                called.push(named(call)?);
            } else if let Some(response) = part.get("functionResponse") {
                require(role == "user", "a result by the model")?;
                require(
                    response["response"].is_object(),
                    "a result that is no object",
                )?;
                answered.push(named(response)?);
            }
        }
        require(
            answered.is_empty() || answered.len() == parts.len(),
            "words beside a result",
        )?;
        answered.sort_unstable();
        open.sort_unstable();
        require(open == answered, "results that are not those of the calls")?;
        open = called;
    }
    require(open.is_empty(), "a call without its result")?;
    require(before == "user", "the last content is the model's")
}

fn one_kind(part: &Value) -> Verdict {
    let kinds = [
        "text",
        "functionCall",
        "functionResponse",
        "inlineData",
        "fileData",
    ];
    let found = kinds.iter().filter(|kind| part.get(**kind).is_some());
    require(found.count() == 1, "a part that is not of one kind")?;
    let fields = part.as_object().into_iter().flatten();
    for (field, _) in fields {
        let known = kinds.contains(&field.as_str())
            || matches!(field.as_str(), "thought" | "thoughtSignature");
        require(known, &format!("an unknown field `{field}`"))?;
    }
    Ok(())
}

fn named(call: &Value) -> Result<(&str, &str), String> {
    let (id, name) = (text(call, "id")?, text(call, "name")?);
    require(is_word(id, "", 64), "an id that is not alphanumeric")?;
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    require(
        begins && is_word(name, "_.-", 64),
        "a name that no function can have",
    )?;
    Ok((id, name))
}
