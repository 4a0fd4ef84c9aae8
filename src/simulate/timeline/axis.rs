//! Where the axis has its marks, in the zone's wall time.

use jiff::{
    Span, Timestamp,
    civil::{DateTime, Time},
    tz::TimeZone,
};

use crate::simulate::Window;

/// The most marks that can be read beside each other.
const MARKS_MAX: i64 = 14;

const HOURS: &str = "%H:%M";
const DAYS: &str = "%a %d %b";

/// A mark of the axis.
pub(super) struct Mark {
    pub(super) at: Timestamp,
    pub(super) text: String,
}

/// The marks of a window.
pub(super) fn marks(window: Window, zone: &TimeZone) -> Vec<Mark> {
    let hours = window.from.duration_until(window.to).as_hours().max(1);
    let wall = |at: Timestamp| at.to_zoned_datetime(zone.clone()).datetime();
    let (step, form) = step(hours);
    let mut at = begin(wall(window.from), hours);
    let end = wall(window.to);
    let mut marks = Vec::new();
    while at < end && marks.len() < 2 * MARKS_MAX as usize {
        if let Ok(instant) = zone.to_timestamp(at)
            && instant >= window.from
        {
            // A day begins with its date, so that hours of several days can be told apart.
            let form = if form == HOURS && at.time() == Time::midnight() {
                DAYS
            } else {
                form
            };
            marks.push(Mark {
                at: instant,
                text: at.strftime(form).to_string(),
            });
        }
        let Ok(following) = at.checked_add(step) else {
            break;
        };
        at = following;
    }
    marks
}

fn begin(from: DateTime, hours: i64) -> DateTime {
    let midnight = from.date().to_datetime(Time::midnight());
    if hours <= 24 * 62 {
        return midnight;
    }
    let first = from.date().first_of_month();
    if hours <= 24 * 800 {
        return first.to_datetime(Time::midnight());
    }
    from.date().first_of_year().to_datetime(Time::midnight())
}

/// How far two marks are apart, and what they say.
fn step(hours: i64) -> (Span, &'static str) {
    let days = (hours + 23) / 24;
    if let Some(width) = [1, 2, 3, 6, 12]
        .into_iter()
        .find(|width| hours <= width * MARKS_MAX)
    {
        return (Span::new().hours(width), HOURS);
    }
    if let Some(width) = [1, 2, 7]
        .into_iter()
        .find(|width| days <= width * MARKS_MAX)
    {
        return (Span::new().days(width), DAYS);
    }
    if days <= 800 {
        let months = (days / 31 / MARKS_MAX + 1).max(1);
        return (Span::new().months(months), "%b %Y");
    }
    let years = (days / 366 / MARKS_MAX + 1).max(1);
    (Span::new().years(years), "%Y")
}
