//! Turns of people in chats: those that a configured agent answers, and those that a program runs.

use tokio_util::sync::CancellationToken;

use crate::{
    agent::{AgentReply, AgentTurn, ToolCall, ToolOutput, Usage},
    ids::TurnId,
    message::{MESSAGE_ID_MAX, Receipt, is_message_id},
    session::SILENCE,
    store::{InboundMessage, OutboxRow, StoreError, TurnResult},
    transcript::{Block, Content, Entry, NewEntry, Role, TriggerSource},
    worker::{
        TurnRows,
        lent::{Lent, LentEnd},
    },
};

use super::{Chatcron, UnknownChat};

/// A message that a person has sent into a chat.
///
/// ```
/// use chatcron::UserMessage;
///
/// let message = UserMessage::new("What is due today?")
///     .with_message_id("1234")
///     .with_sender("Ada", Some("5550001"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct UserMessage {
    content: Content,
    raw_entry: Option<String>,
    sender_display: Option<String>,
    sender_id: Option<String>,
    message_id: Option<String>,
    trigger: TriggerSource,
}

impl UserMessage {
    /// Words. What a connector put in front of them is taken off, and kept beside them.
    pub fn new(text: impl Into<String>) -> Self {
        Self::of_content(Content::Text(text.into()))
    }

    /// Words, or blocks.
    pub fn of_content(content: Content) -> Self {
        Self {
            content,
            raw_entry: None,
            sender_display: None,
            sender_id: None,
            message_id: None,
            trigger: TriggerSource::User,
        }
    }

    /// The same with the connector's own form, JSON text.
    #[must_use]
    pub fn with_raw_entry(mut self, json: impl Into<String>) -> Self {
        self.raw_entry = Some(json.into());
        self
    }

    /// The same with the sender's name, and the channel's id of the sender.
    #[must_use]
    pub fn with_sender(mut self, name: impl Into<String>, id: Option<&str>) -> Self {
        self.sender_display = Some(name.into());
        self.sender_id = id.map(str::to_owned);
        self
    }

    /// The same with the channel's id of the message: the chat has shown it, and the same id in the
    /// same chat is the same turn.
    #[must_use]
    pub fn with_message_id(mut self, id: impl Into<String>) -> Self {
        self.message_id = Some(id.into());
        self
    }

    /// The same, triggered by something else than a person.
    #[must_use]
    pub fn triggered_by(mut self, trigger: TriggerSource) -> Self {
        self.trigger = trigger;
        self
    }
}

impl From<&str> for UserMessage {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// Why a turn did not come about, or came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TurnError {
    /// No chat has this name.
    #[error(transparent)]
    UnknownChat(#[from] UnknownChat),
    /// There is nothing to say.
    #[error("the message has no words")]
    Nothing,
    /// Lanes are held by a worker, and none of this program runs.
    #[error("no worker of this program runs; `Chatcron::start` starts one")]
    NoWorker,
    /// The channel's id of a message is none that can be kept.
    #[error(
        "a channel's id of a message has 1 to {MESSAGE_ID_MAX} bytes, and this one has {found}"
    )]
    MessageId {
        /// How many bytes were given.
        found: usize,
    },
    /// The chat has a turn for this message already.
    #[error("turn {turn_id} is for this message already, and is {state}")]
    AlreadyReceived {
        /// The turn.
        turn_id: TurnId,
        /// How it stands.
        state: String,
    },
    /// The lane is held for the turn no longer: the chat was reset, the worker has stopped, or it
    /// took too long. Where the worker has stopped, the turn may wait to be handed back
    /// ([`Sessions::take_up`]); [`super::Transcripts::turn`] tells.
    #[error("turn {turn_id} is over")]
    Over {
        /// The turn.
        turn_id: TurnId,
    },
    /// There is no turn of this number.
    #[error("there is no turn {turn_id}")]
    UnknownTurn {
        /// The number that was given.
        turn_id: TurnId,
    },
    /// There is no reply.
    #[error("turn {turn_id} is {state}: {why}")]
    Failed {
        /// The turn.
        turn_id: TurnId,
        /// `failed` or `cancelled`.
        state: String,
        /// Why, in words.
        why: String,
    },
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A turn that has ended, with its reply.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Reply {
    /// The turn.
    pub turn_id: TurnId,
    /// The parts of the reply, in order; none where there was nothing to say.
    pub parts: Vec<OutboxRow>,
}

impl Reply {
    /// The words of all parts.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| part.text.as_deref());
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// The conversations of chats.
#[derive(Clone, Copy)]
pub struct Sessions<'a> {
    pub(super) chatcron: &'a Chatcron,
}

impl Sessions<'_> {
    /// Says something in a chat, has the chat's agent answer, and returns the reply once the chat
    /// has shown it, or nobody can say. A worker must run, here or elsewhere. Dropping it leaves the
    /// turn as it is: it goes on.
    ///
    /// # Errors
    /// [`TurnError::Failed`] where there is no reply.
    pub async fn say(
        self,
        chat: &str,
        message: impl Into<UserMessage>,
    ) -> Result<Reply, TurnError> {
        let turn_id = self.request(chat, message).await?;
        self.reply(turn_id).await
    }

    /// The same without waiting: the message is durable, and the chat's agent will answer it.
    ///
    /// # Errors
    /// [`TurnError::UnknownChat`], with the names that there are.
    pub async fn request(
        self,
        chat: &str,
        message: impl Into<UserMessage>,
    ) -> Result<TurnId, TurnError> {
        let inbound = self.inbound(chat, message.into()).await?;
        let now = self.chatcron.now();
        let turn_id = self.chatcron.store().request_turn(inbound, now).await?;
        self.chatcron.look();
        Ok(turn_id)
    }

    /// Waits until a turn has ended and every part of its messages is settled.
    ///
    /// # Errors
    /// [`TurnError::Failed`] where there is no reply.
    pub async fn reply(self, turn_id: TurnId) -> Result<Reply, TurnError> {
        let events = &self.chatcron.inner.events;
        let over = TurnRows::when_over(self.chatcron.store(), events, turn_id).await?;
        let TurnRows { turn, parts } = over.ok_or(TurnError::UnknownTurn { turn_id })?;
        if turn.state == "done" {
            return Ok(Reply { turn_id, parts });
        }
        Err(TurnError::Failed {
            turn_id,
            state: turn.state,
            why: turn.error.unwrap_or_else(|| "it was called off".to_owned()),
        })
    }

    /// Begins a turn that the caller runs itself: waits for the chat's lane, and holds it until the
    /// [`Turn`] has its end. The person's words are in the history when this returns.
    ///
    /// Where the wait is dropped, the turn stays: when the lane comes to it, it goes to who has
    /// called [`Sessions::take_up`], else it is closed as interrupted. In a chat whose [`Turn`] the
    /// caller holds, this waits for the end of that one.
    ///
    /// # Errors
    /// [`TurnError::NoWorker`] where no worker of this program runs, and
    /// [`TurnError::AlreadyReceived`] where the message id has a turn already.
    pub async fn begin_turn(
        self,
        chat: &str,
        message: impl Into<UserMessage>,
    ) -> Result<Turn, TurnError> {
        let inbound = self.inbound(chat, message.into()).await?;
        let inner = &self.chatcron.inner;
        let (token, gone) = self.chatcron.token().ok_or(TurnError::NoWorker)?;
        let mut place = inner.runners.wait(token.clone());
        let now = self.chatcron.now();
        let asked = inner.store.request_lent_turn(inbound, &token, now).await;
        let turn_id = asked?;
        let row = inner.store.turn(turn_id).await?;
        if let Some(row) = row.filter(|row| row.runner.as_deref() != Some(token.as_str())) {
            return Err(TurnError::AlreadyReceived {
                turn_id,
                state: row.state,
            });
        }
        self.chatcron.look();
        let lent = tokio::select! {
            lent = place.lent() => lent,
            () = gone.cancelled() => None,
            // A reset, or another worker that takes this one for dead, ends it meanwhile.
            ended = self.reply(turn_id) => {
                ended?;
                None
            }
        };
        lent.map(Turn::new).ok_or(TurnError::Over { turn_id })
    }

    /// Takes up turns whose program is gone: those that waited or ran when it died, or that nobody
    /// waits for any more. Without it they are closed as interrupted; an agent never answers them.
    /// Whoever asks last takes them up.
    ///
    /// To be called before [`Chatcron::start`]: a worker that has started closes those that nobody
    /// takes up.
    ///
    /// ```no_run
    /// # async fn begin(chatcron: &chatcron::Chatcron) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut handed_back = chatcron.sessions().take_up();
    /// let worker = chatcron.start().await?;
    /// while let Some(turn) = handed_back.next().await {
    ///     turn.reply("I was away.").await?;
    /// }
    /// # worker.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn take_up(&self) -> HandedBack {
        HandedBack {
            turns: self.chatcron.inner.runners.take_back(),
        }
    }

    /// Begins a chat's conversation anew: what runs in it is called off, and its history is not
    /// recalled any more.
    ///
    /// # Errors
    /// [`TurnError::UnknownChat`], with the names that there are.
    pub async fn reset(self, chat: &str) -> Result<(), TurnError> {
        let key = self.chatcron.chat(chat).await?.session_key();
        let now = self.chatcron.now();
        self.chatcron.store().request_reset(&key, now).await?;
        self.chatcron.look();
        Ok(())
    }

    async fn inbound(self, chat: &str, message: UserMessage) -> Result<InboundMessage, TurnError> {
        let chat = self.chatcron.chat(chat).await?;
        if let Content::Text(text) = &message.content
            && text.trim().is_empty()
        {
            return Err(TurnError::Nothing);
        }
        if let Some(id) = &message.message_id {
            must_be_id(id)?;
        }
        Ok(InboundMessage {
            session_key: chat.session_key(),
            content: message.content,
            source: match &message.message_id {
                Some(_) => "channel",
                None => "api",
            },
            trigger_source: Some(message.trigger),
            raw_entry: message.raw_entry,
            raw_line: None,
            sender_display: message.sender_display,
            sender_id_raw: message.sender_id,
            channel_message_id: message.message_id,
        })
    }
}

fn must_be_id(id: &str) -> Result<(), TurnError> {
    if is_message_id(id) {
        Ok(())
    } else {
        Err(TurnError::MessageId { found: id.len() })
    }
}

/// Turns whose program is gone.
pub struct HandedBack {
    turns: tokio::sync::mpsc::Receiver<Lent>,
}

impl HandedBack {
    /// The next one; its lane is held until it has its end.
    pub async fn next(&mut self) -> Option<Turn> {
        self.turns.recv().await.map(Turn::new)
    }
}

/// A turn that a program runs, and whose lane is held for it: nothing else happens in the chat.
///
/// It ends with [`Turn::reply`], [`Turn::reply_shown`] or [`Turn::fail`]; dropping it fails it.
#[must_use = "dropping it fails the turn"]
pub struct Turn {
    lent: Lent,
    interior: Vec<NewEntry>,
    usage: Option<Usage>,
}

impl Turn {
    fn new(lent: Lent) -> Self {
        Self {
            lent,
            interior: Vec::new(),
            usage: None,
        }
    }

    /// Its number.
    pub fn id(&self) -> TurnId {
        self.lent.turn_id
    }

    /// What an agent would be asked: the history, the words, and the tools that the chat's agent
    /// may use.
    pub fn request(&self) -> &AgentTurn {
        &self.lent.asked
    }

    /// The chat's history before the person's words, oldest first.
    pub fn history(&self) -> &[Entry] {
        &self.lent.asked.history
    }

    /// Ends when the lane is held no longer: what is answered after that is refused.
    pub fn over(&self) -> CancellationToken {
        self.lent.over.clone()
    }

    /// Makes a call of one of the tools that are offered in [`Turn::request`], and records it with
    /// its result.
    pub async fn call(&mut self, call: &ToolCall) -> ToolOutput {
        let output = self.lent.asked.tools.call(call).await;
        self.record_call(call);
        self.record_result(&call.id, &output);
        output
    }

    /// Records a call of a tool of the program's own.
    pub fn record_call(&mut self, call: &ToolCall) {
        let block = Block::ToolUse {
            id: call.id.clone(),
            name: call.name.clone(),
            input: call.input.clone(),
        };
        self.record(NewEntry::blocks(Role::Assistant, vec![block]));
    }

    /// Records what a call came to.
    pub fn record_result(&mut self, call_id: &str, output: &ToolOutput) {
        let block = Block::ToolResult {
            tool_use_id: call_id.to_owned(),
            content: output.content.clone(),
            is_error: output.is_error,
        };
        self.record(NewEntry::blocks(Role::Tool, vec![block]));
    }

    /// Records a step of the turn that the chat does not show: a call, a result, words beside them,
    /// thinking. It is history once the turn has its end.
    pub fn record(&mut self, entry: NewEntry) {
        self.interior.push(entry);
    }

    /// Records what the provider counted.
    pub fn record_usage(&mut self, usage: Usage) {
        self.usage = Some(usage);
    }

    /// Ends the turn with a reply, which the writer sends: its words become history as the chat
    /// shows them. Exactly `NO_REPLY` says nothing. Returns when it is committed.
    ///
    /// # Errors
    /// [`TurnError::Over`] where the lane is held no longer; nothing is sent then.
    pub async fn reply(self, text: impl Into<String>) -> Result<TurnId, TurnError> {
        let (lent, reply) = self.into_reply(text.into());
        end(lent, LentEnd::Reply(reply)).await
    }

    /// Ends the turn with a reply that the program has shown itself, as one message with this id of
    /// the channel: nothing is sent, and it is history at once.
    ///
    /// # Errors
    /// As [`Turn::reply`]; the chat has shown it then, and its history does not have it.
    pub async fn reply_shown(
        self,
        text: impl Into<String>,
        message_id: impl Into<String>,
    ) -> Result<TurnId, TurnError> {
        let receipt = Receipt {
            message_id: message_id.into(),
            shown_at: None,
        };
        self.reply_shown_as(vec![(text.into(), receipt)]).await
    }

    /// The same for a reply of several messages, in the order in which the chat has shown them.
    ///
    /// # Errors
    /// As [`Turn::reply_shown`].
    pub async fn reply_shown_as(self, parts: Vec<(String, Receipt)>) -> Result<TurnId, TurnError> {
        for (_, receipt) in &parts {
            must_be_id(&receipt.message_id)?;
        }
        let words: Vec<_> = parts.iter().map(|(text, _)| text.as_str()).collect();
        if words.iter().all(|text| text.trim().is_empty()) {
            return self.reply(SILENCE).await;
        }
        let (lent, reply) = self.into_reply(words.join("\n"));
        end(lent, LentEnd::Shown(reply, parts)).await
    }

    /// Ends the turn without a reply. The person's words stay in the history.
    ///
    /// # Errors
    /// [`TurnError::Over`] where the lane is held no longer.
    pub async fn fail(self, why: impl Into<String>) -> Result<TurnId, TurnError> {
        end(self.lent, LentEnd::Failed(why.into())).await
    }

    fn into_reply(self, text: String) -> (Lent, AgentReply) {
        let reply = AgentReply {
            interior: self.interior,
            text,
            usage: self.usage,
            ..AgentReply::default()
        };
        (self.lent, reply)
    }
}

/// Reports the end of a turn, and waits until it is committed.
async fn end(lent: Lent, end: LentEnd) -> Result<TurnId, TurnError> {
    let turn_id = lent.turn_id;
    let over = TurnError::Over { turn_id };
    let has_failed = matches!(end, LentEnd::Failed(_));
    if lent.end.send(end).is_err() {
        return Err(over);
    }
    match lent.saved.await {
        Ok(Ok(TurnResult::Done)) => Ok(turn_id),
        Ok(Ok(TurnResult::Failed { .. })) if has_failed => Ok(turn_id),
        Ok(_) | Err(_) => Err(over),
    }
}
