//! What became of parts: their states, the rows that a chat showed, the lanes that are free again.

use crate::{
    message::PartState,
    policy::outbox::Transition,
    store::{Conflict, PartSettlement},
};

use super::{
    connection::Conn,
    failure::Fallible,
    lanes::{self, Release, part_holder},
    resolution::{self, Evidence},
    rows::At,
};

mod ledger;
mod load;
mod tables;

pub(super) use ledger::{Settler, Shown};

/// Settles a batch; one result an item.
pub(super) async fn settle(
    conn: &mut Conn,
    items: Vec<At<PartSettlement>>,
) -> Fallible<Vec<Result<(), Conflict>>> {
    let ids = items.iter().map(|item| item.item.part_id.0).collect();
    let mut settler = Settler::load(conn, ids, receipts_of(&items)).await?;
    let mut results = Vec::with_capacity(items.len());
    let mut releases = Vec::new();
    let mut last = None;
    for At { item, now } in items {
        last = last.max(Some(now));
        // Also where the item comes too late: its holder has finished with the lane.
        let lane = settler.part(item.part_id.0).map(|part| &part.session_key);
        if let (Some(lane), Some(epoch)) = (lane, item.epoch) {
            releases.push(Release::part(lane, item.part_id.0, epoch.0));
        }
        results.push(settle_one(&mut settler, item, now));
    }
    settler.write(conn).await?;
    lanes::release(conn, &releases).await?;
    if let Some(now) = last {
        resolution::apply_in_free_lanes(conn, now).await?;
    }
    Ok(results)
}

/// The channel's ids in the receipts of a batch.
fn receipts_of(items: &[At<PartSettlement>]) -> Vec<(i64, String)> {
    let receipts = items.iter().filter_map(|item| match &item.item.transition {
        Transition::Confirm(receipt) => Some((item.item.part_id.0, receipt.message_id.clone())),
        Transition::TryAgain { .. }
        | Transition::Unknown
        | Transition::Fail { .. }
        | Transition::Readdress { .. } => None,
    });
    receipts.collect()
}

fn settle_one(
    settler: &mut Settler,
    item: PartSettlement,
    now: jiff::Timestamp,
) -> Result<(), Conflict> {
    let id = item.part_id.0;
    let part = settler.part(id).ok_or(Conflict::Missing)?;
    let (state, under_way) = (part.state, part.epoch);
    let held_by_another = part
        .holder
        .as_ref()
        .is_some_and(|holder| *holder != part_holder(id));
    let receipt = match item.transition {
        Transition::Confirm(receipt) => receipt,
        transition @ (Transition::TryAgain { .. }
        | Transition::Unknown
        | Transition::Fail { .. }
        | Transition::Readdress { .. }) => {
            if state != PartState::Sending {
                return Err(Conflict::PartSettled);
            }
            // Only a receipt is evidence. What an earlier attempt learned otherwise says nothing of
            // the attempt that is under way.
            match (item.epoch, under_way) {
                (Some(own), Some(present)) if own.0 != present => return Err(Conflict::LeaseLost),
                (Some(_), None) => return Err(Conflict::PartSettled),
                (Some(_) | None, _) => {}
            }
            settler.decline(id, transition, item.why, now);
            return Ok(());
        }
    };
    match state {
        PartState::Sending if !held_by_another => {
            let shown = Shown {
                at: receipt.shown_at.unwrap_or(now),
                message_id: Some(receipt.message_id),
                posting_note: item.posting_note,
                is_late: false,
            };
            settler.confirm(id, shown, item.why, now);
        }
        // Between a tool call and its result nothing may land: it waits for a turn boundary.
        PartState::Sending | PartState::Unknown => {
            let evidence = Evidence::Receipt {
                receipt,
                posting_note: item.posting_note,
            };
            settler.keep(id, evidence);
        }
        PartState::Pending | PartState::Confirmed | PartState::Failed | PartState::Cancelled => {
            return Err(Conflict::PartSettled);
        }
    }
    Ok(())
}
