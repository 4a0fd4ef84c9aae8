//! Fails when a module imports from a layer above its own, when a file has no layer, and when the
//! two doors of Rule 1 are used by anybody else.
//!
//! Layers are listed lowest first. A module may import its own layer and those below; the longest
//! matching path decides, so that `store` can be lower than `store/sqlite`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{fs, path::Path};

/// Path prefixes below `src/`, by layer.
const LAYERS: &[&[&str]] = &[
    // L0: data.
    &[
        "ids",
        "job",
        "directory",
        "message",
        "occurrence",
        "transcript",
    ],
    // L1: the pure core.
    &[
        "hygiene", "schedule", "policy", "audit", "replay", "config", "simulate",
    ],
    // L2: the traits that bound side effects.
    &[
        "clock",
        "measure",
        "store",
        "agent",
        "channel",
        "secret",
        "channel/inbound",
        "channel/log",
    ],
    // L3: adapters, one outside system a file.
    &[
        "http_client",
        "store/postgres",
        "store/sql",
        "store/sqlite",
        "channel/console",
        "channel/telegram",
        "channel/webhook",
        "agent/anthropic",
        "agent/command",
        "agent/echo",
        "agent/exchange",
        "agent/gemini",
        "agent/http",
        "agent/openai",
        "agent/openai_responses",
        "agent/plain",
        "agent/steps",
    ],
    // L4: the shell that knows traits.
    &["session", "outbound", "worker"],
    // L5: JSON objects of what is known, what makes adapters, and what a gateway holds.
    &["view", "wiring", "embed"],
    // L6: what a person or another program holds.
    &["cli", "http"],
];

/// Adapters that other adapters may use: what two of them have in common.
const SHARED_BY_ADAPTERS: &[&str] = &[
    "http_client",
    "agent/exchange",
    "agent/plain",
    "agent/steps",
    "store/sql",
];

/// The only files that make adapters: agents and channels, and the store.
const WIRING: &[&str] = &["wiring", "wiring/database", "wiring/lock"];

/// What a command says to the store's file, and makes no adapter by: how it is opened, the lock
/// beside it, and a copy of it.
const WORDS: &[&str] = &[
    "store/sqlite/OpenMode",
    "store/sqlite/WorkerLock",
    "store/sqlite/Holder",
    "store/sqlite/BackupError",
    "store/sqlite/back_up",
];

#[test]
fn imports_point_downward() {
    let mut offences = Vec::new();
    for (path, text) in sources() {
        let Some(own) = layer(&path) else { continue };
        for module in imported_modules(&path, &text) {
            if layer(&module).is_some_and(|used| used > own) {
                offences.push(format!("{path}: imports crate::{module}"));
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn every_module_has_a_layer() {
    let unlisted: Vec<_> = sources()
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| path != "lib" && path != "main" && layer(path).is_none())
        .collect();
    assert!(unlisted.is_empty(), "add to LAYERS: {unlisted:?}");
}

#[test]
fn adapters_do_not_import_each_other() {
    let adapters = LAYERS[3];
    let adapter_of = |path: &str| {
        let prefix = |name: &&&str| is_below(path, name);
        adapters.iter().find(prefix).copied()
    };
    let mut offences = Vec::new();
    for (path, text) in sources() {
        let Some(own) = adapter_of(&path) else {
            continue;
        };
        for module in imported_modules(&path, &text) {
            let other = adapter_of(&module);
            if other.is_some_and(|other| other != own && !SHARED_BY_ADAPTERS.contains(&other)) {
                offences.push(format!("{path}: imports crate::{module}"));
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn only_wiring_makes_adapters() {
    let mut offences = Vec::new();
    for (path, text) in sources() {
        let is_shell = layer(&path).is_some_and(|layer| layer > 3);
        if !is_shell || WIRING.contains(&path.as_str()) {
            continue;
        }
        for module in imported_modules(&path, &text) {
            let makes = layer(&module) == Some(3) && !WORDS.contains(&module.as_str());
            if makes {
                offences.push(format!("{path}: imports crate::{module}"));
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

/// Rule 1 has one writer: nothing else sends.
#[test]
fn only_the_outbound_writer_calls_send_of_a_channel() {
    let callers: Vec<_> = sources()
        .into_iter()
        .filter(|(_, text)| code(text).contains("channel.send("))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(callers, ["outbound/writer"]);
}

#[test]
fn nothing_climbs_two_levels() {
    for (path, text) in sources() {
        assert!(!code(&text).contains("super::super"), "{path}");
    }
}

fn layer(module: &str) -> Option<usize> {
    let mut best: Option<(usize, usize)> = None;
    for (index, prefixes) in LAYERS.iter().enumerate() {
        for prefix in *prefixes {
            let is_longer = best.is_none_or(|(length, _)| prefix.len() > length);
            if is_below(module, prefix) && is_longer {
                best = Some((prefix.len(), index));
            }
        }
    }
    best.map(|(_, index)| index)
}

fn is_below(module: &str, prefix: &str) -> bool {
    module == prefix
        || module
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with('/'))
}

/// Every path after `crate::`, as `a/b`, groups opened; and after `super::`, made absolute.
fn imported_modules(own: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let mut modules = Vec::new();
    for rest in code.split("crate::").skip(1) {
        let statement = rest.split(';').next().unwrap_or(rest);
        modules.extend(open_groups(statement));
    }
    let parent = own.rsplit_once('/').map_or("", |(parent, _)| parent);
    for rest in code.split("super::").skip(1) {
        let statement = rest.split(';').next().unwrap_or(rest);
        let siblings = open_groups(statement).into_iter();
        modules.extend(siblings.map(|module| format!("{parent}/{module}")));
    }
    modules
}

/// The paths of `a::{b, c::d}`: `a/b`, `a/c/d`.
fn open_groups(path: &str) -> Vec<String> {
    let head: String = path
        .trim_start()
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':')
        .collect();
    let rest = path.trim_start()[head.len()..].trim_start();
    let head = head.trim_end_matches(':').replace("::", "/");
    if !rest.starts_with('{') {
        return vec![head];
    }
    let mut paths = Vec::new();
    let (mut depth, mut start) = (0, 1);
    for (index, c) in rest.char_indices() {
        match c {
            '{' => depth += 1,
            '}' | ',' if depth == 1 => {
                let item = rest[start..index].trim();
                if !item.is_empty() {
                    let below = open_groups(item).into_iter();
                    paths.extend(below.map(|path| {
                        if head.is_empty() {
                            path
                        } else {
                            format!("{head}/{path}")
                        }
                    }));
                }
                start = index + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    paths
}

/// The text without line comments.
fn code(text: &str) -> String {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    text.lines().filter(is_code).collect::<Vec<_>>().join(" ")
}

/// Every source file, by its module path, without its tests.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &root, &mut files);
    files.sort();
    files
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let module = path.strip_prefix(root).unwrap().with_extension("");
            let module = module.to_string_lossy().replace('\\', "/");
            if !module.ends_with("/tests") {
                files.push((module, fs::read_to_string(&path).unwrap()));
            }
        }
    }
}

#[test]
fn the_reader_of_imports_opens_nested_groups() {
    let text =
        "use crate::{a::{b, c::d}, e}; use super::{f::g, h}; \n// use crate::no;\n//! crate::z";
    let mut found = imported_modules("x/y", text);
    found.sort();
    assert_eq!(found, ["a/b", "a/c/d", "e", "x/f/g", "x/h"]);
}
