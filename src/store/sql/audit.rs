//! The ledger held against the plan, in one snapshot of the database: jobs one after the other, and
//! their records a page at a time.

use jiff::Timestamp;

use crate::{
    audit::{
        AuditReport, Finding, FindingKind, LedgerAudit, OpenRow, Record, Stretch, ZoneData, unended,
    },
    ids::{JobId, RequestId},
    job::Job,
    occurrence::{OccurrenceRef, Slot},
    policy::JobState,
    schedule::zone::zone_fingerprint,
};

use super::{
    connection::{Conn, Pool, Row},
    failure::Fallible,
    rows::Columns,
    statement::{Statement, query, query_scalar},
};

mod contradictions;
mod records;

use records::Records;

const JOBS: Statement = Statement::common(
    "\
SELECT job_id, incarnation, state, removed_at FROM jobs
WHERE job_id > $1 AND ($2 IS NULL OR job_id = $2) ORDER BY job_id LIMIT 256",
);

const STRETCHES: Statement = Statement::common(
    "\
SELECT s.job_id, s.after_at, s.until_at, s.first_seen_at, s.zone, s.zone_data, d.definition
FROM plan_stretches AS s JOIN definitions AS d ON d.digest = s.digest
WHERE s.job_id = $1 AND s.incarnation = $2 ORDER BY s.after_at",
);

const INCARNATIONS: Statement = Statement::common(
    "\
SELECT incarnation FROM plan_stretches WHERE job_id = $1
UNION SELECT incarnation FROM occurrences WHERE job_id = $1 AND kind = 'scheduled'
UNION SELECT incarnation FROM occurrence_ranges WHERE job_id = $1 ORDER BY 1",
);

const OPEN: Statement = Statement::common(
    "\
SELECT occurrence_id, incarnation, kind, request_id, slot, state FROM occurrences
WHERE job_id = $1 AND ended_at IS NULL ORDER BY occurrence_id",
);

const PRUNED_BEFORE: Statement =
    Statement::common("SELECT value FROM facts WHERE name = 'pruned_before'");

/// Audits all jobs, or one.
pub(super) async fn audit(pool: &Pool, job: Option<&JobId>) -> Fallible<AuditReport> {
    // All of it is read as of one instant, whoever writes meanwhile.
    let mut snapshot = pool.snapshot().await?;
    let mark: Option<String> = query_scalar(PRUNED_BEFORE)
        .fetch_optional(&mut snapshot)
        .await?;
    let mark = mark.and_then(|mark| Timestamp::from_microsecond(mark.parse().ok()?).ok());
    let mut report = AuditReport::default();
    let mut last = String::new();
    loop {
        let query = query(JOBS).bind(&last).bind(job.map(JobId::as_str));
        let page = query.fetch_all(&mut snapshot).await?;
        for row in &page {
            let row = Columns::of(row, "jobs", "job_id");
            last = row.get("job_id")?;
            let audited = Audited {
                id: row.word("job_id", |id| JobId::new(id).ok())?,
                incarnation: row.get("incarnation")?,
                state: row.json("state")?,
                is_removed: row.get::<Option<i64>>("removed_at")?.is_some(),
            };
            report.add(audited.audit(&mut snapshot, mark).await?);
        }
        if page.is_empty() {
            break;
        }
    }
    let findings = contradictions::find(&mut snapshot, job, mark).await?;
    report.findings.extend(findings);
    snapshot.close().await?;
    Ok(report)
}

/// A job as it is now.
struct Audited {
    id: JobId,
    incarnation: i64,
    state: JobState,
    is_removed: bool,
}

impl Audited {
    async fn audit(&self, conn: &mut Conn, mark: Option<Timestamp>) -> Fallible<AuditReport> {
        let mut report = AuditReport {
            jobs: 1,
            ..AuditReport::default()
        };
        let query = query_scalar(INCARNATIONS).bind(self.id.as_str());
        let incarnations: Vec<i64> = query.fetch_all(&mut *conn).await?;
        for incarnation in incarnations {
            let stretches = self.stretches(conn, incarnation, &mut report).await?;
            let mut audit =
                LedgerAudit::new(&self.id, &stretches.planned, stretches.known_from, mark);
            let mut records = Records::of(&self.id, incarnation);
            while let Some(record) = records.next(conn).await? {
                audit.take(record);
            }
            report.add(audit.finish());
        }
        report.findings.extend(self.unended(conn).await?);
        Ok(report)
    }

    /// What the definitions of an incarnation planned.
    async fn stretches(
        &self,
        conn: &mut Conn,
        incarnation: i64,
        report: &mut AuditReport,
    ) -> Fallible<Stretches> {
        let rows = query(STRETCHES)
            .bind(self.id.as_str())
            .bind(incarnation)
            .fetch_all(&mut *conn)
            .await?;
        let mut planned = Vec::with_capacity(rows.len());
        // Nothing is known of an incarnation that ended before stretches were kept.
        let mut known_from = rows.is_empty().then_some(Timestamp::MAX);
        for (index, row) in rows.iter().enumerate() {
            let row = Columns::of(row, "plan_stretches", "job_id");
            let after = row.instant("after_at")?;
            let first_seen_at = row.instant("first_seen_at")?;
            if index == 0 && after > first_seen_at {
                known_from = Some(after);
            }
            let until = match row.instant_or_none("until_at")? {
                Some(until) => until,
                None if incarnation == self.incarnation => self.state.accounted_to(),
                None => after,
            };
            match stretch(&row, first_seen_at, (after, until)) {
                Ok(stretch) => planned.push(stretch?),
                Err(what) => report.findings.push(Finding {
                    job: Some(self.id.clone()),
                    kind: FindingKind::Wrong,
                    what,
                }),
            }
        }
        Ok(Stretches {
            planned,
            known_from,
        })
    }

    async fn unended(&self, conn: &mut Conn) -> Fallible<Vec<Finding>> {
        let query = query(OPEN).bind(self.id.as_str());
        let rows = query.fetch_all(&mut *conn).await?;
        let (mut present, mut earlier) = (Vec::new(), Vec::new());
        for row in &rows {
            let row = Columns::of(row, "occurrences", "occurrence_id");
            let is_present = row.get::<i64>("incarnation")? == self.incarnation;
            let rows = if is_present && !self.is_removed {
                &mut present
            } else {
                &mut earlier
            };
            rows.push(open_row(&row)?);
        }
        let state = (!self.is_removed).then_some(&self.state);
        let mut findings = unended(&self.id, state, &present);
        findings.extend(unended(&self.id, None, &earlier));
        Ok(findings)
    }
}

struct Stretches {
    planned: Vec<Stretch>,
    known_from: Option<Timestamp>,
}

/// A stretch, or why it can no longer be planned.
fn stretch(
    row: &Columns<'_>,
    first_seen_at: Timestamp,
    bounds: (Timestamp, Timestamp),
) -> Result<Fallible<Stretch>, String> {
    let read = || -> Fallible<(Job, String, Option<String>)> {
        Ok((
            row.json("definition")?,
            row.get("zone")?,
            row.get("zone_data")?,
        ))
    };
    let (job, zone, known) = match read() {
        Ok(read) => read,
        Err(failure) => return Ok(Err(failure)),
    };
    let today = zone_fingerprint(&zone).ok();
    let zone_data = if known.is_none() || known == today {
        ZoneData::Same
    } else {
        ZoneData::Other
    };
    let stretch = Stretch::new(&job.schedule, first_seen_at, bounds, zone_data);
    stretch
        .map(Ok)
        .map_err(|error| format!("its schedule can no longer be planned: {error}"))
}

fn open_row(row: &Columns<'_>) -> Fallible<OpenRow> {
    let kind: String = row.get("kind")?;
    let request = row.get::<Option<i64>>("request_id")?;
    let slot = row.get::<Option<String>>("slot")?.map(Slot::from_text);
    let occurrence = match (kind.as_str(), request, slot) {
        ("scheduled", _, Some(slot)) => OccurrenceRef::Scheduled(slot),
        ("manual", Some(request), _) => OccurrenceRef::Manual(RequestId(request)),
        ("backfill", Some(request), Some(slot)) => {
            OccurrenceRef::Backfill(RequestId(request), slot)
        }
        (..) => return Err(row.bad("kind", format_args!("`{kind}` without its slot or request"))),
    };
    Ok(OpenRow {
        occurrence_id: row.get("occurrence_id")?,
        occurrence,
        state: row.get("state")?,
    })
}

fn record_of_row(row: &Row) -> Fallible<Record> {
    let row = Columns::of(row, "occurrences", "occurrence_id");
    Ok(Record::Row {
        occurrence_id: row.get("occurrence_id")?,
        slot: Slot::from_text(row.get::<String>("slot")?),
        nominal: row.instant("nominal_at")?,
        state: row.get("state")?,
        reason: row.get("reason")?,
        has_ended: row.get::<Option<i64>>("ended_at")?.is_some(),
    })
}

fn record_of_range(row: &Row) -> Fallible<Record> {
    let row = Columns::of(row, "occurrence_ranges", "job_id");
    let slots: i64 = row.get("slots")?;
    Ok(Record::Range {
        first: Slot::from_text(row.get::<String>("first_slot")?),
        first_nominal: row.instant("first_nominal_at")?,
        last: Slot::from_text(row.get::<String>("last_slot")?),
        last_nominal: row.instant("last_nominal_at")?,
        slots: u64::try_from(slots).map_err(|_| row.bad("slots", slots))?,
        reason: row.get("reason")?,
    })
}
