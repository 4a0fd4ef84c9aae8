//! The validators of requests refuse what a provider refuses, rule by rule.
#![allow(
    clippy::too_many_lines,
    reason = "a table of rules is as long as they are many"
)]

use chatcron::replay::Family;
use serde_json::{Value, json};

#[path = "support/validators.rs"]
mod validators;

use validators::check;

/// Each rule with a request that breaks it, beside one that does not.
fn refuses(family: Family, good: &Value, broken: &[(&str, Value)]) {
    assert_eq!(check(family, good), Ok(()), "{family:?} {good}");
    for (rule, request) in broken {
        let verdict = check(family, request);
        let why = verdict.expect_err(rule);
        assert!(why.contains(rule), "{family:?}: `{why}` for `{rule}`");
    }
}

fn chat(messages: &Value) -> Value {
    let mut all = vec![json!({"role": "system", "content": "s"})];
    all.extend(messages.as_array().into_iter().flatten().cloned());
    json!({"model": "m", "messages": all})
}

fn u(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn a(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn call(id: &str) -> Value {
    let function = json!({"name": "look", "arguments": "{}"});
    json!({"role": "assistant", "content": null,
        "tool_calls": [{"id": id, "type": "function", "function": function}]})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "r"})
}

/// A message with one field changed.
fn with(mut message: Value, pointer: &str, value: Value) -> Value {
    *message.pointer_mut(pointer).expect("the field") = value;
    message
}

#[test]
fn openai_chat() {
    let id = "call00001";
    let name = "/tool_calls/0/function/name";
    let arguments = "/tool_calls/0/function/arguments";
    let ok = json!([
        u("u"),
        a("a"),
        a("b"),
        u("v"),
        call(id),
        result(id),
        u("w"),
        u("x")
    ]);
    refuses(
        Family::OpenAiChat,
        &chat(&ok),
        &[
            ("`messages` is empty", json!({"model": "m", "messages": []})),
            ("a text is blank", chat(&json!([u(" ")]))),
            ("a text is blank", chat(&json!([u("u"), a("\n")]))),
            (
                "neither words nor calls",
                chat(&json!([{"role": "assistant", "content": null}])),
            ),
            (
                "`tool_calls` is empty",
                chat(&json!([{"role": "assistant", "content": null, "tool_calls": []}])),
            ),
            (
                "a call without its result",
                chat(&json!([u("u"), call(id), u("v")])),
            ),
            (
                "a call without its result",
                chat(&json!([u("u"), call(id), a("between"), result(id)])),
            ),
            (
                "a call without its result",
                chat(&json!([u("u"), call(id)])),
            ),
            (
                "a result that no call waits for",
                chat(&json!([u("u"), result(id)])),
            ),
            (
                "a result that no call waits for",
                chat(&json!([u("u"), call(id), result(id), result(id)])),
            ),
            (
                "an id of a call twice",
                chat(&json!([call(id), result(id), a("x"), call(id), result(id)])),
            ),
            (
                "a name that no tool can have",
                chat(&json!([with(call(id), name, json!("a b"))])),
            ),
            (
                "arguments that are no JSON",
                chat(&json!([with(call(id), arguments, json!("{"))])),
            ),
            (
                "a system message in the middle",
                chat(&json!([{"role": "system", "content": "x"}])),
            ),
            (
                "a role `function`",
                chat(&json!([{"role": "function", "content": "x"}])),
            ),
        ],
    );
}

#[test]
fn mistral() {
    let id = "call00001";
    let ok = json!([u("u"), a("a"), u("v"), call(id), result(id), a("b"), u("w")]);
    refuses(
        Family::Mistral,
        &chat(&ok),
        &[
            ("`assistant` after `system`", chat(&json!([a("a"), u("u")]))),
            (
                "`assistant` after `assistant`",
                chat(&json!([u("u"), a("a"), a("b"), u("v")])),
            ),
            ("`user` after `user`", chat(&json!([u("u"), u("v")]))),
            (
                "`user` after `tool`",
                chat(&json!([u("u"), call(id), result(id), u("v")])),
            ),
            (
                "a result that no call waits for",
                chat(&json!([u("u"), result(id)])),
            ),
            (
                "words beside a call",
                chat(&json!([
                    u("u"),
                    with(call(id), "/content", json!("x")),
                    result(id)
                ])),
            ),
            ("the last role", chat(&json!([u("u"), a("a")]))),
            (
                "nine letters and digits",
                chat(&json!([u("u"), call("call_0001"), result("call_0001")])),
            ),
            (
                "nine letters and digits",
                chat(&json!([u("u"), call("call1"), result("call1")])),
            ),
            (
                "neither words nor calls",
                chat(&json!([u("u"), {"role": "assistant", "content": null}])),
            ),
        ],
    );
}

#[test]
fn strict_templates() {
    let id = "c";
    let ok = json!([u("u"), call(id), result(id), a("b"), u("w")]);
    let image = json!({"type": "image_url", "image_url": {"url": "data:,"}});
    refuses(
        Family::StrictChat,
        &chat(&ok),
        &[
            ("`assistant` after `system`", chat(&json!([a("a"), u("u")]))),
            (
                "`assistant` after `assistant`",
                chat(&json!([u("u"), a("a"), a("b"), u("v")])),
            ),
            ("`user` after `user`", chat(&json!([u("u"), u("v")]))),
            (
                "`user` after `tool`",
                chat(&json!([u("u"), call(id), result(id), u("v")])),
            ),
            ("the last role", chat(&json!([u("u"), a("a")]))),
            (
                "words beside a call",
                chat(&json!([
                    u("u"),
                    with(call(id), "/content", json!("x")),
                    result(id)
                ])),
            ),
            (
                "content that is not a text",
                chat(&json!([{"role": "user", "content": [image]}])),
            ),
        ],
    );
}

#[test]
fn responses() {
    let request = |items: Value| json!({"model": "m", "instructions": "s", "input": items});
    let said = |role: &str, text: &str| json!({"type": "message", "role": role, "content": text});
    let call = json!({"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "r"});
    let thinks = json!({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"});
    let ok = json!([
        said("user", "u"),
        thinks,
        said("assistant", "a"),
        said("assistant", "b"),
        call,
        output,
        said("user", "v")
    ]);
    let part = json!({"type": "message", "role": "user", "content": [{"type": "output_text", "text": "x"}]});
    refuses(
        Family::OpenAiResponses,
        &request(ok),
        &[
            ("`input` is empty", request(json!([]))),
            ("a text is blank", request(json!([said("assistant", " ")]))),
            (
                "`content` is empty",
                request(json!([{"type": "message", "role": "user", "content": []}])),
            ),
            ("a call without its result", request(json!([call]))),
            (
                "a call without its result",
                request(json!([call, said("assistant", "x"), output])),
            ),
            ("a result that no call waits for", request(json!([output]))),
            (
                "an id of a call twice",
                request(json!([call, output, call, output])),
            ),
            ("reasoning without the item", request(json!([thinks]))),
            (
                "reasoning without the item",
                request(json!([thinks, said("user", "u")])),
            ),
            ("a part of type `output_text`", request(json!([part]))),
            ("a role `tool`", request(json!([said("tool", "x")]))),
            ("an item of type `tool`", request(json!([{"type": "tool"}]))),
        ],
    );
}

#[test]
fn anthropic() {
    let request = |messages: Value| {
        json!({"model": "m", "system": "s", "max_tokens": 9, "messages": messages,
            "tools": [{"name": "look", "input_schema": {"type": "object"}}]})
    };
    let m = |role: &str, blocks: Value| json!({"role": role, "content": blocks});
    let t = |text: &str| json!({"type": "text", "text": text});
    let call = json!({"type": "tool_use", "id": "c", "name": "look", "input": {}});
    let result = json!({"type": "tool_result", "tool_use_id": "c", "content": "r"});
    let thinks = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let u = || m("user", json!([t("u")]));
    let ok = json!([
        u(),
        m("assistant", json!([thinks, t("a"), call])),
        m("user", json!([result, t("v")]))
    ]);
    let good = request(ok);
    refuses(
        Family::AnthropicMessages,
        &good,
        &[
            ("two messages of one role", request(json!([u(), u()]))),
            (
                "two messages of one role",
                request(json!([m("assistant", json!([t("a")])), u()])),
            ),
            (
                "the last message is the agent's",
                request(json!([u(), m("assistant", json!([t("a")]))])),
            ),
            ("`content` is empty", request(json!([m("user", json!([]))]))),
            (
                "a text is blank",
                request(json!([m("user", json!([t("\n ")]))])),
            ),
            (
                "a call without its result",
                request(json!([u(), m("assistant", json!([call])), u()])),
            ),
            (
                "words before a result",
                request(json!([
                    u(),
                    m("assistant", json!([call])),
                    m("user", json!([t("x"), result]))
                ])),
            ),
            (
                "a result that no call waits for",
                request(json!([m("user", json!([result]))])),
            ),
            (
                "an id of a call twice",
                request(json!([
                    u(),
                    m("assistant", json!([call, call])),
                    m("user", json!([result, result]))
                ])),
            ),
            (
                "thinking after a call",
                request(json!([
                    u(),
                    m("assistant", json!([call, thinks])),
                    m("user", json!([result]))
                ])),
            ),
            (
                "the last block is thinking",
                request(json!([u(), m("assistant", json!([thinks])), u()])),
            ),
            (
                "arguments that are no object",
                request(json!([
                    u(),
                    m("assistant", json!([with(call.clone(), "/input", json!(5))])),
                    m("user", json!([result]))
                ])),
            ),
            (
                "a tool that is not declared",
                with(good.clone(), "/tools", json!([])),
            ),
            (
                "`max_tokens` is missing",
                with(good.clone(), "/max_tokens", json!(null)),
            ),
        ],
    );
}

#[test]
fn gemini() {
    let request = |contents: Value| json!({"systemInstruction": {"parts": [{"text": "s"}]}, "contents": contents});
    let c = |role: &str, parts: Value| json!({"role": role, "parts": parts});
    let call = |id: &str| json!({"functionCall": {"id": id, "name": "look", "args": {}}});
    let result = |id: &str| json!({"functionResponse": {"id": id, "name": "look", "response": {"result": "r"}}});
    let u = || c("user", json!([{"text": "u"}]));
    let ok = json!([
        u(),
        c("model", json!([{"text": "a"}, call("c"), call("d")])),
        c("user", json!([result("d"), result("c")]))
    ]);
    let name = "/functionCall/name";
    refuses(
        Family::Gemini,
        &request(ok),
        &[
            ("`contents` is empty", request(json!([]))),
            (
                "two contents of one role",
                request(json!([c("model", json!([{"text": "a"}])), u()])),
            ),
            ("two contents of one role", request(json!([u(), u()]))),
            (
                "the last content is the model's",
                request(json!([u(), c("model", json!([{"text": "a"}]))])),
            ),
            (
                "an unknown role",
                request(json!([u(), c("function", json!([result("c")]))])),
            ),
            ("`parts` is empty", request(json!([c("user", json!([]))]))),
            (
                "a text is blank",
                request(json!([c("user", json!([{"text": " "}]))])),
            ),
            (
                "a call by the user",
                request(json!([c("user", json!([call("c")]))])),
            ),
            (
                "results that are not",
                request(json!([u(), c("model", json!([call("c")])), u()])),
            ),
            (
                "results that are not",
                request(json!([
                    u(),
                    c("model", json!([call("c"), call("d")])),
                    c("user", json!([result("c")]))
                ])),
            ),
            (
                "results that are not",
                request(json!([c("user", json!([result("c")]))])),
            ),
            (
                "words beside a result",
                request(json!([
                    u(),
                    c("model", json!([call("c")])),
                    c("user", json!([result("c"), {"text": "x"}]))
                ])),
            ),
            (
                "a call without its result",
                request(json!([u(), c("model", json!([call("c")]))])),
            ),
            (
                "an id that is not alphanumeric",
                request(json!([u(), c("model", json!([call("c_1")]))])),
            ),
            (
                "a name that no function can have",
                request(json!([
                    u(),
                    c("model", json!([with(call("c"), name, json!("1a"))]))
                ])),
            ),
            (
                "a part that is not of one kind",
                request(json!([c("user", json!([{}]))])),
            ),
            (
                "an unknown field",
                request(json!([c("user", json!([{"text": "x", "type": "text"}]))])),
            ),
        ],
    );
}

#[test]
fn bedrock() {
    let request = |messages: Value| {
        json!({"system": [{"text": "s"}], "messages": messages,
            "toolConfig": {"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": {}}}}]}})
    };
    let m = |role: &str, blocks: Value| json!({"role": role, "content": blocks});
    let call = |id: &str| json!({"toolUse": {"toolUseId": id, "name": "look", "input": {}}});
    let result = |id: &str| json!({"toolResult": {"toolUseId": id, "content": [{"text": "r"}]}});
    let u = || m("user", json!([{"text": "u"}]));
    let a = || m("assistant", json!([{"text": "a"}]));
    let good = request(json!([
        u(),
        m("assistant", json!([call("c")])),
        m("user", json!([result("c")])),
        a(),
        u()
    ]));
    refuses(
        Family::BedrockConverse,
        &good,
        &[
            ("roles do not alternate", request(json!([a(), u()]))),
            (
                "roles do not alternate",
                request(json!([u(), a(), a(), u()])),
            ),
            ("roles do not alternate", request(json!([u(), u()]))),
            (
                "the last message is the agent's",
                request(json!([u(), a()])),
            ),
            ("`content` is empty", request(json!([m("user", json!([]))]))),
            (
                "a text is blank",
                request(json!([m("user", json!([{"text": " "}]))])),
            ),
            (
                "a call without its result",
                request(json!([u(), m("assistant", json!([call("c")])), u()])),
            ),
            (
                "a result that no call waits for",
                request(json!([m("user", json!([result("c")]))])),
            ),
            (
                "words beside a result",
                request(json!([
                    u(),
                    m("assistant", json!([call("c")])),
                    m("user", json!([result("c"), {"text": "x"}]))
                ])),
            ),
            (
                "an id that no call can have",
                request(json!([u(), m("assistant", json!([call("a b")]))])),
            ),
            (
                "a document without words",
                request(json!([m("user", json!([{"document": {}}]))])),
            ),
            (
                "a block that is not of one kind",
                request(json!([m("user", json!([{"text": "x", "image": {}}]))])),
            ),
            (
                "`tools` is not a list",
                with(good.clone(), "/toolConfig", json!(null)),
            ),
            (
                "no tool choice `none`",
                with(
                    good.clone(),
                    "/toolConfig",
                    json!({"tools": [{}], "toolChoice": {"none": {}}}),
                ),
            ),
        ],
    );
}
