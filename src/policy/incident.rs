//! Incidents: when a person is told that a job fails, and that it works again.
//!
//! An incident is a stretch of failures of one job with one cause. [`follow`] says what an event
//! does to it and what is to be said; routes, words and sending are the shell's.
//!
//! | incident | event | it is then | said |
//! |---|---|---|---|
//! | none | works | none | nothing |
//! | none | fails, fewer than `after` | watched | nothing |
//! | none | fails, `after` reached | alerted | an alert |
//! | none | fails, `after` reached, an alert of this cause inside the cooldown | silent | nothing |
//! | watched | fails | as from none, with one failure more | |
//! | watched | works | over | nothing |
//! | alerted | fails | alerted | nothing |
//! | alerted | works | over | that it is over |
//! | silent | fails, inside the cooldown | silent | nothing |
//! | silent | fails, after the cooldown | alerted | an alert |
//! | silent | works | over | nothing |
//! | any | the job alerts nobody | over | nothing |

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{job::Alert, occurrence::FailReason};

#[cfg(test)]
mod tests;

/// What fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IncidentCause {
    /// Runs end failed, for this reason.
    Runs(FailReason),
    /// Runs are done, and what they say cannot be delivered.
    Delivery,
}

impl IncidentCause {
    /// The cause of an occurrence that has failed. A person who paused the job before a retry knows
    /// of it.
    pub fn of(reason: FailReason) -> Option<Self> {
        match reason {
            FailReason::Paused => None,
            FailReason::Transient
            | FailReason::Permanent
            | FailReason::Timeout
            | FailReason::Interrupted
            | FailReason::AfterEffects
            | FailReason::Panicked => Some(Self::Runs(reason)),
        }
    }

    /// The word stored in the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Runs(reason) => reason.as_str(),
            Self::Delivery => "delivery",
        }
    }

    /// The cause that is stored as this word.
    pub fn from_stored(word: &str) -> Option<Self> {
        if word == Self::Delivery.as_str() {
            return Some(Self::Delivery);
        }
        FailReason::from_stored(word).map(Self::Runs)
    }

    /// How many failures in a row are worth an alert. A delivery that has failed was tried for a
    /// day, or refused for good.
    fn enough(self, after: u32) -> u32 {
        match self {
            Self::Runs(_) => after,
            Self::Delivery => 1,
        }
    }
}

/// An incident that is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// The first failure.
    pub since: Timestamp,
    /// How many there were.
    pub failures: u32,
    /// What was said of it.
    pub stage: Stage,
}

/// What was said of an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http-api", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Nothing yet.
    Watched,
    /// Nothing, because an alert of the same cause was not long ago.
    Silent,
    /// An alert was decided on.
    Alerted,
}

impl Stage {
    /// The word stored in the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Watched => "watched",
            Self::Silent => "silent",
            Self::Alerted => "alerted",
        }
    }

    /// The stage that is stored as this word.
    pub fn from_stored(word: &str) -> Option<Self> {
        [Self::Watched, Self::Silent, Self::Alerted]
            .into_iter()
            .find(|stage| stage.as_str() == word)
    }
}

/// What happens to a job, as far as incidents go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// It failed with the incident's cause.
    Fails,
    /// What the incident is about works again.
    Works,
}

/// What follows from a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Follow {
    /// The incident; `None` where there is none any more.
    pub incident: Option<Incident>,
    /// What is to be said.
    pub say: Say,
}

/// What is to be said of an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Say {
    /// Nothing.
    Nothing,
    /// That it fails.
    Alert,
    /// Nothing of what would have been an alert, because of the cooldown.
    Hush,
    /// That it works again, if the alert may have been shown.
    Recovery,
}

/// What a signal does to the incident of one cause. `last_alert_at` is the newest alert about this
/// job and cause, if there was one.
///
/// ```
/// use chatcron::{job::Alert, occurrence::FailReason, policy::incident::{IncidentCause, Say, Signal, follow}};
///
/// let cause = IncidentCause::Runs(FailReason::Timeout);
/// let now = "2026-12-01T08:00:00Z".parse()?;
/// let first = follow(cause, None, None, Signal::Fails, Alert::default(), now);
/// assert_eq!(first.say, Say::Nothing);
/// let second = follow(cause, first.incident, None, Signal::Fails, Alert::default(), now);
/// assert_eq!(second.say, Say::Alert);
/// # Ok::<(), jiff::Error>(())
/// ```
pub fn follow(
    cause: IncidentCause,
    incident: Option<Incident>,
    last_alert_at: Option<Timestamp>,
    signal: Signal,
    alert: Alert,
    now: Timestamp,
) -> Follow {
    let over = |say| Follow {
        incident: None,
        say,
    };
    let Alert::Once { after, cooldown } = alert else {
        return over(Say::Nothing);
    };
    let stage = incident.map(|incident| incident.stage);
    match (stage, signal) {
        (None | Some(Stage::Watched | Stage::Silent), Signal::Works) => over(Say::Nothing),
        (Some(Stage::Alerted), Signal::Works) => over(Say::Recovery),
        (stage, Signal::Fails) => {
            let failures = incident.map_or(0, |incident| incident.failures);
            let failures = failures.saturating_add(1);
            // A clock that stepped back since says nothing about how long ago that was.
            let is_cooling = last_alert_at.is_some_and(|at| {
                let since = now.duration_since(at);
                !since.is_negative() && since < cooldown
            });
            let is_enough = failures >= cause.enough(after);
            let (stage, say) = match (stage, is_enough, is_cooling) {
                (Some(Stage::Alerted), _, _) => (Stage::Alerted, Say::Nothing),
                (Some(Stage::Silent), _, true) => (Stage::Silent, Say::Nothing),
                (Some(Stage::Silent), _, false) => (Stage::Alerted, Say::Alert),
                (None | Some(Stage::Watched), false, _) => (Stage::Watched, Say::Nothing),
                (None | Some(Stage::Watched), true, true) => (Stage::Silent, Say::Hush),
                (None | Some(Stage::Watched), true, false) => (Stage::Alerted, Say::Alert),
            };
            let since = incident.map_or(now, |incident| incident.since);
            Follow {
                incident: Some(Incident {
                    since,
                    failures,
                    stage,
                }),
                say,
            }
        }
    }
}
