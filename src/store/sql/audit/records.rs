//! The records of one incarnation in the order of their nominal instants, rows and ranges merged.

use std::collections::VecDeque;

use crate::{
    audit::Record,
    ids::JobId,
    store::sql::{
        connection::Conn,
        failure::Fallible,
        statement::{Statement, query},
    },
};

use super::{record_of_range, record_of_row};

/// How many rows are in memory at once.
const PAGE: i64 = 4096;

const ROWS: Statement = Statement::common(
    "\
SELECT occurrence_id, slot, nominal_at, state, reason, ended_at FROM occurrences
WHERE job_id = $1 AND incarnation = $2 AND kind = 'scheduled'
  AND nominal_at >= $3 AND (nominal_at > $3 OR occurrence_id > $4)
ORDER BY nominal_at, occurrence_id LIMIT $5",
);

const RANGES: Statement = Statement::common(
    "\
SELECT job_id, first_slot, first_nominal_at, last_slot, last_nominal_at, slots, reason
FROM occurrence_ranges
WHERE job_id = $1 AND incarnation = $2 AND first_nominal_at > $3
ORDER BY first_nominal_at LIMIT $4",
);

/// Reads them page by page.
pub(super) struct Records<'j> {
    job: &'j JobId,
    incarnation: i64,
    rows: VecDeque<(i64, Record)>,
    ranges: VecDeque<(i64, Record)>,
    after_row: Option<(i64, i64)>,
    after_range: Option<i64>,
}

impl<'j> Records<'j> {
    pub(super) fn of(job: &'j JobId, incarnation: i64) -> Self {
        Self {
            job,
            incarnation,
            rows: VecDeque::new(),
            ranges: VecDeque::new(),
            after_row: Some((i64::MIN, i64::MIN)),
            after_range: Some(i64::MIN),
        }
    }

    /// The next record; `None` after the last.
    pub(super) async fn next(&mut self, conn: &mut Conn) -> Fallible<Option<Record>> {
        if self.rows.is_empty() {
            self.read_rows(conn).await?;
        }
        if self.ranges.is_empty() {
            self.read_ranges(conn).await?;
        }
        let next = match (self.rows.front(), self.ranges.front()) {
            (Some((row, _)), Some((range, _))) if range < row => self.ranges.pop_front(),
            (Some(_), _) => self.rows.pop_front(),
            (None, _) => self.ranges.pop_front(),
        };
        Ok(next.map(|(_, record)| record))
    }

    async fn read_rows(&mut self, conn: &mut Conn) -> Fallible<()> {
        let Some((nominal, id)) = self.after_row.take() else {
            return Ok(());
        };
        let page = query(ROWS)
            .bind(self.job.as_str())
            .bind(self.incarnation)
            .bind(nominal)
            .bind(id)
            .bind(PAGE)
            .fetch_all(conn)
            .await?;
        for row in &page {
            let nominal = row.try_get("nominal_at")?;
            self.after_row = Some((nominal, row.try_get("occurrence_id")?));
            self.rows.push_back((nominal, record_of_row(row)?));
        }
        Ok(())
    }

    async fn read_ranges(&mut self, conn: &mut Conn) -> Fallible<()> {
        let Some(first) = self.after_range.take() else {
            return Ok(());
        };
        let page = query(RANGES)
            .bind(self.job.as_str())
            .bind(self.incarnation)
            .bind(first)
            .bind(PAGE)
            .fetch_all(conn)
            .await?;
        for row in &page {
            let first = row.try_get("first_nominal_at")?;
            self.after_range = Some(first);
            self.ranges.push_back((first, record_of_range(row)?));
        }
        Ok(())
    }
}
