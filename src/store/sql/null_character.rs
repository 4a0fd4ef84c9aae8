//! The character U+0000, which PostgreSQL's text cannot hold.
//!
//! Unicode keeps U+FDD0 and U+FDD1 free for the inside of a program: the two together stand for
//! U+0000 in a column, and U+FDD0 is written twice, so that every text comes back as it was.

const MARK: char = '\u{fdd0}';
const NUL: &str = "\u{fdd0}\u{fdd1}";
const MARK_ITSELF: &str = "\u{fdd0}\u{fdd0}";

/// A text as a column holds it.
pub(super) fn stored(text: String) -> String {
    if !text.contains(['\0', MARK]) {
        return text;
    }
    text.replace(MARK, MARK_ITSELF).replace('\0', NUL)
}

/// A text that a column held.
pub(super) fn read(stored: String) -> String {
    if !stored.contains(MARK) {
        return stored;
    }
    let mut text = String::with_capacity(stored.len());
    let mut characters = stored.chars().peekable();
    while let Some(character) = characters.next() {
        let next =
            characters.next_if(|next| character == MARK && matches!(next, '\u{fdd0}' | '\u{fdd1}'));
        text.push(match next {
            Some('\u{fdd1}') => '\0',
            Some(_) | None => character,
        });
    }
    text
}

/// JSON of which each string is a text as a column holds it. An escaped backslash before `u0000` is
/// a backslash and five characters, and stays.
pub(super) fn stored_json(json: String) -> String {
    if !json.contains("\\u0000") && !json.contains(MARK) {
        return json;
    }
    let json = json.replace(MARK, MARK_ITSELF);
    let mut written = String::with_capacity(json.len());
    let mut rest = json.as_str();
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        written.push_str(before);
        if let Some(after) = escape.strip_prefix("\\u0000") {
            written.push_str(NUL);
            rest = after;
        } else {
            // The backslash, and the ASCII character that it escapes.
            let (pair, after) = escape.split_at(escape.len().min(2));
            written.push_str(pair);
            rest = after;
        }
    }
    written.push_str(rest);
    written
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_escaped_nul_is_replaced_and_an_escaped_backslash_is_not() {
        let words = "a\0b \\u0000 \\\0 \\\\u0000 \u{1f600}\n\u{fdd0}\u{fdd1}";
        let json = stored_json(serde_json::to_string(words).expect("a string is JSON"));
        let column: String = serde_json::from_str(&json).expect("it is JSON still");
        assert!(!column.contains('\0'));
        assert_eq!(column, stored(words.to_owned()));
        assert_eq!(read(column), words);
    }

    proptest! {
        #[test]
        fn a_text_comes_back_as_it_was(words in "[\0\u{fdd0}\u{fdd1}\\\\\"a-c]{0,12}") {
            prop_assert!(!stored(words.clone()).contains('\0'));
            prop_assert_eq!(read(stored(words.clone())), words.clone());
            let json = stored_json(serde_json::to_string(&words).expect("a string is JSON"));
            let column: String = serde_json::from_str(&json).expect("it is JSON still");
            prop_assert_eq!(read(column), words);
        }
    }
}
