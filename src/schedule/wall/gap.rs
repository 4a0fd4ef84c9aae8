//! What becomes of the written times that a gap swallows.

use jiff::{SignedDuration, Timestamp};

use crate::schedule::{
    Fate, Moved, Planned,
    wall::{Scope, Wall, cursor::Cursor},
    zone::Segment,
};

/// The occurrences at the start of a segment that opens with a gap.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct AtGapEnd {
    /// The void slot, where one was written: its date is excluded, or the zone skipped it.
    pub(crate) void: Option<Planned>,
    /// The occurrence that fires.
    pub(crate) fires: Option<Planned>,
}

impl Wall {
    /// The written times in the gap before the segment, its end included, with their fates.
    pub(crate) fn gap_times<'p>(
        &'p self,
        segment: &Segment,
        scope: Scope,
    ) -> impl Iterator<Item = (i64, Fate)> + 'p {
        let segment = *segment;
        let mut cursor = Cursor::at(self, scope, segment.shown_to.max(self.from));
        std::iter::from_fn(move || {
            let local = cursor.local;
            if local > segment.local_start() || local >= self.until {
                return None;
            }
            cursor.step();
            Some((local, self.fate_in_gap(&segment, local)))
        })
    }

    /// What a fixed-time schedule has at the end of the gap before the segment.
    ///
    /// All that fires is one occurrence, whose slot is the earliest written time; all that is void
    /// is one slot likewise. Where both exist the void one stands a microsecond earlier, which
    /// keeps nominals strictly increasing: wall-time occurrences are on whole seconds.
    pub(crate) fn at_gap_end(&self, segment: &Segment, scope: Scope) -> AtGapEnd {
        let mut found = AtGapEnd::default();
        let Ok(nominal) = Timestamp::from_second(segment.start) else {
            return found;
        };
        for (local, fate) in self.gap_times(segment, scope) {
            let place = match fate {
                Fate::Fires => &mut found.fires,
                Fate::Excluded | Fate::NoSuchDate => &mut found.void,
            };
            if place.is_none() {
                let moved = local < segment.local_start() && fate == Fate::Fires;
                *place = Some(Planned {
                    nominal,
                    fate,
                    moved: moved.then_some(Moved::ToGapEnd),
                    local,
                });
            }
            if scope == Scope::Firing && found.fires.is_some() {
                break;
            }
        }
        if let (Some(void), Some(_)) = (&mut found.void, &found.fires) {
            void.nominal = nominal
                .saturating_sub(SignedDuration::from_micros(1))
                .unwrap_or(nominal);
        }
        found
    }
}
