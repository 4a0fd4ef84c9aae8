//! Names and keys: who is meant, spelled one way everywhere.
//!
//! Session keys and idempotency keys are made here and nowhere else, so that an inbound message and
//! an outbound one meet in the same session, and every attempt to send carries the same key.

use std::{borrow::Borrow, fmt, str::FromStr};

use data_encoding::BASE32_NOPAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

mod session_key;

pub use session_key::{ChatKind, SessionKey};

/// The longest name of a job, chat, channel or agent, in bytes.
pub const NAME_MAX: usize = 64;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{found}` is not a name: use 1 to {NAME_MAX} letters, digits, `-` or `_`, starting with a letter or digit"
)]
pub struct InvalidName {
    /// The text that was given.
    pub found: String,
}

fn checked_name(text: &str) -> Result<(), InvalidName> {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let all_allowed = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if starts_well && all_allowed && text.len() <= NAME_MAX {
        Ok(())
    } else {
        Err(InvalidName {
            found: text.to_owned(),
        })
    }
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Accepts a text that is a name.
            ///
            /// # Errors
            /// [`InvalidName`] says what is accepted.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidName> {
                let text = text.into();
                checked_name(&text)?;
                Ok(Self(text))
            }

            /// The name as written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;
            fn try_from(text: String) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;
            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name_type!(
    /// The id of a job: the `ID` of `[jobs.ID]`.
    JobId
);
name_type!(
    /// The name of a chat: the `NAME` of `[chats.NAME]`.
    ChatName
);
name_type!(
    /// The name of a channel: the `NAME` of `[channels.NAME]`.
    ChannelName
);
name_type!(
    /// The name of an agent: the `NAME` of `[agents.NAME]`.
    AgentName
);

macro_rules! row_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

row_id!(
    /// One row of the occurrences ledger.
    OccurrenceId
);
row_id!(
    /// One run: the execution of one occurrence.
    RunId
);
row_id!(
    /// One user turn: an inbound message and the reply to it.
    TurnId
);
row_id!(
    /// One outbox entry: a message committed with the state change that caused it.
    MessageId
);
row_id!(
    /// One part of an outbox entry: what the channel shows as one message.
    PartId
);
row_id!(
    /// One incident: a stretch of failures of one job with one cause.
    IncidentId
);
row_id!(
    /// One manual or backfill request; an opaque token to the policy.
    RequestId
);
row_id!(
    /// The fencing token of a claim: raised by each new claim, carried by every write under it.
    Epoch
);

/// The key under which a part is sent, on every attempt, for ever.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Derives the key from who produces the message, as what, the how-manieth send of that origin
    /// in the attempt, where it goes, and which part of it this is.
    ///
    /// 24 characters of base32 (the first 15 bytes of SHA-256 over the length-prefixed fields), so
    /// that it fits every channel's own limit.
    pub fn derive(
        producer: &str,
        origin: &str,
        ordinal: u32,
        destination: &str,
        part: u32,
    ) -> Self {
        let mut hash = Sha256::new();
        for field in [
            producer,
            origin,
            &ordinal.to_string(),
            destination,
            &part.to_string(),
        ] {
            hash.update((field.len() as u64).to_be_bytes());
            hash.update(field.as_bytes());
        }
        Self(BASE32_NOPAD.encode(&hash.finalize()[..15]))
    }

    /// A key read back from where it was stored.
    pub fn from_stored(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The key as it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_accept_what_a_person_types_and_nothing_that_needs_quoting() {
        for good in ["budget", "check-in", "a", "9to5", "A_b-C"] {
            assert_eq!(JobId::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "-x", "a b", "a.b", "ü", "a:b", &"x".repeat(65)] {
            assert!(JobId::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn idempotency_keys_are_stable_and_differ_in_every_field() {
        let base = IdempotencyKey::derive("occurrence:7", "job_result", 0, "telegram:direct:1", 0);
        assert_eq!(base.as_str().len(), 24);
        assert_eq!(
            base,
            IdempotencyKey::derive("occurrence:7", "job_result", 0, "telegram:direct:1", 0)
        );
        let others = [
            IdempotencyKey::derive("occurrence:8", "job_result", 0, "telegram:direct:1", 0),
            IdempotencyKey::derive("occurrence:7", "turn_reply", 0, "telegram:direct:1", 0),
            IdempotencyKey::derive("occurrence:7", "job_result", 1, "telegram:direct:1", 0),
            IdempotencyKey::derive("occurrence:7", "job_result", 0, "telegram:direct:2", 0),
            IdempotencyKey::derive("occurrence:7", "job_result", 0, "telegram:direct:1", 1),
            IdempotencyKey::derive("occurrence:", "7job_result", 0, "telegram:direct:1", 0),
        ];
        for other in others {
            assert_ne!(base, other);
        }
    }
}
