//! The list of runs, as a table.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{Timestamp, tz::TimeZone};

use crate::{
    cli::{
        outcome,
        table::{Cell, Column, Screen, Table, Tone},
        words,
    },
    ids::JobId,
    store::RangeRow,
};

use super::Line;

/// The lines, with times of each job's zone. A zone that all have is named once.
pub(in crate::cli) fn render(
    lines: &[Line],
    zones: &BTreeMap<JobId, String>,
    now: Timestamp,
    screen: Screen,
) -> String {
    if lines.is_empty() {
        return String::from("nothing has run or was due in that time\n");
    }
    let zone_of = |line: &Line| zones.get(line.job_id()).map_or("UTC", String::as_str);
    let distinct: BTreeSet<&str> = lines.iter().map(zone_of).collect();
    let mut table = Table::new([
        Column::Right,
        Column::Left,
        Column::Left,
        Column::Left,
        Column::Breaks,
        Column::Breaks,
        Column::Breaks,
    ])
    .head(["run", "job", "slot", "zone", "outcome", "delivered", "note"]);
    for line in lines {
        let name = zone_of(line);
        let zone = words::zone(name);
        let zone_cell = if distinct.len() > 1 { name } else { "" };
        table.row(match line {
            Line::Run(run) => [
                run.run_id
                    .map_or_else(|| String::from("-"), |id| id.to_string())
                    .into(),
                run.job_id.as_str().into(),
                words::scheduled(run.nominal_at, now, &zone).into(),
                zone_cell.into(),
                outcome::outcome(run, now),
                outcome::delivered(run),
                outcome::note(run).into(),
            ],
            Line::Range(range) => [
                "-".into(),
                range.job_id.as_str().into(),
                stretch(range, now, &zone).into(),
                zone_cell.into(),
                skipped(range),
                "-".into(),
                outcome::skip_note(range.reason).into(),
            ],
        });
    }
    let mut text = table.render(screen);
    if let (1, Some(zone)) = (distinct.len(), distinct.first()) {
        text.push_str(&format!("times in {zone}\n"));
    }
    text
}

/// `Fri 22:00 - 23:30`, `Fri 22:00 - Sat 04:00`.
fn stretch(range: &RangeRow, now: Timestamp, zone: &TimeZone) -> String {
    let first = words::scheduled(range.first_nominal_at, now, zone);
    if range.slots <= 1 {
        return first;
    }
    let last = words::scheduled(range.last_nominal_at, now, zone);
    match (first.rsplit_once(' '), last.rsplit_once(' ')) {
        (Some((day, _)), Some((same, time))) if day == same => format!("{first} - {time}"),
        (_, _) => format!("{first} - {last}"),
    }
}

fn skipped(range: &RangeRow) -> Cell {
    let reason = outcome::skip(range.reason);
    let text = match range.slots {
        0 | 1 => format!("skipped: {reason}"),
        slots => format!("skipped: {reason} ({slots})"),
    };
    Cell::toned(text, Tone::Warn)
}
