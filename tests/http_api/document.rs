//! The OpenAPI document: as it is served, kept and explained.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    client::{JOBS, Served},
    process::Place,
};

const KEPT: &str = include_str!("../../docs/openapi.json");
const EXPLAINED: &str = include_str!("../../docs/http-api.md");

/// Every operation as `METHOD /path`.
fn operations(document: &Value) -> BTreeSet<String> {
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, operations)| {
        let methods = operations.as_object().unwrap().keys();
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    operations.collect()
}

/// `CHATCRON_WRITE_OPENAPI=1 cargo test --test http_api kept` writes it anew.
#[test]
fn the_kept_document_is_the_one_that_is_made() {
    let made = format!("{:#}\n", chatcron::http::document());
    if std::env::var_os("CHATCRON_WRITE_OPENAPI").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");
        std::fs::write(path, &made).unwrap();
        return;
    }
    assert!(
        made == KEPT,
        "docs/openapi.json differs: CHATCRON_WRITE_OPENAPI=1 cargo test --test http_api kept"
    );
}

#[test]
fn the_served_document_is_the_kept_one() {
    let place = Place::new(JOBS);
    let served = Served::new(&place);
    let found = served.get("/openapi.json").ok(200);
    assert_eq!(found, serde_json::from_str::<Value>(KEPT).unwrap());
    assert_eq!(found["openapi"], "3.1.0");
}

#[test]
fn every_operation_has_its_words_and_its_problems() {
    let document = chatcron::http::document();
    let mut count = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let what = format!("{method} {path}");
            assert!(operation["summary"].is_string(), "{what}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                if status.starts_with(['4', '5']) {
                    let schema = &response["content"]["application/problem+json"]["schema"];
                    assert_eq!(
                        schema["$ref"], "#/components/schemas/Problem",
                        "{what} {status}"
                    );
                }
            }
            count += 1;
        }
    }
    assert!(count >= 20, "{count}");
}

/// What is explained is what there is.
#[test]
fn every_operation_is_explained_and_no_other() {
    let made = operations(&chatcron::http::document());
    let explained: BTreeSet<String> = EXPLAINED
        .lines()
        .filter_map(|line| line.strip_prefix("### `")?.split('`').next())
        .map(str::to_owned)
        .collect();
    let missing: Vec<_> = made.difference(&explained).collect();
    let gone: Vec<_> = explained.difference(&made).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "missing: {missing:?}; gone: {gone:?}"
    );
    let mut codes = problem_codes();
    codes.retain(|code| !EXPLAINED.contains(&format!("`{code}`")));
    assert!(codes.is_empty(), "docs/http-api.md lacks {codes:?}");
}

/// The figures of `/metrics` are explained too.
#[test]
fn every_figure_is_explained() {
    let source = include_str!("../../src/measure.rs");
    let names = source
        .split('"')
        .filter(|word| word.starts_with("chatcron_"));
    let missing: Vec<_> = names
        .filter(|name| !EXPLAINED.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "docs/http-api.md lacks {missing:?}");
}

/// The names of events are explained too.
#[test]
fn every_event_is_explained() {
    let source = include_str!("../../src/worker/events.rs");
    let kinds = source.split("pub enum Happened {").nth(1).unwrap();
    let kinds = kinds.split("\n}\n").next().unwrap();
    let lines = kinds.lines().filter_map(|line| line.strip_prefix("    "));
    let names = lines.filter(|line| line.starts_with(char::is_uppercase));
    let names: Vec<String> = names
        .map(|name| {
            let letters = name.trim_end_matches(" {").chars();
            let words = letters.flat_map(|c| {
                let is_first = c.is_uppercase().then_some('_');
                is_first.into_iter().chain(c.to_lowercase())
            });
            words.collect::<String>().trim_start_matches('_').to_owned()
        })
        .collect();
    assert!(names.len() >= 8, "{names:?}");
    let is_missing = |name: &&String| !EXPLAINED.contains(&format!("`{name}`"));
    let missing: Vec<_> = names.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "docs/http-api.md lacks {missing:?}");
}

/// The codes of problems, as the source spells them.
fn problem_codes() -> Vec<&'static str> {
    let source = include_str!("../../src/http/problem.rs");
    let kinds = source.split("fn spelled(self)").nth(1).unwrap();
    let kinds = kinds.split("/// A problem of this kind").next().unwrap();
    let words = kinds.split('"').skip(1).step_by(2);
    let codes: Vec<_> = words.filter(|word| !word.contains(' ')).collect();
    assert!(codes.len() > 15, "{codes:?}");
    codes
}
