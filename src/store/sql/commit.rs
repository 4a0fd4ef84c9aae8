//! Committing decisions: load what the batch touches, plan each item in memory, write what
//! survives with one statement a table.

use std::collections::{BTreeSet, HashSet};

use crate::{
    policy::Effect,
    store::{AttemptEnd, Conflict, JobCommit, Written},
};

use super::{
    claim,
    connection::Conn,
    diagnostics::Notes,
    enqueue,
    entries::{Book, NewRow},
    failure::Fallible,
    ids::{Ids, Kind},
    incidents::{self, Signals},
    lanes, outbox, resolution,
    rows::At,
};

mod begin;
mod draft;
mod finish;
mod load;
mod plan;
mod tables;

use load::Loaded;
use tables::Changes;

/// Commits a batch; one result an item.
pub(super) async fn commit(
    conn: &mut Conn,
    items: Vec<At<JobCommit>>,
) -> Fallible<Vec<Result<Written, Conflict>>> {
    let loaded = Loaded::load(conn, &items).await?;
    let mut ids = Ids::take(conn, &counts(&items)).await?;
    let mut changes = Changes::default();
    let mut decided: HashSet<String> = HashSet::new();
    let mut results = Vec::with_capacity(items.len());
    let mut ends = Vec::new();
    let mut signals = Signals::default();
    let mut last = None;
    for (index, At { item, now }) in items.into_iter().enumerate() {
        last = last.max(Some(now));
        if decided.contains(item.job_id.as_str()) {
            results.push(Err(Conflict::StaleVersion));
            continue;
        }
        let planned = plan::plan(&loaded, index, &item, now, &mut ids)?;
        results.push(planned.map(|(change, written)| {
            decided.insert(item.job_id.as_str().to_owned());
            changes.add(change);
            signals.of_commit(&item, now);
            ends.extend(item.attempt_end.map(|end| At { item: end, now }));
            written
        }));
    }
    let Some(now) = last else {
        return Ok(results);
    };
    let mut notes = Notes::default();
    let mut book = Book::open(conn, &sessions_of(&ends)).await?;
    let messages = append(ends, &mut book, &mut notes)?;
    enqueue::enqueue(conn, messages, &mut ids, &mut book, &mut notes).await?;
    for entry in outbox::cancel_of_jobs(conn, &changes.removed, now).await? {
        book.withhold(entry);
    }
    incidents::end_of_jobs(conn, &changes.removed, now).await?;
    lanes::release(conn, &changes.releases).await?;
    let taken = begin::begin(conn, &mut changes, &mut ids, &mut results).await?;
    changes.write(conn).await?;
    claim::begin_runs(conn, &taken).await?;
    signals.write(conn).await?;
    book.write(conn).await?;
    notes.write(conn).await?;
    resolution::apply_in_free_lanes(conn, now).await?;
    Ok(results)
}

/// How many ids the batch can need at most. Items that fail leave gaps, which mean nothing.
fn counts(items: &[At<JobCommit>]) -> Vec<(Kind, usize)> {
    let effects = || items.iter().flat_map(|item| &item.item.effects);
    let is_start = |effect: &&Effect| matches!(effect, Effect::Start { .. });
    let starts = effects().filter(is_start).count();
    let records = effects()
        .filter(|effect| match effect {
            Effect::Wait { .. } | Effect::Start { .. } => true,
            Effect::Skip(range) => range.count == 1,
            Effect::Requeue { .. } | Effect::Backoff { .. } | Effect::End { .. } => false,
        })
        .count();
    let ends = items
        .iter()
        .filter_map(|item| item.item.attempt_end.as_ref());
    let (messages, parts) = enqueue::counts(ends.filter_map(|end| end.message.as_ref()));
    let begun = items.iter().filter(|item| item.item.begin.is_some());
    let begun = begun.flat_map(|item| &item.item.effects).filter(is_start);
    let begun = begun.count();
    vec![
        (Kind::Epoch, begun),
        (Kind::Occurrence, records),
        (Kind::Run, starts),
        (Kind::Message, messages),
        (Kind::Part, parts),
    ]
}

fn sessions_of(ends: &[At<AttemptEnd>]) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for end in ends {
        let entries = end.item.entries.iter();
        keys.extend(entries.map(|entry| entry.session_key.as_str().to_owned()));
        keys.extend(end.item.message.as_ref().and_then(enqueue::session_of));
    }
    keys
}

/// Adds the rows and diagnostics of ended attempts; hands back their messages.
fn append(
    ends: Vec<At<AttemptEnd>>,
    book: &mut Book,
    notes: &mut Notes,
) -> Fallible<Vec<At<crate::store::NewMessage>>> {
    let mut messages = Vec::new();
    for At { item: end, now } in ends {
        for draft in end.entries {
            let session_key = draft.session_key.as_str().to_owned();
            let row = NewRow {
                run_id: Some(end.run_id.0),
                attempt: Some(end.attempt),
                ..NewRow::draft(draft, now)?
            };
            book.add(&session_key, row, now);
        }
        for diagnostic in end.diagnostics {
            notes.add(diagnostic, now);
        }
        messages.extend(end.message.map(|item| At { item, now }));
    }
    Ok(messages)
}
