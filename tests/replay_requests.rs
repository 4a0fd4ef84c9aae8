//! Writes requests down, one JSON object a line, for validators that are not part of this package:
//! `.ci/run` gives them to the libraries of providers and gateways.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{fs, path::Path};

use chatcron::{
    directory::ReplayMode,
    replay::{self, Family, Settings},
    transcript::{Entry, NewEntry, Role},
};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use serde_json::{Value, json};

#[path = "support/histories.rs"]
#[allow(dead_code, reason = "the laws need more of it")]
mod histories;

use histories::{any_row, rows_of};

const HISTORIES: usize = 150;

fn request(rows: &[Entry], family: Family) -> Value {
    let prompt = [NewEntry::text(Role::User, "the prompt")];
    let messages = replay::project(rows, &prompt, family, ReplayMode::Clean);
    let settings = Settings {
        model: "model-1",
        system: replay::SYSTEM_NOTE,
        max_tokens: Some(100),
        temperature: None,
        tools: &[],
        tool_calls: replay::ToolCalls::Forbidden,
    };
    replay::request(&messages, family, &settings)
}

#[test]
fn requests_are_written_for_validators_of_others() {
    let mut lines = Vec::new();
    // The same histories each time.
    let mut runner = TestRunner::deterministic();
    let shapes = proptest::collection::vec(any_row(), 0..12);
    for _ in 0..HISTORIES {
        let shapes = shapes.new_tree(&mut runner).unwrap().current();
        let rows = rows_of(&shapes);
        for family in Family::ALL {
            lines.push(line(family, "accepted", &request(&rows, family)));
        }
    }
    for (family, request) in broken() {
        lines.push(line(family, "refused", &request));
    }
    assert!(lines.len() > HISTORIES * Family::ALL.len());
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay-requests.jsonl");
    fs::write(place, lines.concat()).unwrap();
}

fn line(family: Family, verdict: &str, request: &Value) -> String {
    let line = json!({"family": family.as_str(), "verdict": verdict, "request": request});
    format!("{line}\n")
}

/// Requests that their validators must refuse, so that an agreement means something.
fn broken() -> Vec<(Family, Value)> {
    let chat = |messages: Value| json!({"model": "m", "messages": messages});
    let user = json!({"role": "user", "content": "u"});
    let call = |id: &str| {
        let function = json!({"name": "look", "arguments": "{}"});
        json!({"role": "assistant", "content": null,
            "tool_calls": [{"id": id, "type": "function", "function": function}]})
    };
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "r"});
    let anthropic = |messages: Value| json!({"model": "m", "max_tokens": 9, "messages": messages});
    let tool_use = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]});
    let blank = json!({"role": "user", "content": [{"type": "text", "text": " "}]});
    vec![
        (
            Family::Mistral,
            chat(json!([user, call("call_0001"), result("call_0001"), user])),
        ),
        (
            Family::Mistral,
            chat(json!([user, call("call00001"), user])),
        ),
        (Family::Mistral, chat(json!([user, result("call00001")]))),
        (
            Family::Mistral,
            chat(json!([user, {"role": "assistant", "content": "a"}])),
        ),
        (
            Family::Mistral,
            chat(json!([user, {"role": "assistant", "content": null}, user])),
        ),
        (Family::OpenAiChat, chat(json!([]))),
        (
            Family::OpenAiChat,
            chat(json!([{"role": "tool", "content": "r"}])),
        ),
        (Family::OpenAiResponses, json!({"model": "m", "input": []})),
        (
            Family::OpenAiResponses,
            json!({"model": "m", "input": [{"type": "message", "role": "tool", "content": "x"}]}),
        ),
        (
            Family::AnthropicMessages,
            anthropic(json!([user, tool_use, user])),
        ),
        (
            Family::AnthropicMessages,
            anthropic(json!([user, tool_use])),
        ),
        (Family::AnthropicMessages, anthropic(json!([blank]))),
    ]
}
