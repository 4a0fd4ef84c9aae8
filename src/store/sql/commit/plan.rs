//! One decision, planned in memory against what was loaded: every change of it, or the conflict.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::{
    schedule::zone::zone_fingerprint,
    store::{
        AttemptEnd, Conflict, JobCommit, Target, Written,
        sql::{
            failure::Fallible,
            ids::Ids,
            rows::micros,
            stretches::{NewStretch, StretchEnd},
        },
    },
};

use super::{
    draft::Draft,
    load::{JobRow, Loaded},
    tables::{Change, DefinitionRow, JobChange},
};

/// What one item writes and says, or why it does not.
pub(super) type Planned = Result<(Change, Written), Conflict>;

/// Plans one item. `index` is its place in the batch.
pub(super) fn plan(
    loaded: &Loaded,
    index: usize,
    item: &JobCommit,
    now: Timestamp,
    ids: &mut Ids,
) -> Fallible<Planned> {
    let (change, job) = match target(loaded, item, now)? {
        Ok(found) => found,
        Err(conflict) => return Ok(Err(conflict)),
    };
    let mut draft = Draft {
        loaded,
        index,
        item,
        now: micros(now),
        job,
        ids,
        touched: HashMap::new(),
        change,
        written: Written::default(),
    };
    if let Some(end) = &item.attempt_end
        && let Err(conflict) = fence(loaded, end)
    {
        return Ok(Err(conflict));
    }
    for (effect, what) in item.effects.iter().enumerate() {
        if let Err(conflict) = draft.apply((index, effect), what)? {
            return Ok(Err(conflict));
        }
    }
    Ok(draft.finish())
}

/// The job's new row; the incarnation and digest that the effects belong to.
fn target(
    loaded: &Loaded,
    item: &JobCommit,
    now: Timestamp,
) -> Fallible<Result<(Change, JobRow), Conflict>> {
    let stored = loaded.job(item.job_id.as_str());
    let mut change = Change::default();
    let (present, after) = match &item.target {
        Target::Create {
            job,
            source,
            first_seen_at,
        } => {
            if stored.is_some_and(|row| row.removed_at.is_none()) {
                return Ok(Err(Conflict::StaleVersion));
            }
            let definition = DefinitionRow::of(job)?;
            let row = JobRow {
                incarnation: stored.map_or(1, |row| row.incarnation + 1),
                revision: 1,
                // Versions go on over incarnations, so that a decision about the old job is stale.
                version: stored.map_or(1, |row| row.version + 1),
                source: source.to_stored(),
                digest: definition.digest.clone(),
                first_seen_at: micros(*first_seen_at),
                wake_at: None,
                removed_at: None,
            };
            change.definitions.push(definition);
            (row.clone(), row)
        }
        Target::Keep { version }
        | Target::Redefine { version, .. }
        | Target::Remove { version } => {
            let Some(present) = stored else {
                return Ok(Err(Conflict::Missing));
            };
            if present.version != *version {
                return Ok(Err(Conflict::StaleVersion));
            }
            let mut after = present.clone();
            after.version += 1;
            (present.clone(), after)
        }
    };
    let mut after = after;
    match &item.target {
        Target::Create { .. } | Target::Keep { .. } => {}
        Target::Redefine { job, source, .. } => {
            let definition = DefinitionRow::of(job)?;
            after.digest.clone_from(&definition.digest);
            after.source = source.to_stored();
            after.revision += 1;
            change.definitions.push(definition);
        }
        Target::Remove { .. } => {
            after.removed_at = Some(micros(now));
            change.removed.push(item.job_id.as_str().to_owned());
        }
    }
    plan_stretch(&mut change, item, &after, now);
    match &item.target {
        Target::Keep { .. } => change.keep(item, &present, after.version)?,
        Target::Create { .. } | Target::Redefine { .. } | Target::Remove { .. } => {
            change.jobs.push(JobChange::new(item, after)?);
        }
    }
    Ok(Ok((change, present)))
}

/// Which definition plans the job's slots from now on.
fn plan_stretch(change: &mut Change, item: &JobCommit, after: &JobRow, now: Timestamp) {
    let job_id = item.job_id.as_str().to_owned();
    if let Some(until) = item.stretch.ends_at {
        change.stretch_ends.push(StretchEnd {
            job_id: job_id.clone(),
            until_at: micros(until),
        });
    }
    let Some(begins) = &item.stretch.begins else {
        return;
    };
    change.stretches.push(NewStretch {
        job_id,
        incarnation: after.incarnation,
        after_at: micros(begins.after),
        digest: after.digest.clone(),
        first_seen_at: after.first_seen_at,
        zone_data: zone_fingerprint(&begins.zone).ok(),
        zone: begins.zone.clone(),
        begun_at: micros(now),
    });
}

/// The attempt's lease must be held still.
fn fence(loaded: &Loaded, end: &AttemptEnd) -> Result<(), Conflict> {
    let run = loaded.run(end.run_id.0).ok_or(Conflict::Missing)?;
    if run.state == "running" && run.epoch == end.epoch.0 {
        Ok(())
    } else {
        Err(Conflict::LeaseLost)
    }
}
