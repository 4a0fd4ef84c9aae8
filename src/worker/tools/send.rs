//! The tool that sends messages, through the outbox as everything that a chat shows.

use crate::{
    agent::{EffectReporter, ReportError, ToolOutput},
    directory::{Chat, Permission},
    ids::{MessageId, SessionKey},
    message::{Destination, Payload},
    outbound::{Author, compose},
    session::{Said, said},
    store::{Sent, SentBy, ToolSend},
};

use super::{
    Answered, TurnTools,
    arguments::{Arguments, brief},
    list, unavailable,
};

/// How many messages one turn or attempt may send.
const SENDS_MAX: usize = 10;

/// In whose name, and under whose lease, messages are sent.
pub(in crate::worker) struct Voice {
    /// The author of what is sent; its origin is the message tool.
    pub(in crate::worker) author: Author,
    /// The lease.
    pub(in crate::worker) by: SentBy,
    /// Where it is said, before the first send, that the attempt has effects.
    pub(in crate::worker) effects: EffectReporter,
}

/// A message that was sent, or tried.
#[derive(Debug)]
pub(super) struct ToolText {
    to: SessionKey,
    words: Said,
    /// `None` where it is not in the outbox.
    message: Option<MessageId>,
}

impl TurnTools {
    pub(super) async fn send_message(&self, arguments: &Arguments<'_>) -> Answered {
        let name = arguments.text("chat")?;
        let text = arguments.text("text")?;
        let chats = &self.services.directory.chats;
        let chat = chats.get(name).filter(|chat| self.may_send_to(chat));
        let Some(chat) = chat else {
            let names = chats.values().filter(|chat| self.may_send_to(chat));
            return Err(ToolOutput::refused(format!(
                "nothing can be sent to a chat `{}` from here; the chats are {}",
                brief(name),
                list(names.map(|chat| chat.name.as_str()))
            )));
        };
        let number = self.recorded(|record| record.sends.len());
        if number >= SENDS_MAX {
            return Err(ToolOutput::refused(format!(
                "not sent: {SENDS_MAX} messages have been sent already"
            )));
        }
        let to = Destination::Chat(chat.into());
        let session = to.session_key();
        let ordinal = u32::try_from(number).unwrap_or(u32::MAX);
        let words = Payload::Text(text.to_owned());
        let author = self.voice.author.clone();
        let channels = &self.services.channels;
        let Some(message) = compose(author, ordinal, to, words, channels) else {
            return Err(ToolOutput::refused(
                "not sent: the text has nothing to show",
            ));
        };
        self.voice.effects.report().await.map_err(not_reported)?;
        let by = self.voice.by;
        let sent = self.store.send(ToolSend { by, message }, self.clock.now());
        let sent = sent.await.map_err(unavailable)?;
        let sent = sent.map_err(|_| ToolOutput::refused("not sent: this turn is over"))?;
        let (message, answer) = match sent {
            Sent::New(id) => (
                Some(id),
                Ok(ToolOutput::done(format!("it goes to chat `{}`", chat.name))),
            ),
            Sent::Again(id) => (
                Some(id),
                Ok(ToolOutput::done("an earlier try has sent it already")),
            ),
            Sent::Otherwise => (
                None,
                Err(ToolOutput::refused(
                    "not sent: an earlier try of this turn has sent another message in its place",
                )),
            ),
        };
        let kept = ToolText {
            to: session,
            words: said(text),
            message,
        };
        self.recorded(|record| record.sends.push(kept));
        answer
    }

    fn may_send_to(&self, chat: &Chat) -> bool {
        chat.agent == self.place.agent || self.may(Permission::AnyChat)
    }

    /// Whether anything was sent.
    pub(in crate::worker) fn has_sent(&self) -> bool {
        self.recorded(|record| record.sends.iter().any(|send| send.message.is_some()))
    }

    /// The message by which these words went to this place already, if one did.
    pub(in crate::worker) fn said_by_tool(
        &self,
        to: &Destination,
        words: &str,
    ) -> Option<MessageId> {
        let to = to.session_key();
        let words = said(words);
        self.recorded(|record| {
            let mut sends = record.sends.iter();
            let same = sends.find(|send| send.to == to && send.words == words);
            same.and_then(|send| send.message)
        })
    }
}

fn not_reported(error: ReportError) -> ToolOutput {
    match error {
        ReportError::Over => ToolOutput::refused("not sent: this turn is over"),
        ReportError::Store(error) => unavailable(error),
    }
}
