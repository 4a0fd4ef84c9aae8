//! What providers check of the messages they are sent, on the JSON.

use std::collections::HashSet;

use serde_json::Value;

/// Panics on what a chat-completions server refuses.
pub(crate) fn chat_accepts(json: &[Value]) {
    let mut open: Vec<&str> = Vec::new();
    let mut seen = HashSet::new();
    for message in json {
        let role = message["role"].as_str().unwrap_or("");
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or("");
            let at = open.iter().position(|call| *call == id);
            assert!(at.is_some(), "a result without its call");
            open.retain(|call| *call != id);
        } else {
            assert!(open.is_empty(), "a call without its result");
        }
        let calls = message["tool_calls"]
            .as_array()
            .map_or(&[][..], |calls| calls);
        for call in calls {
            let id = call["id"].as_str().unwrap_or("");
            assert!(seen.insert(id), "an id twice");
            open.push(id);
            let arguments = call["function"]["arguments"].as_str().unwrap_or("");
            assert!(serde_json::from_str::<Value>(arguments).is_ok());
        }
        let content = &message["content"];
        if content.is_null() {
            assert!(!calls.is_empty());
        } else {
            assert!(content.as_str().is_some_and(|text| !text.trim().is_empty()));
        }
    }
    assert!(open.is_empty());
}

/// Panics on what the Messages API refuses.
pub(crate) fn anthropic_accepts(json: &[Value]) {
    let mut open: Vec<&str> = Vec::new();
    let mut seen = HashSet::new();
    for message in json {
        let blocks = message["content"]
            .as_array()
            .map_or(&[][..], |blocks| blocks);
        assert!(!blocks.is_empty());
        let mut answered = Vec::new();
        let mut text_seen = false;
        let mut calls = Vec::new();
        for block in blocks {
            match block["type"].as_str().unwrap_or("") {
                "text" => {
                    text_seen = true;
                    assert!(!block["text"].as_str().unwrap_or("").trim().is_empty());
                }
                "tool_result" => {
                    assert!(!text_seen, "words before a result");
                    answered.push(block["tool_use_id"].as_str().unwrap_or(""));
                }
                "tool_use" => {
                    let id = block["id"].as_str().unwrap_or("");
                    assert!(seen.insert(id) && block["input"].is_object());
                    calls.push(id);
                }
                other => panic!("{other}"),
            }
        }
        open.sort_unstable();
        answered.sort_unstable();
        assert_eq!(open, answered);
        open = calls;
    }
    assert!(open.is_empty());
}
