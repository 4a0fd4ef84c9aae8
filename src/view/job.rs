//! Jobs: as they are listed, and everything about one.

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    ids::{AgentName, ChatName},
    job::{
        self, Alert, CatchUp, ChatContext, Deliver, Late, Mode, OnInterrupt, OnUnknown, Overlap,
    },
    policy::{Pause, clock::AHEAD_MAX, incident::Stage},
    store::{IncidentRow, StoredJob},
};

use super::{
    At, Diagnostic, Listed, Run, Shown, Standing, Start, Stretch, schedule, with_offset, zone,
};

/// A job, as it is listed.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Job {
    #[serde(flatten)]
    summary: Summary,
    /// Up to when slots may have records, where that is ahead of the clock.
    accounted_until: Option<At>,
    /// The newest run that has ended.
    last: Option<Run>,
}

/// What is told of a job wherever it is.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
struct Summary {
    id: String,
    name: String,
    enabled: bool,
    /// In words.
    schedule: String,
    /// The IANA zone in which it is planned.
    tz: String,
    #[schema(value_type = ModeWord)]
    mode: &'static str,
    target: Target,
    #[schema(value_type = StateWord)]
    state: &'static str,
    paused: Option<Paused>,
    /// When it starts next.
    next_at: Option<At>,
    /// What fails at present.
    incidents: Vec<Incident>,
}

/// Where a job's turn lives.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
#[expect(dead_code, reason = "the schema of a word")]
enum ModeWord {
    InChat,
    Background,
}

/// What a job is doing, or why it does nothing.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "the schema of a word")]
enum StateWord {
    Ready,
    Running,
    Queued,
    Backoff,
    Paused,
    Disabled,
    Finished,
    Removed,
}

/// Since when and why a job is paused.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
struct Paused {
    since: At,
    reason: String,
}

impl From<&Pause> for Paused {
    fn from(pause: &Pause) -> Self {
        Self {
            since: At(pause.since),
            reason: pause.reason.clone(),
        }
    }
}

/// Where a job's result shows, as the jobs file says it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Target {
    Chat { chat: String },
    Webhook { url: String },
    History,
}

impl From<&Mode> for Target {
    fn from(mode: &Mode) -> Self {
        let chat = |name: &ChatName| Self::Chat {
            chat: name.to_string(),
        };
        match mode {
            Mode::InChat { chat: name, .. } => chat(name),
            Mode::Background { deliver, .. } => match deliver {
                Deliver::Chat(name) => chat(name),
                Deliver::Webhook(webhook) => Self::Webhook {
                    url: webhook.url.clone(),
                },
                Deliver::History => Self::History,
            },
        }
    }
}

/// `in-chat` or `background`.
pub(crate) fn mode_word(mode: &Mode) -> &'static str {
    match mode {
        Mode::InChat { .. } => "in-chat",
        Mode::Background { .. } => "background",
    }
}

/// A stretch of failures of one cause.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Incident {
    /// `delivery`, or a reason for which runs fail.
    cause: &'static str,
    since: At,
    failures: u32,
    #[schema(value_type = Stage)]
    stage: &'static str,
    alerted_at: Option<At>,
    /// The chat that was told.
    told: Option<String>,
    error: Option<String>,
}

impl From<&IncidentRow> for Incident {
    fn from(row: &IncidentRow) -> Self {
        Self {
            cause: row.cause.as_str(),
            since: At(row.incident.since),
            failures: row.incident.failures,
            stage: row.incident.stage.as_str(),
            alerted_at: row.alerted_at.map(At),
            told: row.told.as_ref().map(|chat| chat.name.to_string()),
            error: row.error.clone(),
        }
    }
}

impl Summary {
    fn of(stored: &StoredJob, standing: &Standing, incidents: &[IncidentRow]) -> Self {
        let job = &stored.job;
        Self {
            id: job.id.to_string(),
            name: job.display_name().to_owned(),
            enabled: job.enabled,
            schedule: schedule(&job.schedule),
            tz: job.schedule.zone.clone(),
            mode: mode_word(&job.mode),
            target: Target::from(&job.mode),
            state: standing.state.word(),
            paused: standing.pause.as_ref().map(Paused::from),
            next_at: standing.next_at.map(At),
            incidents: incidents.iter().map(Incident::from).collect(),
        }
    }
}

impl Job {
    pub(crate) fn new(listed: &Listed, now: Timestamp) -> Self {
        Self {
            summary: Summary::of(&listed.stored, &listed.standing, &listed.incidents),
            accounted_until: accounted_ahead(&listed.stored, now).map(At),
            last: listed.last.as_ref().map(Run::from),
        }
    }
}

/// Up to when slots have records ahead of the clock, where it is further than a clock may differ.
pub(crate) fn accounted_ahead(stored: &StoredJob, now: Timestamp) -> Option<Timestamp> {
    let spans = stored.state.accounted.iter().map(|span| span.until);
    let until = spans.fold(stored.state.cursor, Timestamp::max);
    (until.duration_since(now) > AHEAD_MAX).then_some(until)
}

/// Everything about one job.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct JobDetail {
    #[serde(flatten)]
    summary: Summary,
    /// The agent; null for the chat's own.
    agent: Option<String>,
    /// Whether a background job remembers its own earlier runs.
    memory: Option<bool>,
    /// The chat that is quoted to a background job's agent.
    context: Option<Context>,
    prompt: String,
    policies: Policies,
    /// Where it is defined: `file:NAME` or `runtime:CREATOR`.
    source: String,
    /// Raised by every change of the definition.
    revision: i64,
    /// Raised when the id of a removed job is created again.
    incarnation: i64,
    first_seen_at: At,
    removed_at: Option<At>,
    started_runs: u32,
    failure_streak: u32,
    /// The next starts.
    times: Vec<Time>,
    /// The newest runs.
    runs: Vec<Run>,
    skipped: Vec<Stretch>,
    diagnostics: Vec<Diagnostic>,
}

impl From<&Shown> for JobDetail {
    fn from(shown: &Shown) -> Self {
        let stored = &shown.stored;
        let job = &stored.job;
        let zone = zone(&job.schedule.zone);
        let (agent, memory, context) = work(job);
        let diagnostics = shown.diagnostics.iter();
        Self {
            summary: Summary::of(stored, &shown.standing, &shown.incidents),
            agent,
            memory,
            context,
            prompt: job.prompt.clone(),
            policies: Policies::from(&job.policies),
            source: stored.source.to_stored(),
            revision: stored.revision,
            incarnation: stored.incarnation,
            first_seen_at: At(stored.first_seen_at),
            removed_at: stored.removed_at.map(At),
            started_runs: stored.state.started_runs,
            failure_streak: stored.state.failure_streak,
            times: shown
                .times
                .iter()
                .map(|start| Time::new(start, &zone))
                .collect(),
            runs: shown.runs.iter().map(Run::from).collect(),
            skipped: shown.skipped.iter().map(Stretch::from).collect(),
            diagnostics: diagnostics
                .map(|(run, row)| Diagnostic::of_run(*run, row))
                .collect(),
        }
    }
}

/// A chat that is quoted to a background job's agent.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
struct Context {
    chat: String,
    /// How many of its last texts, at most.
    last: u32,
}

impl From<&ChatContext> for Context {
    fn from(context: &ChatContext) -> Self {
        Self {
            chat: context.chat.to_string(),
            last: context.last,
        }
    }
}

fn work(job: &job::Job) -> (Option<String>, Option<bool>, Option<Context>) {
    match &job.mode {
        Mode::InChat { agent, .. } => (agent.as_ref().map(AgentName::to_string), None, None),
        Mode::Background {
            agent,
            memory,
            context,
            ..
        } => (
            Some(agent.to_string()),
            Some(*memory),
            context.as_ref().map(Context::from),
        ),
    }
}

/// A coming start.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
struct Time {
    /// When it starts, with the offset of the job's zone.
    #[schema(format = DateTime)]
    at: String,
    /// The slot's own instant, likewise.
    #[schema(format = DateTime)]
    nominal_at: String,
    slot: String,
    /// What a clock change does to it, or why it starts then.
    note: Option<String>,
}

impl Time {
    fn new(start: &Start, zone: &TimeZone) -> Self {
        Self {
            at: with_offset(start.at, zone),
            nominal_at: with_offset(start.nominal, zone),
            slot: start.slot.as_str().to_owned(),
            note: start.note.clone(),
        }
    }
}

/// When a person is told that a job fails.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
struct AlertRule {
    /// After so many failures in a row of one cause.
    after: u32,
    /// For so long after an alert a new incident of the same cause is silent.
    cooldown_ms: u64,
}

impl AlertRule {
    fn of(alert: Alert) -> Option<Self> {
        match alert {
            Alert::Never => None,
            Alert::Once { after, cooldown } => Some(Self {
                after,
                cooldown_ms: millis(cooldown),
            }),
        }
    }
}

/// A span as it is told, in milliseconds.
fn millis(span: SignedDuration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or_default()
}

/// The rules for what goes wrong. Spans are milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
struct Policies {
    catch_up: CatchUp,
    catch_up_window_ms: Option<u64>,
    catch_up_spread_ms: u64,
    overlap: Overlap,
    retry_attempts: u32,
    retry_backoff_ms: Vec<u64>,
    timeout_ms: u64,
    on_interrupt: OnInterrupt,
    max_runs: Option<u32>,
    on_unknown: OnUnknown,
    retry_after_effects: bool,
    pause_after_failures: Option<u32>,
    /// When a person is told that it fails; null for never.
    alert: Option<AlertRule>,
    #[schema(value_type = Option<String>)]
    alert_to: Option<ChatName>,
    late: Late,
    late_after_ms: u64,
}

impl From<&job::Policies> for Policies {
    fn from(policies: &job::Policies) -> Self {
        Self {
            catch_up: policies.catch_up,
            catch_up_window_ms: policies.catch_up_window.map(millis),
            catch_up_spread_ms: millis(policies.catch_up_spread),
            overlap: policies.overlap,
            retry_attempts: policies.retry.attempts,
            retry_backoff_ms: policies.retry.backoff.iter().copied().map(millis).collect(),
            timeout_ms: millis(policies.timeout),
            on_interrupt: policies.on_interrupt,
            max_runs: policies.max_runs,
            on_unknown: policies.on_unknown,
            retry_after_effects: policies.retry_after_effects,
            pause_after_failures: policies.pause_after_failures,
            alert: AlertRule::of(policies.alert),
            alert_to: policies.alert_to.clone(),
            late: policies.late,
            late_after_ms: millis(policies.late_after),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::State;

    #[test]
    fn the_schema_has_every_state_of_a_job() {
        let schema = <StateWord as utoipa::PartialSchema>::schema();
        let schema = serde_json::to_value(schema).unwrap();
        let at = Timestamp::UNIX_EPOCH;
        let states = [
            State::Ready,
            State::Running,
            State::Queued,
            State::RetryAt(at),
            State::Paused,
            State::Disabled,
            State::Finished,
            State::Removed,
        ];
        let words: Vec<_> = states.iter().map(State::word).collect();
        assert_eq!(schema["enum"], serde_json::json!(words));
    }
}
