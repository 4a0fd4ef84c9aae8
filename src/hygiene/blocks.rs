//! Where blocks begin and end.

use super::{
    header::{self, Announces, Header},
    sender::Payload,
};

const FENCE: &str = "```";
/// How many lines below its header a closing block has to prove itself.
const PROOF_LINES: usize = 7;

/// The blocks at the beginning of a text.
#[derive(Debug, Default)]
pub(super) struct Leading<'t> {
    /// Where the words begin; `None` if there is no block.
    pub(super) len: Option<usize>,
    /// What the blocks say.
    pub(super) payloads: Vec<Payload<'t>>,
    /// Whether a block begins here and does not end.
    pub(super) unclosed: bool,
}

/// What stands where a block may begin.
enum Step<'t> {
    /// A block of this length.
    Block(usize, Option<Payload<'t>>),
    /// A block without an end.
    Unclosed,
    /// Something else.
    Words,
}

/// Finds the blocks in front of the words, with a stamp before and after them.
pub(super) fn leading(text: &str) -> Leading<'_> {
    let mut leading = Leading::default();
    let mut at = header::stamp(text);
    let mut end = None;
    loop {
        let look = at + blank_lines(&text[at..]);
        match step(&text[look..]) {
            Step::Block(len, payload) => {
                at = look + len;
                end = Some(at);
                leading.payloads.extend(payload);
            }
            Step::Words if end.is_some() && header::is_hint(line(&text[look..])) => {
                at = look + line(&text[look..]).len();
                end = Some(at);
            }
            Step::Words => break,
            Step::Unclosed => {
                leading.unclosed = true;
                break;
            }
        }
    }
    leading.len = end.map(|end| {
        let begins = text.len() - text[end..].trim_start_matches(['\r', '\n']).len();
        begins + header::stamp(&text[begins..])
    });
    leading
}

/// Where the words begin if each kind of block is taken for a connector's once.
pub(super) fn first_of_each_kind(text: &str) -> usize {
    let mut at = header::stamp(text);
    let mut end = 0;
    let mut seen = Vec::new();
    loop {
        let look = at + blank_lines(&text[at..]);
        let Step::Block(len, _) = step(&text[look..]) else {
            return end;
        };
        let label = header::header(line(&text[look..])).map(|header| header.label);
        if seen.contains(&label) {
            return end;
        }
        seen.push(label);
        at = look + len;
        end = at;
    }
}

fn step(text: &str) -> Step<'_> {
    let first = line(text);
    if is_bare_context(first) {
        return tagged(text, first.len());
    }
    let Some(header) = header::header(first) else {
        return Step::Words;
    };
    let below = first.len();
    match header.announces {
        Announces::Fence => fenced(text, below, header),
        Announces::Prose => prose(text, below),
        Announces::Json => json(text, below, header),
        Announces::JsonOrProse => match json(text, below, header) {
            Step::Words => prose(text, below),
            found @ (Step::Block(..) | Step::Unclosed) => found,
        },
        Announces::Closing => tagged(text, below),
    }
}

/// A fence of JSON right below the header.
fn fenced<'t>(text: &'t str, below: usize, header: Header<'t>) -> Step<'t> {
    let opening = line(&text[below..]);
    if opening.trim() != "```json" {
        return Step::Words;
    }
    let begin = below + opening.len();
    match find_line(text, begin, |line| line.trim() == FENCE) {
        Some((start, end)) => {
            let payload = Payload {
                label: header.label,
                json: &text[begin..start],
            };
            Step::Block(end, Some(payload))
        }
        None => Step::Unclosed,
    }
}

/// JSON right below the header, in a fence or on one line.
fn json<'t>(text: &'t str, below: usize, header: Header<'t>) -> Step<'t> {
    match fenced(text, below, header) {
        Step::Words => {}
        found @ (Step::Block(..) | Step::Unclosed) => return found,
    }
    let one = line(&text[below..]);
    let is_json = one.trim_start().starts_with(['{', '['])
        && serde_json::from_str::<serde_json::Value>(one.trim()).is_ok();
    if !is_json {
        return Step::Words;
    }
    let payload = Payload {
        label: header.label,
        json: one.trim(),
    };
    Step::Block(below + one.len(), Some(payload))
}

/// Lines up to a blank one; at least one.
fn prose(text: &str, below: usize) -> Step<'_> {
    if line(&text[below..]).trim().is_empty() {
        return Step::Words;
    }
    let end = find_line(text, below, |line| line.trim().is_empty());
    Step::Block(end.map_or(text.len(), |(start, _)| start), None)
}

/// Tags of a memory plugin, each on a line of its own.
fn tagged(text: &str, below: usize) -> Step<'_> {
    let opening = line(&text[below..]);
    if opening.trim() != "<active_memory_plugin>" {
        return Step::Words;
    }
    let closing = |line: &str| line.trim() == "</active_memory_plugin>";
    match find_line(text, below + opening.len(), closing) {
        Some((_, end)) => Step::Block(end, None),
        None => Step::Unclosed,
    }
}

fn is_bare_context(line: &str) -> bool {
    line.trim() == "Context:"
}

/// The words without blocks that a connector put behind them.
///
/// Such a block stands behind a blank line and outside the person's own fences, and shows by its
/// marks that it reaches to the end of the text.
pub(super) fn without_closing_blocks(words: &str) -> &str {
    let mut words = words;
    while let Some(start) = closing_block(words) {
        words = words[..start].trim_end_matches(['\r', '\n']);
    }
    words
}

fn closing_block(words: &str) -> Option<usize> {
    let mut at = 0;
    let mut after_blank = true;
    let mut in_fence = false;
    for line in words.split_inclusive('\n') {
        let trimmed = line.trim();
        if trimmed.starts_with(FENCE) {
            in_fence = !in_fence;
        } else if after_blank && !in_fence && closes(trimmed, &words[at + line.len()..]) {
            return Some(at);
        }
        after_blank = trimmed.is_empty();
        at += line.len();
    }
    None
}

/// Whether a line is the header of a block that reaches to the end of what is below it.
fn closes(line: &str, below: &str) -> bool {
    let is_marked = match header::header(line) {
        Some(Header {
            label,
            announces: Announces::Closing,
        }) => label == "Context",
        Some(_) => return false,
        None if is_bare_context(line) => return reaches_end_tag(below),
        None => return false,
    };
    if is_marked {
        return !below.trim().is_empty();
    }
    if reaches_end_tag(below) {
        return true;
    }
    for line in below.lines().take(PROOF_LINES).map(str::trim) {
        if let Some(id) = line.strip_prefix("<<<EXTERNAL_UNTRUSTED_CONTENT ") {
            let end = format!("<<<END_EXTERNAL_UNTRUSTED_CONTENT {id}");
            return last_line(below) == end;
        }
        if line.contains("UNTRUSTED channel metadata (") || line.starts_with("Source:") {
            return true;
        }
    }
    false
}

fn reaches_end_tag(below: &str) -> bool {
    line(below).trim() == "<active_memory_plugin>" && last_line(below) == "</active_memory_plugin>"
}

fn last_line(text: &str) -> &str {
    text.trim_end().lines().next_back().unwrap_or("").trim()
}

/// The first line with its end.
fn line(text: &str) -> &str {
    text.split_inclusive('\n').next().unwrap_or("")
}

/// How long the blank lines at the beginning are.
fn blank_lines(text: &str) -> usize {
    text.split_inclusive('\n')
        .take_while(|line| line.trim().is_empty() && line.ends_with('\n'))
        .map(str::len)
        .sum()
}

/// The first line from `from` on that is like this: where it begins and ends.
fn find_line(text: &str, from: usize, is_it: impl Fn(&str) -> bool) -> Option<(usize, usize)> {
    let mut at = from;
    for line in text[from..].split_inclusive('\n') {
        if is_it(line) {
            return Some((at, at + line.len()));
        }
        at += line.len();
    }
    None
}
