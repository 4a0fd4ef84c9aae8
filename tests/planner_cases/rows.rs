//! The rows of the case files.

use std::{collections::HashMap, fs};

use chatcron::job::{ScheduleSpec, When};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, de::DeserializeOwned};

#[derive(Deserialize)]
pub(crate) struct NextRow {
    pub(crate) id: String,
    pub(crate) dialect: String,
    pub(crate) expr: String,
    pub(crate) tz: String,
    pub(crate) after: Timestamp,
    pub(crate) expected: Vec<Timestamp>,
    pub(crate) tags: Vec<String>,
    pub(crate) dst_ok: Option<Vec<String>>,
    pub(crate) domdow_ok: Option<Vec<String>>,
    pub(crate) until: Option<Timestamp>,
}

#[derive(Deserialize)]
pub(crate) struct DstRow {
    pub(crate) id: String,
    pub(crate) tz: String,
    pub(crate) transition: String,
    pub(crate) expr: String,
    pub(crate) after: Timestamp,
    pub(crate) by_rule: HashMap<String, Vec<Timestamp>>,
}

#[derive(Deserialize)]
pub(crate) struct InvalidRow {
    pub(crate) id: String,
    pub(crate) expr: String,
    pub(crate) dialect: String,
    pub(crate) why: String,
    pub(crate) required: bool,
}

#[derive(Deserialize)]
pub(crate) struct IntervalRow {
    pub(crate) id: String,
    pub(crate) every: Vec<Interval>,
    pub(crate) anchor: Timestamp,
    pub(crate) after: Timestamp,
    pub(crate) expected: Vec<Timestamp>,
    pub(crate) start: Option<Timestamp>,
    pub(crate) end: Option<Timestamp>,
}

#[derive(Deserialize)]
pub(crate) struct Interval {
    pub(crate) every_s: i64,
    pub(crate) phase_s: i64,
}

#[derive(Deserialize)]
pub(crate) struct MatchRow {
    pub(crate) id: String,
    pub(crate) dialect: String,
    pub(crate) expr: String,
    pub(crate) tz: String,
    pub(crate) at: Timestamp,
    pub(crate) matches: bool,
}

/// The rows of a file, in order.
pub(crate) fn read<Row: DeserializeOwned>(file: &str) -> Vec<Row> {
    let path = format!(
        "{}/tests/fixtures/cases/{file}.jsonl",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// A schedule without bounds.
pub(crate) fn spec(when: When, zone: &str) -> ScheduleSpec {
    ScheduleSpec {
        when,
        zone: zone.to_owned(),
        from: None,
        until: None,
        exclude: Vec::new(),
        jitter: SignedDuration::ZERO,
    }
}

/// A zone name for the fixed offsets that some rows have in place of one.
pub(crate) fn iana(zone: &str) -> &str {
    match zone {
        "+05:30" => "Asia/Kolkata",
        "-07:00" => "Etc/GMT+7",
        "-08:00" => "Etc/GMT+8",
        name => name,
    }
}
