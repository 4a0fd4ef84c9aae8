//! What happened, told alike by the simulator and from what the worker left.

use std::collections::{BTreeMap, BTreeSet};

use chatcron::{
    ids::JobId,
    occurrence::{OccurrenceRef, Outcome, Slot},
    policy::Effect,
    simulate::{Event, Happening, SendState, Sink},
};
use jiff::Timestamp;

/// The answer of a chat that shows a message.
pub(crate) const SHOWN: &str = "shown";
/// The answer of one that does not, yet.
pub(crate) const REFUSED: &str = "refused";

/// What was decided about each job, in order; each attempt; and each try to send a result.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Ledger {
    pub(crate) decisions: BTreeMap<JobId, Vec<String>>,
    pub(crate) attempts: BTreeMap<JobId, Vec<String>>,
    pub(crate) sends: BTreeMap<JobId, Vec<String>>,
    /// How each message stands, by its slot.
    pub(crate) messages: BTreeMap<(JobId, String), String>,
    /// The tries that were refused: whose, and when.
    pub(crate) refused: BTreeSet<(String, Timestamp)>,
}

impl Ledger {
    pub(crate) fn decided(&mut self, job: &JobId, line: String) {
        self.decisions.entry(job.clone()).or_default().push(line);
    }

    pub(crate) fn attempted(&mut self, job: &JobId, line: String) {
        self.attempts.entry(job.clone()).or_default().push(line);
    }
}

impl Ledger {
    pub(crate) fn sent(
        &mut self,
        job: &JobId,
        slot: &Slot,
        (at, attempt): (Timestamp, u32),
        answer: &str,
    ) {
        let line = format!("{at} sent {slot} {attempt} {answer}");
        self.sends.entry(job.clone()).or_default().push(line);
        if answer == REFUSED {
            self.refused.insert((job.to_string(), at));
        }
    }

    fn answered(&mut self, job: &JobId, slot: &Slot, tried: (Timestamp, u32), state: SendState) {
        let (at, attempt) = tried;
        let (answer, standing) = match state {
            SendState::Confirmed => (SHOWN, format!("confirmed {at}")),
            SendState::Again(next) => (REFUSED, format!("pending {next}")),
            SendState::Failed => (REFUSED, format!("failed {at}")),
            SendState::Unknown => ("unknown", format!("unknown {at}")),
            // It was brought to no channel.
            SendState::Withheld => return,
        };
        self.sent(job, slot, tried, answer);
        self.stands(job, slot, attempt, standing);
    }

    pub(crate) fn stands(&mut self, job: &JobId, slot: &Slot, attempts: u32, standing: String) {
        let line = format!("{attempts} {standing}");
        self.messages.insert((job.clone(), slot.to_string()), line);
    }
}

impl Sink for Ledger {
    fn take(&mut self, event: &Event<'_>) {
        let Some((_, job)) = event.job else {
            return;
        };
        let at = event.at;
        match &event.what {
            Happening::Wait {
                slot,
                fire_at,
                cause,
                merged,
                ..
            } => {
                let (cause, merged) = (cause.as_str(), listed(merged));
                self.decided(job, format!("{at} wait {slot} {fire_at} {merged}{cause}"));
            }
            Happening::Start {
                slot,
                nominal,
                fire_at,
                cause,
                merged,
            } => {
                let (cause, merged) = (cause.as_str(), listed(merged));
                self.decided(
                    job,
                    format!("{at} start {slot} {nominal} {fire_at} {merged}{cause}"),
                );
            }
            Happening::Send {
                slot,
                attempt,
                state,
                ..
            } => self.answered(job, slot, (at, *attempt), *state),
            Happening::Backoff { slot, until } => {
                self.decided(job, format!("{at} backoff {slot} {until}"))
            }
            Happening::Requeue { slot } => self.decided(job, format!("{at} requeue {slot}")),
            Happening::End { slot, outcome } => {
                self.decided(job, format!("{at} end {slot} {}", words(*outcome)))
            }
            Happening::Skip(range) => {
                let reason = range.reason.as_str();
                self.decided(
                    job,
                    format!(
                        "{at} skip {} {} {} {reason}",
                        range.first, range.last, range.count
                    ),
                );
            }
            Happening::Attempt { slot, attempt, .. } => {
                self.attempted(job, format!("{at} began {slot} {attempt}"))
            }
            Happening::AttemptEnd {
                slot,
                attempt,
                fate,
            } => {
                let result = fate.to_stored();
                self.attempted(job, format!("{at} ended {slot} {attempt} {result}"));
            }
            Happening::Down | Happening::Up | Happening::ClockStep(_) | Happening::Open { .. } => {}
        }
    }
}

fn listed(merged: &[Slot]) -> String {
    merged.iter().map(|slot| format!("+{slot} ")).collect()
}

fn words(outcome: Outcome) -> String {
    format!("{} {}", outcome.state(), outcome.reason().unwrap_or("-"))
}

/// An effect of a decision, in the words for what was simulated.
pub(crate) fn spelled(now: Timestamp, effect: &Effect) -> String {
    let slot = |occurrence: &OccurrenceRef| match occurrence {
        OccurrenceRef::Scheduled(slot) | OccurrenceRef::Backfill(_, slot) => slot.clone(),
        OccurrenceRef::Manual(request) => panic!("nobody triggered {request}"),
    };
    match effect {
        Effect::Wait { waiting, merged } => {
            format!(
                "{now} wait {} {} {}{}",
                waiting.slot,
                waiting.fire_at,
                listed(merged),
                waiting.cause.as_str()
            )
        }
        Effect::Start {
            occurrence,
            nominal,
            fire_at,
            cause,
            merged,
        } => {
            format!(
                "{now} start {} {nominal} {fire_at} {}{}",
                slot(occurrence),
                listed(merged),
                cause.as_str()
            )
        }
        Effect::Requeue { occurrence } => format!("{now} requeue {}", slot(occurrence)),
        Effect::Backoff { occurrence, until } => {
            format!("{now} backoff {} {until}", slot(occurrence))
        }
        Effect::End {
            occurrence,
            outcome,
        } => format!("{now} end {} {}", slot(occurrence), words(*outcome)),
        Effect::Skip(range) => {
            format!(
                "{now} skip {} {} {} {}",
                range.first,
                range.last,
                range.count,
                range.reason.as_str()
            )
        }
    }
}
