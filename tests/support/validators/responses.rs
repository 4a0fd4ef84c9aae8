//! OpenAI's Responses: <https://platform.openai.com/docs/api-reference/responses/create>; "No tool
//! output found for function call" and "reasoning was provided without its required following item",
//! which its server answers.

use serde_json::Value;

use super::{Calls, Verdict, is_word, list, require, said, text};

pub(super) fn check(request: &Value) -> Verdict {
    text(request, "model")?;
    said(request, "instructions")?;
    let items = list(request, "input")?;
    let mut calls = Calls::default();
    for (at, item) in items.iter().enumerate() {
        match text(item, "type")? {
            "message" => {
                calls.none_open()?;
                message(item)?;
            }
            "function_call" => {
                require(
                    is_word(text(item, "name")?, "_-", 64),
                    "a name that no tool can have",
                )?;
                let arguments = serde_json::from_str::<Value>(text(item, "arguments")?);
                require(arguments.is_ok(), "arguments that are no JSON")?;
                calls.open(text(item, "call_id")?)?;
            }
            "function_call_output" => {
                said(item, "output")?;
                calls.answer(text(item, "call_id")?)?;
            }
            "reasoning" => {
                let next = items.get(at + 1);
                let leads = next.is_some_and(|next| match next["type"].as_str() {
                    Some("message") => next["role"] == "assistant",
                    Some("function_call" | "reasoning") => true,
                    Some(_) | None => false,
                });
                require(leads, "reasoning without the item that it leads to")?;
                text(item, "encrypted_content")?;
            }
            other => return Err(format!("an item of type `{other}`")),
        }
    }
    calls.none_open()
}

fn message(item: &Value) -> Verdict {
    let kind = match text(item, "role")? {
        "user" | "system" | "developer" => "input_text",
        "assistant" => "output_text",
        other => return Err(format!("a role `{other}`")),
    };
    if item["content"].is_string() {
        said(item, "content")?;
        return Ok(());
    }
    for part in list(item, "content")? {
        match text(part, "type")? {
            found if found == kind => drop(said(part, "text")?),
            "input_image" | "input_file" if kind == "input_text" => {}
            other => return Err(format!("a part of type `{other}`")),
        }
    }
    Ok(())
}
