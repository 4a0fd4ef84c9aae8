//! Who wrote a message, as its framing says.

use serde_json::Value;

/// The longest name that is kept, in characters.
const NAME_MAX: usize = 200;

/// A person, as a connector named them. Only as good as the connector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sender {
    /// A name for people.
    pub display: Option<String>,
    /// The channel's id.
    pub id: Option<String>,
}

/// A block's label and its JSON.
#[derive(Debug, Clone, Copy)]
pub(super) struct Payload<'t> {
    pub(super) label: &'t str,
    pub(super) json: &'t str,
}

/// The first block of each kind: a later one may be the person's own words.
#[derive(Debug, Default)]
pub(super) struct Found {
    sender: Option<Value>,
    conversation: Option<Value>,
}

impl Found {
    pub(super) fn add(&mut self, payloads: &[Payload<'_>]) {
        for payload in payloads {
            let place = match payload.label {
                "Sender" => &mut self.sender,
                "Conversation info" => &mut self.conversation,
                _ => continue,
            };
            if place.is_none() {
                let value = serde_json::from_str::<Value>(payload.json);
                *place = Some(value.unwrap_or(Value::Null));
            }
        }
    }

    pub(super) fn read(&self) -> Sender {
        let named = self.sender.as_ref().and_then(|sender| {
            ["label", "name", "username", "e164", "id"]
                .into_iter()
                .find_map(|key| text(sender.get(key)))
        });
        let of_conversation = self
            .conversation
            .as_ref()
            .and_then(|info| info.get("sender"));
        let display = named.or_else(|| match of_conversation {
            Some(sender @ Value::Object(_)) => ["name", "username", "e164", "id"]
                .into_iter()
                .find_map(|key| text(sender.get(key))),
            other => text(other),
        });
        let conversation = self.conversation.as_ref();
        let id = text(self.sender.as_ref().and_then(|sender| sender.get("id")))
            .or_else(|| text(of_conversation.and_then(|sender| sender.get("id"))))
            .or_else(|| text(conversation.and_then(|info| info.get("sender_id"))));
        Sender { display, id }
    }
}

fn text(value: Option<&Value>) -> Option<String> {
    let text = match value? {
        Value::String(text) => text.trim().chars().take(NAME_MAX).collect(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    (!text.is_empty()).then_some(text)
}
