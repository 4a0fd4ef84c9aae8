//! Finds the jobs and chats that a person names, or says what is near.

use crate::{
    cli::{Exit, database, failure::Failure, jobs_file, plain},
    clock::{Clock, SystemClock},
    config,
    directory::Chat,
    ids::{JobId, SessionKey},
    store::{Store, StoreError, StoredJob},
};

/// A name that nothing has.
pub(super) fn unknown<'a>(
    kind: &str,
    found: &str,
    known: impl Iterator<Item = &'a str>,
    place: &str,
) -> Failure {
    let known: Vec<&str> = known.collect();
    let message = format!("there is no {kind} `{}` in {place}", plain::line(found));
    let failure = Failure::new(Exit::CannotRead, message);
    match config::nearest(found, known.iter().copied()) {
        Some(near) => failure.help(format!("did you mean `{near}`?")),
        None if known.is_empty() => failure.help(format!("there is no {kind} in it at all")),
        None => {
            let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            failure.help(format!("it has {}", names.join(", ")))
        }
    }
}

/// The stored job of this id; a removed one too.
///
/// # Errors
/// Where there is none, or the store cannot be read.
pub(super) async fn job(store: &dyn Store, found: &str) -> Result<StoredJob, Failure> {
    let by_id = match JobId::new(found) {
        Ok(id) => store.jobs(&[id]).await.map_err(unreadable)?,
        Err(_) => Vec::new(),
    };
    match by_id.into_iter().next() {
        Some(job) => Ok(job),
        None => {
            let jobs = store.all_jobs().await.map_err(unreadable)?;
            let ids = jobs.iter().map(|stored| stored.job.id.as_str());
            Err(unknown("job", found, ids, "the database"))
        }
    }
}

/// A conversation that a person names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    /// How it is called: the chat's name, or the session key.
    pub(super) name: String,
    pub(super) key: SessionKey,
    pub(super) chat: Option<Chat>,
}

impl Session {
    pub(super) fn of_chat(chat: Chat) -> Self {
        Self {
            name: chat.name.to_string(),
            key: chat.session_key(),
            chat: Some(chat),
        }
    }

    pub(super) fn of_key(key: &str) -> Self {
        Self {
            name: plain::line(key),
            key: SessionKey::from_stored(key),
            chat: None,
        }
    }
}

/// The session of a chat's name, or of a session key. `file` is asked for a chat that the database
/// does not have yet.
///
/// # Errors
/// Where there is none, or the store cannot be read.
pub(super) async fn session(
    store: &dyn Store,
    file: &std::path::Path,
    found: &str,
) -> Result<Session, Failure> {
    let mut chats = store.chats().await.map_err(unreadable)?;
    // A chat's name has no colon, and every session key has one.
    if found.contains(':') {
        let chat = chats
            .into_iter()
            .find(|chat| chat.session_key().as_str() == found);
        return Ok(chat.map_or_else(|| Session::of_key(found), Session::of_chat));
    }
    if let Ok(loaded) = jobs_file::load(file, SystemClock.now()) {
        let of_file = loaded.file.map(|file| file.directory.chats);
        for chat in of_file
            .into_iter()
            .flat_map(std::collections::BTreeMap::into_values)
        {
            if !chats.iter().any(|known| known.name == chat.name) {
                chats.push(chat);
            }
        }
    }
    match chats.iter().find(|chat| chat.name.as_str() == found) {
        Some(chat) => Ok(Session::of_chat(chat.clone())),
        None => {
            let names = chats.iter().map(|chat| chat.name.as_str());
            Err(unknown("chat", found, names, "the database"))
        }
    }
}

pub(super) fn unreadable(error: StoreError) -> Failure {
    database::failure(&error)
}
