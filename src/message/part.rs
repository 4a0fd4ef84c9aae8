//! The states of one part of a message, and the reasons for its end.

use serde::{Deserialize, Serialize};

/// The states of a part; *settled* is neither `pending` nor `sending`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "http-api", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PartState {
    /// No attempt is in doubt and none is under way; it will be tried.
    Pending,
    /// An attempt is under way, or an earlier one is in doubt and it will be tried again.
    Sending,
    /// The channel has confirmed it.
    Confirmed,
    /// Nobody can say whether the chat showed it.
    Unknown,
    /// Certainly not shown, and given up.
    Failed,
    /// Certainly not shown, and no longer wanted.
    Cancelled,
}

impl PartState {
    /// All states.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::Sending,
        Self::Confirmed,
        Self::Unknown,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Whether nothing more happens to the part by itself.
    pub fn is_settled(self) -> bool {
        !matches!(self, Self::Pending | Self::Sending)
    }

    /// The word stored in the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sending => "sending",
            Self::Confirmed => "confirmed",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state that is stored as this word.
    pub fn from_stored(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// Why a part ended other than confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartReason {
    /// It was refused for longer than messages are kept trying.
    Age,
    /// The channel refused it for good.
    Permanent,
    /// The address is stopped since an earlier refusal.
    AddressStopped,
    /// An earlier part of the message failed.
    RestOfFailed,
    /// The chat was reset before it was sent.
    Reset,
    /// Its job was removed before it was sent.
    JobRemoved,
    /// The incident of which it told was over before it was sent.
    IncidentOver,
    /// It was to be withheld so long after its slot.
    Late,
    /// A tool of the same turn or run has sent the same words to the same place.
    SaidAlready,
    /// A person cancelled it.
    ByHand,
    /// A person said that the chat did not show it.
    NotShown,
}

impl PartReason {
    /// The word stored in the column.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Permanent => "permanent",
            Self::AddressStopped => "address-stopped",
            Self::RestOfFailed => "rest-of-failed",
            Self::Reset => "reset",
            Self::JobRemoved => "job-removed",
            Self::IncidentOver => "incident-over",
            Self::Late => "late",
            Self::SaidAlready => "said-already",
            Self::ByHand => "by-hand",
            Self::NotShown => "not-shown",
        }
    }
}
