//! What the documents say, checked: every TOML example is read, every key and dependency is
//! documented, and every file, link and function that is named is there.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is missing"
)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use chatcron::config;
use serde_json::Value;

/// Everything that a person reads.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![
        root().join("README.md"),
        root().join("CHANGELOG.md"),
        root().join("CONTRIBUTING.md"),
    ];
    for folder in ["docs", "docs/design"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// The fenced blocks of one language, each with the line of the document that it begins at.
fn blocks(document: &str, language: &str) -> Vec<(usize, String)> {
    let fence = format!("```{language}");
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in document.lines().enumerate() {
        match &mut open {
            None if line == fence => open = Some((number + 2, String::new())),
            None => {}
            Some(_) if line == "```" => blocks.extend(open.take()),
            Some((_, text)) => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    blocks
}

/// What the comments at the head of a block say about it.
struct Example<'a> {
    text: &'a str,
    expected: Option<&'a str>,
    is_whole: bool,
}

impl<'a> Example<'a> {
    fn of(text: &'a str) -> Self {
        let comments = || {
            let lines = text.lines();
            lines.map_while(|line| line.strip_prefix("# "))
        };
        Self {
            text,
            expected: comments().find_map(|line| line.strip_prefix("expect-error: ")),
            is_whole: comments().any(|line| line == "a whole file"),
        }
    }

    /// What is wrong with it, other than what it shows on purpose.
    fn check(&self, rest: &str) -> Result<(), String> {
        let source = if self.is_whole {
            self.text.to_owned()
        } else {
            format!("{rest}\n{}", self.text)
        };
        let prompt = |_: &Path| Ok("What is due?".to_owned());
        let now = "2026-11-30T08:00:00Z".parse().unwrap();
        let loaded = config::parse(&source, &prompt, now);
        let errors = loaded.problems.iter();
        let errors: Vec<_> = errors
            .filter(|problem| problem.level == config::Level::Error)
            .collect();
        let codes: Vec<_> = errors.iter().map(|problem| problem.code.as_str()).collect();
        let wanted: Vec<_> = self.expected.into_iter().collect();
        if codes == wanted {
            return Ok(());
        }
        let words: Vec<_> = errors.iter().map(|problem| &problem.message).collect();
        Err(format!("expected {wanted:?}, found {words:?}"))
    }
}

#[test]
fn every_example_of_the_readme_is_a_jobs_file() {
    let readme = read("README.md");
    let blocks = blocks(&readme, "toml");
    assert!(!blocks.is_empty());
    for (line, text) in blocks {
        let checked = Example::of(&text).check("");
        assert_eq!(checked, Ok(()), "README.md:{line}");
    }
}

#[test]
fn every_example_of_the_jobs_document_is_right_or_wrong_as_it_says() {
    let document = read("docs/jobs.md");
    let blocks = blocks(&document, "toml");
    let is_rest = |text: &str| text.starts_with("# the rest of the file\n");
    let (rest, examples): (Vec<_>, Vec<_>) = blocks.iter().partition(|(_, text)| is_rest(text));
    let [(_, rest)] = rest[..] else {
        panic!("one block completes the others");
    };
    assert_eq!(Example::of("").check(rest), Ok(()));
    for (line, text) in examples {
        let checked = Example::of(text).check(rest);
        assert_eq!(checked, Ok(()), "docs/jobs.md:{line}");
    }
}

#[test]
fn every_key_of_the_jobs_file_is_documented() {
    let document = read("docs/jobs.md");
    let mut keys = Vec::new();
    collect_keys(&config::schema(), &mut keys);
    keys.sort();
    keys.dedup();
    let missing: Vec<_> = keys
        .iter()
        .filter(|key| !document.contains(&format!("`{key}`")))
        .collect();
    assert!(keys.len() > 50, "{keys:?}");
    assert!(missing.is_empty(), "docs/jobs.md lacks {missing:?}");
}

fn collect_keys(schema: &Value, keys: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Object(properties)) = fields.get("properties") {
                keys.extend(properties.keys().cloned());
            }
            for value in fields.values() {
                collect_keys(value, keys);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_keys(item, keys)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_dependency_is_documented_and_no_other() {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let document = read("docs/dependencies.md");
    let names = ["dependencies", "dev-dependencies"]
        .into_iter()
        .flat_map(|table| manifest[table].as_table().unwrap().keys());
    let names: Vec<_> = names.map(String::as_str).collect();
    // The tables of crates stand between these two headings.
    let crates = document.split("## Always there").nth(1).unwrap();
    let crates = crates.split("## tokio-cron-scheduler").next().unwrap();
    let rows = crates.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
    let missing: Vec<_> = names.iter().filter(|n| !documented.contains(n)).collect();
    let gone: Vec<_> = documented.iter().filter(|n| !names.contains(n)).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "not documented: {missing:?}; documented and gone: {gone:?}"
    );
}

#[test]
fn the_packages_of_each_feature_set_are_as_many_as_it_says() {
    let document = read("docs/dependencies.md");
    let table = document.split("| features |").nth(1).unwrap();
    let rows = table
        .lines()
        .skip(2)
        .map_while(|line| line.strip_prefix("| "));
    let mut counted = 0;
    for row in rows {
        let cells: Vec<_> = row.trim_end_matches('|').split('|').collect();
        let features = cells[0].split('`').nth(1).unwrap_or("");
        let tree = Command::new(env!("CARGO"))
            .current_dir(root())
            .args(["tree", "--locked", "--offline", "--no-default-features"])
            .args([
                "--edges",
                "normal",
                "--prefix",
                "none",
                "--features",
                features,
            ])
            .output()
            .unwrap();
        assert!(tree.status.success(), "cargo tree of `{features}`");
        let tree = String::from_utf8(tree.stdout).unwrap();
        let packages: BTreeSet<_> = tree
            .lines()
            .map(|line| line.trim_end_matches(" (*)"))
            .collect();
        let said = cells.last().unwrap().trim();
        assert_eq!(packages.len().to_string(), said, "`{features}`");
        counted += 1;
    }
    assert!(counted > 5, "{counted} feature sets");
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for target in text.split("](").skip(1) {
            let target = target.split(')').next().unwrap_or_default();
            if target.contains("://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let linked = if file.is_empty() {
                path.clone()
            } else {
                path.parent().unwrap().join(file)
            };
            let is_there = fs::read_to_string(&linked)
                .map(|text| anchor.is_empty() || anchors(&text).any(|there| there == anchor))
                .unwrap_or_else(|_| linked.is_dir());
            if !is_there {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The anchors of a document's headings.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        });
        kept.collect()
    })
}

#[test]
fn every_file_and_every_name_in_it_is_there() {
    let mut wrong = Vec::new();
    let mut names = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for code in text.split('`').skip(1).step_by(2) {
            let (file, item) = code.split_once("::").unwrap_or((code, ""));
            let is_ours = [
                "src/",
                "tests/",
                "migrations/",
                "benches/",
                "examples/",
                ".ci/",
            ]
            .iter()
            .any(|folder| file.starts_with(folder));
            if !is_ours || file.contains(['*', ' ', '{']) {
                continue;
            }
            names += usize::from(!item.is_empty());
            let there = root().join(file);
            let is_right = match fs::read_to_string(&there) {
                Ok(source) => item.is_empty() || defines(&source, item),
                Err(_) => item.is_empty() && there.is_dir(),
            };
            if !is_right {
                wrong.push(format!("{}: {code}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(names > 30, "{names} names were looked up");
}

/// Whether a source defines this function, type, constant or test.
fn defines(source: &str, item: &str) -> bool {
    let kinds = ["fn", "struct", "enum", "trait", "const", "static", "type"];
    let is_it = |line: &str| {
        let mut words = line
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty());
        words.any(|word| kinds.contains(&word)) && words.next() == Some(item)
    };
    source.lines().any(is_it)
}

#[test]
fn every_fault_names_what_shows_it() {
    let text = read("docs/faults.md");
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<_> = rows.filter(|line| !line.starts_with("| fault |")).collect();
    assert!(rows.len() > 50, "{} faults", rows.len());
    for row in rows {
        let shown_by = row.trim_end_matches('|').rsplit('|').next().unwrap();
        assert!(
            shown_by.contains("`tests/") || shown_by.contains("`src/"),
            "{row}"
        );
    }
}
