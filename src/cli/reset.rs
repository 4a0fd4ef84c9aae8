//! `chatcron reset`: a chat begins anew.

use std::time::Duration;

use crate::{
    cli::{
        Exit, database,
        errand::{self, Errand},
        failure::Failure,
        names, print,
        reading::Place,
    },
    clock::{Clock, SystemClock},
    store::sqlite::OpenMode,
    worker::Scope,
};

/// How long the worker may take to come to it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Begin a chat's conversation anew: its agent no longer sees what was said before.
///
/// A turn under way is called off. The old rows stay in the transcript.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The chat.
    chat: String,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let (database, store) = errand::open(&arguments.place, OpenMode::MustExist).await?;
    let chat = names::session(store.as_ref(), &arguments.place.file, &arguments.chat).await?;
    let session = chat.key.clone();
    let failed = |error| database::failure(&error);
    let scope = Scope::Session(session.clone());
    let mut work = Errand::begin(&arguments.place, &database, store.clone(), scope).await?;
    store
        .request_reset(&session, SystemClock.now())
        .await
        .map_err(failed)?;
    let done = work.until(async || {
        let pending = store.pending_resets().await?;
        Ok((!pending.contains(&session)).then_some(()))
    });
    if tokio::time::timeout(PATIENCE, done).await.is_err() {
        return Err(Failure::new(
            Exit::DoesNotHold,
            "the worker has not come to it yet; it will, when what it sends there is answered",
        )
        .help("`chatcron outbox` shows what is on its way there"));
    }
    print(&format!("{} begins anew\n", arguments.chat))?;
    Ok(Exit::Fine)
}
