//! Chance that is a function: each draw depends on the seed, the job, the slot and the attempt, so
//! that neither another job nor another window changes it.

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use super::{Rate, RunTime};

/// The draws of one job, or of one chat.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draws {
    key: u64,
}

/// What is drawn; different purposes of one attempt have different draws.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    RunTime = 1,
    Failure = 2,
    Send = 3,
}

impl Draws {
    pub(super) fn of(seed: u64, name: &str) -> Self {
        let digest = Sha256::digest(name.as_bytes());
        let name = digest
            .iter()
            .take(8)
            .fold(0, |key, byte| key << 8 | u64::from(*byte));
        Self {
            key: mix(seed ^ mix(name)),
        }
    }

    fn draw(self, purpose: Purpose, nominal: Timestamp, attempt: u32) -> u64 {
        let slot = mix(self.key ^ nominal.as_microsecond() as u64);
        mix(slot ^ (u64::from(attempt) << 8 | purpose as u64))
    }

    /// How long the attempt takes.
    pub(super) fn run_time(
        self,
        run_time: RunTime,
        nominal: Timestamp,
        attempt: u32,
    ) -> SignedDuration {
        let seconds = (run_time.longest - run_time.shortest).as_secs();
        let Ok(width @ 1..) = u64::try_from(seconds) else {
            return run_time.shortest;
        };
        let drawn = below(self.draw(Purpose::RunTime, nominal, attempt), width + 1);
        run_time.shortest + SignedDuration::from_secs(drawn as i64)
    }

    /// Whether it happens.
    pub(super) fn happens(
        self,
        purpose: Purpose,
        rate: Rate,
        nominal: Timestamp,
        attempt: u32,
    ) -> bool {
        match rate {
            Rate::NEVER => false,
            Rate(parts) => {
                below(self.draw(purpose, nominal, attempt), 1_000_000) < u64::from(parts)
            }
        }
    }
}

/// The high half of the product is uniform below the width.
fn below(draw: u64, width: u64) -> u64 {
    ((u128::from(draw) * u128::from(width)) >> 64) as u64
}

/// The finalizer of SplitMix64: each bit of the input changes each bit of the output half the time.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_met_and_a_run_time_fills_its_range() {
        let draws = Draws::of(7, "budget");
        let slots = (0..10_000).map(|slot| Timestamp::from_second(slot * 60).unwrap());
        let met = slots
            .clone()
            .filter(|slot| draws.happens(Purpose::Failure, Rate(250_000), *slot, 1))
            .count();
        assert!((2_300..2_700).contains(&met), "{met}");
        let range = RunTime {
            shortest: SignedDuration::from_secs(10),
            longest: SignedDuration::from_secs(12),
        };
        let mut seen: Vec<_> = slots
            .map(|slot| draws.run_time(range, slot, 1).as_secs())
            .collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [10, 11, 12]);
    }

    #[test]
    fn draws_differ_by_seed_name_attempt_and_purpose() {
        let at = Timestamp::UNIX_EPOCH;
        let base = Draws::of(1, "a").draw(Purpose::Failure, at, 1);
        for other in [
            Draws::of(2, "a").draw(Purpose::Failure, at, 1),
            Draws::of(1, "b").draw(Purpose::Failure, at, 1),
            Draws::of(1, "a").draw(Purpose::Failure, at, 2),
            Draws::of(1, "a").draw(Purpose::Send, at, 1),
        ] {
            assert_ne!(base, other);
        }
    }
}
