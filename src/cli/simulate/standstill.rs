//! How long jobs stand still after the machine's clock was set back.

use jiff::{SignedDuration, Timestamp};

use crate::simulate::ClockStep;

/// Slots are accounted for once, so nothing comes due while the clock shows them again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Standstill {
    /// By how much the clock was set back.
    pub(super) by: SignedDuration,
    /// What it showed before.
    pub(super) shown: Timestamp,
    /// When it was set, by a clock that nobody has touched, as the following.
    pub(super) from: Timestamp,
    /// When it shows that again.
    pub(super) to: Option<Timestamp>,
}

/// One for each step back.
pub(super) fn of(steps: &[ClockStep]) -> Vec<Standstill> {
    let mut steps = steps.to_vec();
    steps.sort_unstable();
    let mut offset = SignedDuration::ZERO;
    let mut all = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        if step.by.is_negative()
            && let Ok(shown) = step.at.checked_add(offset)
        {
            all.push(Standstill {
                by: step.by.abs(),
                shown,
                from: step.at,
                to: shows_again(shown, offset, &steps[index..]),
            });
        }
        offset = offset.saturating_add(step.by);
    }
    all
}

/// When the clock shows at least this, from the first of these steps on.
fn shows_again(
    shown: Timestamp,
    mut offset: SignedDuration,
    steps: &[ClockStep],
) -> Option<Timestamp> {
    for (index, step) in steps.iter().enumerate() {
        offset = offset.saturating_add(step.by);
        let to = shown.checked_sub(offset).ok()?.max(step.at);
        if steps.get(index + 1).is_none_or(|next| to <= next.at) {
            return Some(to);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(minute: i64, by: i64) -> ClockStep {
        ClockStep {
            at: at(minute),
            by: SignedDuration::from_mins(by),
        }
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn from_shown_to(steps: &[ClockStep]) -> Vec<(Timestamp, Timestamp, Timestamp)> {
        let all = of(steps).into_iter();
        all.map(|still| (still.from, still.shown, still.to.unwrap()))
            .collect()
    }

    #[test]
    fn a_clock_that_was_set_back_catches_up_or_is_set_forward() {
        assert_eq!(from_shown_to(&[step(100, 30)]), []);
        assert_eq!(
            from_shown_to(&[step(100, -30)]),
            [(at(100), at(100), at(130))]
        );
        assert_eq!(
            from_shown_to(&[step(100, -30), step(110, 40)]),
            [(at(100), at(100), at(110))]
        );
        assert_eq!(
            from_shown_to(&[step(50, 20), step(100, -30), step(110, -10)]),
            [(at(100), at(120), at(140)), (at(110), at(100), at(120)),]
        );
    }
}
