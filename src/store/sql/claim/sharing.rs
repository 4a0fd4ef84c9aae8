//! What several workers on one database owe each other at a claim: who is dead claims nothing, and no
//! more runs are under way than may be.

use std::collections::HashSet;

use crate::{
    policy::Grant,
    store::{
        Claimed, Conflict, WorkerId,
        sql::{connection::Conn, failure::Fallible, rows::At, workers, writer::ClaimItem},
    },
};

/// What is known of the workers that share the database.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// Claimants from which another worker has taken over.
    dead: HashSet<WorkerId>,
    /// How many runs are under way; not asked for where one worker knows it by itself.
    running: Option<usize>,
}

impl Sharing {
    pub(super) async fn load(conn: &mut Conn, items: &[At<ClaimItem>]) -> Fallible<Self> {
        let mut sharing = Self::default();
        if !conn.is_shared() {
            return Ok(sharing);
        }
        let claimants: HashSet<_> = items.iter().map(|item| item.item.0.worker).collect();
        for worker in claimants {
            if !workers::hold(conn, worker).await? {
                sharing.dead.insert(worker);
            }
        }
        let has_runs = items.iter().any(is_run);
        if has_runs {
            sharing.running = Some(workers::running_runs(&mut *conn).await?);
        }
        Ok(sharing)
    }

    /// Whether the item's claimant may claim it.
    pub(super) fn allows(&self, item: &At<ClaimItem>) -> Result<(), Conflict> {
        let by = item.item.0;
        if self.dead.contains(&by.worker) {
            return Err(Conflict::LeaseLost);
        }
        let is_full = self
            .running
            .is_some_and(|running| running >= by.max_concurrent);
        if is_run(item) && is_full {
            return Err(Conflict::NoSlot);
        }
        Ok(())
    }

    /// A lane was taken.
    pub(super) fn note(&mut self, claimed: &Claimed) {
        match (claimed, &mut self.running) {
            (Claimed::Run(_), Some(running)) => *running += 1,
            (
                Claimed::Run(_) | Claimed::Turn(_) | Claimed::Part(_) | Claimed::Withheld(_),
                Some(_) | None,
            ) => {}
        }
    }
}

fn is_run(item: &At<ClaimItem>) -> bool {
    matches!(item.item.1.grant, Grant::Run(_))
}
