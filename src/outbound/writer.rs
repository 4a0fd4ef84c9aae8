//! One attempt to send one part, and what follows from the channel's answer.

use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::FutureExt;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use crate::{
    channel::{Ability, Channel, OutgoingBody, OutgoingPart},
    clock::Clock,
    ids::ChannelName,
    job::OnUnknown,
    measure,
    message::{
        Destination, MESSAGE_ID_MAX, PartReason, RefusalScope, SendAnswer, StopsAddress,
        is_message_id,
    },
    policy::outbox::{Doubt, Transition, answered, interrupted},
    replay,
    store::{ClaimedPart, PartSettlement, PostedBy},
};

use super::Channels;

/// How soon a part is tried again whose channel is not configured.
const ABSENT_WAIT: SignedDuration = SignedDuration::from_mins(1);

/// How long before the end of its lease a sender stops waiting.
const LEASE_MARGIN: Duration = Duration::from_millis(500);

/// What can be done about a part in doubt while its channel is not configured: nothing is sent, so
/// it waits until somebody knows what the channel can do.
const UNTIL_IT_IS_BACK: Doubt = Doubt::Keyed(None);

/// Sends parts that are marked `sending`. Nothing else calls [`Channel::send`].
pub struct Writer {
    channels: Arc<Channels>,
    clock: Arc<dyn Clock>,
    /// Channels that asked everybody to wait, and until when. Lost with the process: the channel
    /// will say it again.
    holds: Arc<Mutex<BTreeMap<ChannelName, Timestamp>>>,
}

impl Writer {
    /// A writer over these channels.
    pub fn new(channels: Arc<Channels>, clock: Arc<dyn Clock>) -> Self {
        Self {
            channels,
            clock,
            holds: Arc::default(),
        }
    }

    /// A writer over other channels, which knows what this one was asked to wait for.
    #[must_use]
    pub fn over(&self, channels: Arc<Channels>) -> Self {
        Self {
            channels,
            clock: self.clock.clone(),
            holds: self.holds.clone(),
        }
    }

    /// Sends one part, whatever the channel does: an answer that does not come in time, or a panic
    /// of the adapter, is ambiguous. `within` is how long the sender's lease lasts: none of it is
    /// sent under one that is nearly over, and what is sent is given up before that is.
    pub async fn send(&self, part: &ClaimedPart, within: Duration) -> PartSettlement {
        if let Some(why) = stopped(part) {
            return self.settled(part, address_stopped(), Some(why));
        }
        let Some(channel) = self.channels.of(&part.destination) else {
            // The file may name it again; nothing is lost by waiting.
            let answer = SendAnswer::Refused {
                retry_after: Some(ABSENT_WAIT),
                scope: RefusalScope::Chat,
                why: format!("{} is not configured", channel_in_words(&part.destination)),
            };
            return self.conclude(part, answer, UNTIL_IT_IS_BACK);
        };
        let doubt = doubt(channel.ability());
        // It waited for a channel that was not there, and this one cannot be asked by key.
        if part.view.in_doubt && doubt == Doubt::Blind && part.view.on_unknown == OnUnknown::Hold {
            let why = "it was in doubt while its channel was not configured".to_owned();
            return self.settled(part, Transition::Unknown, Some(why));
        }
        let within = within.saturating_sub(LEASE_MARGIN);
        let answer = match self.held(&part.destination) {
            Some(refused) => refused,
            None if within.is_zero() => SendAnswer::Refused {
                retry_after: Some(SignedDuration::ZERO),
                scope: RefusalScope::Chat,
                why: "the worker's lease was nearly over".to_owned(),
            },
            None => {
                let before = self.clock.elapsed();
                let answer = self.attempt(channel.as_ref(), part, within).await;
                let took = self.clock.elapsed().saturating_sub(before);
                measure::channel(&part.destination, &answer, took);
                answer
            }
        };
        self.hold(&part.destination, &answer);
        self.conclude(part, answer, doubt)
    }

    /// What becomes of a part whose sender died between its mark and its answer.
    pub fn recover(&self, part: &ClaimedPart) -> PartSettlement {
        let doubt = self
            .channels
            .of(&part.destination)
            .map_or(UNTIL_IT_IS_BACK, |channel| doubt(channel.ability()));
        let transition = interrupted(&part.view, doubt, self.clock.now());
        let why = "the worker stopped while it was being sent".to_owned();
        self.settled(part, transition, Some(why))
    }

    async fn attempt(
        &self,
        channel: &dyn Channel,
        part: &ClaimedPart,
        within: Duration,
    ) -> SendAnswer {
        let outgoing = outgoing(part);
        let sending = AssertUnwindSafe(channel.send(&outgoing, self.clock.now())).catch_unwind();
        match tokio::time::timeout(channel.send_timeout().min(within), sending).await {
            Ok(Ok(SendAnswer::Receipt(receipt))) if !is_message_id(&receipt.message_id) => {
                SendAnswer::Ambiguous {
                    why: format!(
                        "the channel gave an id of {} bytes, and an id has 1 to {MESSAGE_ID_MAX}",
                        receipt.message_id.len()
                    ),
                }
            }
            Ok(Ok(answer)) => answer,
            Ok(Err(_panic)) => SendAnswer::Ambiguous {
                why: "the channel's code panicked".to_owned(),
            },
            Err(_elapsed) => SendAnswer::Ambiguous {
                why: "no answer in time".to_owned(),
            },
        }
    }

    /// The refusal that stands for the whole channel, while one does.
    fn held(&self, destination: &Destination) -> Option<SendAnswer> {
        let Destination::Chat(chat) = destination else {
            return None;
        };
        let holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = holds.get(&chat.channel)?.duration_since(self.clock.now());
        wait.is_positive().then(|| SendAnswer::Refused {
            retry_after: Some(wait),
            scope: RefusalScope::Chat,
            why: format!("channel `{}` asked everybody to wait", chat.channel),
        })
    }

    fn hold(&self, destination: &Destination, answer: &SendAnswer) {
        let (
            Destination::Chat(chat),
            SendAnswer::Refused {
                retry_after: Some(wait),
                scope: RefusalScope::Channel,
                ..
            },
        ) = (destination, answer)
        else {
            return;
        };
        if let Ok(until) = self.clock.now().saturating_add(*wait) {
            let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
            holds.insert(chat.channel.clone(), until);
        }
    }

    fn conclude(&self, part: &ClaimedPart, answer: SendAnswer, doubt: Doubt) -> PartSettlement {
        let why = in_words(&answer);
        let answer = match answer {
            // A chat that has moved to where it is would be followed for ever.
            SendAnswer::Moved { to } if address(part) == Some(to.as_str()) => {
                SendAnswer::Permanent {
                    why: "the channel says that the chat has moved to where it is".to_owned(),
                    stops_address: StopsAddress::No,
                }
            }
            SendAnswer::Receipt(_)
            | SendAnswer::Refused { .. }
            | SendAnswer::Permanent { .. }
            | SendAnswer::Moved { .. }
            | SendAnswer::Ambiguous { .. } => answer,
        };
        let transition = answered(&part.view, answer, doubt, self.clock.now());
        self.settled(part, transition, why)
    }

    fn settled(
        &self,
        part: &ClaimedPart,
        transition: Transition,
        why: Option<String>,
    ) -> PartSettlement {
        let posting_note = match (&transition, &part.posted_by) {
            (Transition::Confirm(receipt), Some(job)) => Some(note(
                job,
                receipt.shown_at.unwrap_or_else(|| self.clock.now()),
            )),
            (_, _) => None,
        };
        PartSettlement {
            part_id: part.part_id,
            epoch: Some(part.epoch),
            transition,
            why,
            posting_note,
        }
    }
}

/// The posting note of a message that a job posted, told in the job's zone.
pub(crate) fn note(job: &PostedBy, at: Timestamp) -> String {
    let zone = TimeZone::get(&job.zone).unwrap_or(TimeZone::UTC);
    replay::posting_note(&job.job_id, &job.name, at, &zone)
}

/// The address that a part goes to.
fn address(part: &ClaimedPart) -> Option<&str> {
    match (&part.destination, &part.moved_to) {
        (Destination::Chat(_), Some(moved_to)) => Some(moved_to),
        (Destination::Chat(chat), None) => Some(&chat.address),
        (Destination::Webhook(_), _) => None,
    }
}

fn address_stopped() -> Transition {
    Transition::Fail {
        reason: PartReason::AddressStopped,
        stops_address: StopsAddress::No,
    }
}

/// Why nothing may go to the address; a part in doubt must be settled by other means.
fn stopped(part: &ClaimedPart) -> Option<String> {
    part.stopped.clone().filter(|_| !part.view.in_doubt)
}

fn outgoing(part: &ClaimedPart) -> OutgoingPart {
    let mut destination = part.destination.clone();
    if let (Destination::Chat(chat), Some(moved_to)) = (&mut destination, &part.moved_to) {
        chat.address.clone_from(moved_to);
    }
    let body = match (&part.native, &part.text) {
        (Some(native), _) => OutgoingBody::Native(native.clone()),
        (None, text) => OutgoingBody::Text(text.clone().unwrap_or_default()),
    };
    OutgoingPart {
        destination,
        key: part.key.clone(),
        body,
        part: part.part,
        parts: part.parts,
        enqueued_at: part.enqueued_at,
        speaker: part.speaker.clone(),
    }
}

fn doubt(ability: Ability) -> Doubt {
    match ability {
        Ability::Keyed { window } => {
            Doubt::Keyed(window.and_then(|window| SignedDuration::try_from(window).ok()))
        }
        Ability::Blind => Doubt::Blind,
    }
}

fn in_words(answer: &SendAnswer) -> Option<String> {
    match answer {
        SendAnswer::Receipt(_) => None,
        SendAnswer::Refused { why, .. }
        | SendAnswer::Permanent { why, .. }
        | SendAnswer::Ambiguous { why } => Some(why.clone()),
        SendAnswer::Moved { .. } => Some("the chat has a new address".to_owned()),
    }
}

fn channel_in_words(destination: &Destination) -> String {
    match destination {
        Destination::Chat(chat) => format!("channel `{}`", chat.channel),
        Destination::Webhook(_) => "the webhook channel".to_owned(),
    }
}
