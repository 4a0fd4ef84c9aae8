//! `--as`: the history as the request that would be sent with the next message.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::Value;

use crate::{
    cli::{
        failure::Failure,
        jobs_file,
        names::{self, unreadable},
        reading::Place,
    },
    clock::{Clock, SystemClock},
    config::JobsFile,
    directory::{AgentConfig, AgentKind, Chat, ModelEndpoint},
    replay::{self, Family, Settings, ToolCalls},
    session,
    worker::tools_in_chat,
};

/// What stands for the model where the chat's agent has none.
const NO_MODEL: &str = "MODEL";

/// The families by their names.
pub(super) fn families() -> impl TypedValueParser<Value = Family> {
    PossibleValuesParser::new(Family::ALL.map(Family::as_str)).map(|name| {
        let named = |family: &Family| family.as_str() == name;
        // Only names of families come here.
        Family::ALL
            .into_iter()
            .find(named)
            .unwrap_or(Family::OpenAiChat)
    })
}

/// The request, with the system prompt and the settings of the chat's agent where the jobs file has
/// them.
pub(super) async fn load(place: &Place, chat: &str, family: Family) -> Result<Value, Failure> {
    let store = place.open().await?;
    let session = names::session(&*store, &place.file, chat).await?;
    let history = session::recall(&*store, &session.key)
        .await
        .map_err(unreadable)?;
    let file = jobs_file::load(&place.file, SystemClock.now())
        .ok()
        .and_then(|loaded| loaded.file);
    Ok(request(
        &history,
        family,
        agent(file.as_ref(), session.chat.as_ref()),
        session.chat.as_ref(),
    ))
}

fn agent<'f>(file: Option<&'f JobsFile>, chat: Option<&Chat>) -> Option<&'f AgentConfig> {
    file?.directory.agents.get(&chat?.agent)
}

fn request(
    history: &[crate::transcript::Entry],
    family: Family,
    agent: Option<&AgentConfig>,
    chat: Option<&Chat>,
) -> Value {
    let mode = agent.map(|agent| agent.replay).unwrap_or_default();
    let messages = replay::project(history, &[], family, mode);
    let endpoint = agent.and_then(endpoint);
    let system = replay::system_prompt(agent.and_then(|agent| agent.system.as_deref()));
    let tools = match (agent, chat) {
        (Some(agent), Some(chat)) => tools_in_chat(&agent.tools, chat),
        (_, _) => Vec::new(),
    };
    let settings = Settings {
        model: endpoint.map_or(NO_MODEL, |endpoint| &endpoint.model),
        system: &system,
        max_tokens: endpoint.and_then(|endpoint| endpoint.max_tokens),
        temperature: endpoint.and_then(|endpoint| endpoint.temperature),
        tools: &tools,
        tool_calls: ToolCalls::Allowed,
    };
    replay::request(&messages, family, &settings)
}

fn endpoint(agent: &AgentConfig) -> Option<&ModelEndpoint> {
    match &agent.kind {
        AgentKind::OpenAi(endpoint, _)
        | AgentKind::OpenAiResponses(endpoint)
        | AgentKind::Anthropic(endpoint)
        | AgentKind::Gemini(endpoint) => Some(endpoint),
        AgentKind::Echo | AgentKind::Command(_) | AgentKind::Http(_) => None,
    }
}
