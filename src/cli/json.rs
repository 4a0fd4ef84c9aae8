//! The objects that several commands print as JSON. Field names are documented interface; instants
//! are RFC 3339.

use serde_json::{Value, json};

use crate::{
    job::{Deliver, Mode},
    message::Destination,
    store::{AttemptRow, DiagnosticRow, OutboxRow, RangeRow, RunRow},
};

/// A whole answer.
pub(super) fn text(value: &Value) -> String {
    format!("{value:#}\n")
}

/// `in-chat` or `background`.
pub(super) fn mode(mode: &Mode) -> &'static str {
    match mode {
        Mode::InChat { .. } => "in-chat",
        Mode::Background { .. } => "background",
    }
}

/// Where a job's result shows, as the jobs file says it.
pub(super) fn target(mode: &Mode) -> Value {
    match mode {
        Mode::InChat { chat, .. } => json!({ "kind": "chat", "chat": chat }),
        Mode::Background { deliver, .. } => match deliver {
            Deliver::Chat(chat) => json!({ "kind": "chat", "chat": chat }),
            Deliver::Webhook(webhook) => json!({ "kind": "webhook", "url": webhook.url }),
            Deliver::History => json!({ "kind": "history" }),
        },
    }
}

/// Where a message goes, with its exact address.
pub(super) fn destination(destination: &Destination) -> Value {
    match destination {
        Destination::Chat(chat) => json!({
            "kind": "chat",
            "chat": chat.chat,
            "channel": chat.channel,
            "account": chat.account,
            "chat_kind": chat.kind,
            "address": chat.address,
            "thread": chat.thread,
            "session_key": chat.session_key(),
        }),
        Destination::Webhook(webhook) => json!({ "kind": "webhook", "url": webhook.url }),
    }
}

/// A run, or a slot that waits or was skipped alone.
pub(super) fn run(run: &RunRow) -> Value {
    json!({
        "run_id": run.run_id,
        "job_id": run.job_id,
        "slot": run.slot,
        "nominal_at": run.nominal_at,
        "fire_at": run.fire_at,
        "cause": run.cause,
        "state": run.state,
        "reason": run.reason,
        "attempts": run.attempts,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "due_at": run.due_at,
        "error": run.error,
        "output": run.output,
        "usage": run.usage,
        "destination": run.destination.as_ref().map(destination),
        "delivery": {
            "confirmed": run.delivery.confirmed,
            "unknown": run.delivery.unknown,
            "failed": run.delivery.failed,
            "cancelled": run.delivery.cancelled,
            "open": run.delivery.open,
        },
        "warnings": run.warnings,
    })
}

/// A stretch of slots that did not run.
pub(super) fn range(range: &RangeRow) -> Value {
    json!({
        "job_id": range.job_id,
        "first_slot": range.first_slot,
        "last_slot": range.last_slot,
        "first_nominal_at": range.first_nominal_at,
        "last_nominal_at": range.last_nominal_at,
        "slots": range.slots,
        "reason": range.reason,
    })
}

/// An attempt of a run.
pub(super) fn attempt(attempt: &AttemptRow) -> Value {
    json!({
        "attempt": attempt.attempt,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "result": attempt.result,
        "error": attempt.error,
        "effects_at": attempt.effects_at,
    })
}

/// What a person should know about a run.
pub(super) fn diagnostic(row: &DiagnosticRow) -> Value {
    json!({
        "level": row.level,
        "code": row.code,
        "message": row.message,
        "recorded_at": row.recorded_at,
    })
}

/// A part of a message.
pub(super) fn part(row: &OutboxRow) -> Value {
    json!({
        "part_id": row.part_id,
        "message_id": row.message_id,
        "part": row.part,
        "parts": row.parts,
        "state": row.state,
        "reason": row.reason,
        "why": row.why,
        "origin": row.origin,
        "destination": destination(&row.destination),
        "session_key": row.session_key,
        "key": row.key,
        "text": row.text,
        "native": row.native,
        "posted_by_job": row.posted_by.as_ref().map(|job| &job.job_id),
        "run_id": row.run_id,
        "turn_id": row.turn_id,
        "on_unknown": row.on_unknown,
        "attempts": row.attempts,
        "enqueued_at": row.enqueued_at,
        "first_attempt_at": row.first_attempt_at,
        "next_attempt_at": (!row.state.is_settled()).then_some(row.next_attempt_at),
        "settled_at": row.settled_at,
        "channel_message_id": row.channel_message_id,
        "settled_late": row.settled_late,
        "written_elsewhere": row.written_elsewhere,
    })
}
