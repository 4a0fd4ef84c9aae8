//! Calls of tools, as each API spells them.

use serde_json::{Value, json};

use super::Api;
use crate::faults::Call;

/// One call. Its id is one that no other request's call has.
pub(super) fn spelled(api: Api, call: &Call, index: usize, messages: &[Value]) -> Value {
    let arguments = filled_in(&call.arguments, messages);
    let name = &call.name;
    let id = format!("call{}x{index}", messages.len());
    let text = arguments.as_str().map(str::to_owned);
    let text = text.unwrap_or_else(|| arguments.to_string());
    match api {
        Api::ChatCompletions => json!({"id": id, "type": "function",
            "function": {"name": name, "arguments": text}}),
        Api::Responses => json!({"id": format!("fc_{id}"), "type": "function_call",
            "call_id": id, "name": name, "arguments": text, "status": "completed"}),
        Api::Messages => json!({"type": "tool_use", "id": id, "name": name, "input": arguments}),
        Api::GenerateContent => json!({"functionCall": {"name": name, "args": arguments},
            "thoughtSignature": "c2ln"}),
    }
}

/// Puts calls into an answer, behind its words.
pub(super) fn add(api: Api, answer: &mut Value, text: &str, calls: Vec<Value>) {
    if calls.is_empty() {
        return;
    }
    let list = match api {
        Api::ChatCompletions => {
            let choice = &mut answer["choices"][0];
            choice["finish_reason"] = json!("tool_calls");
            if text.is_empty() {
                choice["message"]["content"] = Value::Null;
            }
            choice["message"]["tool_calls"] = Value::Array(calls);
            return;
        }
        Api::Responses => &mut answer["output"],
        Api::Messages => {
            answer["stop_reason"] = json!("tool_use");
            &mut answer["content"]
        }
        Api::GenerateContent => &mut answer["candidates"][0]["content"]["parts"],
    };
    if let Value::Array(list) = list {
        if text.is_empty() {
            list.clear();
        }
        list.extend(calls);
    }
}

/// The arguments, with what the request says put in.
fn filled_in(arguments: &Value, messages: &[Value]) -> Value {
    if arguments == "$posted-by" {
        return json!(posted_by(messages));
    }
    let Some(fields) = arguments.as_object() else {
        return arguments.clone();
    };
    let filled = |(key, value): (&String, &Value)| (key.clone(), filled_in(value, messages));
    fields.iter().map(filled).collect()
}

/// The job that the last posting note in the request names.
fn posted_by(messages: &[Value]) -> String {
    let said = Value::Array(messages.to_vec()).to_string();
    let note = said.rsplit_once("<posted-by job=\\\"");
    let job = note.and_then(|(_, rest)| rest.split_once("\\\""));
    job.map_or("(nobody)", |(job, _)| job).to_owned()
}
