//! Incidents: what outcomes report, what was decided about it, and the messages that came of it.

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    ids::{IncidentId, JobId, RunId, SessionKey},
    occurrence::Outcome,
    policy::{
        Effect,
        incident::{Incident, IncidentCause, Stage},
    },
    store::{
        Conflict, IncidentCommit, IncidentRow, IncidentSignal, JobCommit, NewMessage, Reported,
    },
};

use super::{
    connection::{Conn, Pool, Row},
    diagnostics::Notes,
    enqueue,
    entries::Book,
    failure::Fallible,
    ids::{Ids, Kind},
    rows::{At, Columns, limit, micros, rows_for, write_rows},
    statement::{Statement, over_numbers, over_rows, over_texts, query, query_scalar},
};

// What works is of interest only where something has failed before.
const REPORT: Statement = over_rows!(
    [
        job_id text, kind text, cause text, run_id bigint, lane text, error text, paused text,
        reported_at bigint,
    ]
    "\
INSERT INTO incident_signals (job_id, incarnation, kind, cause, run_id, lane, error, paused, reported_at)
SELECT j.job_id, j.incarnation, x.kind, x.cause, x.run_id, x.lane, x.error, x.paused, x.reported_at
FROM",
    "\
JOIN jobs AS j ON j.job_id = x.job_id
WHERE j.removed_at IS NULL AND (x.kind = 'failed'
  OR EXISTS (SELECT 1 FROM incidents AS i WHERE i.job_id = j.job_id AND i.over_at IS NULL)
  OR EXISTS (SELECT 1 FROM incident_signals AS s WHERE s.job_id = j.job_id))
ORDER BY x.place"
);

// Most of the time nothing fails, and then what works is not looked up job by job.
const ANY: Statement = Statement::common(
    "\
SELECT EXISTS (SELECT 1 FROM incidents WHERE over_at IS NULL)
  OR EXISTS (SELECT 1 FROM incident_signals)",
);

const REPORTED: Statement = Statement::common(
    "\
SELECT signal_id, job_id, incarnation, kind, cause, run_id, lane, error, paused, reported_at
FROM incident_signals ORDER BY signal_id LIMIT $1",
);

macro_rules! incidents {
    ($tail:literal) => {
        concat!(
            "SELECT i.incident_id, i.job_id, i.incarnation, i.cause, i.since, i.failures, i.stage, \
             i.alerted_at, i.told, i.producer, i.error, i.over_at ",
            $tail
        )
    };
}

// The open ones, and of each job and cause the one that was alerted about last.
const OF_JOBS: Statement = Statement::of(
    incidents!(
        "FROM json_each($1) AS x JOIN incidents AS i ON i.job_id = x.value \
     WHERE i.over_at IS NULL OR (i.alerted_at IS NOT NULL AND i.alerted_at = ( \
       SELECT max(k.alerted_at) FROM incidents AS k WHERE k.job_id = i.job_id \
         AND k.incarnation = i.incarnation AND k.cause = i.cause AND k.alerted_at IS NOT NULL)) \
     ORDER BY i.incident_id"
    ),
    incidents!(
        "FROM json_array_elements_text($1::json) AS x (value) JOIN incidents AS i ON i.job_id = x.value \
     WHERE i.over_at IS NULL OR (i.alerted_at IS NOT NULL AND i.alerted_at = ( \
       SELECT max(k.alerted_at) FROM incidents AS k WHERE k.job_id = i.job_id \
         AND k.incarnation = i.incarnation AND k.cause = i.cause AND k.alerted_at IS NOT NULL)) \
     ORDER BY i.incident_id"
    ),
);
const OPEN: Statement = Statement::common(incidents!(
    "FROM incidents AS i WHERE i.over_at IS NULL ORDER BY i.incident_id"
));

const STILL_THERE: Statement = over_numbers!(
    "SELECT s.signal_id FROM",
    "JOIN incident_signals AS s ON s.signal_id = x.id"
);

const FORGET_SIGNALS: Statement = over_numbers!(
    "DELETE FROM incident_signals WHERE signal_id IN (SELECT x.id FROM",
    ")"
);

const UPSERT: Statement = over_rows!(
    [
        incident_id bigint, job_id text, incarnation bigint, cause text, since bigint,
        failures bigint, stage text, alerted_at bigint, told text, producer text, error text,
        over_at bigint,
    ]
    "\
INSERT INTO incidents (incident_id, job_id, incarnation, cause, since, failures, stage, alerted_at, told,
  producer, error, over_at)
SELECT x.incident_id, x.job_id, x.incarnation, x.cause, x.since, x.failures, x.stage,
  x.alerted_at, x.told, x.producer, x.error, x.over_at
FROM",
    "\
WHERE true
ON CONFLICT (incident_id) DO UPDATE SET failures = excluded.failures, stage = excluded.stage,
  alerted_at = excluded.alerted_at, told = excluded.told, error = excluded.error,
  over_at = excluded.over_at"
);

// Of one that was over before anything would have been said there is nothing to remember.
const FORGET_WATCHED: Statement = over_numbers!(
    "\
DELETE FROM incidents WHERE stage = 'watched' AND over_at IS NOT NULL
  AND incident_id IN (SELECT x.id FROM",
    ")"
);

// Alerts of which a part was shown, may have been, or is being sent.
const MAY_BE_SHOWN: Statement = over_texts!(
    "SELECT o.producer FROM",
    "\
JOIN outbox AS o ON o.producer = x.id AND o.origin IN ('failure_alert', 'recovery')
JOIN outbox_parts AS p ON p.message_id = o.message_id
WHERE o.origin = 'failure_alert' AND p.state IN ('sending', 'confirmed', 'unknown')"
);

// What an incident that is over would still say, if nothing of its alert may have been shown.
const WITHDRAW: Statement = over_texts!(
    "\
UPDATE outbox_parts SET state = 'cancelled', reason = 'incident-over', settled_at = $2
WHERE state = 'pending' AND message_id IN (
  SELECT o.message_id FROM",
    "\
JOIN outbox AS o ON o.producer = x.id AND o.origin IN ('failure_alert', 'recovery')
  WHERE EXISTS (SELECT 1 FROM incidents AS i WHERE i.producer = x.id AND i.over_at IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM outbox AS a JOIN outbox_parts AS q ON q.message_id = a.message_id
      WHERE a.producer = x.id AND a.origin IN ('failure_alert', 'recovery')
        AND a.origin = 'failure_alert' AND q.state IN ('sending', 'confirmed', 'unknown')))"
);

const END_OF_JOBS: Statement = over_texts!(
    "\
UPDATE incidents SET over_at = $2
WHERE over_at IS NULL AND job_id IN (SELECT x.id FROM",
    ")"
);

#[derive(Debug, Serialize)]
struct SignalRow {
    job_id: String,
    kind: &'static str,
    cause: Option<&'static str>,
    run_id: Option<i64>,
    lane: Option<String>,
    error: Option<String>,
    paused: Option<String>,
    reported_at: i64,
}

/// What one transaction reports.
#[derive(Debug, Default)]
pub(super) struct Signals {
    rows: Vec<SignalRow>,
}

impl Signals {
    /// What a decision about the end of an attempt reports.
    pub(super) fn of_commit(&mut self, item: &JobCommit, now: Timestamp) {
        let Some(end) = &item.attempt_end else {
            return;
        };
        for effect in &item.effects {
            let Effect::End { outcome, .. } = effect else {
                continue;
            };
            let (kind, cause) = match outcome {
                Outcome::Done | Outcome::Silent => ("works", None),
                Outcome::Failed(reason) => match IncidentCause::of(*reason) {
                    Some(cause) => ("failed", Some(cause.as_str())),
                    None => continue,
                },
                Outcome::Cancelled | Outcome::Skipped(_) => continue,
            };
            self.rows.push(SignalRow {
                job_id: item.job_id.as_str().to_owned(),
                kind,
                cause,
                run_id: Some(end.run_id.0),
                lane: None,
                error: end.error.clone(),
                paused: item.paused_by_policy.clone(),
                reported_at: micros(now),
            });
        }
    }

    /// A result could not be delivered.
    pub(super) fn undelivered(
        &mut self,
        job_id: String,
        run_id: Option<i64>,
        lane: String,
        error: String,
        now: Timestamp,
    ) {
        self.rows.push(SignalRow {
            job_id,
            kind: "failed",
            cause: Some(IncidentCause::Delivery.as_str()),
            run_id,
            lane: Some(lane),
            error: Some(error),
            paused: None,
            reported_at: micros(now),
        });
    }

    /// A result was shown to its end.
    pub(super) fn delivered(&mut self, job_id: String, run_id: Option<i64>, now: Timestamp) {
        self.rows.push(SignalRow {
            job_id,
            kind: "delivered",
            cause: None,
            run_id,
            lane: None,
            error: None,
            paused: None,
            reported_at: micros(now),
        });
    }

    pub(super) async fn write(self, conn: &mut Conn) -> Fallible<()> {
        let has_failed = self.rows.iter().any(|row| row.kind == "failed");
        if self.rows.is_empty() || !(has_failed || query_scalar(ANY).fetch_one(&mut *conn).await?) {
            return Ok(());
        }
        write_rows(conn, REPORT, &self.rows).await
    }
}

/// Signals that nobody has decided on, oldest first.
pub(super) async fn reported(pool: &Pool, most: usize) -> Fallible<Vec<IncidentSignal>> {
    let rows = query(REPORTED).bind(limit(most)).fetch_all(pool).await?;
    rows.iter().map(signal).collect()
}

fn signal(row: &Row) -> Fallible<IncidentSignal> {
    let row = Columns::of(row, "incident_signals", "signal_id");
    let kind: String = row.get("kind")?;
    let what = match kind.as_str() {
        "failed" => Reported::Failed {
            cause: row.word("cause", IncidentCause::from_stored)?,
            lane: row
                .get::<Option<String>>("lane")?
                .map(SessionKey::from_stored),
            error: row.get("error")?,
            paused: row.get("paused")?,
        },
        "works" => Reported::Works,
        "delivered" => Reported::Delivered,
        _ => return Err(row.bad("kind", kind)),
    };
    Ok(IncidentSignal {
        signal_id: IncidentId(row.get("signal_id")?),
        job_id: row.word("job_id", |id| JobId::new(id).ok())?,
        incarnation: row.get("incarnation")?,
        what,
        run_id: row.get::<Option<i64>>("run_id")?.map(RunId),
        reported_at: row.instant("reported_at")?,
    })
}

/// The open incidents of these jobs, and the newest of each cause that was alerted about.
pub(super) async fn of_jobs(pool: &Pool, jobs: &[JobId]) -> Fallible<Vec<IncidentRow>> {
    let query = query(OF_JOBS).bind(serde_json::to_string(jobs)?);
    query.fetch_all(pool).await?.iter().map(incident).collect()
}

/// All open incidents.
pub(super) async fn open(pool: &Pool) -> Fallible<Vec<IncidentRow>> {
    let rows = query(OPEN).fetch_all(pool).await?;
    rows.iter().map(incident).collect()
}

fn incident(row: &Row) -> Fallible<IncidentRow> {
    let row = Columns::of(row, "incidents", "incident_id");
    Ok(IncidentRow {
        incident_id: IncidentId(row.get("incident_id")?),
        job_id: row.word("job_id", |id| JobId::new(id).ok())?,
        incarnation: row.get("incarnation")?,
        cause: row.word("cause", IncidentCause::from_stored)?,
        incident: Incident {
            since: row.instant("since")?,
            failures: row.count("failures")?,
            stage: row.word("stage", Stage::from_stored)?,
        },
        alerted_at: row.instant_or_none("alerted_at")?,
        told: row.json_or_none("told")?,
        producer: row.get("producer")?,
        error: row.get("error")?,
        over_at: row.instant_or_none("over_at")?,
    })
}

#[derive(Debug, Serialize)]
struct StoredIncident {
    incident_id: i64,
    job_id: String,
    incarnation: i64,
    cause: &'static str,
    since: i64,
    failures: u32,
    stage: &'static str,
    alerted_at: Option<i64>,
    told: Option<String>,
    producer: String,
    error: Option<String>,
    over_at: Option<i64>,
}

impl StoredIncident {
    fn of(row: IncidentRow) -> Fallible<Self> {
        Ok(Self {
            incident_id: row.incident_id.0,
            job_id: row.job_id.as_str().to_owned(),
            incarnation: row.incarnation,
            cause: row.cause.as_str(),
            since: micros(row.incident.since),
            failures: row.incident.failures,
            stage: row.incident.stage.as_str(),
            alerted_at: row.alerted_at.map(micros),
            told: row.told.as_ref().map(serde_json::to_string).transpose()?,
            producer: row.producer,
            error: row.error,
            over_at: row.over_at.map(micros),
        })
    }
}

/// Writes what was decided about signals, unless any of them was decided on already.
pub(super) async fn commit(
    conn: &mut Conn,
    item: IncidentCommit,
    now: Timestamp,
) -> Fallible<Result<(), Conflict>> {
    if rows_for(conn, STILL_THERE, &item.signals).await?.len() != item.signals.len() {
        return Ok(Err(Conflict::Missing));
    }
    write_rows(conn, FORGET_SIGNALS, &item.signals).await?;
    let rows = item.incidents.into_iter().map(StoredIncident::of);
    let rows = rows.collect::<Fallible<Vec<_>>>()?;
    write_rows(conn, UPSERT, &rows).await?;
    let over = rows.iter().filter(|row| row.over_at.is_some());
    let ids: Vec<i64> = over.clone().map(|row| row.incident_id).collect();
    let producers: Vec<&str> = over.map(|row| row.producer.as_str()).collect();
    withdraw(conn, &producers, now).await?;
    write_rows(conn, FORGET_WATCHED, &ids).await?;
    let mut messages = item.alerts;
    messages.extend(after_their_alerts(conn, item.recoveries).await?);
    let (count, parts) = enqueue::counts(messages.iter());
    let mut ids = Ids::take(conn, &[(Kind::Message, count), (Kind::Part, parts)]).await?;
    let mut notes = Notes::default();
    for diagnostic in item.diagnostics {
        notes.add(diagnostic, now);
    }
    let messages = messages.into_iter().map(|item| At { item, now }).collect();
    let mut book = Book::default();
    enqueue::enqueue(conn, messages, &mut ids, &mut book, &mut notes).await?;
    notes.write(conn).await?;
    Ok(Ok(()))
}

/// The recoveries whose alerts were shown, or may have been.
async fn after_their_alerts(
    conn: &mut Conn,
    recoveries: Vec<NewMessage>,
) -> Fallible<Vec<NewMessage>> {
    let producers: Vec<&str> = recoveries
        .iter()
        .map(|message| message.producer.as_str())
        .collect();
    let mut shown = Vec::new();
    for row in rows_for(conn, MAY_BE_SHOWN, &producers).await? {
        shown.push(row.try_get::<String>("producer")?);
    }
    let was_shown = |message: &NewMessage| shown.contains(&message.producer);
    Ok(recoveries.into_iter().filter(was_shown).collect())
}

/// Cancels what incidents that are over would still say, where nothing of their alerts may have
/// been shown.
pub(super) async fn withdraw(conn: &mut Conn, producers: &[&str], now: Timestamp) -> Fallible<()> {
    if producers.is_empty() {
        return Ok(());
    }
    let query = query(WITHDRAW)
        .bind(serde_json::to_string(producers)?)
        .bind(micros(now));
    query.execute(&mut *conn).await?;
    Ok(())
}

/// Ends the incidents of removed jobs.
pub(super) async fn end_of_jobs(conn: &mut Conn, jobs: &[String], now: Timestamp) -> Fallible<()> {
    if jobs.is_empty() {
        return Ok(());
    }
    let query = query(END_OF_JOBS)
        .bind(serde_json::to_string(jobs)?)
        .bind(micros(now));
    query.execute(&mut *conn).await?;
    Ok(())
}
