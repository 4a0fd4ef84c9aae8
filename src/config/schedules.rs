//! When a job runs: its kind of schedule, its zone, its bounds, and what the planner says of them.

use std::ops::Range;

use jiff::{SignedDuration, Timestamp, civil, tz};

use super::{
    FileZone, durations,
    fields::{Entry, Field, Fields, Value},
    known::Left,
    policies::Merged,
    problem::{Code, Problem},
    reader::Reader,
};
use crate::{
    job::{ScheduleSpec, Weekdays, When},
    schedule::{ClockChangeKind, Planned, Planner, clock_changes, cron},
};

/// How far ahead clock changes are looked at: at least one of each kind, where a zone has any.
const AHEAD: SignedDuration = SignedDuration::from_hours(366 * 24);
/// A clock change moves only slots that are nearer to it than this.
const NEAR_CHANGE: SignedDuration = SignedDuration::from_hours(26);

/// The schedule of one job.
pub(super) fn build(
    reader: &mut Reader<'_>,
    entry: &Entry,
    merged: Merged<'_>,
    file_zone: &FileZone,
) -> Result<ScheduleSpec, Left> {
    let fields = &entry.fields;
    let (key, field) = kind(fields).ok_or(Left::Reported)?;
    let zone = zone(reader, entry, file_zone, (key, field))?;
    let bounds_wrong = ["from", "until", "exclude", "days", "anchor", "jitter"]
        .into_iter()
        .any(|key| fields.is_wrong(key));
    let when = when(fields, &zone).ok_or(Left::Reported)?;
    if bounds_wrong {
        return Err(Left::Reported);
    }
    let spec = ScheduleSpec {
        when,
        zone,
        from: fields.date_time("from"),
        until: fields.date_time("until"),
        exclude: fields
            .list("exclude")
            .iter()
            .filter_map(|item| item.value.date())
            .collect(),
        jitter: merged
            .of("jitter")
            .duration("jitter")
            .unwrap_or(SignedDuration::ZERO),
    };
    check_jitter(reader, entry, merged, &spec)?;
    check_bounds(reader, fields, &spec)?;
    check_plan(reader, entry, field, &spec)?;
    Ok(spec)
}

/// The one key that says when; none where there are several.
fn kind(fields: &Fields) -> Option<(&'static str, &Field)> {
    let mut present = ["daily", "cron", "every", "at"]
        .into_iter()
        .filter_map(|key| Some((key, fields.field(key)?)));
    let only = present.next()?;
    present.next().is_none().then_some(only)
}

fn zone(
    reader: &mut Reader<'_>,
    entry: &Entry,
    file_zone: &FileZone,
    (key, field): (&str, &Field),
) -> Result<String, Left> {
    let fields = &entry.fields;
    if fields.has("timezone") {
        return fields.owned_text("timezone").ok_or(Left::Reported);
    }
    let anchor_is_wall_time = matches!(fields.value("anchor"), Some(Value::DateTime(_)));
    let wall_time = if key != "every" {
        Some((key, field))
    } else {
        ["from", "until", "exclude", "anchor"]
            .into_iter()
            .filter(|key| *key != "anchor" || anchor_is_wall_time)
            .find_map(|key| Some((key, fields.field(key)?)))
    };
    match (file_zone, wall_time) {
        (FileZone::Named(zone), _) => Ok(zone.clone()),
        (FileZone::Wrong, _) => Err(Left::Because(String::from("`timezone`"))),
        (FileZone::Absent, None) => Ok(String::from("UTC")),
        (FileZone::Absent, Some((key, field))) => {
            reader.report(
                Problem::error(
                    Code::NoZone,
                    field.key_span.clone(),
                    format!("job `{}` has no time zone", entry.name),
                )
                .label(format!("`{key}` is wall time: in which zone?"))
                .help("add `timezone = \"Europe/Berlin\"` at the top of the file for all jobs, or to this job; the zone of the machine is never used"),
            );
            Err(Left::Reported)
        }
    }
}

fn when(fields: &Fields, zone: &str) -> Option<When> {
    if fields.has("daily") {
        let mut times: Vec<civil::Time> = fields
            .list("daily")
            .iter()
            .filter_map(|item| item.value.time())
            .collect();
        times.sort_unstable();
        times.dedup();
        let days = fields.days("days").unwrap_or(Weekdays::ALL);
        return (!times.is_empty()).then_some(When::Daily { times, days });
    }
    if fields.has("cron") {
        return fields.owned_text("cron").map(When::Cron);
    }
    if fields.has("every") {
        let anchor = match fields.value("anchor") {
            Some(Value::Instant(instant)) => Some(*instant),
            Some(Value::DateTime(moment)) => Some(instant(*moment, zone)?),
            _ => None,
        };
        return Some(When::Every {
            period: fields.duration("every")?,
            anchor,
        });
    }
    fields.date_time("at").map(When::At)
}

/// Wall time as an instant: after a gap, and on the first pass of what is repeated.
fn instant(moment: civil::DateTime, zone: &str) -> Option<Timestamp> {
    let zone = tz::db().get(zone).ok()?;
    zone.to_timestamp(moment).ok()
}

fn check_jitter(
    reader: &mut Reader<'_>,
    entry: &Entry,
    merged: Merged<'_>,
    spec: &ScheduleSpec,
) -> Result<(), Left> {
    let When::Every { period, .. } = &spec.when else {
        return Ok(());
    };
    if spec.jitter < *period {
        return Ok(());
    }
    let every = entry.fields.key_span_or("every", &entry.name_span);
    let jitter = merged.of("jitter").key_span_or("jitter", &every);
    let (jitter_text, period_text) = (durations::spelled(spec.jitter), durations::spelled(*period));
    let message = format!(
        "a jitter of {jitter_text} is not shorter than the {period_text} between two runs of `{}`",
        entry.name
    );
    let problem = if entry.fields.has("jitter") {
        Problem::error(Code::WideJitter, jitter, message)
            .label(format!("{jitter_text} of jitter"))
            .also(every, format!("runs every {period_text}"))
    } else {
        Problem::error(Code::WideJitter, every, message)
            .label(format!("runs every {period_text}"))
            .also(jitter, format!("{jitter_text} of jitter for all jobs"))
    };
    reader.report(problem.help(format!(
        "a start drawn that late would reach the next slot: keep `jitter` under {period_text}"
    )));
    Err(Left::Reported)
}

fn check_bounds(reader: &mut Reader<'_>, fields: &Fields, spec: &ScheduleSpec) -> Result<(), Left> {
    if let (Some(from), Some(until)) = (spec.from, spec.until)
        && until <= from
    {
        let from_span = fields.key_span_or("from", &(0..0));
        reader.report(
            Problem::error(
                Code::EmptyBounds,
                fields.key_span_or("until", &from_span),
                format!("`until` ({until}) is not after `from` ({from})"),
            )
            .label("the job no longer runs from here on")
            .also(from_span, "and does not run before this")
            .help("`from` is the first moment, and `until` the first one that is too late"),
        );
        return Err(Left::Reported);
    }
    Ok(())
}

/// What only the planner can see: schedules that never come or are over, and clock changes.
fn check_plan(
    reader: &mut Reader<'_>,
    entry: &Entry,
    field: &Field,
    spec: &ScheduleSpec,
) -> Result<(), Left> {
    let planner = match Planner::new(spec, reader.now) {
        Ok(planner) => planner,
        Err(error) => {
            reader.report(
                Problem::error(Code::BadValue, field.span.clone(), error.to_string())
                    .label("cannot be planned"),
            );
            return Err(Left::Reported);
        }
    };
    if planner.next(Timestamp::MIN).is_none() {
        reader.report(
            Problem::error(
                Code::Never,
                field.span.clone(),
                format!("job `{}` would never run", entry.name),
            )
            .label("`from`, `until` and `exclude` leave no such moment")
            .help("widen the bounds, or remove the job"),
        );
        return Err(Left::Reported);
    }
    if entry.fields.flag("enabled") == Some(false) {
        return Ok(());
    }
    if planner.next(reader.now).is_none() {
        over(reader, entry, field, spec);
        return Ok(());
    }
    either_day(reader, field, spec);
    clock_change(reader, field, spec, &planner);
    Ok(())
}

fn over(reader: &mut Reader<'_>, entry: &Entry, field: &Field, spec: &ScheduleSpec) {
    if matches!(spec.when, When::At(_)) {
        reader.report(
            Problem::warning(
                Code::Past,
                field.span.clone(),
                format!("the time of job `{}` has passed", entry.name),
            )
            .label(format!("earlier than now, in {}", spec.zone))
            .help("it will not run, unless it was due while chatcron was down and may catch up"),
        );
    } else {
        let span = entry
            .fields
            .field("until")
            .map_or_else(|| field.span.clone(), |until| until.span.clone());
        reader.report(
            Problem::warning(
                Code::AlreadyOver,
                span,
                format!("job `{}` will not run again", entry.name),
            )
            .label("no slot is left before this")
            .help("move `until`, or remove the job"),
        );
    }
}

fn either_day(reader: &mut Reader<'_>, field: &Field, spec: &ScheduleSpec) {
    let When::Cron(text) = &spec.when else {
        return;
    };
    if !cron::parse(text).is_ok_and(|expr| expr.takes_either_day()) {
        return;
    }
    reader.report(
        Problem::warning(
            Code::EitherDay,
            field.span.clone(),
            format!("`{text}` names days of the month and days of the week"),
        )
        .label("runs on a day that either of them names")
        .help("fine if that is meant; for days that both name, put `+` before the day of the week"),
    );
}

fn clock_change(reader: &mut Reader<'_>, field: &Field, spec: &ScheduleSpec, planner: &Planner) {
    let until = reader.now.saturating_add(AHEAD).unwrap_or(Timestamp::MAX);
    let Ok(changes) = clock_changes(&spec.zone, reader.now, until) else {
        return;
    };
    for change in changes {
        let start = change
            .at
            .checked_sub(NEAR_CHANGE)
            .map_or(reader.now, |start| start.max(reader.now));
        let end = change
            .at
            .saturating_add(NEAR_CHANGE)
            .unwrap_or(Timestamp::MAX);
        let moved = planner
            .firing_between(start, end)
            .find(|planned| planned.moved.is_some());
        let Some((planned, note)) =
            moved.and_then(|planned| Some((planned, planner.note(&planned)?)))
        else {
            continue;
        };
        let what = match change.kind() {
            ClockChangeKind::Gap => "goes forward",
            ClockChangeKind::Overlap => "goes back",
        };
        reader.report(
            Problem::warning(Code::ClockChange, span_of(field, &planned), note)
                .label("inside a clock change")
                .help(format!(
                    "fine if that is meant; the clock {what} from {} to {} that day",
                    clock(change.local_before),
                    clock(change.local_after),
                )),
        );
        return;
    }
}

fn clock(moment: civil::DateTime) -> String {
    moment.strftime("%H:%M").to_string()
}

/// The one of several daily times that was written for this slot.
fn span_of(field: &Field, planned: &Planned) -> Range<usize> {
    let second = planned.local.rem_euclid(86_400);
    let is_it = |time: civil::Time| {
        let (hour, minute) = (i64::from(time.hour()), i64::from(time.minute()));
        hour * 3_600 + minute * 60 + i64::from(time.second()) == second
    };
    match &field.value {
        Some(Value::List(items)) => items
            .iter()
            .find(|item| item.value.time().is_some_and(is_it))
            .map_or_else(|| field.span.clone(), |item| item.span.clone()),
        _ => field.span.clone(),
    }
}
