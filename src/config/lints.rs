//! What is right, job by job, and may not be meant all together.

use std::{collections::BTreeMap, ops::Range};

use jiff::{SignedDuration, Timestamp};

use super::{
    JobsFile,
    fields::Fields,
    keys::EntryKind,
    nearest::listed,
    problem::{Code, Problem},
    reader::Reader,
};
use crate::{
    job::{Alert, CatchUp, Deliver, Job, Mode},
    message::alert_place,
    schedule::Planner,
    simulate::RunTime,
};

/// How far ahead is looked.
const AHEAD: SignedDuration = SignedDuration::from_hours(7 * 24);
/// How many slots of one job are looked at.
const SLOTS_MAX: usize = 64;
/// A draw over at least so long is no herd.
const SPREAD: SignedDuration = SignedDuration::from_mins(1);
/// How many jobs are named.
const NAMED: usize = 5;

/// Looks at the good jobs of a file.
pub(super) fn look(reader: &mut Reader<'_>, file: &Fields, read: &JobsFile) {
    let enabled = read.jobs.iter().filter(|job| job.enabled);
    let planned: Vec<(&Job, Planner)> = enabled
        .filter_map(|job| Some((job, Planner::new(&job.schedule, reader.now).ok()?)))
        .collect();
    herd(reader, file, &planned, read.max_concurrent);
    untold(reader, file, read);
    for job in &read.jobs {
        without_effect(reader, file, job);
    }
    let times = read.simulate.iter().flat_map(|written| &written.run_times);
    for (id, time) in times {
        let job = planned.iter().find(|(job, _)| job.id == *id);
        if let Some((job, planner)) = job {
            short_period(reader, file, job, planner, *time);
        }
    }
}

/// More jobs in one minute than may run at once: some start late each time.
fn herd(reader: &mut Reader<'_>, file: &Fields, planned: &[(&Job, Planner)], room: u32) {
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    if planned.len() <= room {
        return;
    }
    let until = reader.now.saturating_add(AHEAD).unwrap_or(Timestamp::MAX);
    let mut minutes: BTreeMap<i64, Vec<&Job>> = BTreeMap::new();
    for (job, planner) in planned {
        if job.schedule.jitter >= SPREAD {
            continue;
        }
        let slots = planner.firing_between(reader.now, until).take(SLOTS_MAX);
        for slot in slots {
            let jobs = minutes
                .entry(slot.nominal.as_second().div_euclid(60))
                .or_default();
            // One job that is often due is another matter.
            if jobs.last().is_none_or(|last| last.id != job.id) {
                jobs.push(job);
            }
        }
    }
    let worst = minutes.into_iter().rev().max_by_key(|(_, jobs)| jobs.len());
    let Some((minute, jobs)) = worst.filter(|(_, jobs)| jobs.len() > room) else {
        return;
    };
    let at = Timestamp::from_second(minute * 60).unwrap_or(reader.now);
    let named = listed(jobs.iter().take(NAMED).map(|job| job.id.as_str()), "and");
    let more = match jobs.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let first = jobs.first().map_or("", |job| job.id.as_str());
    report(reader, file, first, WHEN, |span| {
        Problem::warning(
            Code::Herd,
            span,
            format!(
                "{} jobs come due in one minute, and {room} may run at once: {at}",
                jobs.len()
            ),
        )
        .label(format!("{named}{more}"))
        .help("the others wait for a place; move some, or spread them with `jitter = \"5m\"`")
    });
}

/// Jobs of whose failures nobody would be told.
fn untold(reader: &mut Reader<'_>, file: &Fields, read: &JobsFile) {
    let chats = &read.directory.chats;
    let is_untold = |job: &&Job| {
        job.enabled && job.policies.alert != Alert::Never && alert_place(job, chats, None).is_none()
    };
    let jobs: Vec<&str> = read
        .jobs
        .iter()
        .filter(is_untold)
        .map(|job| job.id.as_str())
        .collect();
    let Some(first) = jobs.first() else {
        return;
    };
    let help = match read.directory.chats.keys().next() {
        Some(chat) => format!(
            "name a chat with `alert_to = \"{chat}\"`, here or in `[defaults]`, or say `alert = false`"
        ),
        None => {
            String::from("the file has no chat to tell it in; say `alert = false` if that is meant")
        }
    };
    report(reader, file, first, &["deliver"], |span| {
        Problem::warning(
            Code::NobodyTold,
            span,
            format!("nobody is told when {} fails", some_of(&jobs)),
        )
        .label("this is no chat")
        .help(help)
    });
}

/// Keys that a job has and that change nothing, because of what else it says.
fn without_effect(reader: &mut Reader<'_>, file: &Fields, job: &Job) {
    let policies = &job.policies;
    let has_late_results = matches!(
        job.mode,
        Mode::Background {
            deliver: Deliver::Chat(_) | Deliver::Webhook(_),
            ..
        }
    );
    let is_told = policies.alert != Alert::Never;
    let catches_up = policies.catch_up != CatchUp::None;
    #[rustfmt::skip]
    let table = [
        ("late", has_late_results, "only results that are sent from the background can be late"),
        ("late_after", has_late_results, "only results that are sent from the background can be late"),
        ("alert_to", is_told, "`alert = false` tells nobody"),
        ("catch_up_window", catches_up, "`catch_up = \"none\"` starts no missed slot"),
        ("catch_up_spread", catches_up, "`catch_up = \"none\"` starts no missed slot"),
    ];
    for (key, has_effect, why) in table {
        if has_effect {
            continue;
        }
        report(reader, file, job.id.as_str(), &[key], |span| {
            let message = format!("`{key}` changes nothing for job `{}`", job.id);
            Problem::warning(Code::NoEffect, span, message)
                .label(why)
                .help("leave it out")
        });
    }
}

/// The first names of a list, and how many there are more.
fn some_of(names: &[&str]) -> String {
    let named = listed(names.iter().take(NAMED).copied(), "or");
    match names.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} or one of {more} more"),
    }
}

/// A job that comes due again before its run has ended: every other slot is skipped.
fn short_period(
    reader: &mut Reader<'_>,
    file: &Fields,
    job: &Job,
    planner: &Planner,
    time: RunTime,
) {
    let until = reader.now.saturating_add(AHEAD).unwrap_or(Timestamp::MAX);
    let slots: Vec<Timestamp> = planner
        .firing_between(reader.now, until)
        .take(SLOTS_MAX)
        .map(|planned| planned.nominal)
        .collect();
    let gaps = slots.windows(2).map(|pair| pair[0].duration_until(pair[1]));
    let Some(gap) = gaps.min().filter(|gap| *gap < time.shortest) else {
        return;
    };
    report(reader, file, job.id.as_str(), WHEN, |span| {
        Problem::warning(
            Code::ShortPeriod,
            span,
            format!(
                "job `{}` comes due again after {gap:#}, and a run takes {:#}",
                job.id, time.shortest
            ),
        )
        .label("some of its slots meet a run, and are skipped")
        .help("let it come less often")
    });
}

/// Where a job says when it runs.
const WHEN: &[&str] = &["daily", "cron", "every", "at"];

/// Reports a problem where a job has one of these keys.
fn report(
    reader: &mut Reader<'_>,
    file: &Fields,
    name: &str,
    keys: &[&str],
    problem: impl FnOnce(Range<usize>) -> Problem,
) {
    let Some(entry) = file.entries("jobs").iter().find(|entry| entry.name == name) else {
        return;
    };
    if let Some(field) = keys.iter().find_map(|key| entry.fields.field(key)) {
        let problem = problem(field.span.clone());
        let of_job = (&*entry.name, &entry.name_span);
        reader.within(EntryKind::Job, of_job, |reader| reader.report(problem));
    }
}
