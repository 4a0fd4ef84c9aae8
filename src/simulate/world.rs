//! What the world answers: how long an attempt takes, whether it fails, whether a chat accepts.

use jiff::{SignedDuration, Timestamp};

use crate::{job::Job, message::Destination, occurrence::FailReason, policy::AttemptResult};

use super::{
    Failing, Rate, RunTime, Scenario,
    draw::{Draws, Purpose},
};

/// The world as one job meets it.
#[derive(Debug, Clone)]
pub(super) struct JobWorld {
    draws: Draws,
    pub(super) run_time: RunTime,
    failing: Vec<Failing>,
    /// How often a send of its result is refused.
    pub(super) refusals: Rate,
}

impl JobWorld {
    pub(super) fn new(job: &Job, destination: Option<&Destination>, scenario: &Scenario) -> Self {
        let refusals = match destination {
            Some(Destination::Chat(chat)) => scenario.channel_failures.get(&chat.chat).copied(),
            Some(Destination::Webhook(_)) | None => None,
        };
        Self {
            draws: Draws::of(scenario.seed, job.id.as_str()),
            run_time: *scenario
                .run_times
                .get(&job.id)
                .unwrap_or(&scenario.run_time),
            failing: scenario.failures.get(&job.id).cloned().unwrap_or_default(),
            refusals: refusals.unwrap_or(Rate::NEVER),
        }
    }

    pub(super) fn failing(&self) -> &[Failing] {
        &self.failing
    }

    /// How an attempt that begins at `begun_at` will end, and how long that takes.
    pub(super) fn attempt(
        &self,
        job: &Job,
        nominal: Timestamp,
        attempt: u32,
        begun_at: Timestamp,
    ) -> (SignedDuration, AttemptResult) {
        let time = self.draws.run_time(self.run_time, nominal, attempt);
        let timeout = job.policies.timeout;
        let (time, result) = if time > timeout {
            (timeout, AttemptResult::Failed(FailReason::Timeout))
        } else {
            (time, AttemptResult::Done)
        };
        let mut ends = (time, result);
        let failed = AttemptResult::Failed(FailReason::Transient);
        for failing in &self.failing {
            let end = match failing {
                Failing::Rate(rate) => {
                    let fails = self
                        .draws
                        .happens(Purpose::Failure, *rate, nominal, attempt);
                    // One that takes too long has failed already.
                    (fails && result == AttemptResult::Done).then_some(time)
                }
                Failing::At(at) => within(begun_at, time, *at, *at),
                Failing::Between(from, to) => within(begun_at, time, *from, *to),
            };
            if let Some(end) = end
                && (end < ends.0 || ends.1 == AttemptResult::Done)
            {
                ends = (end, failed);
            }
        }
        ends
    }

    /// Whether the try to send the result of this slot is refused.
    pub(super) fn refuses(&self, nominal: Timestamp, attempt: u32) -> bool {
        self.draws
            .happens(Purpose::Send, self.refusals, nominal, attempt)
    }
}

/// After how long an attempt fails that meets a stretch of failures, both ends included.
fn within(
    begun_at: Timestamp,
    time: SignedDuration,
    from: Timestamp,
    to: Timestamp,
) -> Option<SignedDuration> {
    let until = begun_at.duration_until(from);
    (until <= time && begun_at <= to).then_some(until.max(SignedDuration::ZERO))
}
