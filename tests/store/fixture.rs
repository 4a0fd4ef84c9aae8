//! Jobs, messages and rows, so that each fact says only what it is about.

use chatcron::{
    directory::Chat,
    ids::{AgentName, ChannelName, ChatKind, ChatName, IdempotencyKey, JobId, SessionKey},
    job::{Deliver, Job, Mode, OnUnknown, Policies, ScheduleSpec, WebhookTarget, Weekdays, When},
    message::{ChatAddress, Destination, Origin, Receipt},
    occurrence::{Cause, OccurrenceRef, Outcome, Slot},
    policy::{Effect, outbox::Transition},
    store::{
        AttemptEnd, AttemptFate, ClaimedRun, EntryDraft, InboundMessage, NewMessage, NewPart,
        PostedBy, Route,
    },
    transcript::{Content, Entry, NewEntry, Role, TriggerSource, Visibility},
};
use jiff::{SignedDuration, Timestamp, civil::date};

pub(crate) use crate::bench::Bench;

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

pub(crate) fn job_id(id: &str) -> JobId {
    JobId::new(id).unwrap()
}

pub(crate) fn agent(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

pub(crate) fn job(id: &str, prompt: &str) -> Job {
    Job {
        id: job_id(id),
        name: None,
        enabled: true,
        schedule: ScheduleSpec {
            when: When::Daily {
                times: vec![jiff::civil::time(8, 0, 0, 0)],
                days: Weekdays::ALL,
            },
            zone: "Europe/Paris".to_owned(),
            from: None,
            until: None,
            exclude: vec![date(2026, 12, 25)],
            jitter: SignedDuration::ZERO,
        },
        prompt: prompt.to_owned(),
        mode: Mode::Background {
            deliver: Deliver::Chat(ChatName::new("me").unwrap()),
            agent: agent("claude"),
            memory: true,
            context: None,
        },
        policies: Policies::default(),
    }
}

pub(crate) fn chat(address: &str) -> Chat {
    Chat {
        name: ChatName::new(format!("chat{address}")).unwrap(),
        channel: ChannelName::new("telegram").unwrap(),
        account: None,
        kind: ChatKind::Direct,
        address: address.to_owned(),
        thread: None,
        agent: agent("claude"),
    }
}

pub(crate) fn destination(address: &str) -> Destination {
    Destination::Chat(ChatAddress::from(&chat(address)))
}

pub(crate) fn session(address: &str) -> SessionKey {
    chat(address).session_key()
}

pub(crate) fn webhook() -> Destination {
    Destination::Webhook(WebhookTarget {
        url: "https://example.org/hook".to_owned(),
        secret_env: None,
        allow_private: false,
    })
}

pub(crate) fn slot(name: &str) -> Slot {
    Slot::from_text(name)
}

pub(crate) fn scheduled(name: &str) -> OccurrenceRef {
    OccurrenceRef::Scheduled(slot(name))
}

pub(crate) fn start(name: &str, seconds: i64) -> Effect {
    Effect::Start {
        occurrence: scheduled(name),
        nominal: at(seconds),
        fire_at: at(seconds),
        cause: Cause::Scheduled,
        merged: Vec::new(),
    }
}

pub(crate) fn end(name: &str, outcome: Outcome) -> Effect {
    Effect::End {
        occurrence: scheduled(name),
        outcome,
    }
}

/// A message of these parts, from `producer`.
pub(crate) fn message(
    producer: &str,
    origin: Origin,
    to: Destination,
    texts: &[&str],
) -> NewMessage {
    let to_key = to.session_key();
    let part = |(index, text): (usize, &&str)| NewPart {
        key: IdempotencyKey::derive(
            producer,
            origin.as_str(),
            0,
            to_key.as_str(),
            u32::try_from(index).unwrap() + 1,
        ),
        text: Some((*text).to_owned()),
        native: None,
    };
    NewMessage {
        producer: producer.to_owned(),
        origin,
        ordinal: 0,
        destination: to,
        agent: agent("claude"),
        speaker: "Budget".to_owned(),
        trigger_source: Some(TriggerSource::Cron),
        posted_by: Some(PostedBy {
            job_id: job_id("budget"),
            name: "Budget".to_owned(),
            zone: "Europe/Paris".to_owned(),
        }),
        run: None,
        turn_id: None,
        on_unknown: OnUnknown::Hold,
        late: None,
        behind: None,
        parts: texts.iter().enumerate().map(part).collect(),
    }
}

pub(crate) fn receipt(message_id: &str) -> Transition {
    Transition::Confirm(Receipt {
        message_id: message_id.to_owned(),
        shown_at: None,
    })
}

pub(crate) fn inbound(address: &str, text: &str, message_id: Option<&str>) -> InboundMessage {
    InboundMessage {
        session_key: session(address),
        content: Content::Text(text.to_owned()),
        source: "channel",
        trigger_source: None,
        raw_entry: Some("{\"message\":\"framed\"}".to_owned()),
        raw_line: Some(vec![0, 159, 146, 150]),
        sender_display: Some("Ada".to_owned()),
        sender_id_raw: Some("7".to_owned()),
        channel_message_id: message_id.map(str::to_owned),
    }
}

pub(crate) fn draft(
    key: &SessionKey,
    role: Role,
    text: &str,
    visibility: Visibility,
) -> EntryDraft {
    EntryDraft {
        session_key: key.clone(),
        entry: NewEntry::text(role, text),
        visibility,
        trigger_source: TriggerSource::User,
    }
}

pub(crate) fn attempt_end(run: &ClaimedRun, result: AttemptFate) -> AttemptEnd {
    AttemptEnd {
        run_id: run.run_id,
        epoch: run.epoch,
        attempt: run.attempt,
        result,
        error: None,
        output: Some("said".to_owned()),
        usage: None,
        entries: Vec::new(),
        message: None,
        diagnostics: Vec::new(),
    }
}

pub(crate) fn texts(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.content.text()).collect()
}

pub(crate) fn route(id: &str) -> Route {
    Route {
        lane: SessionKey::job(&job_id(id)),
        lane_per_run: false,
        destination: Some(destination("1")),
    }
}
