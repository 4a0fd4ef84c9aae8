//! Why a schedule cannot be planned.

use jiff::{SignedDuration, civil};

use crate::schedule::cron::CronError;

/// Why a schedule cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The zone is not in the zone database.
    #[error("`{found}` is not an IANA time zone{}", suggestion(.nearest.as_deref()))]
    UnknownZone {
        /// The name that was given.
        found: String,
        /// The name in the database that is most like it.
        nearest: Option<String>,
    },
    /// The cron expression is not one.
    #[error(transparent)]
    Cron(#[from] CronError),
    /// A `daily` schedule without a time.
    #[error("no time of day, need at least one")]
    NoTimes,
    /// A `daily` schedule without a day.
    #[error("no day of the week, need at least one")]
    NoDays,
    /// A wall time with a fraction of a second.
    #[error("`{found}` has a fraction of a second, wall times are whole seconds")]
    FractionOfSecond {
        /// The time that was given.
        found: civil::Time,
    },
    /// A period that is too short, or finer than instants are stored.
    #[error("period {found:#}: need at least 1s, in whole microseconds")]
    Period {
        /// The period that was given.
        found: SignedDuration,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(", did you mean `{name}`?"))
}
