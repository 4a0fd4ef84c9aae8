//! What an answer of a channel does to a part of a message.
//!
//! The rule that everything follows from: a part with an attempt of which nobody knows whether it
//! was shown can end only `confirmed` or `unknown`. A later refusal does not prove that the first
//! attempt was not shown.

use jiff::{SignedDuration, Timestamp};

use crate::{
    job::{Late, OnUnknown, Policies},
    message::{PartReason, PartState, Receipt, SendAnswer, StopsAddress},
};

/// How long a part is kept trying. Refusals are bounded by age, never by count.
pub const MAX_AGE: SignedDuration = SignedDuration::from_hours(24);

/// How often a part is tried at most before a chat that has moved again is given up.
const MOVES_MAX: u32 = 5;

const FIRST_BACKOFF: SignedDuration = SignedDuration::from_secs(1);
const LONGEST_BACKOFF: SignedDuration = SignedDuration::from_mins(5);

/// What the transition of a part depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartView {
    /// Since when it is tried: when its message was enqueued, or a person had it sent again.
    pub since: Timestamp,
    /// When it was first marked as being sent.
    pub first_attempt_at: Option<Timestamp>,
    /// How often it was tried, the present attempt included.
    pub attempts: u32,
    /// Whether an earlier attempt is in doubt.
    pub in_doubt: bool,
    /// What its job wants done in doubt.
    pub on_unknown: OnUnknown,
}

/// What is done with a result that is shown long after its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateRule {
    /// After this instant it is late.
    pub from: Timestamp,
    /// What is done then.
    pub late: Late,
}

impl LateRule {
    /// The rule for the result of a slot.
    pub fn of(nominal: Timestamp, policies: &Policies) -> Self {
        Self {
            from: later(nominal, policies.late_after),
            late: policies.late,
        }
    }

    /// What is done with a result whose first part is about to be sent for the first time; `None`
    /// where it is in time.
    pub fn decide(self, now: Timestamp) -> Option<Late> {
        (now > self.from).then_some(self.late)
    }
}

/// What can be done about a part in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// The channel shows a key once, for this long (`None`: for ever).
    Keyed(Option<SignedDuration>),
    /// Nothing.
    Blind,
}

/// What becomes of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transition {
    /// The channel has shown it.
    Confirm(Receipt),
    /// It is tried again then, under the same key.
    TryAgain {
        /// `pending`, or `sending` where an attempt is in doubt.
        state: PartState,
        /// When.
        at: Timestamp,
    },
    /// Nobody can say whether it was shown.
    Unknown,
    /// Certainly not shown, and given up; the rest of the message is cancelled.
    Fail {
        /// Why.
        reason: PartReason,
        /// Whether nothing more goes to the address until it is confirmed again.
        stops_address: StopsAddress,
    },
    /// The chat has another address now; it is sent there at once, under the same key.
    Readdress {
        /// The new address.
        to: String,
    },
}

/// What the answer to the present attempt does to the part.
pub fn answered(part: &PartView, answer: SendAnswer, doubt: Doubt, now: Timestamp) -> Transition {
    match answer {
        SendAnswer::Receipt(receipt) => Transition::Confirm(receipt),
        SendAnswer::Refused { retry_after, .. } => {
            let wait = retry_after.unwrap_or_else(|| backoff(part.attempts));
            if part.in_doubt {
                again_in_doubt(part, doubt, wait, now)
            } else if is_too_old(part, now) {
                Transition::Fail {
                    reason: PartReason::Age,
                    stops_address: StopsAddress::No,
                }
            } else {
                Transition::TryAgain {
                    state: PartState::Pending,
                    at: within_age(part, later(now, wait)),
                }
            }
        }
        SendAnswer::Permanent { stops_address, .. } if !part.in_doubt => Transition::Fail {
            reason: PartReason::Permanent,
            stops_address,
        },
        // A chat whose addresses point at each other would be followed for ever.
        SendAnswer::Moved { .. } if part.attempts > MOVES_MAX && part.in_doubt => {
            Transition::Unknown
        }
        SendAnswer::Moved { .. } if part.attempts > MOVES_MAX => Transition::Fail {
            reason: PartReason::Permanent,
            stops_address: StopsAddress::No,
        },
        SendAnswer::Moved { to } => Transition::Readdress { to },
        // In doubt, a permanent refusal of this attempt says nothing of the earlier one.
        SendAnswer::Permanent { .. } => Transition::Unknown,
        SendAnswer::Ambiguous { .. } => again_in_doubt(part, doubt, backoff(part.attempts), now),
    }
}

/// What becomes of a part whose sender died between its mark and its answer.
pub fn interrupted(part: &PartView, doubt: Doubt, now: Timestamp) -> Transition {
    again_in_doubt(part, doubt, SignedDuration::ZERO, now)
}

fn again_in_doubt(
    part: &PartView,
    doubt: Doubt,
    wait: SignedDuration,
    now: Timestamp,
) -> Transition {
    let at = within_age(part, later(now, wait));
    let may_resend = match part.on_unknown {
        OnUnknown::Resend => true,
        OnUnknown::Hold => key_still_holds(part, doubt, at),
    };
    if may_resend && !is_too_old(part, now) {
        Transition::TryAgain {
            state: PartState::Sending,
            at,
        }
    } else {
        Transition::Unknown
    }
}

/// Whether the channel will still know the key then. A wall clock that stepped back since the
/// first attempt says nothing about how long ago that was, so the window is void.
fn key_still_holds(part: &PartView, doubt: Doubt, at: Timestamp) -> bool {
    match (doubt, part.first_attempt_at) {
        (Doubt::Blind, _) | (Doubt::Keyed(Some(_)), None) => false,
        (Doubt::Keyed(None), _) => true,
        (Doubt::Keyed(Some(window)), Some(first)) => {
            let since_first = at.duration_since(first);
            !since_first.is_negative() && since_first <= window
        }
    }
}

fn is_too_old(part: &PartView, now: Timestamp) -> bool {
    now.duration_since(part.since) >= MAX_AGE
}

/// A channel that asks for a longer wait than messages are kept is asked once more at their end.
fn within_age(part: &PartView, at: Timestamp) -> Timestamp {
    at.min(later(part.since, MAX_AGE))
}

/// One second, doubled with every attempt, five minutes at most.
fn backoff(attempts: u32) -> SignedDuration {
    let doublings = attempts.saturating_sub(1).min(16);
    (FIRST_BACKOFF * (1 << doublings)).min(LONGEST_BACKOFF)
}

fn later(now: Timestamp, wait: SignedDuration) -> Timestamp {
    now.saturating_add(wait).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::RefusalScope;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn sure(age: SignedDuration) -> PartView {
        PartView {
            since: now() - age,
            first_attempt_at: Some(now() - age),
            attempts: 1,
            in_doubt: false,
            on_unknown: OnUnknown::Hold,
        }
    }

    fn doubtful(age: SignedDuration) -> PartView {
        PartView {
            in_doubt: true,
            ..sure(age)
        }
    }

    fn refused() -> SendAnswer {
        SendAnswer::Refused {
            retry_after: Some(SignedDuration::from_secs(7)),
            scope: RefusalScope::Chat,
            why: "slow down".to_owned(),
        }
    }

    fn permanent() -> SendAnswer {
        SendAnswer::Permanent {
            why: "chat not found".to_owned(),
            stops_address: StopsAddress::Yes,
        }
    }

    fn ambiguous() -> SendAnswer {
        SendAnswer::Ambiguous {
            why: "reset".to_owned(),
        }
    }

    fn again(state: PartState, seconds: i64) -> Transition {
        Transition::TryAgain {
            state,
            at: now() + SignedDuration::from_secs(seconds),
        }
    }

    #[test]
    fn a_part_follows_its_table() {
        let fresh = SignedDuration::from_secs(5);
        let forever = Doubt::Keyed(None);
        let minute = Doubt::Keyed(Some(SignedDuration::from_mins(1)));
        let hour = SignedDuration::from_hours(1);
        let day = SignedDuration::from_hours(24);
        let failed = |reason, stops_address| Transition::Fail {
            reason,
            stops_address,
        };
        #[rustfmt::skip]
        let table = [
            ("refused", sure(fresh), refused(), Doubt::Blind, again(PartState::Pending, 7)),
            ("refused in doubt, keyed", doubtful(fresh), refused(), forever, again(PartState::Sending, 7)),
            ("refused in doubt, blind", doubtful(fresh), refused(), Doubt::Blind, Transition::Unknown),
            ("refused for a day", sure(day), refused(), Doubt::Blind, failed(PartReason::Age, StopsAddress::No)),
            ("permanent", sure(fresh), permanent(), forever, failed(PartReason::Permanent, StopsAddress::Yes)),
            ("permanent in doubt", doubtful(fresh), permanent(), forever, Transition::Unknown),
            ("ambiguous, blind", sure(fresh), ambiguous(), Doubt::Blind, Transition::Unknown),
            ("ambiguous, keyed", sure(fresh), ambiguous(), forever, again(PartState::Sending, 1)),
            ("ambiguous, inside the window", sure(fresh), ambiguous(), minute, again(PartState::Sending, 1)),
            ("ambiguous, after the window", doubtful(hour), ambiguous(), minute, Transition::Unknown),
            ("ambiguous for a day, keyed for ever", doubtful(day), ambiguous(), forever, Transition::Unknown),
        ];
        for (name, part, answer, doubt, expected) in table {
            assert_eq!(answered(&part, answer, doubt, now()), expected, "{name}");
        }
    }

    #[test]
    fn a_clock_that_stepped_back_voids_the_window() {
        let minute = Doubt::Keyed(Some(SignedDuration::from_mins(1)));
        let stepped_back = doubtful(SignedDuration::from_mins(-30));
        assert_eq!(
            answered(&stepped_back, ambiguous(), minute, now()),
            Transition::Unknown
        );
    }

    #[test]
    fn a_dead_sender_leaves_a_blind_part_unknown_and_a_keyed_one_to_be_sent_again() {
        let view = sure(SignedDuration::from_secs(5));
        assert_eq!(interrupted(&view, Doubt::Blind, now()), Transition::Unknown);
        assert_eq!(
            interrupted(&view, Doubt::Keyed(None), now()),
            again(PartState::Sending, 0)
        );
        let resend = PartView {
            on_unknown: OnUnknown::Resend,
            ..view
        };
        assert_eq!(
            interrupted(&resend, Doubt::Blind, now()),
            again(PartState::Sending, 0)
        );
    }

    #[test]
    fn the_wait_doubles_up_to_five_minutes() {
        let waits: Vec<_> = (1..=11).map(|n| backoff(n).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }

    #[test]
    fn a_result_is_late_after_its_time_and_not_at_it() {
        for late in [Late::Label, Late::Withhold] {
            let policies = Policies {
                late,
                ..Policies::default()
            };
            let hours = SignedDuration::from_hours;
            let rule = |age| LateRule::of(now() - age, &policies);
            assert_eq!(rule(hours(3)).decide(now()), None);
            let more = hours(3) + SignedDuration::from_micros(1);
            assert_eq!(rule(more).decide(now()), Some(late));
        }
    }
}
