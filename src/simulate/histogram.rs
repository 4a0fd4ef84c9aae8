//! Counts of durations in bounded space.

use std::collections::BTreeMap;

use jiff::SignedDuration;

/// How many buckets a doubling has; a bucket is at most 1/64 wide.
const FINE: u64 = 64;

/// How often which duration was seen: exact to the second up to 64 s and within 2 % beyond.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: BTreeMap<u16, u64>,
    count: u64,
    longest: SignedDuration,
}

impl Histogram {
    /// Counts a duration; a negative one is none.
    pub fn add(&mut self, duration: SignedDuration) {
        self.add_many(duration, 1);
    }

    /// Counts a duration so many times.
    pub fn add_many(&mut self, duration: SignedDuration, times: u64) {
        if times == 0 {
            return;
        }
        let duration = duration.max(SignedDuration::ZERO);
        let seconds = u64::try_from(duration.as_secs()).unwrap_or(0);
        *self.buckets.entry(bucket(seconds)).or_default() += times;
        self.count += times;
        self.longest = self.longest.max(duration);
    }

    /// The longest, exactly.
    pub fn longest(&self) -> SignedDuration {
        self.longest
    }

    /// The least duration that so many of a hundred do not exceed, as far as buckets tell.
    pub fn percentile(&self, percent: u64) -> SignedDuration {
        let wanted = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (bucket, count) in &self.buckets {
            seen += count;
            if seen >= wanted {
                let top = SignedDuration::from_secs(top(*bucket) as i64);
                return top.min(SignedDuration::from_secs(self.longest.as_secs()));
            }
        }
        SignedDuration::ZERO
    }
}

fn bucket(seconds: u64) -> u16 {
    if seconds < FINE {
        return seconds as u16;
    }
    let doubling = u64::from(seconds.ilog2() - FINE.ilog2());
    // Below 2 * FINE, so the place within the doubling is what it exceeds FINE by.
    let place = (seconds >> doubling) - FINE;
    (FINE + doubling * FINE + place) as u16
}

/// The longest duration of a bucket, in seconds.
fn top(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    if bucket < FINE {
        return bucket;
    }
    let doubling = (bucket - FINE) / FINE;
    let place = (bucket - FINE) % FINE + FINE;
    ((place + 1) << doubling) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_in_order() {
        let mut last = 0;
        for seconds in (0..100_000).chain([1_000_000, 40_000_000, 3_200_000_000]) {
            let found = bucket(seconds);
            assert!(found >= last, "{seconds}");
            let top = top(found);
            assert!(
                top >= seconds && top - seconds <= seconds / 64,
                "{seconds} {top}"
            );
            last = found;
        }
    }

    #[test]
    fn percentiles_are_of_what_was_counted() {
        let mut histogram = Histogram::default();
        for seconds in 0..100 {
            histogram.add(SignedDuration::from_secs(seconds));
        }
        assert_eq!(histogram.percentile(50).as_secs(), 49);
        assert_eq!(histogram.percentile(100), histogram.longest());
        assert_eq!(Histogram::default().percentile(99), SignedDuration::ZERO);
    }
}
