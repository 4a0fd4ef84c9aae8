//! Which chat of the jobs file a message came from.

use std::collections::BTreeMap;

use crate::{
    channel::inbound::{InboundPlace, Said},
    directory::{Chat, Directory},
    ids::{ChannelName, SessionKey},
    store::InboundMessage,
    transcript::TriggerSource,
};

/// The chats of one channel, and where those are that have moved.
pub(super) struct Places<'d> {
    chats: Vec<&'d Chat>,
    known: BTreeMap<SessionKey, String>,
    /// Chats that were said to have moved meanwhile.
    pub(super) moved: Vec<(SessionKey, String)>,
}

/// A chat that was written in.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    session_key: SessionKey,
    has_moved: bool,
}

impl<'d> Places<'d> {
    /// `known` is what the store knows of chats that have moved.
    pub(super) fn new(
        directory: &'d Directory,
        channel: &ChannelName,
        known: Vec<(SessionKey, String)>,
    ) -> Self {
        let chats = directory.chats.values();
        Self {
            chats: chats.filter(|chat| chat.channel == *channel).collect(),
            known: known.into_iter().collect(),
            moved: Vec::new(),
        }
    }

    /// A chat has another address from now on, and with it all its threads.
    pub(super) fn move_chats(&mut self, from: &str, to: &str) {
        for chat in &self.chats {
            let session_key = chat.session_key();
            let present = self.known.get(&session_key).unwrap_or(&chat.address);
            if present == from {
                self.known.insert(session_key.clone(), to.to_owned());
                self.moved.push((session_key, to.to_owned()));
            }
        }
    }

    /// The message as a turn of its chat; `None` for one that is not in the jobs file.
    pub(super) fn turn(&self, said: &Said) -> Option<InboundMessage> {
        let found = self.find(&said.place)?;
        // A chat that has moved may count its messages anew.
        let message_id = if found.has_moved {
            format!("{}/{}", said.place.address, said.message_id)
        } else {
            said.message_id.clone()
        };
        Some(InboundMessage {
            session_key: found.session_key,
            content: said.content.clone(),
            source: "channel",
            trigger_source: Some(TriggerSource::User),
            raw_entry: said.raw_entry.clone(),
            raw_line: None,
            sender_display: said.sender_display.clone(),
            sender_id_raw: said.sender_id.clone(),
            channel_message_id: Some(message_id),
        })
    }

    fn find(&self, place: &InboundPlace) -> Option<Found> {
        let find = |is_it: &dyn Fn(&Chat) -> bool| {
            let mut chats = self.chats.iter();
            chats.find(|chat| chat.thread == place.thread && is_it(chat))
        };
        let by_address = find(&|chat| chat.address == place.address);
        let by_name = || {
            let name = place.public_name.as_deref()?;
            find(&|chat| chat.address.eq_ignore_ascii_case(name))
        };
        if let Some(chat) = by_address.or_else(by_name) {
            return Some(Found {
                session_key: chat.session_key(),
                has_moved: false,
            });
        }
        let moved_here = |chat: &Chat| self.known.get(&chat.session_key()) == Some(&place.address);
        find(&moved_here).map(|chat| Found {
            session_key: chat.session_key(),
            has_moved: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::{AgentName, ChatKind, ChatName},
        message::{ChatAddress, Destination},
        transcript::Content,
    };

    fn chat(name: &str, account: Option<&str>, kind: ChatKind, at: (&str, Option<&str>)) -> Chat {
        Chat {
            name: ChatName::new(name).unwrap(),
            channel: channel("telegram"),
            account: account.map(str::to_owned),
            kind,
            address: at.0.to_owned(),
            thread: at.1.map(str::to_owned),
            agent: AgentName::new("main").unwrap(),
        }
    }

    fn channel(name: &str) -> ChannelName {
        ChannelName::new(name).unwrap()
    }

    fn directory(chats: &[Chat]) -> Directory {
        let by_name = chats.iter().map(|chat| (chat.name.clone(), chat.clone()));
        Directory {
            chats: by_name.collect(),
            ..Directory::default()
        }
    }

    fn said(address: &str, public_name: Option<&str>, thread: Option<&str>) -> Said {
        Said {
            place: InboundPlace {
                address: address.to_owned(),
                public_name: public_name.map(str::to_owned),
                thread: thread.map(str::to_owned),
            },
            message_id: "7".to_owned(),
            content: Content::Text("hi".to_owned()),
            sender_display: None,
            sender_id: None,
            raw_entry: None,
        }
    }

    /// What is sent to a chat and what is written in it belong to one conversation, for every
    /// channel, account, kind, address and thread.
    #[test]
    fn outbound_and_inbound_agree_on_the_session() {
        let mut checked = 0;
        for name in ["telegram", "Tele-2"] {
            for account in [None, Some("work"), Some("direct")] {
                for kind in [ChatKind::Direct, ChatKind::Group, ChatKind::Channel] {
                    for address in ["5550001", "-1001234567", "@News"] {
                        for thread in [None, Some("7")] {
                            let mut chat = chat("me", account, kind, (address, thread));
                            chat.channel = channel(name);
                            let outbound = Destination::Chat(ChatAddress::from(&chat));
                            let directory = directory(&[chat]);
                            let places = Places::new(&directory, &channel(name), Vec::new());
                            // The service names a public chat by its number, and its name beside it.
                            let said = match address.strip_prefix('@') {
                                Some(_) => said("-100777", Some("@news"), thread),
                                None => said(address, None, thread),
                            };
                            let turn = places.turn(&said).unwrap();
                            assert_eq!(turn.session_key, outbound.session_key());
                            assert_eq!(turn.channel_message_id.as_deref(), Some("7"));
                            checked += 1;
                        }
                    }
                }
            }
        }
        assert_eq!(checked, 2 * 3 * 3 * 3 * 2);
    }

    #[test]
    fn another_chat_thread_or_channel_is_nobodys() {
        let group = ChatKind::Group;
        let directory = directory(&[
            chat("a", None, group, ("-1", None)),
            chat("b", None, group, ("-2", Some("7"))),
        ]);
        let places = Places::new(&directory, &channel("telegram"), Vec::new());
        let nobody = [
            said("-3", None, None),
            said("-1", None, Some("7")),
            said("-2", None, None),
            said("-2", None, Some("8")),
            said("-3", Some("@-1"), None),
        ];
        for said in nobody {
            assert!(places.turn(&said).is_none(), "{:?}", said.place);
        }
        let elsewhere = Places::new(&directory, &channel("other"), Vec::new());
        assert!(elsewhere.turn(&said("-1", None, None)).is_none());
    }

    #[test]
    fn a_chat_that_has_moved_is_the_same_chat_and_its_message_ids_are_told_apart() {
        let group = ChatKind::Group;
        let chats = [
            chat("a", None, group, ("-1", None)),
            chat("b", None, group, ("-2", None)),
        ];
        let directory = directory(&chats);
        let mut places = Places::new(&directory, &channel("telegram"), Vec::new());
        assert!(places.turn(&said("-1001", None, None)).is_none());
        places.move_chats("-1", "-1001");
        let key = chats[0].session_key();
        let turn = places.turn(&said("-1001", None, None)).unwrap();
        assert_eq!(turn.session_key, key);
        assert_eq!(turn.channel_message_id.as_deref(), Some("-1001/7"));
        // Once more, as a later worker finds it in the store.
        let stored = places.moved.clone();
        assert_eq!(stored, [(key.clone(), "-1001".to_owned())]);
        let mut later = Places::new(&directory, &channel("telegram"), stored);
        later.move_chats("-1001", "-1002");
        assert_eq!(later.moved, [(key.clone(), "-1002".to_owned())]);
        let turn = later.turn(&said("-1002", None, None)).unwrap();
        assert_eq!(turn.session_key, key);
        assert!(later.turn(&said("-1001", None, None)).is_none());
    }
}
