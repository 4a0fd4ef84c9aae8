//! The planner against collected facts: next times, clock changes, refusals, grids and matches.
//!
//! Every row is accounted for: it applies, another dialect wrote it, or a rule of ours refuses it.
//! The counts are asserted, so that a row can never drop out unseen.

#[path = "planner_cases/rows.rs"]
mod rows;

use chatcron::{
    job::When,
    schedule::{Planned, Planner, cron},
};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rows::{DstRow, IntervalRow, InvalidRow, MatchRow, NextRow, read, spec};

/// How the rows of one file came out.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    /// Right by our rules.
    applied: usize,
    /// Right after the correction that the refusal's hint proposes.
    refused_with_right_hint: usize,
    /// Refused by a rule of ours, for a reason that the test names.
    refused_by_rule: usize,
    /// Another dialect, or a rule that is not ours.
    other: usize,
}

impl Tally {
    fn print(&self, file: &str) {
        println!("{file}: {self:?}");
    }
}

fn planner(expr: &str, zone: &str) -> Planner {
    planner_of(&spec(When::Cron(expr.to_owned()), zone))
}

fn planner_of(spec: &chatcron::job::ScheduleSpec) -> Planner {
    Planner::new(spec, Timestamp::UNIX_EPOCH).unwrap_or_else(|error| panic!("{spec:?}: {error}"))
}

/// The next times, one question each, as RFC 3339 in the zone.
fn next_times(planner: &Planner, after: Timestamp, count: usize) -> Vec<Timestamp> {
    let mut times = Vec::new();
    let mut after = after;
    while times.len() < count {
        let Some(planned) = planner.next(after) else {
            break;
        };
        after = planned.nominal;
        times.push(after);
    }
    times
}

/// Rows that the collection's `debian` oracle answers by another rule than ours.
///
/// It makes no correction at clock changes for an expression with a seconds field, as cronsim does.
/// Ours looks at the minute and hour fields only: `0 30 2 * * *` is `30 2 * * *`.
const SECONDS_WITHOUT_CORRECTION: [&str; 10] = [
    "next-0020",
    "next-0027",
    "next-0029",
    "next-0034",
    "next-0298",
    "next-0300",
    "next-0325",
    "next-0346",
    "next-0347",
    "next-0348",
];

/// Whether a next.jsonl row is written by our rules.
fn is_ours(row: &NextRow) -> bool {
    let names = |rules: &Option<Vec<String>>, ours: &str| {
        rules
            .as_ref()
            .is_none_or(|rules| rules.iter().any(|rule| rule == ours))
    };
    let dialect = ["cron5", "cron6-sec-first", "debian-cron5"].contains(&row.dialect.as_str());
    // With a seconds field our rule is the collection's `gapend_once`, in all rows that have one.
    let seconds = row.dialect == "cron6-sec-first";
    let clock = names(&row.dst_ok, "debian") || (seconds && names(&row.dst_ok, "gapend_once"));
    clock && names(&row.domdow_ok, "or_strict") && dialect
}

#[test]
fn next_times_are_right_wherever_our_rules_cover_the_row() {
    let mut tally = Tally::default();
    let mut readme_rule = 0;
    for row in read::<NextRow>("next") {
        if !is_ours(&row) {
            tally.other += 1;
            continue;
        }
        let by_debian = row
            .dst_ok
            .as_ref()
            .is_none_or(|rules| rules.contains(&"debian".to_owned()));
        readme_rule += usize::from(by_debian && row.dialect != "debian-cron5");
        if SECONDS_WITHOUT_CORRECTION.contains(&row.id.as_str()) {
            assert_ne!(found_next(&row, &row.expr), row.expected, "{}", row.id);
            tally.refused_by_rule += 1;
            continue;
        }
        match cron::parse(&row.expr) {
            Ok(_) => {
                check_next(&row, &row.expr);
                tally.applied += 1;
            }
            Err(cron::CronError::NeverComes { .. }) => {
                assert!(row.expected.is_empty(), "{}: {}", row.id, row.expr);
                tally.applied += 1;
            }
            Err(cron::CronError::StepFromValue { .. }) => {
                assert!(row.tags.iter().any(|tag| tag == "single-slash-step"));
                check_next(&row, &corrected(&row.expr));
                tally.refused_with_right_hint += 1;
            }
            Err(error) => panic!("{}: {}: {error}", row.id, row.expr),
        }
    }
    tally.print("next");
    println!("next, by the rule of the case collection: {readme_rule}");
    assert_eq!(readme_rule, 279);
    assert_eq!(
        tally,
        Tally {
            applied: 325,
            refused_with_right_hint: 13,
            refused_by_rule: 10,
            other: 194,
        }
    );
}

/// The expression with every refused part replaced by what its refusal proposes.
fn corrected(expr: &str) -> String {
    let mut expr = expr.to_owned();
    while let Err(error) = cron::parse(&expr) {
        let hint = error.hint().expect("a refusal with a hint").to_owned();
        expr.replace_range(error.span(), &hint);
    }
    expr
}

fn check_next(row: &NextRow, expr: &str) {
    assert_eq!(
        found_next(row, expr),
        row.expected,
        "{}: {expr} in {}",
        row.id,
        row.tz
    );
}

fn found_next(row: &NextRow, expr: &str) -> Vec<Timestamp> {
    let planner = planner(expr, rows::iana(&row.tz));
    let mut times = next_times(&planner, row.after, row.expected.len().max(1));
    if let Some(until) = row.until {
        times.retain(|time| *time < until);
    }
    times
}

#[test]
fn clock_changes_follow_the_cronie_rule_in_every_row_of_the_matrix() {
    let mut tally = Tally::default();
    for row in read::<DstRow>("dst-matrix") {
        // A date that the zone skipped whole is no date of the job.
        let rule = if row.tz == "Pacific/Apia" {
            "skip_once"
        } else {
            "debian"
        };
        let expected = &row.by_rule[rule];
        let planner = planner(&row.expr, &row.tz);
        let times = next_times(&planner, row.after, expected.len());
        let label = format!("{}: {} in {}: {}", row.id, row.expr, row.tz, row.transition);
        assert_eq!(&times, expected, "{label}");
        let until = *expected.last().expect("a row has times");
        let range: Vec<Timestamp> = planner
            .firing_between(row.after, until)
            .map(|planned| planned.nominal)
            .collect();
        assert_eq!(&range, expected, "{label}");
        tally.applied += 1;
    }
    tally.print("dst-matrix");
    assert_eq!(tally.applied, 202);
}

#[test]
fn every_expression_that_must_be_rejected_is_rejected_with_its_place() {
    let mut tally = Tally::default();
    let mut also = 0;
    for row in read::<InvalidRow>("invalid") {
        let parsed = cron::parse(&row.expr);
        if let Err(error) = &parsed {
            let span = error.span();
            assert!(row.expr.get(span).is_some(), "{}: {error:?}", row.id);
            assert!(!error.to_string().is_empty());
        }
        match (row.required, parsed) {
            (true, Ok(_)) => panic!("{}: `{}` is accepted: {}", row.id, row.expr, row.why),
            (true, Err(_)) => tally.applied += 1,
            (false, Err(_)) => {
                also += 1;
                tally.other += 1;
            }
            (false, Ok(_)) => {
                println!(
                    "accepted: {} `{}` ({}: {})",
                    row.id, row.expr, row.dialect, row.why
                );
                tally.other += 1;
            }
        }
    }
    tally.print("invalid");
    println!("invalid, of the rows that dialects differ on: {also} rejected");
    assert_eq!((tally.applied, tally.other, also), (253, 51, 39));
}

/// Rows of interval.jsonl that one `every` schedule cannot say.
const NOT_ONE_GRID: [(&str, &str); 2] = [
    ("int-003", "the union of two intervals is two jobs"),
    ("int-004", "`exclude` takes dates, not hours of the day"),
];

#[test]
fn grids_are_right_wherever_one_every_schedule_says_the_row() {
    let mut tally = Tally::default();
    for row in read::<IntervalRow>("interval") {
        if let Some((id, why)) = NOT_ONE_GRID.iter().find(|(id, _)| *id == row.id) {
            println!("{id}: {why}");
            tally.refused_by_rule += 1;
            continue;
        }
        let [interval] = row.every.as_slice() else {
            panic!("{}: several intervals", row.id);
        };
        let anchor = row.anchor + SignedDuration::from_secs(interval.phase_s);
        let mut spec = spec(
            When::Every {
                period: SignedDuration::from_secs(interval.every_s),
                anchor: Some(anchor),
            },
            "UTC",
        );
        let utc = |at: Timestamp| TimeZone::UTC.to_datetime(at);
        spec.from = row.start.map(utc);
        spec.until = row.end.map(utc);
        let planner = planner_of(&spec);
        let count = row.expected.len() + usize::from(row.end.is_some());
        assert_eq!(
            next_times(&planner, row.after, count),
            row.expected,
            "{}",
            row.id
        );
        tally.applied += 1;
    }
    tally.print("interval");
    assert_eq!((tally.applied, tally.refused_by_rule), (9, 2));
}

#[test]
fn an_instant_matches_exactly_where_an_occurrence_is() {
    let mut tally = Tally::default();
    for row in read::<MatchRow>("match") {
        if row.dialect != "cron5" {
            tally.other += 1;
            continue;
        }
        let expr = corrected(&row.expr);
        let planner = planner(&expr, &row.tz);
        let before = row.at - SignedDuration::from_secs(1);
        let hit: Vec<Planned> = planner.between(before, row.at).collect();
        assert_eq!(!hit.is_empty(), row.matches, "{}: {}", row.id, row.expr);
        let latest = planner.latest_at_or_before(row.at);
        let is_latest = latest.is_some_and(|planned| planned.nominal == row.at);
        assert_eq!(is_latest, row.matches, "{}: {}", row.id, row.expr);
        if expr == row.expr {
            tally.applied += 1;
        } else {
            tally.refused_with_right_hint += 1;
        }
    }
    tally.print("match");
    assert_eq!(
        (tally.applied, tally.refused_with_right_hint, tally.other),
        (14, 7, 49)
    );
}
