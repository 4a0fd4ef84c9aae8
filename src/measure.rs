//! What is counted and timed while the worker works: the only place that names metrics.
//!
//! They go to whatever recorder the process has installed, and nowhere where it has none. Labels are
//! names of the jobs file and words of this program: bounded, and no secret.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
#[cfg(feature = "http-api")]
use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics::{counter, histogram};

use crate::{
    ids::AgentName,
    message::{Destination, SendAnswer},
    occurrence::{Cause, Outcome, SkipReason},
    policy::{Grant, LaneQueue, outbox::Transition},
    store::{Claimed, TurnResult},
};

const DECISIONS: &str = "chatcron_jobs_due_total";
const STARTED: &str = "chatcron_runs_started_total";
const LATENESS: &str = "chatcron_run_lateness_seconds";
const OUTCOMES: &str = "chatcron_occurrences_total";
const TURNS: &str = "chatcron_turns_total";
const PARTS: &str = "chatcron_parts_total";
const LANE_WAIT: &str = "chatcron_lane_wait_seconds";
const AGENT_TIME: &str = "chatcron_agent_seconds";
const CHANNEL_TIME: &str = "chatcron_channel_seconds";
/// Parts of messages that need something, by state.
#[cfg(feature = "http-api")]
pub(crate) const OUTBOX_PARTS: &str = "chatcron_outbox_parts";
/// For how long the job that is due the longest has been waiting for its decision.
#[cfg(feature = "http-api")]
pub(crate) const DUE_AGE: &str = "chatcron_due_age_seconds";

/// The histograms with the upper bounds of their buckets, in seconds.
#[cfg(feature = "http-api")]
pub(crate) const BUCKETS: [(&str, &[f64]); 4] = [
    (
        LATENESS,
        &[
            0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 3600.0,
        ],
    ),
    (
        LANE_WAIT,
        &[0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 3600.0],
    ),
    (
        AGENT_TIME,
        &[
            0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0,
        ],
    ),
    (
        CHANNEL_TIME,
        &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 30.0],
    ),
];

/// Says what each of them is.
#[cfg(feature = "http-api")]
pub(crate) fn describe() {
    describe_counter!(DECISIONS, "Jobs whose wake-up came and was decided on");
    describe_counter!(STARTED, "Attempts of runs that began, by cause");
    describe_histogram!(
        LATENESS,
        Unit::Seconds,
        "How long after its slot's own instant a scheduled run began its first attempt"
    );
    describe_counter!(OUTCOMES, "Occurrences that ended, by outcome and reason");
    describe_counter!(TURNS, "Turns of people that ended, by outcome");
    describe_counter!(PARTS, "Answers to parts that were sent, by what follows");
    describe_histogram!(
        LANE_WAIT,
        Unit::Seconds,
        "How long what was due waited for its lane, by what it is"
    );
    describe_histogram!(
        AGENT_TIME,
        Unit::Seconds,
        "How long agents took to answer or fail, by agent and result"
    );
    describe_histogram!(
        CHANNEL_TIME,
        Unit::Seconds,
        "How long channels took to answer, by channel and answer"
    );
    describe_gauge!(
        OUTBOX_PARTS,
        "Parts of messages that need something, by state"
    );
    describe_gauge!(
        DUE_AGE,
        Unit::Seconds,
        "For how long the job that is due the longest has been waiting; 0 where none is due"
    );
}

/// Jobs whose wake-up came.
pub(crate) fn due(jobs: usize) {
    counter!(DECISIONS).increment(u64::try_from(jobs).unwrap_or(u64::MAX));
}

/// Slots that were recorded as skipped.
pub(crate) fn skipped(reason: SkipReason, slots: u64) {
    counter!(OUTCOMES, "outcome" => "skipped", "reason" => reason.as_str()).increment(slots);
}

/// An occurrence that had a run has ended.
pub(crate) fn ended(outcome: Outcome) {
    let (state, reason) = (outcome.state(), outcome.reason().unwrap_or(""));
    counter!(OUTCOMES, "outcome" => state, "reason" => reason).increment(1);
}

/// A turn of a person has ended.
pub(crate) fn turn(result: &TurnResult) {
    let outcome = match result {
        TurnResult::Done => "done",
        TurnResult::Failed { .. } => "failed",
        TurnResult::Requeued => "waits-again",
    };
    counter!(TURNS, "outcome" => outcome).increment(1);
}

/// What was claimed begins now.
pub(crate) fn begins(claimed: &Claimed, now: Timestamp) {
    let Claimed::Run(run) = claimed else { return };
    counter!(STARTED, "cause" => run.cause.as_str()).increment(1);
    let is_on_time = matches!(run.cause, Cause::Scheduled | Cause::CatchUp);
    if run.attempt == 1 && is_on_time {
        histogram!(LATENESS).record(seconds(now.duration_since(run.nominal_at)));
    }
}

/// A run has its lane from the commit on that started it.
pub(crate) fn no_lane_wait() {
    histogram!(LANE_WAIT, "holder" => "run").record(0.0);
}

/// How long what gets its lane now has waited for it.
pub(crate) fn lane_wait(queue: &LaneQueue, grant: Grant, now: Timestamp) {
    let (holder, since) = match grant {
        Grant::Deliver(_) => {
            let head = queue.delivery.as_ref();
            ("delivery", head.map(|head| head.next_attempt_at))
        }
        Grant::Turn(_) => ("turn", queue.turn.as_ref().map(|head| head.requested_at)),
        Grant::Run(_) => ("run", queue.run.as_ref().map(|head| head.due_at)),
    };
    if let Some(since) = since {
        histogram!(LANE_WAIT, "holder" => holder).record(seconds(now.duration_since(since)));
    }
}

/// An agent has answered, or has not.
pub(crate) fn agent(name: &AgentName, result: &'static str, took: Duration) {
    let name = name.as_str().to_owned();
    histogram!(AGENT_TIME, "agent" => name, "result" => result).record(took.as_secs_f64());
}

/// A channel has answered.
pub(crate) fn channel(to: &Destination, answer: &SendAnswer, took: Duration) {
    let channel = match to {
        Destination::Chat(chat) => chat.channel.as_str().to_owned(),
        Destination::Webhook(_) => String::from("(webhook)"),
    };
    let answer = match answer {
        SendAnswer::Receipt(_) => "receipt",
        SendAnswer::Refused { .. } => "refused",
        SendAnswer::Permanent { .. } => "permanent",
        SendAnswer::Moved { .. } => "moved",
        SendAnswer::Ambiguous { .. } => "ambiguous",
    };
    histogram!(CHANNEL_TIME, "channel" => channel, "answer" => answer).record(took.as_secs_f64());
}

/// What follows from the answer to a part.
pub(crate) fn part(transition: &Transition) {
    let follows = match transition {
        Transition::Confirm(_) => "confirmed",
        Transition::TryAgain { .. } => "tried-again",
        Transition::Unknown => "unknown",
        Transition::Fail { .. } => "failed",
        Transition::Readdress { .. } => "moved",
    };
    counter!(PARTS, "outcome" => follows).increment(1);
}

fn seconds(span: SignedDuration) -> f64 {
    span.as_secs_f64().max(0.0)
}
