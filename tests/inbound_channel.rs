//! A channel of a program's own that brings in what people write.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "embed/place.rs"]
mod place;

use std::{
    collections::VecDeque,
    future,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use chatcron::{
    channel::{
        Ability, Channel, Inbound, OutgoingPart, TextLimit,
        inbound::{Arrived, InboundEvent, InboundPlace, PollError, Position, Said},
    },
    message::SendAnswer,
    store::WindowOf,
    transcript::{Content, Role},
};
use jiff::Timestamp;
use place::{Board, Place};

/// What the next call of the channel comes to.
enum Next {
    Brings(&'static str, Vec<Said>),
    Fails,
    Panics,
    /// Nothing, at once, and so does every call after it.
    NothingEver,
}

/// A board that people write on as well.
#[derive(Clone)]
struct Pager {
    board: Board,
    script: Arc<Mutex<VecDeque<Next>>>,
    /// From where it was read.
    asked: Arc<Mutex<Vec<Option<String>>>>,
}

impl Pager {
    fn new(board: Board, script: impl IntoIterator<Item = Next>) -> Self {
        Self {
            board,
            script: Arc::new(Mutex::new(script.into_iter().collect())),
            asked: Arc::default(),
        }
    }

    fn next(&self) -> Option<Next> {
        let mut script = self.script.lock().unwrap();
        match script.front() {
            Some(Next::NothingEver) => Some(Next::NothingEver),
            Some(_) | None => script.pop_front(),
        }
    }

    fn asked(&self) -> Vec<Option<String>> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Channel for Pager {
    fn ability(&self) -> Ability {
        self.board.ability()
    }

    fn limit(&self) -> TextLimit {
        self.board.limit()
    }

    fn inbound(&self) -> Option<&dyn Inbound> {
        Some(self)
    }

    async fn send(&self, part: &OutgoingPart, now: Timestamp) -> SendAnswer {
        self.board.send(part, now).await
    }
}

#[async_trait]
impl Inbound for Pager {
    fn source(&self) -> String {
        "pager".to_owned()
    }

    async fn poll(&self, position: Option<&Position>, _: Timestamp) -> Result<Arrived, PollError> {
        let position = position.map(|position| position.at.clone());
        self.asked.lock().unwrap().push(position);
        match self.next() {
            Some(Next::NothingEver) => Ok(Arrived::default()),
            Some(Next::Brings(position, messages)) => Ok(Arrived {
                events: messages
                    .into_iter()
                    .map(|said| InboundEvent::Said(Box::new(said)))
                    .collect(),
                position: Some(position.to_owned()),
            }),
            Some(Next::Fails) => Err(PollError::Later {
                retry_after: None,
                why: "the pager is out of reach".to_owned(),
            }),
            Some(Next::Panics) => panic!("a mistake of the gateway"),
            None => future::pending().await,
        }
    }
}

fn said(id: &str, text: &str) -> Said {
    Said {
        place: InboundPlace {
            address: "1".to_owned(),
            ..InboundPlace::default()
        },
        message_id: id.to_owned(),
        content: Content::Text(text.to_owned()),
        sender_display: Some("Ada".to_owned()),
        sender_id: None,
        raw_entry: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_programs_own_channel_is_read_from_where_it_was_stored_whatever_goes_wrong() {
    let place = Place::new().await;
    let framed = "Sender (untrusted metadata):\n```json\n{\"name\": \"Bob\"}\n```\n\nand then?";
    let pager = Pager::new(
        place.board.clone(),
        [
            Next::Brings("one", vec![said("a", "hello")]),
            Next::Panics,
            Next::Fails,
            // The first one comes once more.
            Next::Brings("two", vec![said("a", "hello"), said("b", framed)]),
        ],
    );
    let builder = place.builder_on(pager.clone());
    let chatcron = builder.build().await.unwrap();
    let worker = chatcron.start().await.unwrap();
    place.until_shown("me", &["hello", "and then?"]).await;
    place::until(|| pager.asked().len() == 5, "asked").await;
    let one = || Some("one".to_owned());
    let expected = [None, one(), one(), one(), Some("two".to_owned())];
    assert_eq!(pager.asked(), expected);

    let entries = chatcron.transcripts().of_chat("me", WindowOf::Shown).await;
    let entries = entries.unwrap();
    let words: Vec<_> = entries
        .iter()
        .filter(|entry| entry.role == Role::User)
        .map(|entry| (entry.content.text(), entry.framed.is_some()))
        .collect();
    // What a connector put in front is taken off, and kept beside the words.
    let expected = [("hello".to_owned(), false), ("and then?".to_owned(), true)];
    assert_eq!(words, expected);
    worker.shutdown().await;

    // The next worker goes on from there.
    let worker = chatcron.start().await.unwrap();
    place::until(|| pager.asked().len() == 6, "asked again").await;
    assert_eq!(pager.asked().pop().unwrap().as_deref(), Some("two"));
    worker.shutdown().await;
    place.assert_verified(&chatcron).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_that_does_not_wait_is_not_asked_all_the_time() {
    let place = Place::new().await;
    let pager = Pager::new(place.board.clone(), [Next::NothingEver]);
    let builder = place.builder_on(pager.clone());
    let chatcron = builder.build().await.unwrap();
    let worker = chatcron.start().await.unwrap();
    place::until(|| pager.asked().len() == 2, "asked again").await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let asked = pager.asked().len();
    assert!((3..=4).contains(&asked), "{asked} times");
    worker.shutdown().await;
}
