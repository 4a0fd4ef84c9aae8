//! Secrets that were written into the jobs file: found, and never shown.

use std::ops::Range;

use toml::{Spanned, de::DeValue};

use super::problem::Problem;

/// Names under which people put a secret itself.
const KEY_NAMES: [&str; 14] = [
    "token",
    "bot_token",
    "access_token",
    "auth_token",
    "api_token",
    "api_key",
    "apikey",
    "secret",
    "client_secret",
    "secret_key",
    "private_key",
    "password",
    "passwd",
    "passphrase",
];

/// Endings of names of variables that hold a secret.
const KEY_ENDINGS: [&str; 5] = ["_token", "_api_key", "_secret", "_password", "_secret_key"];

/// What the keys of well-known services begin with.
const PREFIXES: [&str; 9] = [
    "sk-",
    "sk_live_",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "ghp_",
    "github_pat_",
    "glpat-",
    "AIza",
];

/// Whether a secret is what stands under such a key.
pub(super) fn is_secret_key(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    KEY_NAMES.contains(&name.as_str()) || KEY_ENDINGS.iter().any(|end| name.ends_with(end))
}

/// Where a text holds what looks like a secret, whatever stands around it.
pub(super) fn shapes(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for word in words(text, |c| c.is_ascii_alphanumeric() || "_-:".contains(c)) {
        if let Some(range) = telegram_token(text, word.clone()) {
            found.push(range);
            continue;
        }
        let part = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        for piece in words(&text[word.clone()], part) {
            let piece = word.start + piece.start..word.start + piece.end;
            if is_service_key(&text[piece.clone()]) {
                found.push(piece);
            }
        }
    }
    found.extend(url_logins(text));
    found.sort_by_key(|range| range.start);
    found
}

/// `123456789:AA...`, also behind the `bot` of an API address.
fn telegram_token(text: &str, word: Range<usize>) -> Option<Range<usize>> {
    let whole = &text[word.clone()];
    let token = whole.strip_prefix("bot").unwrap_or(whole);
    let (id, rest) = token.split_once(':')?;
    let is_id = (6..=14).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_digit());
    let is_rest = rest.len() >= 30 && !rest.contains(':');
    (is_id && is_rest).then(|| word.end - token.len()..word.end)
}

fn is_service_key(word: &str) -> bool {
    PREFIXES.iter().any(|prefix| word.starts_with(prefix))
        && word.len() >= 20
        && word.bytes().any(|byte| byte.is_ascii_digit())
}

/// The `user:password` of `https://user:password@host`.
fn url_logins(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    text.match_indices("://").filter_map(|(at, mark)| {
        let start = at + mark.len();
        let rest = &text[start..];
        let end = rest
            .find(|c: char| c == '/' || c == '"' || c == '\'' || c.is_whitespace())
            .unwrap_or(rest.len());
        let login = rest[..end].rfind('@')?;
        rest[..login].contains(':').then_some(start..start + login)
    })
}

fn words(text: &str, part: impl Fn(char) -> bool) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices() {
        match (part(c), start) {
            (true, None) => start = Some(at),
            (false, Some(begin)) => {
                found.push(begin..at);
                start = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
    found.extend(start.map(|begin| begin..text.len()));
    found
}

/// A secret in clear.
pub(super) struct Found {
    pub(super) key: String,
    pub(super) key_span: Range<usize>,
    pub(super) span: Range<usize>,
    pub(super) why: Why,
}

/// What gave it away.
pub(super) enum Why {
    KeyName,
    Shape,
}

/// All secrets under a key, however deep.
pub(super) fn in_value(
    key: &str,
    key_span: &Range<usize>,
    value: &Spanned<DeValue<'_>>,
) -> Vec<Found> {
    let found = |why| {
        vec![Found {
            key: key.to_owned(),
            key_span: key_span.clone(),
            span: value.span(),
            why,
        }]
    };
    match value.get_ref() {
        DeValue::String(_) | DeValue::Integer(_) if is_secret_key(key) => found(Why::KeyName),
        DeValue::String(text) if !shapes(text).is_empty() => found(Why::Shape),
        DeValue::Array(items) => items
            .iter()
            .flat_map(|item| in_value(key, key_span, item))
            .collect(),
        DeValue::Table(table) => table
            .iter()
            .flat_map(|(key, value)| in_value(key.get_ref(), &key.span(), value))
            .collect(),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => Vec::new(),
    }
}

/// Where lines of a text that is not TOML set a secret key, as far as one can tell.
pub(super) fn in_lines(source: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    for line in source.split_inclusive('\n') {
        let end = start + line.trim_end().len();
        for (at, _) in line.match_indices('=') {
            let before = line[..at].trim_end().trim_end_matches(['"', '\'']);
            let word = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
            let key = before.rsplit(|c| !word(c)).next().unwrap_or(before);
            if is_secret_key(key) {
                found.push((start + at + 1).min(end)..end);
            }
        }
        start += line.len();
    }
    found
}

/// The text with every byte of these ranges but quotes, line ends and outer spaces starred out, so
/// that all other spans stay where they are.
pub(super) fn mask(source: &str, ranges: &[Range<usize>]) -> String {
    let mut hidden = vec![false; source.len()];
    for range in ranges {
        if let Some(bytes) = hidden.get_mut(range.clone()) {
            bytes.fill(true);
        }
    }
    let mut masked = String::with_capacity(source.len());
    for (at, c) in source.char_indices() {
        if hidden[at] && !matches!(c, '"' | '\'' | '\n' | '\r' | ' ') {
            masked.extend(std::iter::repeat_n('*', c.len_utf8()));
        } else {
            masked.push(c);
        }
    }
    masked
}

/// Stars out what a problem quotes of a secret.
pub(super) fn censor(problem: &mut Problem) {
    let texts = [&mut problem.message, &mut problem.label]
        .into_iter()
        .chain(problem.help.as_mut())
        .chain(problem.secondary.iter_mut().map(|label| &mut label.text))
        .chain(problem.job.as_mut());
    for text in texts {
        let found = shapes(text);
        if !found.is_empty() {
            *text = mask(text, &found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "123456789:AAEhBP0av28fTQ9zk2mVqXyW4dLr7sNcJuI";

    #[test]
    fn what_looks_like_a_secret_is_found_and_nothing_else_of_the_text() {
        for (text, secret) in [
            (TOKEN.to_owned(), TOKEN),
            (format!("https://api.telegram.org/bot{TOKEN}/x"), TOKEN),
            (
                String::from("say sk-ant-api03-abcdefgh123"),
                "sk-ant-api03-abcdefgh123",
            ),
            (String::from("https://me:pw@example.org/"), "me:pw"),
        ] {
            let found = shapes(&text);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(&text[found[0].clone()], secret);
        }
        for text in [
            "sk-learn is a library",
            "12:30",
            "2026-12-24T18:00:00Z",
            "a@b.c",
            "task-force-one-is-very-long-1",
        ] {
            assert!(shapes(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn names_that_point_to_a_secret_are_not_secrets() {
        for name in ["token", "api-key", "API_KEY", "OPENAI_API_KEY", "bot_token"] {
            assert!(is_secret_key(name), "{name}");
        }
        for name in [
            "token_env",
            "token_file",
            "api_key_env",
            "max_tokens",
            "secret_env",
        ] {
            assert!(!is_secret_key(name), "{name}");
        }
    }

    #[test]
    fn a_mask_keeps_quotes_and_lengths() {
        let source = "token = \"sécret\" # x";
        let secret = 8..17;
        let masked = mask(source, std::slice::from_ref(&secret));
        assert_eq!(masked, "token = \"*******\" # x");
        assert_eq!(masked.len(), source.len());
    }

    #[test]
    fn a_line_that_is_not_toml_still_hides_its_secret() {
        let source = "[a]\ntoken = \"abc\nx = 1\n";
        let found = in_lines(source);
        assert_eq!(mask(source, &found), "[a]\ntoken = \"***\nx = 1\n");
    }
}
