//! From what is to be said to an outbox entry: split, and every part under its derived key.

use crate::{
    channel::{TextLimit, TextUnit},
    hygiene,
    ids::{AgentName, IdempotencyKey, RunId, TurnId},
    job::OnUnknown,
    message::{Destination, Origin, Payload, split},
    replay,
    store::{LateNotice, NewMessage, NewPart, PostedBy},
    transcript::TriggerSource,
};

use super::Channels;

/// Who says it, and from where.
#[derive(Debug, Clone, PartialEq)]
pub struct Author {
    /// `occurrence:<id>`, `turn:<id>`, or a caller's own key.
    pub producer: String,
    /// What the message is.
    pub origin: Origin,
    /// Whose words they are.
    pub agent: AgentName,
    /// Who triggered it.
    pub trigger_source: Option<TriggerSource>,
    /// The job that posts it.
    pub posted_by: Option<PostedBy>,
    /// The run, and the attempt.
    pub run: Option<(RunId, u32)>,
    /// The user turn.
    pub turn_id: Option<TurnId>,
    /// What to do in doubt.
    pub on_unknown: OnUnknown,
    /// What to do if it is first sent long after its slot.
    pub late: Option<LateNotice>,
}

/// Composes a message to one destination. `None` where nothing is left to show.
///
/// A posting note, or a connector's framing, that the model echoed is not sent.
pub fn compose(
    author: Author,
    ordinal: u32,
    destination: Destination,
    payload: Payload,
    channels: &Channels,
) -> Option<NewMessage> {
    let mut late = author.late.clone();
    let bodies: Vec<Body> = match payload {
        Payload::Text(text) => {
            let limit = channels.limit(&destination).unwrap_or(TextLimit {
                max: None,
                unit: TextUnit::Chars,
            });
            let words = replay::strip_echoed_note(&text);
            split_with_room(hygiene::strip(&words).words, &mut late, limit)
                .into_iter()
                .map(|part| (Some(part), None))
                .collect()
        }
        Payload::Native { body, text } => vec![(text, Some(body))],
    };
    let author = Author { late, ..author };
    (!bodies.is_empty()).then(|| message(author, ordinal, destination, bodies))
}

/// A reply that was shown already, in these parts.
pub fn compose_shown(author: Author, destination: Destination, parts: Vec<String>) -> NewMessage {
    let bodies = parts.into_iter().map(|part| (Some(part), None)).collect();
    message(author, 0, destination, bodies)
}

/// What a part shows in words, and in the channel's own form.
type Body = (Option<String>, Option<serde_json::Value>);

fn message(
    author: Author,
    ordinal: u32,
    destination: Destination,
    bodies: Vec<Body>,
) -> NewMessage {
    let to = destination.session_key();
    let parts = bodies
        .into_iter()
        .zip(1..)
        .map(|((text, native), part)| NewPart {
            key: IdempotencyKey::derive(
                &author.producer,
                author.origin.as_str(),
                ordinal,
                to.as_str(),
                part,
            ),
            text,
            native,
        })
        .collect();
    let speaker = match &author.posted_by {
        Some(job) => job.name.clone(),
        None => author.agent.as_str().to_owned(),
    };
    NewMessage {
        producer: author.producer,
        origin: author.origin,
        ordinal,
        destination,
        agent: author.agent,
        speaker,
        trigger_source: author.trigger_source,
        posted_by: author.posted_by,
        run: author.run,
        turn_id: author.turn_id,
        on_unknown: author.on_unknown,
        late: author.late,
        behind: None,
        parts,
    }
}

/// Splits a text so that its first part has room for the line that a late one gets. Where that line
/// fills the part, there is none.
fn split_with_room(text: &str, late: &mut Option<LateNotice>, limit: TextLimit) -> Vec<String> {
    let Some(label) = late.as_mut().and_then(|late| late.label.take()) else {
        return split(text, limit);
    };
    let head = format!("{label}\n");
    let mut parts = split(&format!("{head}{text}"), limit);
    let first = parts.first().and_then(|first| first.strip_prefix(&head));
    let Some(first) = first
        .map(str::to_owned)
        .filter(|first| !first.trim().is_empty())
    else {
        return split(text, limit);
    };
    parts[0] = first;
    if let Some(late) = late {
        late.label = Some(label);
    }
    parts
}
