//! One text to the parts that a channel can show.
//!
//! Greedy: each part takes as much as fits and ends at the best place in its second half: a
//! paragraph's end, a line's, a sentence's, a word's. Code fences are in `split/fence.rs`.

use unicode_segmentation::UnicodeSegmentation;

use super::{TextLimit, TextUnit};

mod fence;
#[cfg(test)]
mod tests;

use fence::Fence;

/// Splits a text into parts, each within the limit, trimmed and not blank.
///
/// A part never ends inside a grapheme, unless one grapheme is longer than the limit: then it is
/// cut between code points. A code fence that must be cut is cut at a line's end, closed, and
/// opened again with the same marker and info string. A blank text gives no part at all.
///
/// A limit that one code point can exceed is read as the length of the longest code point.
pub(crate) fn split(text: &str, limit: TextLimit) -> Vec<String> {
    pieces(text, limit)
        .into_iter()
        .map(|piece| piece.shown())
        .collect()
}

/// One part, with what was added around the words apart from them.
#[derive(Debug)]
struct Piece<'a> {
    /// The fence that was opened again before it.
    reopened: Option<Fence<'a>>,
    body: &'a str,
    /// The fence that was closed after it.
    closed: Option<Fence<'a>>,
}

impl Piece<'_> {
    fn shown(&self) -> String {
        let mut shown = String::new();
        if let Some(fence) = &self.reopened {
            shown.push_str(&fence.opener());
        }
        shown.push_str(self.body);
        if let Some(fence) = &self.closed {
            shown.push_str(&fence.closer());
        }
        shown.trim().to_owned()
    }
}

fn pieces(text: &str, limit: TextLimit) -> Vec<Piece<'_>> {
    let mut rest = text.trim();
    let mut parts = Vec::new();
    if is_blank(rest) {
        return parts;
    }
    let max = match limit.max {
        None => usize::MAX,
        Some(max) => max.max(longest_code_point(limit.unit)),
    };
    let cutter = Cutter {
        unit: limit.unit,
        max,
    };
    let mut open: Option<Fence<'_>> = None;
    while !rest.is_empty() {
        let (end, still_open) = cutter.cut(rest, open);
        let body = rest[..end].trim_end();
        // Invisible characters alone are an empty message to a channel.
        if !is_blank(body) {
            parts.push(Piece {
                reopened: open,
                body,
                closed: if end == rest.len() { None } else { still_open },
            });
        }
        open = still_open;
        rest = match open {
            // Indentation is part of the code; blank lines at a cut are not.
            Some(_) => without_blank_lines(&rest[end..]),
            None => rest[end..].trim_start(),
        };
    }
    parts
}

/// Finds where a part ends.
struct Cutter {
    unit: TextUnit,
    max: usize,
}

impl Cutter {
    /// The end of the next part in `rest`, and the fence that is open there.
    fn cut<'a>(&self, rest: &'a str, open: Option<Fence<'a>>) -> (usize, Option<Fence<'a>>) {
        let used = open.map_or(0, |fence| self.unit.len_of(&fence.opener()));
        let room = self.max.saturating_sub(used);
        let window = self.window(rest, room);
        if window == rest.len() {
            return (rest.len(), None);
        }
        let mut best = Best::new(window);
        self.offer_lines(rest, open, window, room, &mut best);
        if let Some(found) = best.good() {
            return found;
        }
        best.any()
            .unwrap_or_else(|| self.cut_anywhere(rest, open, window, room))
    }

    /// The end of the longest run of whole graphemes that fits.
    fn window(&self, rest: &str, room: usize) -> usize {
        let mut used = 0;
        for (at, grapheme) in rest.grapheme_indices(true) {
            used += self.unit.len_of(grapheme);
            if used > room {
                return at;
            }
        }
        rest.len()
    }

    /// Offers every acceptable end in the window.
    fn offer_lines<'a>(
        &self,
        rest: &'a str,
        open: Option<Fence<'a>>,
        window: usize,
        room: usize,
        best: &mut Best<'a>,
    ) {
        let mut fence = open;
        let mut start = 0;
        let mut used = 0;
        for line in rest.split_inclusive('\n') {
            let end = start + line.len();
            let words_end = start + line.trim_end().len();
            let next = fence::after_line(fence, line, self.max, self.unit);
            if fence.is_none() && next.is_none() {
                offer_words(line, start, window, best);
            }
            if words_end > window {
                return;
            }
            used += self.unit.len_of(&rest[start..end]);
            fence = next;
            let following = &rest[end..];
            match fence {
                None => {
                    let blank_follows = following
                        .split('\n')
                        .next()
                        .is_some_and(|line| line.trim().is_empty());
                    let fence_follows =
                        following.split_inclusive('\n').next().is_some_and(|line| {
                            fence::after_line(None, line, self.max, self.unit).is_some()
                        });
                    let rank = if blank_follows || fence_follows {
                        Rank::Paragraph
                    } else {
                        Rank::Line
                    };
                    best.offer(rank, words_end, None);
                }
                Some(inside) => {
                    // A fence is not cut right behind its first line, nor right before its last.
                    let just_opened = inside.opened_by(line);
                    let about_to_close = following
                        .split_inclusive('\n')
                        .next()
                        .is_some_and(|line| inside.is_closed_by(line));
                    let fits = used + self.unit.len_of(&inside.closer()) <= room;
                    if fits && !just_opened && !about_to_close {
                        best.offer(Rank::CodeLine, words_end, Some(inside));
                    }
                }
            }
            start = end;
        }
    }

    /// The last resort: a grapheme's end, or, where one grapheme is too long, a code point's.
    fn cut_anywhere<'a>(
        &self,
        rest: &'a str,
        open: Option<Fence<'a>>,
        window: usize,
        room: usize,
    ) -> (usize, Option<Fence<'a>>) {
        // The cut may fall into a fence that began in this very part.
        let fence = fence::at(open, &rest[..window], self.max, self.unit);
        let room = match fence {
            Some(fence) => room.saturating_sub(self.unit.len_of(&fence.closer())),
            None => room,
        };
        let graphemes = self.window(rest, room);
        if graphemes > 0 {
            let fence = fence::at(open, &rest[..graphemes], self.max, self.unit);
            return (graphemes, fence);
        }
        let mut used = 0;
        for (at, c) in rest.char_indices() {
            used += self.unit.len_of(c.encode_utf8(&mut [0; 4]));
            if used > room && at > 0 {
                return (at, fence);
            }
        }
        (rest.len(), fence)
    }
}

/// How good a place is to end a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Word,
    Sentence,
    CodeLine,
    Line,
    Paragraph,
}

/// The last place of each rank.
struct Best<'a> {
    window: usize,
    found: [Option<(usize, Option<Fence<'a>>)>; 5],
}

impl<'a> Best<'a> {
    fn new(window: usize) -> Self {
        Self {
            window,
            found: [None; 5],
        }
    }

    fn offer(&mut self, rank: Rank, end: usize, fence: Option<Fence<'a>>) {
        if end > 0 && end <= self.window {
            self.found[rank as usize] = Some((end, fence));
        }
    }

    /// The best rank that fills at least half of the part.
    fn good(&self) -> Option<(usize, Option<Fence<'a>>)> {
        let filled = |found: &&(usize, _)| found.0 * 2 >= self.window;
        self.found.iter().rev().flatten().find(filled).copied()
    }

    /// The place that fills the part best, whatever its rank.
    fn any(&self) -> Option<(usize, Option<Fence<'a>>)> {
        self.found
            .iter()
            .flatten()
            .max_by_key(|found| found.0)
            .copied()
    }
}

/// Offers the ends of sentences and words of one line.
fn offer_words(line: &str, start: usize, window: usize, best: &mut Best<'_>) {
    let mut before = None;
    for (at, c) in line.char_indices() {
        if start + at > window {
            return;
        }
        if let Some(last) = before {
            let spaced = c.is_whitespace();
            if matches!(last, '。' | '！' | '？') || spaced && matches!(last, '.' | '!' | '?' | '…')
            {
                best.offer(Rank::Sentence, start + at, None);
            }
            if spaced && !char::is_whitespace(last) {
                best.offer(Rank::Word, start + at, None);
            }
        }
        before = Some(c);
    }
}

fn without_blank_lines(text: &str) -> &str {
    let mut rest = text;
    loop {
        match rest.split_once('\n') {
            Some((line, after)) if line.trim().is_empty() => rest = after,
            None if rest.trim().is_empty() => return "",
            Some(_) | None => return rest,
        }
    }
}

fn longest_code_point(unit: TextUnit) -> usize {
    match unit {
        TextUnit::Utf16 => 2,
        TextUnit::Chars => 1,
        TextUnit::Bytes => 4,
    }
}

/// Whether a chat would show nothing at all.
fn is_blank(text: &str) -> bool {
    text.chars().all(|c| {
        c.is_whitespace()
            || matches!(
                c,
                '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}'
            )
    })
}
