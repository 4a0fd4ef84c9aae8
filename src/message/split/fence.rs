//! Markdown code fences, as far as a split has to know them.

use crate::message::TextUnit;

/// An open code fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence<'a> {
    /// The line that opened it, without its end.
    line: &'a str,
    /// What closes it: three or more of one of the two marks.
    marker: &'a str,
}

impl<'a> Fence<'a> {
    /// The fence that this line opens, if it opens one.
    fn opened(line: &'a str) -> Option<Self> {
        let line = line.trim_end();
        let indented = line.trim_start_matches(' ');
        if line.len() - indented.len() > 3 {
            return None;
        }
        let mark = indented.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = indented.trim_start_matches(mark);
        let marker = &indented[..indented.len() - info.len()];
        let inline = mark == '`' && info.contains('`');
        (marker.len() >= 3 && !inline).then_some(Self { line, marker })
    }

    /// Whether this is the line that opened it.
    pub(super) fn opened_by(&self, line: &str) -> bool {
        std::ptr::eq(self.line.as_ptr(), line.as_ptr())
    }

    /// Whether this line closes it.
    pub(super) fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim_end();
        let indented = line.trim_start_matches(' ');
        line.len() - indented.len() <= 3
            && indented.starts_with(self.marker)
            && indented
                .trim_start_matches(|c| self.marker.starts_with(c))
                .is_empty()
    }

    /// What opens it again.
    pub(super) fn opener(&self) -> String {
        format!("{}\n", self.line)
    }

    /// What closes it at a cut.
    pub(super) fn closer(&self) -> String {
        format!("\n{}", self.marker)
    }
}

/// The fence that is open after this line.
///
/// A fence whose own two lines would fill half of a part is read as plain text: opening it again
/// in every part would leave no room for the words.
pub(super) fn after_line<'a>(
    open: Option<Fence<'a>>,
    line: &'a str,
    max: usize,
    unit: TextUnit,
) -> Option<Fence<'a>> {
    match open {
        Some(fence) => (!fence.is_closed_by(line)).then_some(fence),
        None => Fence::opened(line).filter(|fence| {
            let around = unit.len_of(&fence.opener()) + unit.len_of(&fence.closer());
            around.saturating_mul(2) <= max
        }),
    }
}

/// The fence that is open at the end of `text`, which may end in the middle of a line.
pub(super) fn at<'a>(
    open: Option<Fence<'a>>,
    text: &'a str,
    max: usize,
    unit: TextUnit,
) -> Option<Fence<'a>> {
    text.split_inclusive('\n')
        .fold(open, |fence, line| after_line(fence, line, max, unit))
}
