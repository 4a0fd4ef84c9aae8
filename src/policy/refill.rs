//! Which slots of the past a backfill runs again.

/// How far a slot has come, as the ledger has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Past {
    /// It ran.
    Done,
    /// It ran and failed, or was called off.
    Failed,
    /// It did not run.
    Skipped,
    /// It waits or runs.
    Open,
    /// It has no record: the job was not there yet, or the record was pruned.
    Unknown,
}

/// What a backfill does with a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refill {
    /// It runs again.
    Runs,
    /// It stays as it is.
    Stays,
    /// It stays, and would run if failed ones were asked for.
    NeedsFailed,
}

/// Whether slots that failed, or were called off, are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedSlots {
    /// They are left alone.
    Stay,
    /// They run again.
    Run,
}

/// What a backfill does with a slot: by its own record, and by that of the newest backfill of it, if
/// there was one. Asking twice for the same does nothing twice.
pub fn refill(slot: Past, backfilled: Option<Past>, failed: FailedSlots) -> Refill {
    match (slot, backfilled) {
        (Past::Done | Past::Open | Past::Unknown, _) | (_, Some(Past::Done | Past::Open)) => {
            Refill::Stays
        }
        (Past::Failed, None | Some(Past::Failed | Past::Skipped | Past::Unknown))
        | (Past::Skipped, Some(Past::Failed)) => match failed {
            FailedSlots::Run => Refill::Runs,
            FailedSlots::Stay => Refill::NeedsFailed,
        },
        (Past::Skipped, None | Some(Past::Skipped | Past::Unknown)) => Refill::Runs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backfill_follows_its_table() {
        use Past::{Done, Failed, Open, Skipped, Unknown};
        use Refill::{NeedsFailed, Runs, Stays};
        let table = [
            // the slot, its newest backfill, as asked, with failed ones
            (Skipped, None, Runs, Runs),
            (Skipped, Some(Open), Stays, Stays),
            (Skipped, Some(Done), Stays, Stays),
            (Skipped, Some(Failed), NeedsFailed, Runs),
            (Failed, None, NeedsFailed, Runs),
            (Failed, Some(Done), Stays, Stays),
            (Failed, Some(Failed), NeedsFailed, Runs),
            (Done, None, Stays, Stays),
            (Open, None, Stays, Stays),
            (Unknown, None, Stays, Stays),
        ];
        for (slot, backfilled, plain, with_failed) in table {
            let asked = (
                refill(slot, backfilled, FailedSlots::Stay),
                refill(slot, backfilled, FailedSlots::Run),
            );
            assert_eq!(asked, (plain, with_failed), "{slot:?}, {backfilled:?}");
        }
    }
}
