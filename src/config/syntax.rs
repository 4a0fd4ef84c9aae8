//! Text that is not TOML: what the parser could not read, and what may still be said of the rest.

use std::ops::Range;

use super::{
    problem::{Code, Problem},
    reader::Reader,
};

/// Reports what is not TOML.
///
/// The parser goes on after an error, so the rest of the file has been read. What stands in a
/// table with a syntax error may be the parser's guess, and a name that seems unknown may be one
/// that it lost, so nothing is said about those.
pub(super) fn report(reader: &mut Reader<'_>, errors: &[toml::de::Error]) {
    let mut lost: Vec<Range<usize>> = Vec::new();
    let mut again: Vec<Range<usize>> = Vec::new();
    let mut problems = Vec::new();
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        if error.message().starts_with("duplicate key") {
            // A table that is there twice has its keys twice, too; that need not be said of each.
            if again.iter().any(|table| table.contains(&span.start)) {
                continue;
            }
            if line(reader.source, span.start).1.starts_with('[') {
                again.push(section(reader.source, span.start));
            }
            problems.push(duplicate(reader.source, span));
        } else {
            lost.push(section(reader.source, span.start));
            problems.push(malformed(reader.source, error.message(), span));
        }
    }
    if !lost.is_empty() {
        reader.retain(|problem| {
            problem.code == Code::SecretInFile
                || (!lost
                    .iter()
                    .any(|section| section.contains(&problem.span.start))
                    && !relies_on_others(problem.code))
        });
    }
    for problem in problems {
        reader.report(problem);
    }
}

fn relies_on_others(code: Code) -> bool {
    [
        Code::UnknownChat,
        Code::UnknownAgent,
        Code::UnknownChannel,
        Code::NoAgent,
        Code::NoZone,
    ]
    .contains(&code)
}

fn duplicate(source: &str, span: Range<usize>) -> Problem {
    let key = source.get(span.clone()).unwrap_or("a key");
    let first = first_like(source, &span);
    let problem = Problem::error(Code::DuplicateKey, span, format!("`{key}` is there twice"))
        .label("the second one")
        .help("TOML takes each key and each table once, so the file as a whole is not accepted; rename or remove one");
    match first {
        Some(first) => problem.also(first, "the first one"),
        None => problem,
    }
}

/// Where the same header, or in the same table the same key, stands first.
fn first_like(source: &str, span: &Range<usize>) -> Option<Range<usize>> {
    let key = source.get(span.clone())?;
    let (start, own) = line(source, span.start);
    let is_header = own.starts_with('[');
    let mut at = if is_header {
        0
    } else {
        section(source, start).start
    };
    for other in source.get(at..start)?.split_inclusive('\n') {
        let is_same = if is_header {
            other.trim_end() == own.trim_end()
        } else {
            other
                .split('=')
                .next()
                .is_some_and(|name| name.trim() == key)
        };
        if is_same {
            let from = at + other.find(key)?;
            return Some(from..from + key.len());
        }
        at += other.len();
    }
    None
}

/// The line around a place, and where it begins.
fn line(source: &str, at: usize) -> (usize, &str) {
    let before = source.get(..at).unwrap_or(source);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let rest = &source[start..];
    (start, rest.lines().next().unwrap_or_default())
}

fn malformed(source: &str, message: &str, span: Range<usize>) -> Problem {
    let (start, _) = line(source, span.start);
    let before = source.get(start..span.start).unwrap_or_default();
    let help = if before.contains('=') && !before.contains('"') {
        "text stands in quotes: `prompt = \"...\"`; until this is TOML, nothing of the file counts"
    } else {
        "until this is TOML, nothing of the file counts"
    };
    Problem::error(Code::NotToml, span, format!("not TOML: {message}"))
        .label("cannot be read")
        .help(help)
}

/// The table around a place: from its header to the next one.
fn section(source: &str, at: usize) -> Range<usize> {
    let mut start = 0;
    let mut offset = 0;
    for line in source.split_inclusive('\n') {
        if line.trim_start().starts_with('[') && offset > 0 {
            if offset > at {
                return start..offset;
            }
            start = offset;
        }
        offset += line.len();
    }
    start..source.len() + 1
}
