//! The JSON Schema says the same as the reader of the file, as far as a schema can.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is missing"
)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use chatcron::config::{self, Code, Level};
use serde_json::Value;

/// Bad files that a schema takes: what is wrong is a relation between values, the calendar, the
/// zone database, another file, or what somebody means by a text.
const NOT_SEEN_BY_A_SCHEMA: &[&str] = &[
    "bad-address",
    "bad-cron",
    "bad-days-in-words",
    "bad-scenario",
    "bad-zone",
    "chats-not-told-apart",
    "contradiction",
    "date-that-is-not",
    "empty-bounds",
    "empty-prompt-file",
    "impossible-expectation",
    "lints",
    "missing-address",
    "never",
    "no-agent",
    "no-effect",
    "no-key",
    "no-zone",
    "prompt-file",
    "same-chat",
    "secret-in-prompt",
    "unknown-agent",
    "unknown-channel",
    "unknown-chat",
    "unknown-job",
    "warnings",
    "wide-jitter",
    "zero-period",
];

/// Bad files that are no TOML, so that there is nothing to validate.
const NOT_TOML: &[&str] = &["duplicate-key", "not-toml", "secret-not-toml"];

fn validator() -> jsonschema::Validator {
    jsonschema::draft202012::new(&config::schema()).unwrap()
}

fn document(path: &Path) -> Option<Value> {
    let table: toml::Table = fs::read_to_string(path).unwrap().parse().ok()?;
    Some(json(toml::Value::Table(table)))
}

/// As editors see it: dates and times are texts.
fn json(value: toml::Value) -> Value {
    match value {
        toml::Value::Datetime(moment) => moment.to_string().into(),
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Array(items) => items.into_iter().map(json).collect(),
        toml::Value::Table(table) => table
            .into_iter()
            .map(|(key, value)| (key, json(value)))
            .collect(),
    }
}

fn fixtures(folder: &str) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(Path::new("tests/fixtures/jobs").join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    paths.sort();
    paths
}

#[test]
fn the_schema_is_one() {
    let schema = config::schema();
    assert!(jsonschema::meta::is_valid(&schema));
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
}

#[test]
fn the_schema_takes_every_right_file() {
    let validator = validator();
    let example = PathBuf::from("jobs.example.toml");
    for path in fixtures("good").into_iter().chain([example]) {
        let document = document(&path).unwrap();
        let errors: Vec<_> = validator
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
    }
}

#[test]
fn the_schema_refuses_every_file_whose_structure_is_wrong() {
    let validator = validator();
    let mut taken = BTreeSet::new();
    let mut not_toml = BTreeSet::new();
    for path in fixtures("bad") {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        match document(&path) {
            None => {
                not_toml.insert(name);
            }
            Some(document) if validator.is_valid(&document) => {
                taken.insert(name);
            }
            Some(_) => {}
        }
    }
    let listed = |names: &[&str]| -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    };
    assert_eq!(taken, listed(NOT_SEEN_BY_A_SCHEMA));
    assert_eq!(not_toml, listed(NOT_TOML));
}

/// What only the reader sees, whatever the value: see [`NOT_SEEN_BY_A_SCHEMA`].
const CODES_NOT_SEEN: &[Code] = &[
    Code::BadAddress,
    Code::BadCron,
    Code::BadDate,
    Code::BadDays,
    Code::BadScenario,
    Code::BadZone,
    Code::EmptyBounds,
    Code::ImpossibleExpectation,
    Code::Never,
    Code::NoAgent,
    Code::NoSecret,
    Code::NoZone,
    Code::PromptFile,
    Code::SameChat,
    Code::SecretInFile,
    Code::UnknownAgent,
    Code::UnknownChannel,
    Code::UnknownChat,
    Code::UnknownJob,
    Code::WideJitter,
];

#[test]
fn the_schema_and_the_reader_agree_on_every_changed_value() {
    let values = [
        "1",
        "-1",
        "1.5",
        "true",
        "2026-01-01",
        "08:00:00",
        "2026-01-01T08:00:00",
        "2026-01-01T08:00:00Z",
        "\"\"",
        "\" \"",
        "\"x\"",
        "\"5m\"",
        "\"5 minutes\"",
        "\"30s \"",
        "\"08:00\"",
        "\"2026-01-01\"",
        "\"2026-01-01 08:00:30\"",
        "\"https://example.org\"",
        "\"history\"",
        "[]",
        "[\"5m\"]",
        "[\"08:00\", 7]",
        "[\"\"]",
        "[\"5\"]",
        "{}",
        "{ webhook = \"https://example.org\" }",
        "{ attempts = 2, backoff = \"5m\" }",
        "{ chat = \"me\" }",
    ];
    let validator = validator();
    let mut compared = 0;
    let mut differences = Vec::new();
    for path in fixtures("good") {
        let source = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = source.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some((key, _)) = line.split_once(" = ") else {
                continue;
            };
            let others = values.map(|value| format!("{key} = {value}"));
            let misspelt = [format!("{key}x = 1"), String::new()];
            for changed in others.iter().chain(&misspelt) {
                let mut changed_lines = lines.clone();
                changed_lines[at] = changed;
                let changed_source = changed_lines.join("\n");
                if let Some(difference) = difference(&validator, &changed_source) {
                    differences.push(format!("{}: {changed}: {difference}", path.display()));
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 1_000, "{compared}");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// The reader finds nothing: the schema does not either. The reader finds something that a schema
/// sees: so does the schema.
fn difference(validator: &jsonschema::Validator, source: &str) -> Option<String> {
    let table: toml::Table = source.parse().ok()?;
    let taken = validator.is_valid(&json(toml::Value::Table(table)));
    let read_file = |_: &Path| Ok(String::from("Do it."));
    let loaded = config::parse(source, &read_file, "2025-12-01T00:00:00Z".parse().unwrap());
    let errors: Vec<_> = loaded
        .problems
        .iter()
        .filter(|problem| problem.level == Level::Error)
        .collect();
    if errors.is_empty() && !taken {
        return Some(String::from("only the schema refuses it"));
    }
    let seen = errors.iter().find(|problem| {
        // To an editor a TOML date is a text like any other.
        let is_date = problem.code == Code::WrongType && problem.message.contains("date or time");
        !is_date && !CODES_NOT_SEEN.contains(&problem.code)
    });
    match seen {
        Some(problem) if taken => Some(format!("only the reader refuses it: {}", problem.message)),
        Some(_) | None => None,
    }
}

#[test]
fn every_key_of_the_schema_is_used_by_some_right_file() {
    let mut used = BTreeSet::new();
    for path in fixtures("good") {
        collect_keys(&document(&path).unwrap(), &mut used);
    }
    let mut declared = BTreeSet::new();
    collect_properties(&config::schema(), &mut declared);
    let unused: Vec<_> = declared.difference(&used).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

fn collect_keys(value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                keys.insert(key.clone());
                collect_keys(value, keys);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_keys(item, keys)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn collect_properties(schema: &Value, keys: &mut BTreeSet<String>) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Object(properties)) = object.get("properties") {
                for (key, property) in properties {
                    assert!(
                        property["description"].is_string(),
                        "{key} has no description"
                    );
                    keys.insert(key.clone());
                }
            }
            object
                .values()
                .for_each(|value| collect_properties(value, keys));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_properties(item, keys)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
