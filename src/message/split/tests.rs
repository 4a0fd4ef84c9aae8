//! Tables and laws of the splitter.

use proptest::prelude::*;

use super::*;

fn limit(max: usize, unit: TextUnit) -> TextLimit {
    TextLimit {
        max: Some(max),
        unit,
    }
}

fn chars(text: &str, max: usize) -> Vec<String> {
    split(text, limit(max, TextUnit::Chars))
}

#[test]
fn short_text_is_one_trimmed_part_and_blank_text_none() {
    assert_eq!(chars("  hello \n", 10), ["hello"]);
    for blank in ["", " \n\t ", "\u{200b}", "\u{feff} \u{200d}"] {
        assert!(chars(blank, 10).is_empty(), "{blank:?}");
    }
    let unlimited = TextLimit {
        max: None,
        unit: TextUnit::Bytes,
    };
    assert_eq!(split(&"x y ".repeat(10_000), unlimited).len(), 1);
}

#[test]
fn a_part_ends_at_the_best_place_of_its_second_half() {
    let table: [(&str, usize, &[&str]); 5] = [
        ("one two.\n\nthree four", 16, &["one two.", "three four"]),
        ("one two\nthree four", 14, &["one two", "three four"]),
        ("Hi there. You all", 13, &["Hi there.", "You all"]),
        ("alpha beta gamma", 11, &["alpha beta", "gamma"]),
        ("abcdefghij", 4, &["abcd", "efgh", "ij"]),
    ];
    for (text, max, parts) in table {
        assert_eq!(chars(text, max), parts, "{text:?}");
    }
    // The paragraph ends too early to be worth a part of its own.
    assert_eq!(chars("a\n\nbcd efg hij", 12), ["a\n\nbcd efg", "hij"]);
}

#[test]
fn the_unit_of_the_channel_is_what_counts() {
    let text = "😀".repeat(4);
    assert_eq!(split(&text, limit(4, TextUnit::Utf16)).len(), 2);
    assert_eq!(split(&text, limit(4, TextUnit::Chars)).len(), 1);
    assert_eq!(split(&text, limit(4, TextUnit::Bytes)).len(), 4);
    // A limit under one code point is read as one code point.
    assert_eq!(split(&text, limit(1, TextUnit::Utf16)).len(), 4);
    assert_eq!(split("ab", limit(0, TextUnit::Chars)), ["a", "b"]);
}

#[test]
fn a_grapheme_stays_whole_unless_it_alone_is_too_long() {
    let family = "👨‍👩‍👧";
    assert_eq!(chars(&format!("ab{family}"), 6), ["ab", family]);
    let parts = chars(family, 3);
    assert_eq!(parts.concat(), family);
    assert!(parts.iter().all(|part| part.chars().count() <= 3));
}

#[test]
fn a_cut_fence_is_closed_and_opened_again_with_its_info_string() {
    let text = "```rust\nlet a = 1;\n    let b = 2;\nlet c = 3;\n```\nafter";
    assert_eq!(
        chars(text, 42),
        [
            "```rust\nlet a = 1;\n    let b = 2;\n```",
            "```rust\nlet c = 3;\n```\nafter"
        ]
    );
    // The code fills a part exactly: the author's closing line goes with it.
    let text = "~~~\naaaa\nbbbb\n~~~\nnext words here";
    assert_eq!(chars(text, 20), ["~~~\naaaa\nbbbb\n~~~", "next words here"]);
}

#[test]
fn a_part_ends_before_a_fence_rather_than_inside_it() {
    let text = "some words that lead to it\n```\ncode one\ncode two\n```";
    assert_eq!(
        chars(text, 40),
        ["some words that lead to it", "```\ncode one\ncode two\n```"]
    );
}

#[test]
fn indentation_survives_a_cut_inside_code() {
    let text = "```py\nif x:\n    one()\n    two()\n    three()\n```";
    let parts = chars(text, 32);
    assert_eq!(parts[1], "```py\n    two()\n    three()\n```");
}

/// Text with the shapes that matter: fences, paragraphs, long words, clusters, blank lines.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z]{1,12}",
        2 => Just(" ".to_owned()),
        2 => Just("\n".to_owned()),
        1 => Just("\n\n".to_owned()),
        1 => Just("\r\n".to_owned()),
        1 => Just("\n```rust\n".to_owned()),
        1 => Just("\n```\n".to_owned()),
        1 => Just("\n  ~~~~ x\n".to_owned()),
        1 => Just("\n~~~~\n".to_owned()),
        1 => Just(". ".to_owned()),
        1 => Just("👨‍👩‍👧".to_owned()),
        1 => Just("e\u{301}\u{302}".to_owned()),
        1 => Just("語。".to_owned()),
        1 => Just("    ".to_owned()),
        1 => any::<String>(),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn any_limit() -> impl Strategy<Value = TextLimit> {
    let unit = prop_oneof![
        Just(TextUnit::Utf16),
        Just(TextUnit::Chars),
        Just(TextUnit::Bytes)
    ];
    (0_usize..60, unit).prop_map(|(max, unit)| limit(max, unit))
}

fn essence(text: &str) -> String {
    text.chars()
        .filter(|c| !is_blank(c.encode_utf8(&mut [0; 4])))
        .collect()
}

proptest! {
    #[test]
    fn no_part_is_over_the_limit_or_blank_or_untrimmed(text in any_text(), limit in any_limit()) {
        let max = limit.max.unwrap_or(0).max(longest_code_point(limit.unit));
        for part in split(&text, limit) {
            prop_assert!(limit.unit.len_of(&part) <= max, "{part:?}");
            prop_assert!(!is_blank(&part));
            prop_assert_eq!(part.trim(), part.as_str());
        }
    }

    #[test]
    fn nothing_is_lost_or_reordered(text in any_text(), limit in any_limit()) {
        let bodies: String = pieces(&text, limit).iter().map(|piece| piece.body).collect();
        prop_assert_eq!(essence(&bodies), essence(&text));
    }

    #[test]
    fn a_part_is_its_body_between_whole_fence_lines(text in any_text(), limit in any_limit()) {
        let parts = pieces(&text, limit);
        for pair in parts.windows(2) {
            // What one part closes is what the next one opens.
            prop_assert_eq!(pair[0].closed, pair[1].reopened);
        }
        for piece in &parts {
            prop_assert!(piece.shown().contains(piece.body.trim()));
        }
    }

    #[test]
    fn a_part_is_not_split_again(text in any_text(), limit in any_limit()) {
        for part in split(&text, limit) {
            prop_assert_eq!(split(&part, limit), [part.clone()]);
        }
    }

    #[test]
    fn without_code_or_long_clusters_no_grapheme_is_cut(text in "[a-z \n]{0,80}(é|👍🏽|🇫🇷){0,9}") {
        let parts = split(&text, limit(12, TextUnit::Chars));
        let graphemes = |text: &str| -> Vec<String> {
            text.graphemes(true).filter(|g| !g.trim().is_empty()).map(str::to_owned).collect()
        };
        let joined: Vec<String> = parts.iter().flat_map(|part| graphemes(part)).collect();
        prop_assert_eq!(joined, graphemes(&text));
    }
}
