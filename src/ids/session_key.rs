//! The one function that names a conversation.
//!
//! The outbound writer and the inbound path both call [`SessionKey::chat`], so a reply can never
//! land in another session than the message it answers.

use std::{borrow::Borrow, fmt};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{JobId, OccurrenceId};

/// What sort of chat an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "http-api", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ChatKind {
    /// One person.
    Direct,
    /// Several people who all may write.
    Group,
    /// A broadcast that people read.
    Channel,
}

impl ChatKind {
    /// The word used in the jobs file and in session keys.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Group => "group",
            Self::Channel => "channel",
        }
    }
}

/// The name of a chat's or a job's conversation, over all its generations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionKey(String);

impl SessionKey {
    /// The conversation of a chat:
    /// `<channel>[:<account>]:<direct|group|channel>:<address>[:thread:<id>]`.
    ///
    /// Injective over (channel, account, kind, exact address, thread): `:` and `%` inside any
    /// component are escaped, and an upper-case letter is written as an escape, so that addresses
    /// which differ only in case stay apart even where keys are compared without regard to case.
    ///
    /// ```
    /// use chatcron::ids::{ChatKind, SessionKey};
    /// let key = SessionKey::chat("telegram", None, ChatKind::Direct, "5550001", None);
    /// assert_eq!(key.as_str(), "telegram:direct:5550001");
    /// ```
    pub fn chat(
        channel: &str,
        account: Option<&str>,
        kind: ChatKind,
        address: &str,
        thread: Option<&str>,
    ) -> Self {
        let mut key = escape(channel);
        if let Some(account) = account {
            key.push(':');
            // An account that is spelled like a kind would read as one.
            if matches!(account, "direct" | "group" | "channel") {
                key.push_str(&escape_first(account));
            } else {
                key.push_str(&escape(account));
            }
        }
        key.push(':');
        key.push_str(kind.as_str());
        key.push(':');
        key.push_str(&escape(address));
        if let Some(thread) = thread {
            key.push_str(":thread:");
            key.push_str(&escape(thread));
        }
        Self(key)
    }

    /// The conversation of a background job with itself: `cron:<job>`.
    pub fn job(job: &JobId) -> Self {
        Self(format!("cron:{}", escape(job.as_str())))
    }

    /// The lane of one run of a job that lets its runs overlap; they still write into the job's
    /// session, each at its end.
    #[must_use]
    pub fn of_run(&self, occurrence: OccurrenceId) -> Self {
        Self(format!("{self}:run:{occurrence}"))
    }

    /// The lane of a webhook; it has no transcript, but its messages keep their order. A digest,
    /// since keys are logged and a URL may hold a secret.
    pub fn webhook(url: &str) -> Self {
        let digest = HEXLOWER.encode(&Sha256::digest(url)[..8]);
        Self(format!("webhook:{digest}"))
    }

    /// A key read back from where it was stored.
    pub fn from_stored(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The key as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Borrow<str> for SessionKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

fn escape(component: &str) -> String {
    let mut out = String::with_capacity(component.len());
    for byte in component.bytes() {
        let plain = byte.is_ascii_lowercase()
            || byte.is_ascii_digit()
            || matches!(byte, b'-' | b'_' | b'.' | b'@' | b'+' | b'/' | b'#' | b'!');
        if plain {
            out.push(char::from(byte));
        } else {
            push_escaped(&mut out, byte);
        }
    }
    out
}

fn escape_first(component: &str) -> String {
    let mut out = String::new();
    let (first, rest) = component.split_at(1);
    for byte in first.bytes() {
        push_escaped(&mut out, byte);
    }
    out.push_str(&escape(rest));
    out
}

fn push_escaped(out: &mut String, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push('%');
    out.push(char::from(HEX[usize::from(byte >> 4)]));
    out.push(char::from(HEX[usize::from(byte & 15)]));
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_key_is_injective_over_everything_that_makes_a_chat() {
        let texts = [
            "a",
            "A",
            "a:b",
            "a%3ab",
            "direct",
            "group",
            "thread",
            "5550001",
            "-100:7",
            "ü",
            "",
            "x:thread:1",
        ];
        let mut seen: HashMap<String, String> = HashMap::new();
        for channel in ["telegram", "Telegram", "tele:gram"] {
            for account in [
                None,
                Some("work"),
                Some("direct"),
                Some("Work"),
                Some("a:b"),
            ] {
                for kind in [ChatKind::Direct, ChatKind::Group, ChatKind::Channel] {
                    for address in texts {
                        for thread in [None, Some("1"), Some("a:b"), Some("thread")] {
                            let key = SessionKey::chat(channel, account, kind, address, thread);
                            let made_of =
                                format!("{channel:?} {account:?} {kind:?} {address:?} {thread:?}");
                            if let Some(other) =
                                seen.insert(key.as_str().to_lowercase(), made_of.clone())
                            {
                                panic!("{key} is both {other} and {made_of}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn keys_read_as_the_design_spells_them() {
        let table = [
            (None, "5550001", None, "telegram:direct:5550001"),
            (
                Some("work"),
                "5550001",
                None,
                "telegram:work:direct:5550001",
            ),
            (None, "-100", Some("7"), "telegram:direct:-100:thread:7"),
        ];
        for (account, address, thread, key) in table {
            assert_eq!(
                SessionKey::chat("telegram", account, ChatKind::Direct, address, thread).as_str(),
                key
            );
        }
        assert_eq!(
            SessionKey::job(&JobId::new("budget").unwrap()).as_str(),
            "cron:budget"
        );
    }
}
