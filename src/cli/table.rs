//! Columns that line up, in the terminal's width.
//!
//! Widths are those of the screen: a Chinese character takes two columns and an accent none. On a
//! terminal the columns that may break are narrowed until the lines fit; in a pipe nothing is
//! broken or cut, so that a program reads what there is.

use std::io::{self, IsTerminal};

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::cli::Colour;

/// What stands between two columns.
const GAP: &str = "  ";
/// A column that may break is not made narrower than this.
const NARROWEST: usize = 12;

/// Where a command writes to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Screen {
    pub(super) colour: Colour,
    /// How many columns a line has; `None` where nobody counts them.
    pub(super) width: Option<usize>,
}

impl Screen {
    pub(super) fn of_stdout() -> Self {
        let size = io::stdout()
            .is_terminal()
            .then(terminal_size::terminal_size)
            .flatten();
        Self {
            colour: Colour::of_stdout(),
            width: size.map(|(width, _)| usize::from(width.0)),
        }
    }

    #[cfg(test)]
    pub(super) fn wide(width: impl Into<Option<usize>>) -> Self {
        Self {
            colour: Colour::Plain,
            width: width.into(),
        }
    }

    /// A text in this tone.
    pub(super) fn toned(self, text: &str, tone: Tone) -> String {
        match (self.colour, tone.code()) {
            (Colour::Styled, Some(code)) if !text.is_empty() => {
                format!("\u{1b}[{code}m{text}\u{1b}[0m")
            }
            (Colour::Styled | Colour::Plain, _) => text.to_owned(),
        }
    }
}

/// What a colour stands for; the words say it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Tone {
    #[default]
    Usual,
    Strong,
    Faint,
    Warn,
    Bad,
}

impl Tone {
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Usual => None,
            Self::Strong => Some("1"),
            Self::Faint => Some("2"),
            Self::Warn => Some("33"),
            Self::Bad => Some("31"),
        }
    }
}

/// How a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Left,
    Right,
    /// Left, and broken into lines where the screen is too narrow.
    Breaks,
}

/// One cell; it may have several lines.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(super) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            text: text.into(),
            tone,
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(text, Tone::Usual)
    }
}

/// Rows of cells.
#[derive(Debug)]
pub(super) struct Table {
    columns: Vec<Column>,
    indent: usize,
    /// How many of the rows are the head.
    heads: usize,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(super) fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self {
            columns: columns.into(),
            indent: 1,
            heads: 0,
            rows: Vec::new(),
        }
    }

    pub(super) fn indent(mut self, indent: usize) -> Self {
        self.indent = indent;
        self
    }

    pub(super) fn head<const N: usize>(mut self, names: [&str; N]) -> Self {
        let cell = |name: &str| Cell::toned(name, Tone::Faint);
        self.rows.push(names.map(cell).into());
        self.heads = 1;
        self
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }

    pub(super) fn render(&self, screen: Screen) -> String {
        let widths = self.widths(screen.width);
        let mut out = String::new();
        for row in &self.rows {
            self.render_row(row, &widths, screen, &mut out);
        }
        out
    }

    /// The widths of the columns; a column without any text is left out, and has none.
    fn widths(&self, screen: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let mut body = self.rows.iter().skip(self.heads);
                if body.all(|row| row[column].text.is_empty()) {
                    return 0;
                }
                let lines = self.rows.iter().flat_map(|row| row[column].text.lines());
                lines.map(UnicodeWidthStr::width).max().unwrap_or(0)
            })
            .collect();
        let Some(screen) = screen else {
            return widths;
        };
        let shown = widths.iter().filter(|width| **width > 0).count();
        let taken = self.indent + shown.saturating_sub(1) * GAP.len();
        let room = screen.saturating_sub(taken);
        let mut excess = widths.iter().sum::<usize>().saturating_sub(room);
        while excess > 0 {
            let widest = (0..widths.len())
                .filter(|column| self.columns[*column] == Column::Breaks)
                .filter(|column| widths[*column] > NARROWEST)
                .max_by_key(|column| widths[*column]);
            let Some(widest) = widest else {
                break;
            };
            widths[widest] -= 1;
            excess -= 1;
        }
        widths
    }

    fn render_row(&self, row: &[Cell], widths: &[usize], screen: Screen, out: &mut String) {
        let cells: Vec<Vec<String>> = row
            .iter()
            .enumerate()
            .map(|(column, cell)| match self.columns[column] {
                _ if widths[column] == 0 => Vec::new(),
                Column::Breaks => broken(&cell.text, widths[column]),
                Column::Left | Column::Right => cell.text.lines().map(str::to_owned).collect(),
            })
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
        for line in 0..height {
            let mut text = " ".repeat(self.indent);
            let mut first = true;
            for (column, cell) in cells.iter().enumerate() {
                if widths[column] == 0 {
                    continue;
                }
                if !std::mem::replace(&mut first, false) {
                    text.push_str(GAP);
                }
                let part = cell.get(line).map_or("", String::as_str);
                let space = " ".repeat(widths[column].saturating_sub(part.width()));
                let part = screen.toned(part, row[column].tone);
                if self.columns[column] == Column::Right {
                    text.push_str(&space);
                    text.push_str(&part);
                } else {
                    text.push_str(&part);
                    text.push_str(&space);
                }
            }
            out.push_str(text.trim_end());
            out.push('\n');
        }
    }
}

/// The lines of a text, broken at spaces where they are wider than this, and inside a word that
/// alone is too wide.
pub(super) fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.width() <= width {
            lines.push(line.to_owned());
            continue;
        }
        let mut current = String::new();
        for word in line.split(' ') {
            if !current.is_empty() && current.width() + 1 + word.width() <= width {
                current.push(' ');
                current.push_str(word);
                continue;
            }
            if !current.is_empty() {
                lines.push(std::mem::take(&mut current));
            }
            for grapheme in word.graphemes(true) {
                if !current.is_empty() && current.width() + grapheme.width() > width {
                    lines.push(std::mem::take(&mut current));
                }
                current.push_str(grapheme);
            }
        }
        lines.push(current);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table =
            Table::new([Column::Right, Column::Left, Column::Breaks]).head(["id", "who", "text"]);
        table.row(["7".into(), "me".into(), "the quick brown fox jumps".into()]);
        table.row(["12".into(), "日本".into(), "over\nthe dog".into()]);
        table
    }

    #[test]
    fn columns_line_up_by_what_the_screen_shows() {
        assert_eq!(
            table().render(Screen::wide(None)),
            concat!(
                " id  who   text\n",
                "  7  me    the quick brown fox jumps\n",
                " 12  日本  over\n",
                "           the dog\n",
            )
        );
    }

    #[test]
    fn on_a_narrow_screen_the_text_breaks_and_no_line_is_wider() {
        let narrow = table().render(Screen::wide(26));
        assert_eq!(
            narrow,
            concat!(
                " id  who   text\n",
                "  7  me    the quick brown\n",
                "           fox jumps\n",
                " 12  日本  over\n",
                "           the dog\n",
            )
        );
        assert!(narrow.lines().all(|line| line.width() <= 26));
        // Too narrow for anything: it breaks as far as it may, and ends.
        assert!(table().render(Screen::wide(1)).lines().count() > 5);
    }

    #[test]
    fn a_word_that_is_too_wide_is_broken_between_graphemes() {
        assert_eq!(broken("日本語テキスト", 5), ["日本", "語テ", "キス", "ト"]);
        assert_eq!(
            broken("e\u{301}e\u{301}e\u{301}", 2),
            ["e\u{301}e\u{301}", "e\u{301}"]
        );
        assert_eq!(broken("a abcdefgh b", 4), ["a", "abcd", "efgh", "b"]);
    }

    #[test]
    fn an_empty_column_is_left_out_with_its_head() {
        let mut table = Table::new([Column::Left, Column::Left, Column::Left])
            .head(["a", "b", "c"])
            .indent(0);
        table.row(["1".into(), "".into(), "3".into()]);
        assert_eq!(table.render(Screen::wide(None)), "a  c\n1  3\n");
        let mut table = Table::new([Column::Left, Column::Breaks])
            .head(["a", "note"])
            .indent(0);
        table.row(["1".into(), "".into()]);
        assert_eq!(table.render(Screen::wide(None)), "a\n1\n");
    }

    #[test]
    fn colour_changes_no_width() {
        let styled = Screen {
            colour: Colour::Styled,
            width: None,
        };
        let mut table = Table::new([Column::Left, Column::Left]).indent(0);
        table.row([Cell::toned("bad", Tone::Bad), "x".into()]);
        table.row(["fine".into(), "y".into()]);
        assert_eq!(
            table.render(styled),
            "\u{1b}[31mbad\u{1b}[0m   x\nfine  y\n"
        );
    }
}
