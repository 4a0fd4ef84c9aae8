//! `getUpdates`: what people wrote to the bot.
//!
//! Only new messages are asked for: what is edited later stays in history as it came. A message
//! without words is told by a line in brackets, such as `[photo]`, with its caption behind it.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json, value::RawValue};

use super::answer::{self, Answer};
use crate::{
    channel::inbound::{Arrived, InboundEvent, InboundPlace, PollError, Position, Said},
    http_client::{BodyError, one_line},
    transcript::Content,
};

/// How long the service waits for something to be written, in seconds.
pub(super) const WAIT_SECONDS: u64 = 25;

/// How many updates are taken at once: the longest ones together stay within what is read of an
/// answer.
const UPDATES_MAX: usize = 20;

/// The service numbers updates anew after a week without any, and perhaps with lower numbers. A
/// position that is nearly so old is not named any more: what was taken is gone from the service.
const POSITION_LASTS: SignedDuration = SignedDuration::from_hours(5 * 24);

/// The longest name that is kept, in characters.
const NAME_MAX: usize = 200;

/// What a message can have instead of words.
const ATTACHMENTS: [(&str, &str); 16] = [
    // Before `document`, which comes beside it.
    ("animation", "animation"),
    ("photo", "photo"),
    ("video", "video"),
    ("video_note", "video message"),
    ("voice", "voice message"),
    ("audio", "audio"),
    ("document", "document"),
    ("sticker", "sticker"),
    // Before `location`, which comes beside it.
    ("venue", "venue"),
    ("location", "location"),
    ("contact", "contact"),
    ("poll", "poll"),
    ("dice", "dice"),
    ("game", "game"),
    ("story", "story"),
    ("paid_media", "paid media"),
];

/// The body of a request for what comes behind a position.
pub(super) fn request(position: Option<&Position>, now: Timestamp) -> Value {
    let mut body = json!({
        "timeout": WAIT_SECONDS,
        "limit": UPDATES_MAX,
        "allowed_updates": ["message"],
    });
    let fresh = position.filter(|position| now.duration_since(position.moved_at) < POSITION_LASTS);
    if let Some(offset) = fresh.and_then(|position| position.at.parse::<i64>().ok()) {
        body["offset"] = json!(offset);
    }
    body
}

/// Reads an answer. `header_wait` is what a `Retry-After` header asked for.
pub(super) fn read(
    status: u16,
    header_wait: Option<SignedDuration>,
    body: Result<Vec<u8>, BodyError>,
) -> Result<Arrived, PollError> {
    let later = |retry_after, why: String| PollError::Later { retry_after, why };
    let answer: Answer<Box<RawValue>> = body
        .map_err(|error| error.to_string())
        .and_then(|body| answer::parsed(&body))
        .map_err(|why| later(header_wait, format!("{status} {why}")))?;
    if !answer.ok {
        return Err(refusal(status, header_wait, &answer));
    }
    let result = answer.result.as_deref().map_or("null", RawValue::get);
    let Ok(as_they_came) = serde_json::from_str::<Vec<&RawValue>>(result) else {
        return Err(later(None, format!("{status} without a list of updates")));
    };
    let read = as_they_came.into_iter().map(Update::read);
    let updates: Vec<_> = read.collect::<Result<_, _>>().map_err(|_| {
        later(
            header_wait,
            format!("{status} with an update that is no JSON"),
        )
    })?;
    let arrived = arrived(&updates);
    if arrived.position.is_none() && !updates.is_empty() {
        return Err(later(None, "the updates have no `update_id`".to_owned()));
    }
    Ok(arrived)
}

fn refusal(
    status: u16,
    header_wait: Option<SignedDuration>,
    answer: &Answer<Box<RawValue>>,
) -> PollError {
    let code = answer.error_code.unwrap_or(status);
    let said = one_line(&answer.description);
    match code {
        409 if said.contains("webhook") => PollError::Competing {
            why: format!(
                "a webhook gets this bot's messages: end that with `deleteWebhook` of the Bot API \
                 ({code} {said})"
            ),
        },
        409 => PollError::Competing {
            why: format!(
                "another program reads this bot's messages: end it, or make another bot \
                 ({code} {said})"
            ),
        },
        401 | 403 | 404 => PollError::Refused {
            why: format!("the bot's token is not accepted ({code} {said})"),
        },
        _ => PollError::Later {
            retry_after: answer.wait().or(header_wait),
            why: format!("{code} {said}"),
        },
    }
}

/// An update, read and byte for byte.
struct Update<'a> {
    value: Value,
    raw: &'a RawValue,
}

impl<'a> Update<'a> {
    fn read(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        let value = serde_json::from_str(raw.get())?;
        Ok(Self { value, raw })
    }
}

fn arrived(updates: &[Update<'_>]) -> Arrived {
    let ids = updates
        .iter()
        .filter_map(|update| update.value["update_id"].as_i64());
    Arrived {
        events: updates.iter().filter_map(event).collect(),
        position: ids.max().map(|last| last.saturating_add(1).to_string()),
    }
}

/// What an update says; `None` where nobody wrote anything.
fn event(Update { value, raw }: &Update<'_>) -> Option<InboundEvent> {
    let message = value.get("message")?;
    let chat = message.get("chat")?;
    let address = chat.get("id")?.as_i64()?.to_string();
    if let Some(to) = message.get("migrate_to_chat_id").and_then(Value::as_i64) {
        let to = to.to_string();
        return Some(InboundEvent::Moved { from: address, to });
    }
    // A bot that answers bots can talk for ever, and what a channel posts into its group is nobody's.
    let is_automatic = message["is_automatic_forward"] == true;
    if is_automatic || message["from"]["is_bot"] == true && message.get("sender_chat").is_none() {
        return None;
    }
    let words = words(message)?;
    let message_text = Value::from(words.as_str());
    let raw = format!(r#"{{"message":{message_text},"update":{raw}}}"#);
    Some(InboundEvent::Said(Box::new(Said {
        place: InboundPlace {
            address,
            public_name: text(&chat["username"]).map(|name| format!("@{name}")),
            thread: thread(message),
        },
        message_id: message.get("message_id")?.as_i64()?.to_string(),
        content: Content::Text(words),
        sender_display: sender_name(message),
        sender_id: sender_id(message),
        raw_entry: Some(raw),
    })))
}

/// Replies in a group have a thread too; only a topic's is one of the chat.
fn thread(message: &Value) -> Option<String> {
    let id = message.get("message_thread_id").and_then(Value::as_i64)?;
    (message["is_topic_message"] == true).then(|| id.to_string())
}

fn words(message: &Value) -> Option<String> {
    if let Some(words) = text(&message["text"]) {
        return Some(words);
    }
    let has = |(field, _): &&(&str, &str)| message.get(*field).is_some();
    let (field, name) = ATTACHMENTS.iter().find(has)?;
    let attachment = &message[*field];
    let more = match *field {
        "sticker" | "dice" => text(&attachment["emoji"]),
        "document" | "audio" => text(&attachment["file_name"]),
        "poll" => text(&attachment["question"]),
        "venue" => text(&attachment["title"]),
        _ => None,
    };
    let told = match more {
        Some(more) => format!("[{name}: {}]", one_line(&more)),
        None => format!("[{name}]"),
    };
    Some(match text(&message["caption"]) {
        Some(caption) => format!("{told}\n{caption}"),
        None => told,
    })
}

fn sender_name(message: &Value) -> Option<String> {
    // Who writes as a group or a channel has that one's name.
    if let Some(title) = message
        .get("sender_chat")
        .and_then(|chat| text(&chat["title"]))
    {
        return Some(short(&title));
    }
    let from = message.get("from")?;
    let names: Vec<_> = [text(&from["first_name"]), text(&from["last_name"])]
        .into_iter()
        .flatten()
        .collect();
    let name = if names.is_empty() {
        text(&from["username"])?
    } else {
        names.join(" ")
    };
    Some(short(&name))
}

fn sender_id(message: &Value) -> Option<String> {
    let sender = message.get("sender_chat").or_else(|| message.get("from"))?;
    sender.get("id")?.as_i64().map(|id| id.to_string())
}

fn short(name: &str) -> String {
    name.chars().take(NAME_MAX).collect()
}

fn text(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    (!text.trim().is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests;
