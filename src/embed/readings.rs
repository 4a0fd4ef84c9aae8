//! What a user interface reads: runs, histories, the outbox.

use std::collections::BTreeMap;

use crate::{
    ids::{PartId, RunId, TurnId},
    outbound::verify::{Evidence, Report, ShownLine, verify},
    store::{
        AttemptRow, DiagnosticRow, OutboxRow, OutboxScope, RangeRow, Resolution, RunFilter, RunRow,
        StoreError, TurnRow, WindowOf,
    },
    transcript::Entry,
};

use super::{Chatcron, UnknownChat};

/// What has run, of a [`Chatcron`].
#[derive(Clone, Copy)]
pub struct Runs<'a> {
    pub(super) chatcron: &'a Chatcron,
}

/// One run with everything that is known of it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunDetail {
    /// The run.
    pub run: RunRow,
    /// Its attempts.
    pub attempts: Vec<AttemptRow>,
    /// What a person should know.
    pub diagnostics: Vec<DiagnosticRow>,
    /// Parts of its messages.
    pub parts: Vec<OutboxRow>,
}

impl Runs<'_> {
    /// Runs, and slots that did not run, newest first.
    ///
    /// # Errors
    /// [`StoreError`] where the store cannot be read.
    pub async fn list(self, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        self.chatcron.store().runs(filter).await
    }

    /// Stretches of slots that did not run, newest first.
    ///
    /// # Errors
    /// As [`Runs::list`].
    pub async fn skipped(self, filter: &RunFilter) -> Result<Vec<RangeRow>, StoreError> {
        self.chatcron.store().ranges(filter).await
    }

    /// One run; `None` where there is none, or none any more.
    ///
    /// # Errors
    /// As [`Runs::list`].
    pub async fn get(self, id: RunId) -> Result<Option<RunDetail>, StoreError> {
        let store = self.chatcron.store();
        let filter = RunFilter {
            run_id: Some(id),
            ..RunFilter::default()
        };
        let Some(run) = store.runs(&filter).await?.into_iter().next() else {
            return Ok(None);
        };
        Ok(Some(RunDetail {
            run,
            attempts: store.attempts(id).await?,
            diagnostics: store.diagnostics(id).await?,
            parts: store.run_parts(id).await?,
        }))
    }
}

/// Why a chat's history cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// No chat has this name.
    #[error(transparent)]
    UnknownChat(#[from] UnknownChat),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The histories of chats, of a [`Chatcron`].
#[derive(Clone, Copy)]
pub struct Transcripts<'a> {
    pub(super) chatcron: &'a Chatcron,
}

impl Transcripts<'_> {
    /// The rows of a chat, over all generations, in order: what the chat showed, or all of them.
    ///
    /// # Errors
    /// [`ReadError::UnknownChat`], with the names that there are.
    pub async fn of_chat(self, chat: &str, window: WindowOf) -> Result<Vec<Entry>, ReadError> {
        let chat = self.chatcron.chat(chat).await?;
        let store = self.chatcron.store();
        Ok(store.transcript(&chat.session_key(), window).await?)
    }

    /// Holds the histories of all chats against what the chats showed, as told from outside the
    /// database: `logs` has what each chat has shown, in its order. Of a chat without a log only the
    /// channel's receipts are compared, and the report says so.
    ///
    /// # Errors
    /// [`ReadError::UnknownChat`] where a log is of no chat.
    pub async fn verify(
        self,
        logs: &BTreeMap<String, Vec<ShownLine>>,
    ) -> Result<Report, ReadError> {
        for chat in logs.keys() {
            self.chatcron.chat(chat).await?;
        }
        let store = self.chatcron.store();
        let mut evidence = Vec::new();
        for chat in self.chatcron.chats().await {
            let session_key = chat.session_key();
            evidence.push(Evidence {
                rows: store.transcript(&session_key, WindowOf::Shown).await?,
                parts: store.shown_parts(&session_key).await?,
                log: logs.get(chat.name.as_str()).cloned(),
                session_key,
            });
        }
        Ok(verify(&evidence))
    }

    /// A person's turn.
    ///
    /// # Errors
    /// [`StoreError`] where the store cannot be read.
    pub async fn turn(self, id: TurnId) -> Result<Option<TurnRow>, StoreError> {
        self.chatcron.store().turn(id).await
    }
}

/// Messages on their way, of a [`Chatcron`].
#[derive(Clone, Copy)]
pub struct Outbox<'a> {
    pub(super) chatcron: &'a Chatcron,
}

impl Outbox<'_> {
    /// Parts of messages, oldest first.
    ///
    /// # Errors
    /// [`StoreError`] where the store cannot be read.
    pub async fn list(self, scope: OutboxScope) -> Result<Vec<OutboxRow>, StoreError> {
        self.chatcron.store().outbox(scope).await
    }

    /// Every part that a channel may have shown in a chat; what a proof of Rule 1 needs.
    ///
    /// # Errors
    /// [`ReadError::UnknownChat`], with the names that there are.
    pub async fn shown_in(self, chat: &str) -> Result<Vec<OutboxRow>, ReadError> {
        let chat = self.chatcron.chat(chat).await?;
        Ok(self
            .chatcron
            .store()
            .shown_parts(&chat.session_key())
            .await?)
    }

    /// Settles a part of which nobody knew whether it was shown, by a person's word.
    ///
    /// # Errors
    /// [`StoreError::NoSuchPart`] and [`StoreError::WrongPartState`] say what is accepted.
    pub async fn resolve(self, part: PartId, word: Resolution) -> Result<(), StoreError> {
        let now = self.chatcron.now();
        self.chatcron.store().resolve_part(part, word, now).await
    }

    /// Sends a failed part again, or one that waits at once.
    ///
    /// # Errors
    /// As [`Outbox::resolve`].
    pub async fn retry(self, part: PartId) -> Result<(), StoreError> {
        let now = self.chatcron.now();
        self.chatcron.store().retry_part(part, now).await
    }

    /// Cancels a part that waits, and the rest of its message.
    ///
    /// # Errors
    /// As [`Outbox::resolve`].
    pub async fn cancel(self, part: PartId) -> Result<(), StoreError> {
        let now = self.chatcron.now();
        self.chatcron.store().cancel_part(part, now).await
    }
}
