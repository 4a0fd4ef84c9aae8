//! I1, I2, I6 and I7: slots, starts, overlap, rest.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    Call, Found, JobRule, Rules, Slots,
    facts::{Facts, Job, Occurrence},
};

const SECOND: i64 = 1_000_000;

const TERMINAL: [&str; 4] = ["done", "failed", "cancelled", "skipped"];

/// I1.
pub(super) fn every_slot_has_one_record(facts: &Facts, rules: &Rules, found: &mut Found) {
    for (job, rule) in &rules.jobs {
        let Some(stored) = facts.jobs.iter().find(|stored| stored.id == *job) else {
            found.unless(false, "I1", || format!("{job} is not there"));
            continue;
        };
        let expected = slots(stored, rule);
        let mut records: BTreeMap<i64, u32> = BTreeMap::new();
        for row in scheduled(facts, job) {
            *records.entry(row.nominal).or_default() += 1;
        }
        for range in facts.ranges.iter().filter(|range| range.job == *job) {
            let inside: Vec<_> = expected.range(range.first..=range.last).collect();
            let count = i64::try_from(inside.len()).unwrap();
            found.unless(count == range.slots, "I1", || {
                format!("{job}: a range of {} slots spans {count}", range.slots)
            });
            found.unless(!range.reason.is_empty(), "I1", || {
                format!("{job}: a range has no reason")
            });
            for slot in inside {
                *records.entry(*slot).or_default() += 1;
            }
        }
        for slot in &expected {
            let count = records.get(slot).copied().unwrap_or(0);
            found.unless(count == 1, "I1", || {
                format!("{job}: slot {slot} has {count} records")
            });
        }
        for slot in records.keys().filter(|slot| !expected.contains(slot)) {
            found.unless(false, "I1", || format!("{job}: {slot} is no slot"));
        }
    }
    for row in &facts.occurrences {
        let needs_reason = matches!(row.state.as_str(), "failed" | "skipped");
        let is_terminal = TERMINAL.contains(&row.state.as_str());
        found.unless(is_terminal && row.ended_at.is_some(), "I1", || {
            format!("occurrence {} is {}", row.id, row.state)
        });
        found.unless(!needs_reason || row.reason.is_some(), "I1", || {
            format!("occurrence {} is {} without a reason", row.id, row.state)
        });
    }
}

/// The slots that a job has had.
fn slots(stored: &Job, rule: &JobRule) -> BTreeSet<i64> {
    match &rule.slots {
        // Nothing is due before a job is first seen.
        Slots::At(slots) => {
            let slots = slots.iter().copied();
            slots.filter(|slot| *slot > stored.first_seen_at).collect()
        }
        // The grid is of whole seconds.
        Slots::Every(period) => (1..)
            .map(|k| stored.first_seen_at / SECOND * SECOND + k * period)
            .take_while(|slot| *slot <= stored.cursor)
            .collect(),
    }
}

fn scheduled<'a>(facts: &'a Facts, job: &'a str) -> impl Iterator<Item = &'a Occurrence> {
    let rows = facts.occurrences.iter();
    rows.filter(move |row| row.is_scheduled && row.job == job)
}

/// I1: a run and its occurrence end alike, and a slot that ran has a run.
pub(super) fn records_agree_with_runs(facts: &Facts, found: &mut Found) {
    let runs: HashMap<i64, _> = facts.runs.iter().map(|run| (run.occurrence, run)).collect();
    let known: BTreeSet<i64> = facts.occurrences.iter().map(|row| row.id).collect();
    for row in &facts.occurrences {
        match (runs.get(&row.id), row.state.as_str()) {
            (Some(run), state) => {
                let agree = run.state == state && run.reason == row.reason;
                found.unless(agree, "I1", || {
                    format!("occurrence {} is {state}, its run {}", row.id, run.state)
                });
            }
            (None, "skipped" | "cancelled") => {}
            (None, state) => found.unless(false, "I1", || {
                format!("occurrence {} is {state} without a run", row.id)
            }),
        }
    }
    for run in facts
        .runs
        .iter()
        .filter(|run| !known.contains(&run.occurrence))
    {
        found.unless(false, "I1", || format!("run {} has no occurrence", run.id));
    }
}

/// I2.
pub(super) fn starts_are_allowed(facts: &Facts, rules: &Rules, calls: &[Call], found: &mut Found) {
    let occurrences: HashMap<i64, _> = facts.occurrences.iter().map(|row| (row.id, row)).collect();
    for run in &facts.runs {
        let Some(rule) = rules.jobs.get(&run.job) else {
            continue;
        };
        let tries: Vec<_> = facts.attempts.iter().filter(|a| a.run == run.id).collect();
        let count = i64::try_from(tries.len()).unwrap();
        found.unless(count == run.attempts, "I2", || {
            format!(
                "run {} counts {} attempts and has {count}",
                run.id, run.attempts
            )
        });
        found.unless(run.attempts <= rule.attempts, "I2", || {
            format!("run {} was tried {} times", run.id, run.attempts)
        });
        for attempt in &tries {
            found.unless(
                attempt.ended_at.is_some() && attempt.result.is_some(),
                "I2",
                || format!("attempt {} of run {} has no end", attempt.number, run.id),
            );
        }
        let (Some(row), Some(first)) = (occurrences.get(&run.occurrence), tries.first()) else {
            continue;
        };
        found.unless(first.started_at >= row.nominal, "I2", || {
            format!("run {} began before its slot", run.id)
        });
        // What begins late because its lane was busy was taken up in time.
        let late = row.accounted_at - row.nominal;
        found.unless(!row.is_scheduled || late <= rule.window, "I2", || {
            format!("run {} was taken up {late} µs after its slot", run.id)
        });
    }
    calls_are_accounted(facts, rules, calls, found);
}

/// I2, from outside: each call of an agent is an attempt.
fn calls_are_accounted(facts: &Facts, rules: &Rules, calls: &[Call], found: &mut Found) {
    let mut by_key: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for call in calls {
        if let (Some(job), Some(key)) = (&call.job, &call.key) {
            *by_key.entry((job, key)).or_default() += 1;
        }
    }
    for ((job, key), count) in &by_key {
        let allowed = rules.jobs.get(*job).map_or(0, |rule| rule.attempts);
        found.unless(*count <= allowed, "I2", || {
            format!("{job}: the agent was asked {count} times for {key}")
        });
    }
    for job in rules.jobs.keys() {
        let runs: BTreeSet<i64> = facts
            .runs
            .iter()
            .filter(|run| run.job == *job)
            .map(|run| run.id)
            .collect();
        let keys = by_key.keys().filter(|(owner, _)| owner == job).count();
        found.unless(keys <= runs.len(), "I2", || {
            format!(
                "{job}: {keys} occurrences were asked for, and {} ran",
                runs.len()
            )
        });
        let attempts: Vec<_> = facts
            .attempts
            .iter()
            .filter(|attempt| runs.contains(&attempt.run))
            .collect();
        let own = || calls.iter().filter(|call| call.job.as_ref() == Some(job));
        found.unless(own().count() <= attempts.len(), "I2", || {
            format!(
                "{job}: {} calls in {} attempts",
                own().count(),
                attempts.len()
            )
        });
        for at in own().filter_map(|call| call.at) {
            let is_in_one = attempts.iter().any(|attempt| {
                attempt.started_at <= at && attempt.ended_at.is_none_or(|ended| ended >= at)
            });
            found.unless(is_in_one, "I2", || {
                format!("{job}: the agent was asked at {at} outside of every attempt")
            });
        }
    }
    for call in calls {
        let is_known = call
            .job
            .as_ref()
            .is_none_or(|job| rules.jobs.contains_key(job));
        found.unless(is_known, "I2", || format!("{:?} is no job", call.job));
    }
}

/// I6.
pub(super) fn runs_keep_apart(facts: &Facts, rules: &Rules, found: &mut Found) {
    let mut by_job: BTreeMap<&str, Vec<(i64, i64, i64)>> = BTreeMap::new();
    for run in &facts.runs {
        if let (Some(from), Some(to)) = (run.started_at, run.ended_at) {
            by_job.entry(&run.job).or_default().push((from, to, run.id));
        }
    }
    for (job, mut spans) in by_job {
        if rules.jobs.get(job).is_none_or(|rule| rule.overlaps) {
            continue;
        }
        spans.sort_unstable();
        for pair in spans.windows(2) {
            found.unless(pair[1].0 >= pair[0].1, "I6", || {
                format!("{job}: runs {} and {} overlap", pair[0].2, pair[1].2)
            });
        }
    }
    // An attempt that ends at an instant makes room for one that begins then.
    let mut changes = Vec::new();
    for attempt in &facts.attempts {
        if let Some(ended_at) = attempt.ended_at
            && ended_at > attempt.started_at
        {
            changes.push((ended_at, -1));
            changes.push((attempt.started_at, 1));
        }
    }
    changes.sort_unstable();
    let cap = i64::try_from(rules.max_concurrent).unwrap();
    let mut under_way = 0;
    for (at, change) in changes {
        under_way += change;
        found.unless(under_way <= cap, "I6", || {
            format!("{under_way} attempts are under way at {at}")
        });
    }
}

/// I7.
pub(super) fn nothing_is_left(facts: &Facts, rules: &Rules, found: &mut Found) {
    for run in &facts.runs {
        found.unless(TERMINAL.contains(&run.state.as_str()), "I7", || {
            format!("run {} is {}", run.id, run.state)
        });
    }
    for part in &facts.parts {
        let is_open = matches!(part.state.as_str(), "pending" | "sending");
        found.unless(!is_open, "I7", || {
            format!("part {} is {}", part.id, part.state)
        });
    }
    for turn in &facts.open_turns {
        found.unless(false, "I7", || format!("turn {turn} has no end"));
    }
    for lane in &facts.held_lanes {
        found.unless(false, "I7", || format!("the lane of {lane} is held"));
    }
    for job in &facts.jobs {
        found.unless(job.open == 0, "I7", || {
            format!("{} has {} runs or slots under way", job.id, job.open)
        });
        let goes_on = rules.jobs.get(&job.id).is_some_and(|rule| rule.goes_on);
        found.unless(
            !goes_on || job.is_paused || job.wake_at.is_some(),
            "I7",
            || format!("{} has no wake-up", job.id),
        );
    }
}
