//! Moments on the command line.

use jiff::{SignedDuration, Timestamp, civil};

use crate::{
    cli::{Exit, failure::Failure, words},
    config,
};

/// A moment of the past, as a person gives it to an option.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Moment {
    Instant(Timestamp),
    Wall(civil::DateTime),
    /// The start of the day so many days ago.
    Day(i64),
    Ago(SignedDuration),
}

impl Moment {
    /// For the argument parser; the error says what is accepted.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "today" => return Ok(Self::Day(0)),
            "yesterday" => return Ok(Self::Day(1)),
            _ => {}
        }
        if let Ok(span) = config::duration(text) {
            return Ok(Self::Ago(span));
        }
        let instant = text.parse().map(Self::Instant);
        instant
            .or_else(|_| text.parse().map(Self::Wall))
            .map_err(|_| {
                String::from(
                    "accepted: `today`, `yesterday`, a span such as `2d` or `12h`, an instant such \
                     as `2026-12-01T07:00:00Z`, or wall time such as `2026-12-01T08:00` or \
                     `2026-12-01`",
                )
            })
    }

    /// The instant, by wall time of this zone.
    ///
    /// # Errors
    /// Where the wall time lies outside of the calendar.
    pub(super) fn instant(self, now: Timestamp, zone: &str) -> Result<Timestamp, Failure> {
        let zone = words::zone(zone);
        let wall = |wall: civil::DateTime| {
            zone.to_timestamp(wall)
                .map_err(|_| outside(&wall.to_string()))
        };
        match self {
            Self::Instant(instant) => Ok(instant),
            Self::Wall(at) => wall(at),
            Self::Day(days) => {
                let today = now.to_zoned_datetime(zone.clone()).date();
                let day = today.saturating_sub(SignedDuration::from_hours(24 * days));
                wall(day.to_datetime(civil::Time::midnight()))
            }
            Self::Ago(span) => Ok(now.checked_sub(span).unwrap_or(Timestamp::MIN)),
        }
    }
}

/// A time that no clock shows.
pub(super) fn outside(given: &str) -> Failure {
    Failure::new(Exit::Usage, format!("`{given}` is outside of the calendar"))
        .help("give a moment of the years 1 to 9998, such as `2026-12-01T08:00`")
}
