//! The report for people.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use crate::{
    cli::{
        failure::Failure,
        table::{Cell, Column, Screen, Table, Tone},
        words,
    },
    simulate::{JobTotals, Peak, Window},
};

use super::{
    Case, Outcome, changes, expectations,
    json::per_day,
    standstill::{self, Standstill},
};

/// How many jobs are named in one line.
const NAMED: usize = 6;

pub(super) fn render(
    case: &Case<'_>,
    outcome: &Outcome,
    screen: Screen,
) -> Result<String, Failure> {
    let mut out = headline(case, outcome, screen);
    if outcome.report.jobs.is_empty() {
        out.push_str("there is no job\n");
    } else {
        out.push_str(&jobs(case, outcome, screen));
    }
    out.push_str(&destinations(case, outcome, screen));
    out.push_str(&busy(case, outcome));
    out.push_str(&clock_changes(case)?);
    out.push_str(&standstills(case));
    for (index, expect) in case.written.expects.iter().enumerate() {
        let fails = outcome.unmet.iter().any(|unmet| unmet.index == index);
        let (word, tone) = if fails {
            ("FAILED", Tone::Bad)
        } else {
            ("kept", Tone::Usual)
        };
        let title = expectations::title(expect);
        out.push_str(&format!("{title}: {}\n", screen.toned(word, tone)));
    }
    out.push_str(&sums(outcome));
    Ok(out)
}

fn headline(case: &Case<'_>, outcome: &Outcome, screen: Screen) -> String {
    let report = &outcome.report;
    let zone = words::zone(&case.zone);
    let mut parts = vec![
        words::counted(report.jobs.len() as u64, "job"),
        words::span(length(case.window, &zone)),
    ];
    let outages = case.scenario.outages.len() as u64;
    if outages > 0 {
        parts.push(words::counted(outages, "outage"));
    }
    let steps = case.scenario.clock_steps.len() as u64;
    if steps > 0 {
        parts.push(words::counted(steps, "clock step"));
    }
    let mut came = vec![words::counted(report.sum(|job| job.starts), "start")];
    for (count, what) in [
        (report.sum(JobTotals::skips), "skipped"),
        (report.sum(JobTotals::failures), "failed"),
        (report.sum(|job| job.cancelled), "called off"),
        (report.sum(|job| job.caught_up), "caught up late"),
        (report.sum(|job| job.open), "not ended"),
    ] {
        if count > 0 {
            came.push(format!("{count} {what}"));
        }
    }
    let line = format!("{}: {}", parts.join(", "), came.join(", "));
    format!(
        "{}\nfrom {} to {} ({})\n",
        screen.toned(&line, Tone::Strong),
        local(case.window.from, &zone),
        local(case.window.to, &zone),
        case.zone,
    )
}

/// Whole days are those of the calendar, as in `--for`.
fn length(window: Window, zone: &TimeZone) -> SignedDuration {
    let wall = |at: Timestamp| at.to_zoned_datetime(zone.clone()).datetime();
    let shown = wall(window.from).duration_until(wall(window.to));
    if shown.as_secs() % 86_400 == 0 {
        shown
    } else {
        window.from.duration_until(window.to)
    }
}

fn jobs(case: &Case<'_>, outcome: &Outcome, screen: Screen) -> String {
    let columns = [
        Column::Left,
        Column::Right,
        Column::Left,
        Column::Left,
        Column::Right,
        Column::Left,
        Column::Left,
        Column::Breaks,
    ];
    let head = [
        "job",
        "starts",
        "skipped",
        "failed",
        "retries",
        "late: p50, p99, most",
        "next",
        "note",
    ];
    let mut table = Table::new(columns).head(head);
    for totals in &outcome.report.jobs {
        table.row(row(case, totals));
    }
    table.render(screen)
}

fn row(case: &Case<'_>, totals: &JobTotals) -> [Cell; 8] {
    let job = case.file.jobs.iter().find(|job| job.id == totals.job_id);
    let name = job.map_or("UTC", |job| &job.schedule.zone);
    let zone = words::zone(name);
    let counts = |counts: &BTreeMap<&'static str, u64>| {
        let counts = counts.iter().map(|(why, count)| format!("{count} {why}"));
        counts.collect::<Vec<_>>().join(", ")
    };
    let most = totals.lateness.longest();
    let late = if most.is_zero() {
        String::new()
    } else {
        let of = |percent| words::span(totals.lateness.percentile(percent));
        format!("{}, {}, {}", of(50), of(99), words::span(most))
    };
    let mut notes = Vec::new();
    if totals.caught_up > 0 {
        notes.push(format!(
            "caught up {}",
            words::counted(totals.caught_up, "time")
        ));
    }
    if totals.cancelled > 0 {
        notes.push(format!("{} called off", totals.cancelled));
    }
    if totals.merged > 0 {
        notes.push(format!(
            "a clock change merged {} into another",
            words::counted(totals.merged, "slot")
        ));
    }
    if totals.open > 0 {
        notes.push(format!("{} not ended", totals.open));
    }
    if job.is_some_and(|job| !job.enabled) {
        notes.push(String::from("disabled"));
    }
    let next = totals.next.map(|at| {
        let at = local(at, &zone);
        // The report's own zone stands in its second line.
        if name == case.zone {
            at
        } else {
            format!("{at} ({name})")
        }
    });
    let retries = match totals.retries {
        0 => String::new(),
        retries => retries.to_string(),
    };
    [
        totals.job_id.as_str().into(),
        totals.starts.to_string().into(),
        Cell::toned(counts(&totals.skipped), Tone::Warn),
        Cell::toned(counts(&totals.failed), Tone::Bad),
        retries.into(),
        late.into(),
        Cell::toned(next.unwrap_or_else(|| String::from("never")), Tone::Faint),
        notes.join(", ").into(),
    ]
}

fn destinations(case: &Case<'_>, outcome: &Outcome, screen: Screen) -> String {
    if outcome.report.destinations.is_empty() {
        return String::new();
    }
    let zone = words::zone(&case.zone);
    let columns = [
        Column::Left,
        Column::Right,
        Column::Right,
        Column::Left,
        Column::Breaks,
    ];
    let head = [
        "destination",
        "messages",
        "a day",
        "most in an hour",
        "note",
    ];
    let mut table = Table::new(columns).head(head);
    for (name, totals) in &outcome.report.destinations {
        let mut notes = Vec::new();
        if totals.retried > 0 {
            notes.push(format!("{} sent again", totals.retried));
        }
        if totals.failed > 0 {
            notes.push(format!("{} given up", totals.failed));
        }
        if totals.withheld > 0 {
            notes.push(format!("{} withheld: too late", totals.withheld));
        }
        table.row([
            name.as_str().into(),
            totals.messages.to_string().into(),
            per_day(totals.messages, case).to_string().into(),
            met(&totals.peak_hour, &zone).into(),
            Cell::toned(notes.join(", "), Tone::Warn),
        ]);
    }
    table.render(screen)
}

fn busy(case: &Case<'_>, outcome: &Outcome) -> String {
    let report = &outcome.report;
    let zone = words::zone(&case.zone);
    let mut out = format!("peak: {} at once", report.concurrency.count);
    if let Some(at) = report.concurrency.at {
        out.push_str(&format!(" ({})", local(at, &zone)));
    }
    out.push_str(&format!(" of {}", case.max_concurrent));
    if let Some(busiest) = report.busiest.first() {
        out.push_str(&format!("; busiest minute: {}", met(busiest, &zone)));
    }
    if report.herd_minutes > 0 {
        out.push_str(&format!(
            "; in {} more runs came due than may run at once",
            words::counted(report.herd_minutes, "minute")
        ));
    }
    out.push('\n');
    out
}

fn clock_changes(case: &Case<'_>) -> Result<String, Failure> {
    let mut out = String::new();
    for change in changes::met(&case.file.jobs, case.window)? {
        out.push_str(&format!(
            "clock change in {}: {} -> {}; ",
            change.zone,
            words::dated(change.local_before),
            words::dated(change.local_after),
        ));
        let touched = change
            .jobs
            .iter()
            .filter_map(|(id, effect)| Some((id, effect.as_ref()?)));
        let touched: Vec<String> = touched
            .map(|(id, effect)| format!("{id}: {effect}"))
            .collect();
        let untouched = change.jobs.len() - touched.len();
        if touched.is_empty() {
            out.push_str("no job is affected\n");
            continue;
        }
        out.push_str(&touched[..touched.len().min(NAMED)].join("; "));
        if touched.len() > NAMED {
            out.push_str(&format!("; and {} more", touched.len() - NAMED));
        }
        if untouched > 0 {
            out.push_str(&format!("; {untouched} not affected"));
        }
        out.push('\n');
    }
    Ok(out)
}

/// After the clock was set back nothing comes due until it shows again what it showed before.
fn standstills(case: &Case<'_>) -> String {
    let zone = words::zone(&case.zone);
    let mut out = String::new();
    for Standstill {
        by,
        shown,
        from,
        to,
    } in standstill::of(&case.scenario.clock_steps)
    {
        let until = match to {
            Some(to) if to < case.window.to => format!("until {}", local(to, &zone)),
            Some(_) | None => String::from("until after the window"),
        };
        out.push_str(&format!(
            "clock set back {} at {}: nothing comes due before it shows {} again, {until}\n",
            words::exact(by),
            local(from, &zone),
            local(shown, &zone),
        ));
    }
    out
}

/// The hash of the events and the fingerprint of the zones.
pub(super) fn sums(outcome: &Outcome) -> String {
    let zones = &outcome.zones;
    match &outcome.log {
        Some(log) => format!(
            "events {} sha256 {}, zones {zones}\n",
            log.lines, log.sha256
        ),
        None => format!("zones {zones}\n"),
    }
}

fn met(peak: &Peak, zone: &TimeZone) -> String {
    match peak.at {
        Some(at) => format!("{} ({})", peak.count, local(at, zone)),
        None => peak.count.to_string(),
    }
}

fn local(at: Timestamp, zone: &TimeZone) -> String {
    words::dated(at.to_zoned_datetime(zone.clone()).datetime())
}
