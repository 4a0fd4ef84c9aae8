//! One request to a server and its answer: what the adapters of all providers share, and the one
//! for a server of one's own.
//!
//! Errors name the status, the server's own word for the error, and the part of the answer that is
//! missing: never the server's sentence, which may quote the prompt or the key.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, header::HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{AgentError, AgentTurn, Usage};
use crate::{
    directory::{ModelEndpoint, ReplayMode},
    http_client::{self, BodyError, Failure, HttpSetupError},
    replay::{self, Family, ToolCalls},
    transcript::NewEntry,
};

/// A job's `timeout` ends a turn; this only keeps a forgotten request from lasting for ever.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3600);

/// A model behind an HTTP API.
pub(super) struct Endpoint {
    pub(super) client: Client,
    pub(super) url: Url,
    pub(super) settings: ModelEndpoint,
    pub(super) api_key: Option<SecretString>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("model", &self.settings.model)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// `path` is the method's, below the API's root; its segments may hold any characters.
    pub(super) fn new(
        settings: ModelEndpoint,
        api_key: Option<SecretString>,
        path: &str,
    ) -> Result<Self, HttpSetupError> {
        let what = "the agent's `base_url`";
        let root = http_client::service_url(what, &settings.base_url)?;
        let mut url = root;
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path.split('/'));
        }
        Ok(Self {
            client: http_client::client(http_client::reach_of(&url), REQUEST_TIMEOUT)?,
            url,
            settings,
            api_key,
        })
    }
}

/// How a conversation becomes the body of a request.
#[derive(Debug)]
pub(super) struct Conversation {
    system: String,
    pub(super) family: Family,
    pub(super) mode: ReplayMode,
}

impl Conversation {
    /// `system` is the agent's own system prompt.
    pub(super) fn new(system: Option<&str>, family: Family) -> Self {
        Self {
            system: replay::system_prompt(system),
            family,
            mode: ReplayMode::default(),
        }
    }

    /// The body of the next request of a turn; `asked` is its prompt and what it has done so far.
    pub(super) fn body(
        &self,
        settings: &ModelEndpoint,
        turn: &AgentTurn,
        asked: &[NewEntry],
        tool_calls: ToolCalls,
    ) -> Value {
        let messages = replay::project(&turn.history, asked, self.family, self.mode);
        let settings = replay::Settings {
            model: &settings.model,
            system: &self.system,
            max_tokens: settings.max_tokens,
            temperature: settings.temperature,
            tools: turn.tools.offered(),
            tool_calls,
        };
        replay::request(&messages, self.family, &settings)
    }
}

/// Sends a request to a model and reads the JSON of its answer.
pub(super) async fn exchange(
    request: RequestBuilder,
    cancel: &CancellationToken,
) -> Result<Value, AgentError> {
    ask(request, cancel).await?.json("the model's")
}

/// What a server answered, whatever its status.
pub(super) struct Answered {
    status: u16,
    body: Result<Vec<u8>, BodyError>,
}

impl Answered {
    /// The JSON of an answer that is one; `whose` server it is, as in "the model's".
    pub(super) fn json(self, whose: &str) -> Result<Value, AgentError> {
        if !(200..300).contains(&self.status) {
            return Err(refusal(whose, self.status, &self.body.unwrap_or_default()));
        }
        let body = self.body.map_err(|error| transient(error.to_string()))?;
        serde_json::from_slice(&body).map_err(|error| {
            // The parser's own words may quote the answer; its place is enough.
            transient(format!(
                "{whose} answer is not JSON (line {}, column {})",
                error.line(),
                error.column()
            ))
        })
    }

    /// A field of the answer, whatever its status; `None` where it has no such field.
    pub(super) fn field(&self, name: &str) -> Option<Value> {
        let body: Value = serde_json::from_slice(self.body.as_ref().ok()?).ok()?;
        body.get(name).cloned()
    }
}

/// Sends a request and reads the answer to its end.
pub(super) async fn ask(
    request: RequestBuilder,
    cancel: &CancellationToken,
) -> Result<Answered, AgentError> {
    tokio::select! {
        () = cancel.cancelled() => Err(AgentError::Cancelled),
        answer = answer_to(request) => answer,
    }
}

async fn answer_to(request: RequestBuilder) -> Result<Answered, AgentError> {
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) => {
            return Err(match http_client::classify(error) {
                Failure::Impossible(why) => permanent(why),
                Failure::NotConnected(why) | Failure::InDoubt(why) => transient(why),
            });
        }
    };
    Ok(Answered {
        status: response.status().as_u16(),
        body: http_client::body_of(response).await,
    })
}

/// The class of an HTTP error.
fn refusal(whose: &str, status: u16, body: &[u8]) -> AgentError {
    let why = match error_word(body) {
        Some(word) => format!("{whose} server answered {status} ({word})"),
        None => format!("{whose} server answered {status}"),
    };
    match status {
        // 409 and 425 are "not now"; 529 is Anthropic's "overloaded".
        408 | 409 | 425 | 429 | 500.. => transient(why),
        _ => permanent(why),
    }
}

/// The server's own word for an error, if it is one word.
fn error_word(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let error = body.get("error")?;
    let plain = |c: char| c.is_ascii_alphabetic() || c == '_';
    ["code", "type", "status"]
        .into_iter()
        .filter_map(|field| error.get(field)?.as_str())
        .find(|word| (1..=48).contains(&word.len()) && word.chars().all(plain))
        .map(str::to_owned)
}

/// A key as a header, marked so that no log of headers shows it.
pub(super) fn secret_header(key: &SecretString) -> Result<HeaderValue, AgentError> {
    let mut value = HeaderValue::from_str(key.expose_secret())
        .map_err(|_| permanent("the API key has a character that no header can hold"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// A part of an answer that has to be there.
pub(super) fn missing(part: &str) -> AgentError {
    permanent(format!("the model's answer has no `{part}`"))
}

/// What the provider counted, where its answer tells.
pub(super) fn counted(
    answer: &Value,
    field: &str,
    read: impl FnOnce(&Value) -> Usage,
) -> Option<Usage> {
    let usage = answer.get(field).filter(|usage| usage.is_object());
    usage.map(read)
}

/// A count of tokens; zero where the server says none.
pub(super) fn tokens(usage: &Value, field: &str) -> u64 {
    usage.get(field).and_then(Value::as_u64).unwrap_or(0)
}

pub(super) fn permanent(why: impl Into<String>) -> AgentError {
    AgentError::Permanent { why: why.into() }
}

pub(super) fn transient(why: impl Into<String>) -> AgentError {
    AgentError::Transient { why: why.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_the_class_and_only_a_word_is_quoted() {
        let quoting = br#"{"error":{"message":"key sk-abc is wrong: <prompt>","type":"invalid_request_error","code":"invalid_api_key"}}"#;
        assert_eq!(
            refusal("the model's", 401, quoting),
            permanent("the model's server answered 401 (invalid_api_key)")
        );
        let google =
            br#"{"error":{"code":429,"message":"quota of key","status":"RESOURCE_EXHAUSTED"}}"#;
        assert_eq!(
            refusal("the model's", 429, google),
            transient("the model's server answered 429 (RESOURCE_EXHAUSTED)")
        );
        let sentence = br#"{"error":{"type":"Your prompt was: hello","code":42}}"#;
        assert_eq!(
            refusal("the model's", 400, sentence),
            permanent("the model's server answered 400")
        );
        for passing in [408, 409, 425, 429, 500, 503, 529] {
            assert!(matches!(
                refusal("the model's", passing, b"<html>"),
                AgentError::Transient { .. }
            ));
        }
        for lasting in [301, 400, 401, 403, 404, 413, 422] {
            assert!(matches!(
                refusal("the model's", lasting, b""),
                AgentError::Permanent { .. }
            ));
        }
    }
}
