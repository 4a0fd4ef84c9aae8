//! Chats and what they showed.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    config,
    directory::Chat,
    ids::{ChatKind, SessionKey},
    store::WindowOf,
    view::Transcript,
};

use super::{
    Api,
    extract::{Named, Query, brief},
    page,
    problem::{Kind, Problem},
};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(transcript))
}

/// A chat, as the jobs file or the gateway names it.
#[derive(Serialize, ToSchema)]
struct ChatView {
    name: String,
    channel: String,
    account: Option<String>,
    kind: ChatKind,
    address: String,
    thread: Option<String>,
    /// The agent that answers there.
    agent: String,
    session_key: String,
}

impl From<&Chat> for ChatView {
    fn from(chat: &Chat) -> Self {
        Self {
            name: chat.name.to_string(),
            channel: chat.channel.to_string(),
            account: chat.account.clone(),
            kind: chat.kind,
            address: chat.address.clone(),
            thread: chat.thread.clone(),
            agent: chat.agent.to_string(),
            session_key: chat.session_key().as_str().to_owned(),
        }
    }
}

/// All chats, by name.
#[derive(Serialize, ToSchema)]
struct ChatList {
    chats: Vec<ChatView>,
}

/// List the chats.
#[utoipa::path(get, path = "/v1/chats", tag = "chats",
    responses((status = 200, description = "All chats, by name", body = ChatList)))]
async fn list(State(api): State<Api>) -> axum::Json<ChatList> {
    let services = api.services();
    let chats = services.directory.chats.values();
    axum::Json(ChatList {
        chats: chats.map(ChatView::from).collect(),
    })
}

/// The chat of this name.
pub(super) fn chat(api: &Api, name: &str) -> Result<Chat, Problem> {
    let services = api.services();
    let chats = &services.directory.chats;
    chats.get(name).cloned().ok_or_else(|| {
        let problem = Kind::UnknownChat.because(format!("there is no chat `{}`", brief(name)));
        let known = chats.keys().map(crate::ids::ChatName::as_str);
        match config::nearest(name, known.clone()) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help(format!(
                "the chats are {}",
                known.collect::<Vec<_>>().join(", ")
            )),
        }
    })
}

/// Which part of a history.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Window {
    /// What the chat did not show too: tool calls, replies not yet sent or not delivered.
    all: Option<bool>,
    /// How many entries, 50 where nothing is said.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// A page of a history, from its end: entries are oldest first, and the next page is older.
#[derive(Serialize, ToSchema)]
struct TranscriptPage {
    #[serde(flatten)]
    transcript: Transcript,
    /// The `cursor` of the next page, which is older; null where there is none.
    next: Option<String>,
}

/// Show what a chat showed, the newest page first.
#[utoipa::path(get, path = "/v1/chats/{chat}/transcript", tag = "chats",
    params(("chat" = String, Path,
        description = "The chat's name, or a session key such as `cron:JOB`"), Window),
    responses(
        (status = 200, description = "A page of the history", body = TranscriptPage),
        (status = 404, description = "There is no such chat"),
    ))]
async fn transcript(
    State(api): State<Api>,
    Named(name): Named,
    Query(window): Query<Window>,
) -> Result<axum::Json<TranscriptPage>, Problem> {
    let size = page::size(window.limit)?;
    let (chat, key) = session(&api, &name)?;
    let before = match &window.cursor {
        Some(cursor) => {
            let [generation, seq] = page::numbers(cursor)?;
            Some((generation, seq))
        }
        None => None,
    };
    let rows = if window.all == Some(true) {
        WindowOf::All
    } else {
        WindowOf::Shown
    };
    let most = usize::try_from(size).unwrap_or(usize::MAX);
    let page = api.store.transcript_before(&key, rows, before, most + 1);
    let mut entries = page.await?;
    let more = entries.len() > most;
    entries.drain(..entries.len().saturating_sub(most));
    let first = entries.first().filter(|_| more);
    let next = first.map(|first| format!("{}.{}", first.generation, first.seq));
    let chat = chat.as_ref().map(|chat| &chat.name);
    Ok(axum::Json(TranscriptPage {
        transcript: Transcript::new(chat, &key, &entries),
        next,
    }))
}

/// The session of a chat's name, or of a session key, which has a colon as no name has.
fn session(api: &Api, name: &str) -> Result<(Option<Chat>, SessionKey), Problem> {
    if !name.contains(':') {
        let chat = chat(api, name)?;
        let key = chat.session_key();
        return Ok((Some(chat), key));
    }
    let key = SessionKey::from_stored(name);
    let services = api.services();
    Ok((services.directory.chat_of_session(&key).cloned(), key))
}
