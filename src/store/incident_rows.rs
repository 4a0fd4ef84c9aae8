//! Incidents and what leads to them, as the store takes and gives them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    directory::Chat,
    ids::{IncidentId, JobId, RunId, SessionKey},
    policy::incident::{Incident, IncidentCause},
};

use super::{Diagnostic, NewMessage};

/// Something committed that nobody has decided on yet, as far as incidents go.
#[derive(Debug, Clone, PartialEq)]
pub struct IncidentSignal {
    /// Its number; an incident that it opens has the same one.
    pub signal_id: IncidentId,
    /// The job.
    pub job_id: JobId,
    /// Raised when the job's id is created again.
    pub incarnation: i64,
    /// What happened.
    pub what: Reported,
    /// The run that it happened to.
    pub run_id: Option<RunId>,
    /// When it was committed.
    pub reported_at: Timestamp,
}

/// What happened to a job, as far as incidents go.
#[derive(Debug, Clone, PartialEq)]
pub enum Reported {
    /// An occurrence, or the delivery of its result, has failed.
    Failed {
        /// How.
        cause: IncidentCause,
        /// The lane of the delivery, if it was one.
        lane: Option<SessionKey>,
        /// In words, without prompt, reply or secret.
        error: Option<String>,
        /// Why a policy paused the job with it, if one did.
        paused: Option<String>,
    },
    /// An occurrence is done.
    Works,
    /// A result was shown to its end.
    Delivered,
}

/// An incident, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IncidentRow {
    /// The incident.
    pub incident_id: IncidentId,
    /// The job.
    pub job_id: JobId,
    /// Raised when the job's id is created again.
    pub incarnation: i64,
    /// What fails.
    pub cause: IncidentCause,
    /// What the policy knows of it.
    pub incident: Incident,
    /// When an alert was decided on.
    pub alerted_at: Option<Timestamp>,
    /// The chat that was told; `None` where nobody was.
    pub told: Option<Chat>,
    /// Who produces its messages.
    pub producer: String,
    /// The last failure in words.
    pub error: Option<String>,
    /// When it was over.
    pub over_at: Option<Timestamp>,
}

/// What was decided about signals, to be committed together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IncidentCommit {
    /// The signals that were decided on; the fence.
    pub signals: Vec<IncidentId>,
    /// Incidents as they are now.
    pub incidents: Vec<IncidentRow>,
    /// What is to be said whatever became of earlier messages.
    pub alerts: Vec<NewMessage>,
    /// What is to be said only if the alert of the same producer was shown, or may have been.
    pub recoveries: Vec<NewMessage>,
    /// What a person should know.
    pub diagnostics: Vec<Diagnostic>,
}
