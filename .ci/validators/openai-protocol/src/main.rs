//! Reads requests that `tests/replay_requests.rs` wrote, one JSON object a line, and holds those of
//! the families it knows against the types and validators of `openai-protocol`.
//!
//! Ends with 1 where a verdict is not the one that the line expects.

use std::io::BufRead;

use openai_protocol::{
    chat::ChatCompletionRequest, messages::CreateMessageRequest, responses::ResponsesRequest,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use validator::Validate;

#[derive(Deserialize)]
struct Line {
    family: String,
    verdict: String,
    request: Value,
}

fn main() {
    let (mut agreed, mut wrong) = (0, 0);
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a readable line");
        let line: Line = serde_json::from_str(&line).expect("a request");
        let verdict = match line.family.as_str() {
            "openai" => check::<ChatCompletionRequest>(&line.request),
            "openai-responses" => check::<ResponsesRequest>(&line.request),
            "anthropic" => check::<CreateMessageRequest>(&line.request),
            _ => continue,
        };
        if verdict.is_ok() == (line.verdict == "accepted") {
            agreed += 1;
        } else {
            wrong += 1;
            eprintln!("{}: {verdict:?}: {}", line.family, line.request);
        }
    }
    println!("openai-protocol agrees with {agreed} verdicts");
    assert!(agreed > 100, "too few requests were looked at");
    if wrong > 0 {
        eprintln!("and not with {wrong}");
        std::process::exit(1);
    }
}

fn check<R: DeserializeOwned + Validate>(request: &Value) -> Result<(), String> {
    let request: R = serde_json::from_value(request.clone()).map_err(|error| error.to_string())?;
    request.validate().map_err(|errors| errors.to_string())
}
