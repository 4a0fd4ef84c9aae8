//! What `next` found, for programs.

use serde_json::{Value, json};

use crate::{
    cli::{json, words},
    config::BadJob,
    view::{self, Start},
};

use super::preview::{CountedFrom, Preview, Stop};

/// One object for a schedule that is given on the command line.
pub(super) fn ad_hoc(preview: &Preview<'_>) -> String {
    let times: Vec<Value> = preview
        .times
        .iter()
        .map(|start| {
            json!({
                "at": words::with_offset(start.at, &preview.zone),
                "note": start.note,
            })
        })
        .collect();
    json::text(&json!({
        "schedule": preview.schedule,
        "tz": preview.tz,
        "times": times,
    }))
}

/// All jobs of a file.
pub(super) fn of_file(previews: &[Preview<'_>], left_out: &[BadJob]) -> String {
    let jobs: Vec<Value> = previews.iter().map(of_job).collect();
    let bad_jobs: Vec<Value> = left_out
        .iter()
        .map(|job| json!({ "id": job.name, "because": job.because }))
        .collect();
    json::text(&json!({ "jobs": jobs, "bad_jobs": bad_jobs }))
}

fn of_job(preview: &Preview<'_>) -> Value {
    let job = preview.job;
    let counted_from = preview.counted_from.map(|from| {
        let (at, known_from) = match from {
            CountedFrom::Anchor(at) => (at, "anchor"),
            CountedFrom::FirstSeen(at) => (at, "first-seen"),
            CountedFrom::After(at) => (at, "after"),
        };
        json!({ "at": at, "known_from": known_from })
    });
    let paused = match &preview.stop {
        Some(Stop::Paused(pause)) => json!({ "since": pause.since, "reason": pause.reason }),
        Some(Stop::Disabled | Stop::MaxRuns(_)) | None => Value::Null,
    };
    json!({
        "id": job.map(|job| &job.id),
        "name": job.map(|job| job.display_name()),
        "enabled": job.is_none_or(|job| job.enabled),
        "paused": paused,
        "finished": matches!(preview.stop, Some(Stop::MaxRuns(_))),
        "schedule": preview.schedule,
        "tz": preview.tz,
        "mode": job.map(|job| view::mode_word(&job.mode)),
        "target": job.map(|job| view::Target::from(&job.mode)),
        "counted_from": counted_from,
        "times": preview.times.iter().map(|start| self::start(preview, start)).collect::<Vec<_>>(),
        "clock_change": preview.change.as_ref().map(|change| json!({
            "at": change.at,
            "local_before": change.local_before,
            "local_after": change.local_after,
            "affected": change.effect.is_some(),
            "note": change.effect,
        })),
    })
}

fn start(preview: &Preview<'_>, start: &Start) -> Value {
    json!({
        "at": words::with_offset(start.at, &preview.zone),
        "nominal_at": words::with_offset(start.nominal, &preview.zone),
        "slot": start.slot,
        "note": start.note,
    })
}
