//! The policies of a job: what happens when a slot was missed, meets a run, or fails.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::ids::ChatName;

/// All policies of one job, defaults filled in.
///
/// Definitions are stored, and told apart by a digest of what is stored. A policy that came later
/// than the first version is left out where it has its default, so that older definitions stay the
/// same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policies {
    /// What happens to slots that passed while nothing could start them.
    pub catch_up: CatchUp,
    /// How late a missed slot may still start; `None` is the default rule. For `latest` that is
    /// the time from the slot to the job's following slot, at least 5 minutes, at most 24 hours,
    /// and 24 hours for `at`; for `all` there is no window, and its cap is the bound.
    pub catch_up_window: Option<SignedDuration>,
    /// Over how long the catch-up starts of different jobs are spread.
    pub catch_up_spread: SignedDuration,
    /// What a slot does that meets an active run of the same job.
    pub overlap: Overlap,
    /// How often a transient failure is tried again, inside the occurrence.
    pub retry: Retry,
    /// How long one attempt may take, from the agent call.
    pub timeout: SignedDuration,
    /// What happens to a run whose process died.
    pub on_interrupt: OnInterrupt,
    /// After how many started scheduled runs the job ends; `None` for never.
    pub max_runs: Option<u32>,
    /// What happens to a part of which nobody can say whether the chat showed it.
    pub on_unknown: OnUnknown,
    /// After how many failed scheduled runs in a row the job pauses itself; `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_after_failures: Option<u32>,
    /// Whether an attempt that has had effects is tried again like any other.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry_after_effects: bool,
    /// When a person is told that the job fails.
    #[serde(default, skip_serializing_if = "is_default")]
    pub alert: Alert,
    /// The chat that is told; `None` for the chat in which the job is answered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub alert_to: Option<ChatName>,
    /// What happens to a result that is shown long after its slot.
    #[serde(default, skip_serializing_if = "is_default")]
    pub late: Late,
    /// How long after its slot a result is late.
    #[serde(default = "late_after", skip_serializing_if = "is_usual_late_after")]
    pub late_after: SignedDuration,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            catch_up: CatchUp::Latest,
            catch_up_window: None,
            catch_up_spread: SignedDuration::from_mins(1),
            overlap: Overlap::Skip,
            retry: Retry::default(),
            timeout: SignedDuration::from_mins(10),
            on_interrupt: OnInterrupt::Retry,
            max_runs: None,
            on_unknown: OnUnknown::Hold,
            pause_after_failures: None,
            retry_after_effects: false,
            alert: Alert::default(),
            alert_to: None,
            late: Late::default(),
            late_after: late_after(),
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn late_after() -> SignedDuration {
    SignedDuration::from_hours(3)
}

fn is_usual_late_after(value: &SignedDuration) -> bool {
    *value == late_after()
}

/// What happens to slots that passed while nothing could start them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http-api", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CatchUp {
    /// The newest one inside the window runs; the others are skipped.
    Latest,
    /// All of them are skipped.
    None,
    /// Those inside the window run, one after another and at most
    /// [`QUEUE_MAX`](crate::QUEUE_MAX) of them, whatever the overlap policy says.
    All,
}

/// What a slot does that meets an active run of the same job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http-api", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// It is skipped.
    Skip,
    /// The first one waits for the end of the run; later ones are skipped.
    BufferOne,
    /// It waits for its turn, with at most [`QUEUE_MAX`](crate::QUEUE_MAX) others.
    BufferAll,
    /// The run is called off, and the slot starts.
    CancelRunning,
    /// It starts beside the run. Refused for in-chat jobs and for jobs with memory.
    Allow,
}

/// How often a transient failure is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// All attempts, the first one included; at least 1.
    pub attempts: u32,
    /// The wait before the second, third, ... attempt; the last one repeats.
    pub backoff: Vec<SignedDuration>,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 3,
            backoff: vec![SignedDuration::from_secs(30), SignedDuration::from_mins(2)],
        }
    }
}

impl Retry {
    /// The wait after this many attempts have been made.
    pub fn backoff_after(&self, attempts_made: u32) -> SignedDuration {
        let index = usize::try_from(attempts_made.saturating_sub(1)).unwrap_or(usize::MAX);
        let last = self.backoff.len().saturating_sub(1);
        self.backoff
            .get(index.min(last))
            .copied()
            .unwrap_or(SignedDuration::ZERO)
    }
}

/// What happens to a run whose process died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http-api", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OnInterrupt {
    /// It is tried again, as long as it has attempts left.
    Retry,
    /// It has failed.
    Fail,
}

/// What happens to a part of which nobody can say whether the chat showed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http-api", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OnUnknown {
    /// It stays `unknown` until a person settles it; never a silent second copy.
    Hold,
    /// It is sent again under the same key: at least once, declared to `verify`.
    Resend,
}

/// When a person is told that a job fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alert {
    /// Never.
    Never,
    /// Once an incident.
    Once {
        /// After so many failures in a row of one cause; at least 1.
        after: u32,
        /// For so long after an alert a new incident of the same cause is silent.
        cooldown: SignedDuration,
    },
}

impl Default for Alert {
    fn default() -> Self {
        Self::Once {
            after: Self::AFTER,
            cooldown: Self::COOLDOWN,
        }
    }
}

impl Alert {
    /// How many failures are alerted about where nothing is said.
    pub const AFTER: u32 = 2;
    /// How long new incidents are silent where nothing is said.
    pub const COOLDOWN: SignedDuration = SignedDuration::from_hours(1);
}

/// What happens to the result of a background job that is shown long after its slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http-api", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Late {
    /// It says so in its first line.
    #[default]
    Label,
    /// It is not sent.
    Withhold,
}

impl Late {
    /// The word stored in the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Withhold => "withhold",
        }
    }

    /// The value that is stored as this word.
    pub fn from_stored(word: &str) -> Option<Self> {
        [Self::Label, Self::Withhold]
            .into_iter()
            .find(|late| late.as_str() == word)
    }
}
