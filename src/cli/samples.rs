//! Rows made by hand, for the tests of what commands print.

use jiff::Timestamp;

use crate::{
    directory::Chat,
    ids::{
        AgentName, ChannelName, ChatKind, ChatName, IdempotencyKey, IncidentId, JobId, MessageId,
        PartId, RunId,
    },
    job::{Deliver, Job, Mode, OnUnknown, Policies, ScheduleSpec, Weekdays, When},
    message::{ChatAddress, Destination, Origin, PartState},
    occurrence::{Cause, FailReason, SkipReason, Slot},
    policy::{
        JobState,
        incident::{Incident, IncidentCause, Stage},
    },
    store::{DeliveryCounts, IncidentRow, JobSource, OutboxRow, RangeRow, RunRow, StoredJob},
    transcript::{Content, Entry, Provenance, Role, Visibility},
};

/// Text that would clear the screen, change colours, ring, and write another line over itself.
pub(super) const HOSTILE: &str = "a\u{1b}[2J\u{1b}]0;title\u{7}\r\nb\u{9b}31m\u{202e}c";

/// A Monday noon in Berlin.
pub(super) fn now() -> Timestamp {
    at("2026-11-30T11:00:00Z")
}

pub(super) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(super) fn job_id(id: &str) -> JobId {
    JobId::new(id).unwrap()
}

pub(super) fn chat(name: &str) -> Chat {
    Chat {
        name: ChatName::new(name).unwrap(),
        channel: ChannelName::new("telegram").unwrap(),
        account: None,
        kind: ChatKind::Direct,
        address: "5550001".to_owned(),
        thread: None,
        agent: AgentName::new("main").unwrap(),
    }
}

pub(super) fn destination(name: &str) -> Destination {
    Destination::Chat(ChatAddress::from(&chat(name)))
}

/// A run that was done in 14 s, with one message shown.
pub(super) fn run(id: i64, job: &str, nominal: &str) -> RunRow {
    let nominal_at = at(nominal);
    RunRow {
        occurrence_id: crate::ids::OccurrenceId(id),
        run_id: Some(RunId(id)),
        job_id: job_id(job),
        slot: Some(Slot::from_text(nominal)),
        nominal_at,
        fire_at: nominal_at,
        cause: Cause::Scheduled,
        state: "done".to_owned(),
        reason: None,
        attempts: 1,
        started_at: Some(nominal_at),
        ended_at: Some(nominal_at + jiff::SignedDuration::from_secs(14)),
        due_at: None,
        error: None,
        output: None,
        usage: None,
        destination: Some(destination("me")),
        delivery: DeliveryCounts {
            confirmed: 1,
            ..DeliveryCounts::default()
        },
        warnings: 0,
    }
}

pub(super) fn failed(id: i64, job: &str, nominal: &str, error: &str) -> RunRow {
    RunRow {
        state: "failed".to_owned(),
        reason: Some("transient".to_owned()),
        error: Some(error.to_owned()),
        attempts: 3,
        delivery: DeliveryCounts::default(),
        ..run(id, job, nominal)
    }
}

pub(super) fn range(job: &str, first: &str, last: &str, slots: u64) -> RangeRow {
    RangeRow {
        job_id: job_id(job),
        first_slot: Slot::from_text(first),
        last_slot: Slot::from_text(last),
        first_nominal_at: at(first),
        last_nominal_at: at(last),
        slots,
        reason: SkipReason::Missed,
    }
}

/// A part in doubt, first tried three minutes ago.
pub(super) fn part(id: i64, text: &str) -> OutboxRow {
    let tried = at("2026-11-30T10:57:00Z");
    OutboxRow {
        part_id: PartId(id),
        message_id: MessageId(1),
        part: 1,
        parts: 2,
        state: PartState::Unknown,
        under_way: false,
        reason: None,
        why: Some("the connection broke after the text was sent".to_owned()),
        origin: Origin::JobResult,
        destination: destination("me"),
        session_key: chat("me").session_key(),
        key: IdempotencyKey::from_stored(format!("KEY{id}")),
        text: Some(text.to_owned()),
        native: false,
        posted_by: None,
        run_id: Some(RunId(40)),
        turn_id: None,
        on_unknown: OnUnknown::Hold,
        attempts: 1,
        enqueued_at: tried,
        first_attempt_at: Some(tried),
        next_attempt_at: tried,
        settled_at: Some(tried),
        channel_message_id: None,
        settled_late: false,
        written_elsewhere: false,
    }
}

/// A row that the chat showed.
pub(super) fn entry(seq: i64, role: Role, text: &str, shown_at: &str) -> Entry {
    Entry {
        session_key: chat("me").session_key(),
        generation: 0,
        seq,
        role,
        content: Content::Text(text.to_owned()),
        framed: None,
        visibility: Visibility::Visible,
        provenance: Provenance::default(),
        created_at: at(shown_at),
        shown_at: Some(at(shown_at)),
        channel_message_id: Some(format!("{}", 8800 + seq)),
    }
}

/// A background job that runs every day at 08:00 in Berlin and delivers to `me`.
pub(super) fn stored(id: &str) -> StoredJob {
    let seen = at("2026-11-01T11:00:00Z");
    StoredJob {
        job: Job {
            id: job_id(id),
            name: None,
            enabled: true,
            schedule: ScheduleSpec {
                when: When::Daily {
                    times: vec![jiff::civil::time(8, 0, 0, 0)],
                    days: Weekdays::ALL,
                },
                zone: "Europe/Berlin".to_owned(),
                from: None,
                until: None,
                exclude: Vec::new(),
                jitter: jiff::SignedDuration::ZERO,
            },
            prompt: "Summarise yesterday's spending.".to_owned(),
            mode: Mode::Background {
                deliver: Deliver::Chat(ChatName::new("me").unwrap()),
                agent: AgentName::new("main").unwrap(),
                memory: false,
                context: None,
            },
            policies: Policies::default(),
        },
        incarnation: 1,
        revision: 1,
        version: 1,
        source: JobSource::File("jobs.toml".to_owned()),
        state: JobState::activated(seen),
        first_seen_at: seen,
        wake_at: None,
        removed_at: None,
    }
}

/// Nothing in what is printed steers a terminal.
pub(super) fn assert_harmless(text: &str) {
    let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!text.contains(steers), "{text:?}");
}

/// Three time-outs since this morning, of which a chat was told.
pub(super) fn incident(job: &str, told: Option<Chat>) -> IncidentRow {
    IncidentRow {
        incident_id: IncidentId(7),
        job_id: job_id(job),
        incarnation: 1,
        cause: IncidentCause::Runs(FailReason::Timeout),
        incident: Incident {
            since: at("2026-11-30T07:00:00Z"),
            failures: 3,
            stage: Stage::Alerted,
        },
        alerted_at: Some(at("2026-11-30T08:00:00Z")),
        told,
        producer: "store:incident:7".to_owned(),
        error: Some("no answer within 10m".to_owned()),
        over_at: None,
    }
}
