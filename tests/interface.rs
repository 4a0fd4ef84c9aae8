//! What a program that embeds the library can name: the root of `src/lib.rs` and a few modules of
//! data, and nothing of the modules behind them.
//!
//! `.ci/run` compiles the example gateway in a package of its own, which has no feature `testing`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeSet, fs, path::Path};

/// The modules that are the interface.
const PUBLIC: [&str; 7] = [
    "directory",
    "ids",
    "inbound",
    "job",
    "message",
    "occurrence",
    "transcript",
];

/// For `src/main.rs`, and in no document.
const OF_THE_BINARY: &str = "cli";

#[test]
fn only_these_modules_are_public_without_the_feature_testing() {
    let lib = read("src/lib.rs");
    let modules = public_modules(&lib);
    let is_public = |(attributes, _): &&(String, String)| !is_opened_by_testing(attributes);
    let public: Vec<_> = modules.iter().filter(is_public).collect();
    let mut names: Vec<_> = public.iter().map(|(_, name)| name.as_str()).collect();
    names.sort_unstable();
    let mut wanted = vec![OF_THE_BINARY];
    wanted.extend(PUBLIC);
    assert_eq!(names, wanted);
    for (attributes, name) in &public {
        let is_hidden = attributes.contains("#[doc(hidden)]");
        assert_eq!(is_hidden, name == OF_THE_BINARY, "{name}");
    }
}

#[test]
fn what_testing_opens_is_in_no_document_and_private_otherwise() {
    let lib = read("src/lib.rs");
    let opened = public_modules(&lib)
        .into_iter()
        .filter(|(attributes, _)| is_opened_by_testing(attributes));
    let mut count = 0;
    for (attributes, name) in opened {
        assert!(attributes.contains("#[doc(hidden)]"), "{name}");
        assert!(lib.contains(&format!("\nmod {name};\n")), "{name}");
        count += 1;
    }
    assert!(count > 15, "{count} modules");
}

#[test]
fn nothing_of_the_product_asks_for_testing() {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let features = manifest["features"].as_table().unwrap();
    for (name, needs) in features {
        let needs = needs.as_array().unwrap();
        let asks = needs.iter().any(|need| need.as_str() == Some("testing"));
        assert!(!asks, "the feature `{name}`");
    }
    let outside: toml::Table = read("tests/outside/Cargo.toml").parse().unwrap();
    let chatcron = outside["dependencies"]["chatcron"].as_table().unwrap();
    assert_eq!(chatcron["features"].as_array().unwrap().len(), 1);
    assert_eq!(chatcron["features"][0].as_str(), Some("sqlite"));
}

/// A document's examples are compiled as doc tests, which have the feature.
#[test]
fn documents_and_the_example_gateway_name_only_the_interface() {
    // Those files of the source whose documentation gateways read.
    let files = ["README.md", "src/lib.rs", "src/config/draft.rs"];
    let mut paths: Vec<_> = files.map(str::to_owned).into();
    for folder in ["docs", "docs/design", "examples/gateway", "src/embed"] {
        let files = fs::read_dir(root().join(folder)).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        paths.extend(names.map(|name| format!("{folder}/{name}")));
    }
    let mut seen = BTreeSet::new();
    for path in paths {
        if !path.ends_with(".md") && !path.ends_with(".rs") {
            continue;
        }
        for module in named_modules(&read(&path)) {
            assert!(PUBLIC.contains(&module.as_str()), "{path}: `{module}`");
            seen.insert(module);
        }
    }
    assert!(seen.contains("message"), "nothing was looked at: {seen:?}");
}

#[test]
fn the_document_for_gateways_has_every_public_module() {
    let document = read("docs/embedding.md");
    let rows: Vec<_> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|row| row.split('`').next())
        .collect();
    for module in PUBLIC {
        assert!(rows.contains(&module), "{module}");
    }
}

#[test]
fn the_reader_of_paths_opens_groups() {
    let text = "use chatcron::{Agent, message::{Receipt, SendAnswer}, worker::Worker};\n\
                chatcron::ids::JobId::new(x); let chatcron = chatcron::Chatcron::builder();";
    let found = named_modules(text);
    assert_eq!(found, ["message", "worker", "ids"]);
}

fn is_opened_by_testing(attributes: &str) -> bool {
    attributes.contains("feature = \"testing\"")
        && !attributes.contains("not(feature = \"testing\"")
}

/// The modules that are declared `pub` at the root, with the attributes before them.
fn public_modules(lib: &str) -> Vec<(String, String)> {
    let mut modules = Vec::new();
    let mut attributes = String::new();
    for line in lib.lines() {
        if line.starts_with("#[") {
            attributes.push_str(line);
            continue;
        }
        if let Some(rest) = line.strip_prefix("pub mod ") {
            let name = rest.trim_end_matches([';', '{', ' ']);
            modules.push((attributes.clone(), name.to_owned()));
        }
        attributes.clear();
    }
    modules
}

/// The modules of the library that a text names, in its order: what is written in small letters
/// before `::`, after `chatcron::`.
fn named_modules(text: &str) -> Vec<String> {
    let mut modules = Vec::new();
    for rest in text.split("chatcron::").skip(1) {
        if !rest.starts_with('{') {
            modules.extend(module_of(rest));
            continue;
        }
        let mut depth = 0;
        let end = rest.find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0
        });
        let group = &rest[..end.unwrap_or(rest.len())];
        let paths = group.split(|c: char| c.is_whitespace() || "{},".contains(c));
        modules.extend(paths.filter_map(module_of));
    }
    modules
}

fn module_of(path: &str) -> Option<String> {
    let (head, _) = path.split_once("::")?;
    let is_module = head.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    (is_module && !head.is_empty()).then(|| head.to_owned())
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
