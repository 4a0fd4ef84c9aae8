//! From what was reported of jobs to what a person is told: the policy is asked about each signal
//! in turn, and its answers become messages of the outbox.
//!
//! Everything is derived from the signals, so a worker that dies before this is committed is
//! replaced by one that comes to the same incidents, messages and keys.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    directory::Chat,
    ids::{ChatName, IncidentId, JobId, SessionKey},
    message::{Destination, Origin, Payload, alert_place},
    policy::incident::{Follow, IncidentCause, Say, Signal, Stage, follow},
    store::{
        Diagnostic, IncidentCommit, IncidentRow, IncidentSignal, Level, NewMessage, PostedBy,
        Reported, StoredJob,
    },
    transcript::TriggerSource,
};

use super::{Author, Channels, compose};

mod words;

/// What an alert is made of besides the signals.
pub struct Alerts<'a> {
    /// What the store is; part of every key.
    pub store_id: &'a str,
    /// The chats as they are now.
    pub chats: &'a BTreeMap<ChatName, Chat>,
    /// The channels, for their limits.
    pub channels: &'a Channels,
    /// The jobs that the signals are about.
    pub jobs: &'a [StoredJob],
}

/// What was decided about signals.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decided {
    /// What is to be committed.
    pub commit: IncidentCommit,
    /// Jobs that fail, and of which nobody could be told.
    pub untold: Vec<JobId>,
}

/// A failure, as far as an alert tells of it.
#[derive(Debug, Clone, Copy)]
struct Failure<'s> {
    cause: IncidentCause,
    /// The lane of a delivery that failed.
    lane: Option<&'s SessionKey>,
    error: Option<&'s str>,
    paused: Option<&'s str>,
}

impl Alerts<'_> {
    /// What follows from signals, in their order; `known` are the open incidents of their jobs, and
    /// the newest of each cause that was alerted about.
    pub fn decide(&self, signals: &[IncidentSignal], known: Vec<IncidentRow>) -> Decided {
        let mut draft = Draft {
            alerts: self,
            rows: known
                .into_iter()
                .map(|row| (row.incident_id, row))
                .collect(),
            changed: BTreeSet::new(),
            decided: Decided::default(),
        };
        for signal in signals {
            draft.decided.commit.signals.push(signal.signal_id);
            let is_current = |job: &&StoredJob| {
                job.removed_at.is_none() && job.incarnation == signal.incarnation
            };
            if let Some(stored) = self.job(&signal.job_id).filter(is_current) {
                draft.take(stored, signal);
            }
        }
        draft.finish()
    }

    fn job(&self, id: &JobId) -> Option<&StoredJob> {
        self.jobs.iter().find(|stored| stored.job.id == *id)
    }

    fn message(
        &self,
        stored: &StoredJob,
        producer: String,
        origin: Origin,
        chat: &Chat,
        text: String,
    ) -> Option<NewMessage> {
        let job = &stored.job;
        let author = Author {
            producer,
            origin,
            agent: chat.agent.clone(),
            trigger_source: Some(TriggerSource::Cron),
            posted_by: Some(PostedBy {
                job_id: job.id.clone(),
                name: job.display_name().to_owned(),
                zone: job.schedule.zone.clone(),
            }),
            run: None,
            turn_id: None,
            on_unknown: job.policies.on_unknown,
            late: None,
        };
        let to = Destination::Chat(chat.into());
        compose(author, 0, to, Payload::Text(text), self.channels)
    }
}

/// Incidents on their way.
struct Draft<'a> {
    alerts: &'a Alerts<'a>,
    rows: BTreeMap<IncidentId, IncidentRow>,
    changed: BTreeSet<IncidentId>,
    decided: Decided,
}

impl Draft<'_> {
    fn take(&mut self, stored: &StoredJob, signal: &IncidentSignal) {
        match &signal.what {
            Reported::Failed {
                cause,
                lane,
                error,
                paused,
            } => {
                let failure = Failure {
                    cause: *cause,
                    lane: lane.as_ref(),
                    error: error.as_deref(),
                    paused: paused.as_deref(),
                };
                self.fails(stored, signal, failure);
            }
            Reported::Works => {
                let of_runs = |cause| matches!(cause, IncidentCause::Runs(_));
                self.works(stored, signal, of_runs);
            }
            Reported::Delivered => {
                self.works(stored, signal, |cause| cause == IncidentCause::Delivery);
            }
        }
    }

    fn fails(&mut self, stored: &StoredJob, signal: &IncidentSignal, failure: Failure<'_>) {
        let follow = self.follow(stored, signal, failure.cause, Signal::Fails);
        let open = self.open(signal, failure.cause);
        if let Some(incident) = follow.incident {
            let id = open.unwrap_or(signal.signal_id);
            let row = self.rows.entry(id).or_insert_with(|| IncidentRow {
                incident_id: id,
                job_id: signal.job_id.clone(),
                incarnation: signal.incarnation,
                cause: failure.cause,
                incident,
                alerted_at: None,
                told: None,
                producer: format!("{}:incident:{id}", self.alerts.store_id),
                error: None,
                over_at: None,
            });
            row.incident = incident;
            row.error = failure.error.map(words::short);
            let row = row.clone();
            self.changed.insert(id);
            if follow.say == Say::Alert {
                self.alert(stored, signal, failure, row);
                return;
            }
        } else if let Some(id) = open {
            self.close(id, signal);
        }
        if let Some(reason) = failure.paused {
            self.tell_pause(stored, signal, reason);
        }
    }

    /// Tells a person, or at least the run, that nobody could be told.
    fn alert(
        &mut self,
        stored: &StoredJob,
        signal: &IncidentSignal,
        failure: Failure<'_>,
        mut row: IncidentRow,
    ) {
        row.alerted_at = Some(signal.reported_at);
        let chat = alert_place(&stored.job, self.alerts.chats, failure.lane);
        let text = words::alert(stored, &row, failure, signal.reported_at);
        let producer = row.producer.clone();
        self.say(stored, signal, producer, chat, text);
        row.told = chat.cloned();
        self.rows.insert(row.incident_id, row);
    }

    fn tell_pause(&mut self, stored: &StoredJob, signal: &IncidentSignal, reason: &str) {
        let chat = alert_place(&stored.job, self.alerts.chats, None);
        let producer = format!("{}:pause:{}", self.alerts.store_id, signal.signal_id);
        let text = words::paused(&stored.job, reason);
        self.say(stored, signal, producer, chat, text);
    }

    fn say(
        &mut self,
        stored: &StoredJob,
        signal: &IncidentSignal,
        producer: String,
        chat: Option<&Chat>,
        text: String,
    ) {
        let (level, code, message) = match chat {
            Some(chat) => (
                Level::Info,
                "alerted",
                format!("chat {} is told of it", chat.name),
            ),
            None => (
                Level::Warn,
                "nobody-told",
                String::from("nobody is told of it: no chat is left to tell; `alert_to` names one"),
            ),
        };
        self.decided
            .commit
            .diagnostics
            .extend(signal.run_id.map(|run| Diagnostic {
                run_id: Some(run),
                turn_id: None,
                part_id: None,
                level,
                code,
                message,
            }));
        let Some(chat) = chat else {
            self.decided.untold.push(stored.job.id.clone());
            return;
        };
        let message = self
            .alerts
            .message(stored, producer, Origin::FailureAlert, chat, text);
        self.decided.commit.alerts.extend(message);
    }

    fn works(
        &mut self,
        stored: &StoredJob,
        signal: &IncidentSignal,
        is_over: impl Fn(IncidentCause) -> bool,
    ) {
        let open: Vec<IncidentRow> = self
            .rows
            .values()
            .filter(|row| is_of(row, signal) && row.over_at.is_none() && is_over(row.cause))
            .cloned()
            .collect();
        for row in open {
            let follow = self.follow(stored, signal, row.cause, Signal::Works);
            self.close(row.incident_id, signal);
            let (Say::Recovery, Some(chat)) = (follow.say, &row.told) else {
                continue;
            };
            let text = words::recovery(&stored.job, &row);
            let message =
                self.alerts
                    .message(stored, row.producer.clone(), Origin::Recovery, chat, text);
            self.decided.commit.recoveries.extend(message);
        }
    }

    fn close(&mut self, id: IncidentId, signal: &IncidentSignal) {
        if let Some(row) = self.rows.get_mut(&id) {
            row.over_at = Some(signal.reported_at);
            self.changed.insert(id);
        }
    }

    /// What the policy says of a signal.
    fn follow(
        &self,
        stored: &StoredJob,
        signal: &IncidentSignal,
        cause: IncidentCause,
        what: Signal,
    ) -> Follow {
        let of_cause = || {
            let rows = self.rows.values();
            rows.filter(|row| is_of(row, signal) && row.cause == cause)
        };
        let open = of_cause().find(|row| row.over_at.is_none());
        let last_alert_at = of_cause().filter_map(|row| row.alerted_at).max();
        follow(
            cause,
            open.map(|row| row.incident),
            last_alert_at,
            what,
            stored.job.policies.alert,
            signal.reported_at,
        )
    }

    fn open(&self, signal: &IncidentSignal, cause: IncidentCause) -> Option<IncidentId> {
        let is_it =
            |row: &&IncidentRow| is_of(row, signal) && row.cause == cause && row.over_at.is_none();
        self.rows.values().find(is_it).map(|row| row.incident_id)
    }

    fn finish(mut self) -> Decided {
        let rows = self.rows.into_values();
        let changed = rows.filter(|row| self.changed.contains(&row.incident_id));
        self.decided.commit.incidents = changed.collect();
        self.decided
    }
}

fn is_of(row: &IncidentRow, signal: &IncidentSignal) -> bool {
    row.job_id == signal.job_id && row.incarnation == signal.incarnation
}

/// What a person is told of an open incident, for lists.
pub fn standing(row: &IncidentRow) -> &'static str {
    match (row.incident.stage, &row.told) {
        (Stage::Watched, _) => "not told yet",
        (Stage::Silent, _) => "silent, told not long ago",
        (Stage::Alerted, Some(_)) => "told",
        (Stage::Alerted, None) => "nobody could be told",
    }
}
