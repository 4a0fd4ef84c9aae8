//! What providers check of a request, written from their documents and from what their servers were
//! seen to refuse. Nothing here knows how requests are made.

use std::collections::HashSet;

use chatcron::replay::Family;
use serde_json::Value;

#[path = "validators/anthropic.rs"]
mod anthropic;
#[path = "validators/bedrock.rs"]
mod bedrock;
#[path = "validators/chat.rs"]
mod chat;
#[path = "validators/gemini.rs"]
mod gemini;
#[path = "validators/responses.rs"]
mod responses;

/// Whether a provider takes it, or which rule it breaks.
pub(crate) type Verdict = Result<(), String>;

/// Asks the validator of a family.
pub(crate) fn check(family: Family, request: &Value) -> Verdict {
    match family {
        Family::OpenAiChat => chat::openai(request),
        Family::OpenAiResponses => responses::check(request),
        Family::AnthropicMessages => anthropic::check(request),
        Family::Gemini => gemini::check(request),
        Family::BedrockConverse => bedrock::check(request),
        Family::Mistral => chat::mistral(request),
        Family::StrictChat => chat::strict(request),
    }
}

#[allow(
    clippy::fn_params_excessive_bools,
    reason = "it is a condition, as in an assertion"
)]
fn require(holds: bool, rule: &str) -> Verdict {
    if holds { Ok(()) } else { Err(rule.to_owned()) }
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a [Value], String> {
    match value.get(key).and_then(Value::as_array) {
        Some(list) if !list.is_empty() => Ok(list),
        Some(_) => Err(format!("`{key}` is empty")),
        None => Err(format!("`{key}` is not a list")),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    let text = value.get(key).and_then(Value::as_str);
    text.ok_or_else(|| format!("`{key}` is not a text"))
}

fn said<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    let text = text(value, key)?;
    require(!text.trim().is_empty(), "a text is blank")?;
    Ok(text)
}

/// Ids of calls, each of which is opened once and answered once.
#[derive(Default)]
struct Calls<'a> {
    seen: HashSet<&'a str>,
    open: Vec<&'a str>,
}

impl<'a> Calls<'a> {
    fn open(&mut self, id: &'a str) -> Verdict {
        require(self.seen.insert(id), "an id of a call twice")?;
        self.open.push(id);
        Ok(())
    }

    fn answer(&mut self, id: &str) -> Verdict {
        let at = self.open.iter().position(|open| *open == id);
        let at = at.ok_or("a result that no call waits for")?;
        self.open.remove(at);
        Ok(())
    }

    fn none_open(&self) -> Verdict {
        require(self.open.is_empty(), "a call without its result")
    }
}

/// Letters, digits and these, at least one and at most so many.
fn is_word(word: &str, others: &str, max: usize) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || others.contains(c);
    (1..=max).contains(&word.len()) && word.chars().all(fits)
}
