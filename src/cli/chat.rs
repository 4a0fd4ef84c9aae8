//! Finding a chat by what a person calls it, and showing what others wrote.

use crate::{
    cli::{Exit, control::PlaceArguments, database, failure::Failure, jobs_file},
    clock::{Clock, SystemClock},
    directory::Chat,
    store::Store,
};

/// The chat of this name or session key; of the jobs file, where the database does not have it.
pub(super) async fn find(
    store: &dyn Store,
    place: &PlaceArguments,
    name: &str,
) -> Result<Chat, Failure> {
    let mut chats = store
        .chats()
        .await
        .map_err(|error| database::failure(&error))?;
    if let Ok(loaded) = jobs_file::load(&place.file, SystemClock.now())
        && let Some(file) = loaded.file
    {
        for chat in file.directory.chats.into_values() {
            if chats.iter().all(|known| known.name != chat.name) {
                chats.push(chat);
            }
        }
    }
    let is_it = |chat: &&Chat| chat.name.as_str() == name || chat.session_key().as_str() == name;
    if let Some(chat) = chats.iter().find(is_it) {
        return Ok(chat.clone());
    }
    let failure = Failure::new(Exit::CannotRead, format!("there is no chat `{name}`"));
    let names: Vec<_> = chats.iter().map(|chat| chat.name.as_str()).collect();
    Err(if names.is_empty() {
        failure.help("the jobs file has no chats: add one as [chats.NAME]")
    } else {
        failure.help(format!("chats: {}", names.join(", ")))
    })
}

/// A text for a terminal: what others wrote cannot steer it.
pub(super) fn safe(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}
