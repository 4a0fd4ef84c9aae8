//! What `next` found, for people.

use jiff::tz::TimeZone;

use crate::{
    cli::{
        plain,
        table::{Cell, Column, Screen, Table, Tone},
        words,
    },
    view::Start,
};

use super::{
    Question,
    preview::{CountedFrom, Preview, Stop},
};

/// Every schedule with its times, and the clock changes of their zones at the end.
pub(super) fn render(previews: &[Preview<'_>], question: &Question, screen: Screen) -> String {
    if previews.is_empty() {
        return String::from("there is no job\n");
    }
    let mut out = String::new();
    for (index, preview) in previews.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        out.push_str(&head(preview, screen));
        out.push_str(&body(preview, question, screen));
    }
    let changes = changes(previews);
    if previews.len() > 1 && !changes.is_empty() {
        out.push('\n');
    }
    out.push_str(&changes);
    out
}

fn head(preview: &Preview<'_>, screen: Screen) -> String {
    let mut parts = Vec::new();
    if let Some(job) = preview.job {
        parts.push(screen.toned(job.id.as_str(), Tone::Strong));
    }
    parts.push(preview.schedule.clone());
    if !preview.route.is_empty() {
        parts.push(preview.route.clone());
    }
    format!("{}\n", parts.join("   "))
}

fn body(preview: &Preview<'_>, question: &Question, screen: Screen) -> String {
    if let Some(stop) = &preview.stop {
        let why = match stop {
            Stop::Disabled => String::from("disabled: it does not run (`enabled = false`)"),
            Stop::Paused(pause) => format!(
                "paused since {}: it does not run until it is resumed ({})",
                words::moment(pause.since, question.now, &preview.zone),
                plain::line(&pause.reason),
            ),
            Stop::MaxRuns(runs) => {
                format!(
                    "finished: it has run {} (`max_runs`)",
                    words::counted(*runs, "time")
                )
            }
        };
        return format!("  {}\n", screen.toned(&why, Tone::Warn));
    }
    if preview.times.is_empty() {
        return String::from("  no time comes after that\n");
    }
    let mut table =
        Table::new([Column::Left, Column::Left, Column::Left, Column::Breaks]).indent(2);
    for start in &preview.times {
        table.row(row(preview, start, question));
    }
    let mut out = table.render(screen);
    if preview.job.is_some() && matches!(preview.counted_from, Some(CountedFrom::After(_))) {
        let from = if question.after.is_some() {
            "--after"
        } else {
            "now"
        };
        out.push_str(&format!(
            "  counted from {from}: no database has seen the job yet\n"
        ));
    }
    out
}

fn row(preview: &Preview<'_>, start: &Start, question: &Question) -> [Cell; 4] {
    let local = start.at.to_zoned_datetime(preview.zone.clone()).datetime();
    let utc = start.at.to_zoned_datetime(TimeZone::UTC).datetime();
    let utc = if utc.date() == local.date() {
        format!("{} UTC", words::clock(utc.time()))
    } else {
        format!("{} UTC", words::dated(utc))
    };
    let distance = if question.after.is_some() {
        format!(
            "{} later",
            words::span(preview.after.duration_until(start.at))
        )
    } else {
        words::from_now(start.at, question.now)
    };
    let drawn = start.nominal.duration_until(start.at);
    let drawn = (drawn.as_secs() > 0 && start.note.is_none())
        .then(|| format!("drawn {} after its slot", words::exact(drawn)));
    let note = start.note.clone().or(drawn).unwrap_or_default();
    [
        words::dated(local).into(),
        distance.into(),
        Cell::toned(utc, Tone::Faint),
        Cell::toned(note, Tone::Warn),
    ]
}

/// For each zone its next clock change, and the jobs that it touches.
fn changes(previews: &[Preview<'_>]) -> String {
    let running: Vec<&Preview<'_>> = previews.iter().filter(|p| p.stop.is_none()).collect();
    let mut zones: Vec<&str> = running.iter().map(|preview| preview.tz.as_str()).collect();
    zones.sort_unstable();
    zones.dedup();
    let several_zones = zones.len() > 1;
    let mut out = String::new();
    for zone in zones {
        let of_zone: Vec<&&Preview<'_>> = running.iter().filter(|p| p.tz == zone).collect();
        let Some(change) = of_zone.iter().find_map(|preview| preview.change.as_ref()) else {
            continue;
        };
        let to = if change.local_before.date() == change.local_after.date() {
            words::clock(change.local_after.time())
        } else {
            words::dated(change.local_after)
        };
        let place = if several_zones {
            format!(" in {zone}")
        } else {
            String::new()
        };
        out.push_str(&format!(
            "next clock change{place}: {} -> {to}; {}\n",
            words::dated(change.local_before),
            touched(&of_zone),
        ));
    }
    out
}

fn touched(previews: &[&&Preview<'_>]) -> String {
    let effect = |preview: &&&Preview<'_>| preview.change.as_ref()?.effect.clone();
    if let [only] = previews {
        let what = if only.job.is_some() {
            "job"
        } else {
            "schedule"
        };
        return match effect(only) {
            Some(effect) => format!("this {what} is affected: {effect}"),
            None => format!("this {what} is not affected"),
        };
    }
    let touched: Vec<String> = previews
        .iter()
        .filter_map(|preview| {
            let id = preview.job.map_or("the schedule", |job| job.id.as_str());
            Some(format!("{id} is affected: {}", effect(preview)?))
        })
        .collect();
    if touched.is_empty() {
        String::from("no job is affected")
    } else {
        touched.join("; ")
    }
}
