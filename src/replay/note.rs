//! The posting note: the one device that tells a model which job posted a message.
//!
//! A genuine note is composed here from escaped values. Everything else that looks like one, in
//! whatever role, is made harmless when it is replayed and removed when it is sent.

use std::{borrow::Cow, fmt::Write};

use jiff::{Timestamp, tz::TimeZone};
use serde_json::Value;

use crate::ids::JobId;

/// The constant words that explain the note to a model, once, in the system prompt.
pub const SYSTEM_NOTE: &str = "\
Some messages in this conversation were posted in the chat by scheduled jobs or tools, not as a \
reply to the user. Such a message follows a line of the form \
<posted-by job=\"ID\" name=\"NAME\" at=\"TIME\"/>, which stands in the user's role but is written by \
the system: the user neither wrote nor sees it. It names the job that posted the next assistant \
message, and when. When the user speaks of such a message (\"stop this\"), the job named there is \
meant. Never write such a line yourself. A line `(conversation continued)` in the user's role marks \
a place where nobody spoke.";

/// How far the end of an echoed note is looked for.
const NOTE_LEN_MAX: usize = 2_000;

/// The system prompt: the agent's own words, then the explanation of the note.
pub fn system_prompt(own: Option<&str>) -> String {
    match own.map(str::trim).filter(|own| !own.is_empty()) {
        Some(own) => format!("{own}\n\n{SYSTEM_NOTE}"),
        None => SYSTEM_NOTE.to_owned(),
    }
}

/// Composes the note that replay puts before a message which a job posted.
///
/// ```
/// use chatcron::{ids::JobId, replay::posting_note};
/// use jiff::{Timestamp, tz::{Offset, TimeZone}};
/// let at: Timestamp = "2026-11-30T07:00:00Z".parse()?;
/// let zone = TimeZone::fixed(Offset::constant(1));
/// assert_eq!(
///     posting_note(&JobId::new("budget")?, "Budget report", at, &zone),
///     r#"<posted-by job="budget" name="Budget report" at="2026-11-30T08:00:00+01:00"/>"#,
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn posting_note(job: &JobId, name: &str, at: Timestamp, zone: &TimeZone) -> String {
    let at = at.to_zoned_datetime(zone.clone());
    format!(
        "<posted-by job=\"{}\" name=\"{}\" at=\"{}\"/>",
        escaped(job.as_str()),
        escaped(name),
        at.strftime("%Y-%m-%dT%H:%M:%S%:z"),
    )
}

fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() || is_unseen(c) || matches!(c, '\u{2028}' | '\u{2029}') => {
                // Writing to a String cannot fail.
                let _ = write!(out, "&#x{:x};", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// Makes text that imitates the note harmless; any other text is given back as it is.
pub fn neutralise(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut done = 0;
    for (at, c) in text.char_indices() {
        if is_opening(c) && opens_note(&text[at + c.len_utf8()..]) {
            out.push_str(&text[done..at]);
            out.push_str("&lt;");
            done = at + c.len_utf8();
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

/// [`neutralise`] for every text inside a JSON value.
pub(super) fn neutralise_json(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(neutralise(text).into_owned()),
        Value::Array(items) => Value::Array(items.iter().map(neutralise_json).collect()),
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(key, value)| (neutralise(key).into_owned(), neutralise_json(value)))
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Removes notes that a model wrote into its own words, each with its line if nothing else is on it.
///
/// Text without such a note is given back as it is. Doing it twice changes nothing.
pub fn strip_echoed_note(text: &str) -> String {
    let mut text = text.to_owned();
    // Removing one note can bring the halves of another together.
    while let Some((start, end)) = first_note(&text) {
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
        let alone =
            text[line_start..start].trim().is_empty() && text[end..line_end].trim().is_empty();
        if alone {
            text.replace_range(line_start..line_end, "");
        } else {
            text.replace_range(start..end, "");
        }
    }
    text
}

/// Where the first whole note is.
fn first_note(text: &str) -> Option<(usize, usize)> {
    text.char_indices().find_map(|(at, c)| {
        let inside = &text[at + c.len_utf8()..];
        if !is_opening(c) || !opens_note(inside) {
            return None;
        }
        let end = note_end(inside)?;
        Some((at, at + c.len_utf8() + end))
    })
}

/// The end of a note: the first `>` outside quotes, or else the first one at all.
fn note_end(inside: &str) -> Option<usize> {
    let mut quoted = false;
    let mut first = None;
    for (at, c) in inside.char_indices().take(NOTE_LEN_MAX) {
        match c {
            '\n' => break,
            '"' => quoted = !quoted,
            '>' | '\u{ff1e}' | '\u{203a}' | '\u{fe65}' => {
                let end = at + c.len_utf8();
                if !quoted {
                    return Some(end);
                }
                first = first.or(Some(end));
            }
            _ => {}
        }
    }
    first
}

/// `<`, and what a model may take for it.
fn is_opening(c: char) -> bool {
    matches!(
        c,
        '<' | '\u{ff1c}' | '\u{2039}' | '\u{fe64}' | '\u{3008}' | '\u{27e8}'
    )
}

/// Whether this continues as `posted-by`, whatever is done to hide it.
fn opens_note(after: &str) -> bool {
    let mut wanted = "postedby".chars().peekable();
    let mut begun = false;
    for c in after.chars().map(narrow) {
        if is_unseen(c) {
            continue;
        }
        let separates = c.is_whitespace() || matches!(c, '-' | '_' | '\u{2010}'..='\u{2015}');
        match wanted.peek() {
            Some(letter) if c.eq_ignore_ascii_case(letter) => {
                begun = true;
                wanted.next();
            }
            // Between the angle and the word.
            Some(_) if !begun && (c.is_whitespace() || c == '/') => {}
            // Between the two words.
            Some('b') if separates => {}
            Some(_) => return false,
            None => break,
        }
    }
    wanted.peek().is_none()
}

/// The plain form of a full-width character.
fn narrow(c: char) -> char {
    match u32::from(c) {
        wide @ 0xff01..=0xff5e => char::from_u32(wide - 0xfee0).unwrap_or(c),
        _ => c,
    }
}

/// Characters that show nothing by themselves, or turn the direction of what follows.
fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests;
