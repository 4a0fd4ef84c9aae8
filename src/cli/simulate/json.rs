//! The report for programs. Its fields are documented in `docs/simulate.md`; `version` is raised
//! when one changes its meaning or goes away.

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    cli::{failure::Failure, json, words},
    simulate::{JobTotals, Peak},
    view,
};

use super::{Case, Outcome, changes, expectations};

const VERSION: u32 = 1;

pub(super) fn render(case: &Case<'_>, outcome: &Outcome) -> Result<String, Failure> {
    let report = &outcome.report;
    let changes = changes::met(&case.file.jobs, case.window)?;
    let changes = changes.iter().map(|change| {
        let jobs = change.jobs.iter();
        let jobs = jobs.map(|(id, note)| json!({ "job": id, "note": note }));
        json!({
            "zone": change.zone,
            "at": change.at,
            "local_before": change.local_before,
            "local_after": change.local_after,
            "jobs": jobs.collect::<Vec<_>>(),
        })
    });
    let destinations = report.destinations.iter().map(|(name, totals)| {
        json!({
            "destination": name,
            "messages": totals.messages,
            "messages_per_day": per_day(totals.messages, case),
            "peak_hour": peak(&totals.peak_hour),
            "retried": totals.retried,
            "failed": totals.failed,
            "withheld": totals.withheld,
        })
    });
    let expects = case.written.expects.iter().enumerate();
    let expects = expects.map(|(index, expect)| {
        let against = outcome.unmet.iter().filter(|unmet| unmet.index == index);
        let against = against.map(|unmet| {
            json!({
                "key": unmet.key,
                "expected": unmet.expected,
                "found": unmet.found,
                "event": unmet.event,
            })
        });
        let against: Vec<_> = against.collect();
        json!({
            "expect": expectations::title(expect),
            "job": expect.job,
            "holds": against.is_empty(),
            "against": against,
        })
    });
    let bad_jobs = case.file.bad_jobs.iter();
    let bad_jobs = bad_jobs.map(|job| json!({ "id": job.name, "because": job.because }));
    let log = outcome.log.as_ref();
    Ok(json::text(&json!({
        "version": VERSION,
        "from": report.window.from,
        "to": report.window.to,
        "seed": case.scenario.seed,
        "max_concurrent": case.max_concurrent,
        "jobs": report.jobs.iter().map(|job| of_job(job, case)).collect::<Vec<_>>(),
        "bad_jobs": bad_jobs.collect::<Vec<_>>(),
        "destinations": destinations.collect::<Vec<_>>(),
        "peak_concurrency": peak(&report.concurrency),
        "herd_minutes": report.herd_minutes,
        "busiest_minutes": report.busiest.iter().map(peak).collect::<Vec<_>>(),
        "clock_changes": changes.collect::<Vec<_>>(),
        "expectations": expects.collect::<Vec<_>>(),
        "events": log.map(|log| json!({ "lines": log.lines, "sha256": log.sha256 })),
        "zones_fingerprint": outcome.zones,
    })))
}

fn of_job(totals: &JobTotals, case: &Case<'_>) -> Value {
    let job = case.file.jobs.iter().find(|job| job.id == totals.job_id);
    let zone = words::zone(job.map_or("UTC", |job| &job.schedule.zone));
    let local = |at: Option<jiff::Timestamp>| at.map(|at| words::with_offset(at, &zone));
    json!({
        "id": totals.job_id,
        "schedule": job.map(|job| words::schedule(&job.schedule)),
        "target": job.map(|job| view::Target::from(&job.mode)),
        "occurrences": totals.occurrences(),
        "starts": totals.starts,
        "caught_up": totals.caught_up,
        "merged": totals.merged,
        "done": totals.done,
        "failed": totals.failed,
        "cancelled": totals.cancelled,
        "skipped": totals.skipped,
        "open": totals.open,
        "retries": totals.retries,
        "lateness_s": {
            "p50": seconds(totals.lateness.percentile(50)),
            "p99": seconds(totals.lateness.percentile(99)),
            "max": seconds(totals.lateness.longest()),
        },
        "first_start": local(totals.first_start),
        "last_start": local(totals.last_start),
        "next": local(totals.next),
    })
}

fn seconds(duration: SignedDuration) -> f64 {
    duration.as_millis() as f64 / 1_000.0
}

fn peak(peak: &Peak) -> Value {
    json!({ "count": peak.count, "at": peak.at })
}

/// To the hundredth.
pub(super) fn per_day(count: u64, case: &Case<'_>) -> f64 {
    let days = case
        .window
        .from
        .duration_until(case.window.to)
        .as_secs_f64()
        / 86_400.0;
    (count as f64 / days * 100.0).round() / 100.0
}
