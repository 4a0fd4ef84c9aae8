//! Other people's text, made harmless for a terminal.
//!
//! Transcripts, errors and names come from models, chats and servers. Nothing in them may move the
//! cursor, change colours, set a title, or reorder what is read.

/// A text with its line breaks, and without anything that steers a terminal.
pub(super) fn lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    text.trim_end().chars().map(shown).collect()
}

/// A text as one line.
pub(super) fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().map(shown).collect()
}

/// A text as one line, or as much of it as this many characters hold.
pub(super) fn beginning(text: &str, chars: usize) -> String {
    let line = line(text);
    if line.chars().count() <= chars {
        return line;
    }
    let start: String = line.chars().take(chars.saturating_sub(1)).collect();
    format!("{}…", start.trim_end())
}

fn shown(c: char) -> char {
    match c {
        '\n' => '\n',
        '\t' => ' ',
        '\u{2028}' | '\u{2029}' => '\n',
        c if c.is_control() || reorders(c) => '\u{fffd}',
        c => c,
    }
}

/// Marks that change the direction of what follows, with which a text can look like another.
fn reorders(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_steers_the_terminal() {
        let hostile = "a\u{1b}[2Jb\u{9b}31mc\rd\u{7}\u{8}e\u{202e}f\u{0}";
        for text in [lines(hostile), line(hostile), beginning(hostile, 100)] {
            assert!(
                !text.chars().any(|c| c.is_control() || reorders(c)),
                "{text:?}"
            );
            assert!(text.starts_with('a') && text.contains("[2Jb"), "{text:?}");
        }
    }

    #[test]
    fn lines_stay_lines_and_a_line_is_one() {
        assert_eq!(lines("a\r\n\tb\u{2028}c\n\n"), "a\n b\nc");
        assert_eq!(line(" a\r\n\tb\u{2028}c\n"), "a b c");
    }

    #[test]
    fn a_long_text_is_cut_with_a_sign() {
        assert_eq!(beginning("one two three", 13), "one two three");
        assert_eq!(beginning("one two three", 9), "one two…");
    }
}
