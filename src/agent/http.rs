//! A server of one's own as an agent: the turn is posted to it as JSON, and its answer is the reply.
//!
//! ```json
//! {"agent":"helper","session":"cron:budget","job":"budget","trigger":"cron","key":"MFRGG...",
//!  "system":"...","messages":[{"role":"user","content":"What is due?"}]}
//! ```
//!
//! is answered with a status of 2xx and
//!
//! ```json
//! {"text":"The rent.","usage":{"input_tokens":10,"output_tokens":5}}
//! ```
//!
//! The status is the class of a failure, as it is with models: 408, 409, 425, 429 and 5xx mean that
//! another try may help. `"effects": true` in the JSON of a failed answer says that the attempt has
//! changed something outside all the same. That is known only once it has come: for a server whose
//! work must not be done twice whatever happens, `has_effects` reports each attempt before it is
//! sent. When the turn is cancelled, the connection is closed.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::Client;
use secrecy::SecretString;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    Agent, AgentError, AgentReply, AgentTurn, ReportError, Usage,
    exchange::{self, Answered, counted, permanent, tokens},
    plain, steps,
};
use crate::{
    directory::{HttpAgent, ReplayMode},
    http_client::{self, HttpSetupError},
};

/// A job's `timeout` ends a turn; this only keeps a forgotten request from lasting for ever.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3600);

/// Asks a server for every turn.
pub struct Http {
    client: Client,
    url: Url,
    token: Option<SecretString>,
    system: Option<String>,
    has_effects: bool,
    mode: ReplayMode,
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http").finish_non_exhaustive()
    }
}

impl Http {
    /// An agent that asks this server. A token is sent as a bearer token.
    ///
    /// # Errors
    /// [`HttpSetupError`] if the settings' `url` cannot be used.
    pub fn new(
        settings: &HttpAgent,
        token: Option<SecretString>,
        system: Option<String>,
    ) -> Result<Self, HttpSetupError> {
        let url = http_client::service_url("the agent's `url`", &settings.url)?;
        Ok(Self {
            client: http_client::client(http_client::reach_of(&url), REQUEST_TIMEOUT)?,
            url,
            token,
            system,
            has_effects: settings.has_effects,
            mode: ReplayMode::default(),
        })
    }

    /// How a person's messages are replayed.
    #[must_use]
    pub fn with_replay(mut self, mode: ReplayMode) -> Self {
        self.mode = mode;
        self
    }
}

#[async_trait]
impl Agent for Http {
    async fn reply(
        &self,
        turn: &AgentTurn,
        cancel: &CancellationToken,
    ) -> Result<AgentReply, AgentError> {
        let body = plain::conversation(turn, self.system.as_deref(), self.mode);
        let request = self.client.post(self.url.clone()).json(&body);
        let request = steps::bearer(request, self.token.as_ref())?;
        if self.has_effects {
            plain::report_effects(turn).await?;
        }
        let answered = exchange::ask(request, cancel).await?;
        let had_effects = answered.field("effects") == Some(Value::Bool(true));
        let reply = read(answered);
        if reply.is_err() && had_effects {
            report_past_effects(turn).await?;
        }
        reply
    }
}

/// Reports effects that have happened already. An attempt of which that cannot be recorded must not
/// look like one that can be repeated.
async fn report_past_effects(turn: &AgentTurn) -> Result<(), AgentError> {
    turn.effects.report().await.map_err(|error| match error {
        ReportError::Over => AgentError::Cancelled,
        ReportError::Store(error) => permanent(format!(
            "the attempt had effects, and that could not be recorded: {error}"
        )),
    })
}

fn read(answered: Answered) -> Result<AgentReply, AgentError> {
    let answer = answered.json("the agent's")?;
    let Some(text) = answer.get("text").and_then(Value::as_str) else {
        return Err(permanent("the agent's answer has no `text`"));
    };
    let usage = counted(&answer, "usage", |usage| Usage {
        input_tokens: tokens(usage, "input_tokens"),
        output_tokens: tokens(usage, "output_tokens"),
    });
    Ok(AgentReply {
        text: text.to_owned(),
        usage,
        ..AgentReply::default()
    })
}
