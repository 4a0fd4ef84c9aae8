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
    let mut problems = Vec::new();
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        if error.message().starts_with("duplicate key") {
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
    Problem::error(
        Code::DuplicateKey,
        span,
        format!("`{key}` is there twice"),
    )
    .label("the second one")
    .help("TOML takes each key and each table once, so the file as a whole is not accepted; rename or remove one")
}

fn malformed(source: &str, message: &str, span: Range<usize>) -> Problem {
    let line = source[..span.start.min(source.len())]
        .rfind('\n')
        .map_or(0, |newline| newline + 1);
    let before = source.get(line..span.start).unwrap_or_default();
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
