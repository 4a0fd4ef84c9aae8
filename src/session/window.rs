//! How much of a history a turn is given.

use crate::{
    ids::{JobId, SessionKey},
    store::{Store, StoreError},
    transcript::Entry,
};

/// The fewest entries that are given of a longer history.
const KEPT_MIN: usize = 400;
/// A long history loses its beginning in blocks of so many `seq`, not entry by entry: what a model's
/// provider has cached stays the beginning of the next requests.
const BLOCK: i64 = 100;

/// What a chat's next turn is given of its history, oldest first.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub async fn recall(store: &dyn Store, session: &SessionKey) -> Result<Vec<Entry>, StoreError> {
    Ok(begin_with_a_block(store.recall(session, read()).await?))
}

/// What a job with memory is given of its own earlier runs, oldest first.
pub(super) async fn memory(store: &dyn Store, job: &JobId) -> Result<Vec<Entry>, StoreError> {
    Ok(begin_with_a_block(store.job_memory(job, read()).await?))
}

/// One block more than is kept at least: its entries are left out together.
fn read() -> usize {
    KEPT_MIN + usize::try_from(BLOCK).unwrap_or(0)
}

/// Leaves out the block that may have begun before what was read.
fn begin_with_a_block(mut entries: Vec<Entry>) -> Vec<Entry> {
    if entries.len() < read() {
        return entries;
    }
    if let Some(first) = entries.first().map(|entry| entry.seq / BLOCK) {
        entries.retain(|entry| entry.seq / BLOCK != first);
    }
    entries
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::transcript::{Content, Provenance, Role, Visibility};

    fn entry(seq: i64) -> Entry {
        Entry {
            session_key: SessionKey::from_stored("console:direct:me"),
            generation: 1,
            seq,
            role: Role::User,
            content: Content::Text(seq.to_string()),
            framed: None,
            visibility: Visibility::Visible,
            provenance: Provenance::default(),
            created_at: Timestamp::UNIX_EPOCH,
            shown_at: None,
            channel_message_id: None,
        }
    }

    /// The first `seq` that is given, and how many entries, when there are these.
    fn given(seqs: impl DoubleEndedIterator<Item = i64>) -> (i64, usize) {
        let mut read: Vec<Entry> = seqs.rev().take(read()).map(entry).collect();
        read.reverse();
        let given = begin_with_a_block(read);
        (given[0].seq, given.len())
    }

    #[test]
    fn a_long_history_begins_with_a_block_and_keeps_that_beginning() {
        assert_eq!(given(1..=499), (1, 499));
        let mut beginnings = Vec::new();
        for newest in 500..1000 {
            let (first, count) = given(1..=newest);
            assert!((400..=500).contains(&count), "{newest}: {count}");
            beginnings.push(first);
        }
        beginnings.dedup();
        assert_eq!(beginnings, [100, 200, 300, 400, 500, 600]);
        // Where most rows are not recalled, blocks have fewer.
        let (first, count) = given((0..1_000).map(|n| 1 + 10 * n));
        assert_eq!(first % BLOCK, 1);
        assert!((400..=500).contains(&count));
    }
}
