//! Problems of a jobs file as text for people, and as JSON for programs.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use annotate_snippets::{AnnotationKind, Group, Level as Severity, Renderer, Snippet};
use serde_json::{Value, json};

use crate::{
    cli::Colour,
    config::{Level, Loaded, Position, Problem},
};

#[cfg(test)]
mod tests;

/// The width of a line of help, in characters.
const HELP_WIDTH: usize = 88;

/// The report of `check`: the problems, what is left out because of them, and one last line.
pub(super) fn text(path: &str, loaded: &Loaded, colour: Colour) -> String {
    let mut report = problems(path, (&loaded.source, &loaded.problems), colour);
    for line in left_out(loaded) {
        let title = Severity::NOTE.primary_title(line.as_str());
        report.push_str(&renderer(colour).render(&[Group::with_title(title)]));
        report.push('\n');
    }
    report.push_str(&format!("{path}: {}\n", summary(loaded)));
    report
}

fn renderer(colour: Colour) -> Renderer {
    match colour {
        Colour::Plain => Renderer::plain(),
        Colour::Styled => Renderer::styled(),
    }
}

/// The problems of a file, each at its place in the source.
pub(super) fn problems(
    path: &str,
    (source, problems): (&str, &[Problem]),
    colour: Colour,
) -> String {
    let renderer = renderer(colour);
    let mut report = String::new();
    let mut helps = BTreeSet::new();
    for problem in problems {
        let help = problem.help.as_deref().map(|help| {
            // A list of thirty keys is read once.
            if helps.insert(help) || help.len() < HELP_WIDTH {
                wrapped(help)
            } else {
                String::from("as above")
            }
        });
        let group = group(path, source, problem, help.as_deref());
        report.push_str(&renderer.render(&[group]));
        report.push_str("\n\n");
    }
    report
}

/// Breaks a text into lines that most terminals show whole.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if width > 0 {
            let separator = if width + 1 + length > HELP_WIDTH {
                width = 0;
                '\n'
            } else {
                width += 1;
                ' '
            };
            lines.push(separator);
        }
        lines.push_str(word);
        width += length;
    }
    lines
}

fn group<'a>(
    path: &'a str,
    source: &'a str,
    problem: &'a Problem,
    help: Option<&'a str>,
) -> Group<'a> {
    let severity = match problem.level {
        Level::Error => Severity::ERROR,
        Level::Warning => Severity::WARNING,
    };
    let label = |text: &'a str| (!text.is_empty()).then_some(text);
    let mut snippet = Snippet::source(source).path(path).annotation(
        AnnotationKind::Primary
            .span(problem.span.clone())
            .label(label(&problem.label)),
    );
    for other in &problem.secondary {
        snippet = snippet.annotation(
            AnnotationKind::Context
                .span(other.span.clone())
                .label(label(&other.text)),
        );
    }
    if let Some(header) = problem.header.clone() {
        snippet = snippet.annotation(AnnotationKind::Visible.span(header));
    }
    let mut group = severity
        .primary_title(problem.message.as_str())
        .element(snippet);
    if let Some(help) = help {
        group = group.element(Severity::HELP.message(help));
    }
    group
}

/// Jobs whose own table is right, and that cannot run because of something else.
fn left_out(loaded: &Loaded) -> Vec<String> {
    let mut by_cause: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for job in loaded.file.iter().flat_map(|file| &file.bad_jobs) {
        if let Some(because) = &job.because {
            let jobs = by_cause.entry(because).or_default();
            jobs.push(format!("`{}`", job.name));
        }
    }
    by_cause
        .into_iter()
        .map(|(because, jobs)| {
            let noun = if jobs.len() == 1 { "job" } else { "jobs" };
            format!(
                "{because} is wrong, which leaves out {noun} {}",
                jobs.join(", ")
            )
        })
        .collect()
}

fn summary(loaded: &Loaded) -> String {
    let counted = |count: usize, word: &str| match count {
        0 => None,
        1 => Some(format!("1 {word}")),
        _ => Some(format!("{count} {word}s")),
    };
    let problems = [
        counted(loaded.count(Level::Error), "error"),
        counted(loaded.count(Level::Warning), "warning"),
    ];
    let problems: Vec<String> = problems.into_iter().flatten().collect();
    let jobs = match &loaded.file {
        None => String::from("not TOML, so nothing of it counts"),
        Some(file) => match (file.jobs.len(), file.bad_jobs.len()) {
            (0, 0) => String::from("no job in it"),
            (1, 0) => String::from("1 job is good"),
            (good, 0) => format!("{good} jobs are good"),
            (1, bad) => format!("1 of {} jobs is good", 1 + bad),
            (good, bad) => format!("{good} of {} jobs are good", good + bad),
        },
    };
    if problems.is_empty() {
        jobs
    } else {
        format!("{}; {jobs}", problems.join(", "))
    }
}

/// The problems as a JSON array.
pub(super) fn json(path: &str, loaded: &Loaded) -> String {
    let place = |span: &Range<usize>| {
        let start = Position::of(&loaded.source, span.start);
        let end = Position::of(&loaded.source, span.end);
        (start, json!({ "line": end.line, "column": end.column }))
    };
    let problems: Vec<Value> = loaded
        .problems
        .iter()
        .map(|problem| {
            let (start, end) = place(&problem.span);
            let secondary: Vec<Value> = problem
                .secondary
                .iter()
                .map(|label| {
                    let (start, end) = place(&label.span);
                    json!({
                        "line": start.line,
                        "column": start.column,
                        "end": end,
                        "label": label.text,
                    })
                })
                .collect();
            json!({
                "file": path,
                "line": start.line,
                "column": start.column,
                "end": end,
                "level": problem.level.as_str(),
                "code": problem.code.as_str(),
                "message": problem.message,
                "label": problem.label,
                "secondary": secondary,
                "help": problem.help,
                "job": problem.job,
            })
        })
        .collect();
    format!("{:#}\n", Value::Array(problems))
}
