//! Which definition planned which slots of a job, with which data of its zone.

use jiff::Timestamp;
use serde::Serialize;

use crate::{policy::JobState, schedule::zone::zone_fingerprint};

use super::{
    connection::Conn,
    failure::Fallible,
    rows::{Columns, micros, write_rows},
    statement::{Statement, over_rows, query},
};

const END: Statement = over_rows!(
    [job_id text, until_at bigint]
    "UPDATE plan_stretches SET until_at = x.until_at FROM",
    "WHERE plan_stretches.job_id = x.job_id AND plan_stretches.until_at IS NULL"
);

// A definition that another replaces at the same instant has planned nothing.
const BEGIN: Statement = over_rows!(
    [
        job_id text, incarnation bigint, after_at bigint, digest text, first_seen_at bigint,
        zone text, zone_data text, begun_at bigint,
    ]
    "\
INSERT INTO plan_stretches (job_id, incarnation, after_at, digest, first_seen_at, zone, zone_data, begun_at)
SELECT x.job_id, x.incarnation, x.after_at, x.digest, x.first_seen_at, x.zone, x.zone_data,
  x.begun_at
FROM",
    "\
WHERE true
ON CONFLICT (job_id, incarnation, after_at) DO UPDATE SET until_at = NULL, digest = excluded.digest,
  first_seen_at = excluded.first_seen_at, zone = excluded.zone, zone_data = excluded.zone_data,
  begun_at = excluded.begun_at"
);

const ZONES: Statement =
    Statement::common("SELECT DISTINCT zone, zone_data FROM plan_stretches WHERE until_at IS NULL");

const LEARN_ZONE: Statement = Statement::common(
    "\
UPDATE plan_stretches SET zone_data = $2 WHERE until_at IS NULL AND zone = $1 AND zone_data IS NULL",
);

const OF_ZONE: Statement = Statement::common(
    "\
SELECT s.job_id, s.incarnation, s.digest, s.first_seen_at, j.state
FROM plan_stretches AS s JOIN jobs AS j ON j.job_id = s.job_id AND j.incarnation = s.incarnation
WHERE s.until_at IS NULL AND s.zone = $1 AND s.zone_data = $2 AND j.removed_at IS NULL",
);

/// Where the stretch in force ends.
#[derive(Debug, Serialize)]
pub(super) struct StretchEnd {
    pub(super) job_id: String,
    pub(super) until_at: i64,
}

/// A stretch that begins.
#[derive(Debug, Serialize)]
pub(super) struct NewStretch {
    pub(super) job_id: String,
    pub(super) incarnation: i64,
    pub(super) after_at: i64,
    pub(super) digest: String,
    pub(super) first_seen_at: i64,
    pub(super) zone: String,
    pub(super) zone_data: Option<String>,
    pub(super) begun_at: i64,
}

pub(super) async fn write(
    conn: &mut Conn,
    ends: &[StretchEnd],
    begins: &[NewStretch],
) -> Fallible<()> {
    write_rows(conn, END, ends).await?;
    write_rows(conn, BEGIN, begins).await
}

/// Begins a stretch anew for every job whose zone has other clock changes than when it began: what
/// was planned before, today's data cannot tell.
pub(super) async fn follow_zone_data(conn: &mut Conn, now: Timestamp) -> Fallible<()> {
    for row in query(ZONES).fetch_all(&mut *conn).await? {
        let zone: String = row.try_get("zone")?;
        let known: Option<String> = row.try_get("zone_data")?;
        let today = zone_fingerprint(&zone).ok();
        match known {
            None => {
                let learn = query(LEARN_ZONE).bind(&zone).bind(today);
                learn.execute(&mut *conn).await?;
            }
            Some(known) if today.as_ref() != Some(&known) => {
                begin_anew(conn, &zone, &known, today, now).await?;
            }
            Some(_) => {}
        }
    }
    Ok(())
}

async fn begin_anew(
    conn: &mut Conn,
    zone: &str,
    known: &str,
    today: Option<String>,
    now: Timestamp,
) -> Fallible<()> {
    let rows = query(OF_ZONE).bind(zone).bind(known);
    let rows = rows.fetch_all(&mut *conn).await?;
    let (mut ends, mut begins) = (Vec::new(), Vec::new());
    for row in &rows {
        let row = Columns::of(row, "jobs", "job_id");
        let state: JobState = row.json("state")?;
        let job_id: String = row.get("job_id")?;
        let cursor = micros(state.accounted_to());
        ends.push(StretchEnd {
            job_id: job_id.clone(),
            until_at: cursor,
        });
        begins.push(NewStretch {
            job_id,
            incarnation: row.get("incarnation")?,
            after_at: cursor,
            digest: row.get("digest")?,
            first_seen_at: row.get("first_seen_at")?,
            zone: zone.to_owned(),
            zone_data: today.clone(),
            begun_at: micros(now),
        });
    }
    write(conn, &ends, &begins).await
}
