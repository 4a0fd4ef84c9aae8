//! The start within the jitter window: stable, so that a simulation and every worker agree on it.

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use crate::{ids::JobId, occurrence::Slot};

/// The window in which a start is drawn: the job's jitter, cut at the following nominal.
pub(crate) fn window(
    jitter: SignedDuration,
    nominal: Timestamp,
    following: Option<Timestamp>,
) -> SignedDuration {
    following.map_or(jitter, |next| jitter.min(nominal.duration_until(next)))
}

/// The start: the nominal and a whole number of milliseconds below the window.
pub(crate) fn start(
    nominal: Timestamp,
    window: SignedDuration,
    job: &JobId,
    slot: &Slot,
) -> Timestamp {
    let mut hash = Sha256::new();
    for field in [job.as_str(), slot.as_str()] {
        hash.update((field.len() as u64).to_be_bytes());
        hash.update(field.as_bytes());
    }
    let drawn = hash
        .finalize()
        .iter()
        .take(8)
        .fold(0u128, |drawn, byte| drawn << 8 | u128::from(*byte));
    let width = u128::try_from(window.as_millis()).unwrap_or_default();
    // The high half of the product is uniform below the width.
    let offset = i64::try_from((drawn * width) >> 64).unwrap_or_default();
    nominal
        .checked_add(SignedDuration::from_millis(offset))
        .unwrap_or(nominal)
}
