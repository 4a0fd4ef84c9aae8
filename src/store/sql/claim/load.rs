//! What a batch of claims asks for, and what its holders are given.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    ids::{
        Epoch, IdempotencyKey, JobId, MessageId, OccurrenceId, PartId, RequestId, RunId,
        SessionKey, TurnId,
    },
    job::{Job, Late},
    message::{Origin, PartState},
    occurrence::{Cause, OccurrenceRef, Slot},
    policy::{
        Grant,
        outbox::{LateRule, PartView},
    },
    store::{
        Claimed, ClaimedPart, ClaimedRun, ClaimedTurn, Conflict, JobSource, LateNotice, PostedBy,
        StoredJob,
        sql::{
            connection::{Conn, Row},
            failure::Fallible,
            outbox::on_unknown,
            rows::{At, Columns, micros, rows_for},
            statement::{Statement, over_numbers},
            writer::ClaimItem,
        },
    },
    transcript::TriggerSource,
};

use super::Found;

/// Runs with everything that their attempts need.
pub(in crate::store::sql) const CLAIMED_RUNS: Statement = over_numbers!(
    "\
SELECT r.run_id, r.state, r.due_at, r.epoch, r.attempts, r.context, r.cause, r.lane, r.job_id,
  o.occurrence_id, o.incarnation, o.kind, o.request_id, o.slot, o.nominal_at, o.destination, d.definition,
  j.revision, j.version, j.source, j.state AS job_state, j.first_seen_at, j.wake_at
FROM",
    "\
JOIN runs AS r ON r.run_id = x.id
JOIN occurrences AS o ON o.occurrence_id = r.occurrence_id
JOIN definitions AS d ON d.digest = o.digest
LEFT JOIN jobs AS j ON j.job_id = o.job_id AND j.incarnation = o.incarnation AND j.digest = o.digest
  AND j.removed_at IS NULL"
);

const TURNS: Statement = over_numbers!(
    "\
SELECT t.turn_id, t.session_key, t.state, t.attempts, t.text, t.runner, e.trigger_source,
  CASE WHEN e.visibility = 'pending' THEN CAST(e.id AS BIGINT) END AS pending_entry,
  EXISTS (SELECT 1 FROM turns AS u WHERE u.session_key = t.session_key AND u.state = 'waiting'
    AND u.turn_id < t.turn_id) AS has_older,
  CASE WHEN t.runner IS NOT NULL THEN (SELECT min(w.worker_id) FROM workers AS w
    WHERE w.stopped_at IS NULL AND w.lease IS NOT NULL
      AND t.runner LIKE CAST(w.worker_id AS TEXT) || ':%') END AS runs_beside
FROM",
    "\
JOIN turns AS t ON t.turn_id = x.id
LEFT JOIN ctx_session_entries AS e ON e.id = t.entry_id"
);

/// Parts with everything that their senders need.
pub(in crate::store::sql) const CLAIMED_PARTS: Statement = over_numbers!(
    "\
SELECT p.part_id, p.message_id, p.session_key, p.part, p.idempotency_key, p.text, p.native, p.state,
  p.attempts, p.in_doubt, p.epoch, p.first_attempt_at, p.next_attempt_at, p.resolution,
  o.parts, o.destination, o.speaker, o.origin, o.run_id, o.job_id, o.job_name, o.zone, o.on_unknown,
  o.enqueued_at, o.late, o.late_from, o.late_label, p.retried_at, a.moved_to, a.stopped_at, a.why AS stopped_why,
  p.part_id = (SELECT q.part_id FROM outbox_parts AS q
    WHERE q.session_key = p.session_key AND q.state IN ('pending', 'sending') AND q.resolution IS NULL
    ORDER BY q.begun DESC, q.message_id, q.part LIMIT 1) AS is_head
FROM",
    "\
JOIN outbox_parts AS p ON p.part_id = x.id
JOIN outbox AS o ON o.message_id = p.message_id
LEFT JOIN addresses AS a ON a.session_key = p.session_key"
);

/// What is asked for, by id.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    runs: Found<RunCandidate>,
    turns: Found<TurnCandidate>,
    parts: Found<PartCandidate>,
}

#[derive(Debug)]
struct RunCandidate {
    run: ClaimedRun,
    is_queued: bool,
    due_at: i64,
}

#[derive(Debug)]
struct TurnCandidate {
    turn: ClaimedTurn,
    is_waiting: bool,
    has_older: bool,
    pending_entry: Option<i64>,
    /// The living worker beside which the program runs that waits for the turn.
    runs_beside: Option<i64>,
}

#[derive(Debug)]
struct PartCandidate {
    part: ClaimedPart,
    state: PartState,
    is_head: bool,
    is_in_flight: bool,
    has_evidence: bool,
    next_attempt_at: i64,
}

impl Candidates {
    pub(super) async fn load(conn: &mut Conn, items: &[At<ClaimItem>]) -> Fallible<Self> {
        let (mut runs, mut turns, mut parts) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for item in items {
            match item.item.1.grant {
                Grant::Run(id) => runs.insert(id.0),
                Grant::Turn(id) => turns.insert(id.0),
                Grant::Deliver(id) => parts.insert(id.0),
            };
        }
        let mut candidates = Self::default();
        for row in &rows_of(conn, CLAIMED_RUNS, runs).await? {
            let found = Columns::of(row, "runs", "run_id");
            let candidate = RunCandidate {
                run: claimed_run(row)?,
                is_queued: found.get::<String>("state")? == "queued",
                due_at: found.get("due_at")?,
            };
            candidates.runs.insert(candidate.run.run_id.0, candidate);
        }
        for row in &rows_of(conn, TURNS, turns).await? {
            let candidate = turn_candidate(row)?;
            candidates.turns.insert(candidate.turn.turn_id.0, candidate);
        }
        for row in &rows_of(conn, CLAIMED_PARTS, parts).await? {
            let candidate = part_candidate(row)?;
            candidates.parts.insert(candidate.part.part_id.0, candidate);
        }
        Ok(candidates)
    }

    /// What the item gets under this epoch, or why it does not.
    pub(super) fn grant(&mut self, item: &At<ClaimItem>, epoch: i64) -> Result<Claimed, Conflict> {
        let request = &item.item.1;
        let (now, lane, epoch) = (micros(item.now), &request.session_key, Epoch(epoch));
        match request.grant {
            Grant::Run(id) => {
                let found = self.runs.get(&id.0).filter(|found| found.run.lane == *lane);
                let found = found.ok_or(Conflict::Missing)?;
                if !found.is_queued || found.due_at > now {
                    return Err(Conflict::NotNext);
                }
                let mut run = found.run.clone();
                run.epoch = epoch;
                run.attempt += 1;
                Ok(Claimed::Run(Box::new(run)))
            }
            Grant::Turn(id) => {
                let found = self.turns.get(&id.0);
                let found = found.filter(|found| found.turn.session_key == *lane);
                let found = found.ok_or(Conflict::Missing)?;
                let worker = item.item.0.worker.0;
                let is_anothers = found.runs_beside.is_some_and(|beside| beside != worker);
                if !found.is_waiting || found.has_older || is_anothers {
                    return Err(Conflict::NotNext);
                }
                let mut turn = found.turn.clone();
                turn.epoch = epoch;
                turn.attempt += 1;
                Ok(Claimed::Turn(Box::new(turn)))
            }
            Grant::Deliver(id) => {
                let found = self.parts.get(&id.0);
                let found = found.filter(|found| found.part.session_key == *lane);
                let found = found.ok_or(Conflict::Missing)?;
                if found.state.is_settled() || found.has_evidence {
                    return Err(Conflict::PartSettled);
                }
                if !found.is_head || found.is_in_flight || found.next_attempt_at > now {
                    return Err(Conflict::NotNext);
                }
                let mut part = found.part.clone();
                let late = part
                    .late
                    .as_ref()
                    .and_then(|late| late.rule.decide(item.now));
                match late {
                    Some(Late::Withhold) => return Ok(Claimed::Withheld(Box::new(part))),
                    Some(Late::Label) => part.label(),
                    None => {}
                }
                part.epoch = epoch;
                part.view.attempts += 1;
                part.view.first_attempt_at = part.view.first_attempt_at.or(Some(item.now));
                Ok(Claimed::Part(Box::new(part)))
            }
        }
    }

    /// The user's row of a turn, if it is not part of history yet.
    pub(super) fn pending_entry(&self, turn_id: i64) -> Option<i64> {
        self.turns.get(&turn_id)?.pending_entry
    }
}

async fn rows_of(conn: &mut Conn, statement: Statement, ids: BTreeSet<i64>) -> Fallible<Vec<Row>> {
    let ids: Vec<i64> = ids.into_iter().collect();
    rows_for(conn, statement, &ids).await
}

/// A run as it is stored: the epoch and attempt are those of the last claim.
pub(in crate::store::sql) fn claimed_run(row: &Row) -> Fallible<ClaimedRun> {
    let row = Columns::of(row, "runs", "run_id");
    let job: Job = row.json("definition")?;
    Ok(ClaimedRun {
        stored_job: stored_job(&row, &job)?.map(Arc::new),
        run_id: RunId(row.get("run_id")?),
        epoch: Epoch(row.get("epoch")?),
        attempt: row.count("attempts")?,
        job,
        incarnation: row.get("incarnation")?,
        occurrence: occurrence_of(&row)?,
        occurrence_id: OccurrenceId(row.get("occurrence_id")?),
        nominal_at: row.instant("nominal_at")?,
        cause: row.word("cause", Cause::from_stored)?,
        lane: SessionKey::from_stored(row.get::<String>("lane")?),
        destination: row.json_or_none("destination")?,
        context: row.get("context")?,
    })
}

/// The run's job, where it has this definition still.
fn stored_job(row: &Columns<'_>, job: &Job) -> Fallible<Option<StoredJob>> {
    let Some(version) = row.get::<Option<i64>>("version")? else {
        return Ok(None);
    };
    Ok(Some(StoredJob {
        job: job.clone(),
        incarnation: row.get("incarnation")?,
        revision: row.get("revision")?,
        version,
        source: row.word("source", JobSource::from_stored)?,
        state: row.json("job_state")?,
        first_seen_at: row.instant("first_seen_at")?,
        wake_at: row.instant_or_none("wake_at")?,
        removed_at: None,
    }))
}

fn occurrence_of(row: &Columns<'_>) -> Fallible<OccurrenceRef> {
    let kind: String = row.get("kind")?;
    let request: Option<i64> = row.get("request_id")?;
    let slot: Option<String> = row.get("slot")?;
    let slot = slot.map(Slot::from_text);
    match (kind.as_str(), request.map(RequestId), slot) {
        ("scheduled", None, Some(slot)) => Ok(OccurrenceRef::Scheduled(slot)),
        ("manual", Some(request), None) => Ok(OccurrenceRef::Manual(request)),
        ("backfill", Some(request), Some(slot)) => Ok(OccurrenceRef::Backfill(request, slot)),
        (_, _, _) => Err(row.bad(
            "kind",
            format_args!("`{kind}`, which its other columns deny"),
        )),
    }
}

fn turn_candidate(row: &Row) -> Fallible<TurnCandidate> {
    let row = Columns::of(row, "turns", "turn_id");
    Ok(TurnCandidate {
        turn: ClaimedTurn {
            turn_id: TurnId(row.get("turn_id")?),
            epoch: Epoch(0),
            attempt: row.count("attempts")?,
            session_key: SessionKey::from_stored(row.get::<String>("session_key")?),
            text: row.get("text")?,
            trigger: row
                .word_or_none("trigger_source", TriggerSource::from_stored)?
                .unwrap_or(TriggerSource::User),
            runner: row.get("runner")?,
        },
        is_waiting: row.get::<String>("state")? == "waiting",
        has_older: row.get("has_older")?,
        pending_entry: row.get("pending_entry")?,
        runs_beside: row.get("runs_beside")?,
    })
}

fn part_candidate(row: &Row) -> Fallible<PartCandidate> {
    let found = Columns::of(row, "outbox_parts", "part_id");
    Ok(PartCandidate {
        part: claimed_part(row)?,
        state: found.word("state", PartState::from_stored)?,
        is_head: found.get::<Option<bool>>("is_head")?.unwrap_or(false),
        is_in_flight: found.get::<Option<i64>>("epoch")?.is_some(),
        has_evidence: found.get::<Option<String>>("resolution")?.is_some(),
        next_attempt_at: found.get("next_attempt_at")?,
    })
}

/// A part as it is stored: the epoch is that of the attempt under way, if one is.
pub(in crate::store::sql) fn claimed_part(row: &Row) -> Fallible<ClaimedPart> {
    let row = Columns::of(row, "outbox_parts", "part_id");
    let stopped = row.get::<Option<i64>>("stopped_at")?.is_some();
    let why: Option<String> = row.get("stopped_why")?;
    Ok(ClaimedPart {
        part_id: PartId(row.get("part_id")?),
        message_id: MessageId(row.get("message_id")?),
        epoch: Epoch(row.get::<Option<i64>>("epoch")?.unwrap_or(0)),
        session_key: SessionKey::from_stored(row.get::<String>("session_key")?),
        part: row.count("part")?,
        parts: row.count("parts")?,
        key: IdempotencyKey::from_stored(row.get::<String>("idempotency_key")?),
        text: row.get("text")?,
        native: row.json_or_none("native")?,
        destination: row.json("destination")?,
        moved_to: row.get("moved_to")?,
        stopped: stopped.then(|| why.unwrap_or_default()),
        speaker: row.get("speaker")?,
        posted_by: posted_by(&row)?,
        origin: row.word("origin", Origin::from_stored)?,
        run_id: row.get::<Option<i64>>("run_id")?.map(RunId),
        enqueued_at: row.instant("enqueued_at")?,
        late: late(&row)?,
        view: PartView {
            since: row
                .instant_or_none("retried_at")?
                .map_or_else(|| row.instant("enqueued_at"), Ok)?,
            first_attempt_at: row.instant_or_none("first_attempt_at")?,
            attempts: row.count("attempts")?,
            in_doubt: row.get("in_doubt")?,
            on_unknown: row.word("on_unknown", on_unknown)?,
        },
    })
}

/// What is to be decided when a message is first sent: of its first part, once.
fn late(row: &Columns<'_>) -> Fallible<Option<LateNotice>> {
    let late = row.word_or_none("late", Late::from_stored)?;
    let is_first = row.count("part")? == 1 && row.instant_or_none("first_attempt_at")?.is_none();
    let Some(late) = late.filter(|_| is_first) else {
        return Ok(None);
    };
    Ok(Some(LateNotice {
        rule: LateRule {
            from: row.instant("late_from")?,
            late,
        },
        label: row.get("late_label")?,
    }))
}

/// The job that posts a message.
pub(in crate::store::sql) fn posted_by(row: &Columns<'_>) -> Fallible<Option<PostedBy>> {
    let job_id = row.word_or_none("job_id", |id| JobId::new(id).ok())?;
    let Some(job_id) = job_id else {
        return Ok(None);
    };
    Ok(Some(PostedBy {
        job_id,
        name: row.get::<Option<String>>("job_name")?.unwrap_or_default(),
        zone: row.get::<Option<String>>("zone")?.unwrap_or_default(),
    }))
}
