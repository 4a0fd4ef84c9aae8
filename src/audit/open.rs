//! What has not ended: rows against what the policy remembers of the job.

use std::collections::BTreeSet;

use crate::{ids::JobId, occurrence::OccurrenceRef, policy::JobState};

use super::{Finding, FindingKind};

/// A row of the ledger that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRow {
    /// Its number.
    pub occurrence_id: i64,
    /// What it is.
    pub occurrence: OccurrenceRef,
    /// `waiting` or `active`.
    pub state: String,
}

/// Rows that nobody will end, and what the policy remembers and no row stands for. `state` is that
/// of the present incarnation, and `None` for an earlier one or a removed job, of which everything
/// has ended.
pub fn unended(job: &JobId, state: Option<&JobState>, rows: &[OpenRow]) -> Vec<Finding> {
    let active = state.into_iter().flat_map(|state| &state.active);
    let mut active: BTreeSet<OccurrenceRef> = active.map(|run| run.occurrence.clone()).collect();
    let waiting = state.into_iter().flat_map(|state| &state.waiting);
    let mut waiting: BTreeSet<OccurrenceRef> = waiting
        .map(|slot| OccurrenceRef::Scheduled(slot.slot.clone()))
        .collect();
    let mut findings = Vec::new();
    for row in rows {
        let known = match row.state.as_str() {
            "active" => active.remove(&row.occurrence),
            "waiting" => waiting.remove(&row.occurrence),
            _ => false,
        };
        if !known {
            findings.push(format!(
                "occurrence {} of {} is {}, and the job knows nothing of it: it will never end",
                row.occurrence_id,
                words(&row.occurrence),
                row.state
            ));
        }
    }
    for (occurrence, state) in active
        .iter()
        .map(|occurrence| (occurrence, "active"))
        .chain(waiting.iter().map(|occurrence| (occurrence, "waiting")))
    {
        findings.push(format!(
            "the job holds {} for {state}, and no row says so",
            words(occurrence)
        ));
    }
    let finding = |what| Finding {
        job: Some(job.clone()),
        kind: FindingKind::Unended,
        what,
    };
    findings.into_iter().map(finding).collect()
}

fn words(occurrence: &OccurrenceRef) -> String {
    match occurrence {
        OccurrenceRef::Scheduled(slot) => format!("slot {slot}"),
        OccurrenceRef::Manual(request) => format!("request {}", request.0),
        OccurrenceRef::Backfill(request, slot) => {
            format!("slot {slot} of backfill {}", request.0)
        }
    }
}
