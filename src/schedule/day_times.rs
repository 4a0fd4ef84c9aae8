//! The times of a day as two short ascending lists whose sums are the times.
//!
//! A cron expression has its hours in one and the seconds within an hour in the other, so that
//! `* * * * * *` takes a few kilobytes and not 86,400 entries; a `daily` job has its times in the
//! first and a single zero in the second.

/// The times of a day, in seconds after its midnight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DayTimes {
    /// Ascending, further apart than the widest offset.
    pub(crate) blocks: Box<[u32]>,
    /// Ascending, at least one.
    pub(crate) offsets: Box<[u16]>,
}

impl DayTimes {
    /// These seconds of the day; ascending.
    pub(crate) fn listed(seconds: impl IntoIterator<Item = u32>) -> Self {
        Self {
            blocks: seconds.into_iter().collect(),
            offsets: Box::new([0]),
        }
    }

    /// The product of an hour mask, a minute mask and a second mask.
    pub(crate) fn product(hours: u32, minutes: u64, seconds: u64) -> Self {
        let set = |mask: u64| (0..60u32).filter(move |bit| mask & (1 << bit) != 0);
        let offsets =
            set(minutes).flat_map(|minute| set(seconds).map(move |second| minute * 60 + second));
        Self {
            blocks: set(hours.into()).map(|hour| hour * 3_600).collect(),
            offsets: offsets.map(|offset| offset as u16).collect(),
        }
    }

    /// The first time at or after `second`, as indices into both lists; `None` where the day has
    /// no more.
    pub(crate) fn first_from(&self, second: u32) -> Option<(usize, usize)> {
        let block = self.blocks.partition_point(|start| *start <= second);
        if let Some(current) = block.checked_sub(1) {
            let within = second - self.blocks[current];
            let offset = self
                .offsets
                .partition_point(|offset| u32::from(*offset) < within);
            if offset < self.offsets.len() {
                return Some((current, offset));
            }
        }
        (block < self.blocks.len()).then_some((block, 0))
    }

    /// The last time at or before `second`.
    pub(crate) fn last_to(&self, second: u32) -> Option<u32> {
        let block = self.blocks.partition_point(|start| *start <= second);
        let current = block.checked_sub(1)?;
        let within = second - self.blocks[current];
        let offset = self
            .offsets
            .partition_point(|offset| u32::from(*offset) <= within);
        if let Some(last) = offset.checked_sub(1) {
            return Some(self.blocks[current] + u32::from(self.offsets[last]));
        }
        let before = current.checked_sub(1)?;
        let last = self.offsets.last()?;
        Some(self.blocks[before] + u32::from(*last))
    }
}
