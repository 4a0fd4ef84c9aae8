//! The event log: one decision a line, byte for byte the same for the same input.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::occurrence::Slot;

use super::{
    Event, Happening, Sink,
    event::{SendState, fate_words},
};

/// How much is gathered before it is written and hashed.
const BATCH: usize = 1 << 16;

/// Writes the log, and hashes it. Writing stops at the first error, which [`Log::finish`] tells.
pub struct Log<W> {
    out: W,
    text: String,
    hash: Sha256,
    lines: u64,
    error: Option<io::Error>,
}

/// What can be said of a whole log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSum {
    /// Its SHA-256.
    pub sha256: String,
    /// How many lines it has.
    pub lines: u64,
}

impl<W: Write> Log<W> {
    /// A log that is written here.
    pub fn new(out: W) -> Self {
        Self {
            out,
            text: String::with_capacity(BATCH + 1024),
            hash: Sha256::new(),
            lines: 0,
            error: None,
        }
    }

    /// Writes what is left; gives back where it was written, with what can be said of the whole.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(mut self) -> io::Result<(W, LogSum)> {
        self.flush();
        if let Some(error) = self.error {
            return Err(error);
        }
        self.out.flush()?;
        let sum = LogSum {
            sha256: HEXLOWER.encode(&self.hash.finalize()),
            lines: self.lines,
        };
        Ok((self.out, sum))
    }

    fn flush(&mut self) {
        self.hash.update(self.text.as_bytes());
        if self.error.is_none() {
            self.error = self.out.write_all(self.text.as_bytes()).err();
        }
        self.text.clear();
    }
}

impl<W: Write> Sink for Log<W> {
    fn take(&mut self, event: &Event<'_>) {
        write_line(&mut self.text, event);
        self.lines += 1;
        if self.text.len() >= BATCH {
            self.flush();
        }
    }
}

/// One line, with its line break.
pub(super) fn write_line(out: &mut String, event: &Event<'_>) {
    out.push_str("{\"at\":\"");
    instant(out, event.at);
    out.push_str("\",\"event\":\"");
    out.push_str(event.what.word());
    out.push('"');
    if let Some((_, job)) = event.job {
        // A job's id needs no escapes.
        field(out, "job", job.as_str());
    }
    fields(out, &event.what);
    out.push_str("}\n");
}

fn fields(out: &mut String, what: &Happening<'_>) {
    match what {
        Happening::Down | Happening::Up => {}
        Happening::ClockStep(by) => number(out, "by_us", by.as_micros()),
        Happening::Wait {
            slot,
            nominal,
            fire_at,
            cause,
            merged,
        }
        | Happening::Start {
            slot,
            nominal,
            fire_at,
            cause,
            merged,
        } => {
            planned(out, slot, [*nominal, *fire_at]);
            field(out, "cause", cause.as_str());
            list(out, "merged", merged);
        }
        Happening::Attempt { slot, attempt, .. } => {
            field(out, "slot", slot.as_str());
            number(out, "attempt", *attempt);
        }
        Happening::AttemptEnd {
            slot,
            attempt,
            fate,
        } => {
            let (word, reason) = fate_words(*fate);
            field(out, "slot", slot.as_str());
            number(out, "attempt", *attempt);
            field(out, "result", word);
            optional(out, "reason", reason);
        }
        Happening::Backoff { slot, until } => {
            field(out, "slot", slot.as_str());
            time(out, "until", *until);
        }
        Happening::Requeue { slot } => field(out, "slot", slot.as_str()),
        Happening::End { slot, outcome } => {
            field(out, "slot", slot.as_str());
            field(out, "state", outcome.state());
            optional(out, "reason", outcome.reason());
        }
        Happening::Skip(range) => {
            field(out, "first_slot", range.first.as_str());
            time(out, "first_nominal_at", range.first_nominal);
            field(out, "last_slot", range.last.as_str());
            time(out, "last_nominal_at", range.last_nominal);
            number(out, "slots", range.count);
            field(out, "reason", range.reason.as_str());
        }
        Happening::Send {
            slot,
            to,
            attempt,
            state,
        } => send(out, (slot, to), *attempt, *state),
        Happening::Open { slot, phase } => {
            field(out, "slot", slot.as_str());
            field(out, "state", phase);
        }
    }
}

fn planned(out: &mut String, slot: &Slot, [nominal, fire_at]: [Timestamp; 2]) {
    field(out, "slot", slot.as_str());
    time(out, "nominal_at", nominal);
    time(out, "fire_at", fire_at);
}

fn send(out: &mut String, (slot, to): (&Slot, &str), attempt: u32, state: SendState) {
    field(out, "slot", slot.as_str());
    out.push_str(",\"to\":");
    // A webhook's address may have any character.
    out.push_str(&serde_json::Value::from(to).to_string());
    number(out, "attempt", attempt);
    match state {
        SendState::Confirmed => field(out, "state", "confirmed"),
        SendState::Again(at) => {
            field(out, "state", "pending");
            time(out, "next_attempt_at", at);
        }
        SendState::Failed => field(out, "state", "failed"),
        SendState::Unknown => field(out, "state", "unknown"),
        SendState::Withheld => {
            field(out, "state", "cancelled");
            field(out, "reason", "late");
        }
    }
}

fn field(out: &mut String, key: &str, value: &str) {
    for piece in [",\"", key, "\":\"", value, "\""] {
        out.push_str(piece);
    }
}

fn optional(out: &mut String, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        field(out, key, value);
    }
}

fn number(out: &mut String, key: &str, value: impl std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = write!(out, ",\"{key}\":{value}");
}

fn time(out: &mut String, key: &str, at: Timestamp) {
    for piece in [",\"", key, "\":\""] {
        out.push_str(piece);
    }
    instant(out, at);
    out.push('"');
}

fn instant(out: &mut String, at: Timestamp) {
    let _ = write!(out, "{at}");
}

fn list(out: &mut String, key: &str, slots: &[Slot]) {
    if slots.is_empty() {
        return;
    }
    for (index, slot) in slots.iter().enumerate() {
        for piece in if index == 0 {
            [",\"", key, "\":[\""]
        } else {
            [",", "", "\""]
        } {
            out.push_str(piece);
        }
        out.push_str(slot.as_str());
        out.push('"');
    }
    out.push(']');
}
