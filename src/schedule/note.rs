//! Why an occurrence does not start as written, in words.

use jiff::civil;

use crate::schedule::{
    Fate, Moved, Planned,
    calendar::{ceil_second, wall_time},
    wall::Wall,
};

/// The note of a wall-time occurrence.
pub(crate) fn of_wall(wall: &Wall, planned: &Planned) -> Option<String> {
    let zone = &wall.zone.name;
    let written = wall_time(planned.local)?;
    let (date, time) = (written.date(), clock(written.time()));
    match (planned.fate, planned.moved) {
        (Fate::Excluded, _) => Some(format!("{date} is excluded; does not run")),
        (Fate::NoSuchDate, _) => Some(format!("{date} does not exist in {zone}; does not run")),
        (Fate::Fires, Some(Moved::ToGapEnd)) => {
            let second = ceil_second(planned.nominal);
            let shown = wall_time(second + wall.zone.at(second).1.offset)?;
            let start = clock(shown.time());
            let on = if shown.date() == date {
                String::new()
            } else {
                format!(" on {}", shown.date())
            };
            Some(format!(
                "{time} does not exist on {date} in {zone}; runs at {start}{on}"
            ))
        }
        (Fate::Fires, Some(Moved::FirstPass)) => Some(format!(
            "{time} comes twice on {date} in {zone}; runs at the first"
        )),
        (Fate::Fires, None) => None,
    }
}

/// The note of a grid instant.
pub(crate) fn of_grid(planned: &Planned) -> Option<String> {
    match planned.fate {
        Fate::Excluded => Some("its date is excluded; does not run".to_owned()),
        Fate::Fires | Fate::NoSuchDate => None,
    }
}

/// Hours and minutes, and seconds where there are any.
fn clock(time: civil::Time) -> String {
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    if second == 0 {
        format!("{hour:02}:{minute:02}")
    } else {
        format!("{hour:02}:{minute:02}:{second:02}")
    }
}
