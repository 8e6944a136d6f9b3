//! Tables as plain columns: no borders, two spaces between, widths as a terminal counts them.
//! Knows nothing of what it shows; cells arrive made safe, or are made so here.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::safe::safe;
use super::style::Style;

/// One cell: its text, already safe, and how it is coloured where colours are on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cell {
    text: String,
    /// What is shown where the text has no room.
    shorter: Option<String>,
    style: Style,
}

impl Cell {
    /// A cell of text from anywhere; made safe here.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: safe(text).into_owned(), shorter: None, style: Style::Plain }
    }

    /// The same cell, with what it shows where it would be cut.
    #[must_use]
    pub fn or_shorter(self, text: &str) -> Self {
        Self { shorter: Some(safe(text).into_owned()), ..self }
    }

    /// The same cell in a style.
    #[must_use]
    pub fn styled(self, style: Style) -> Self {
        Self { style, ..self }
    }

    /// The text as it is shown.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    fn width(&self) -> usize {
        UnicodeWidthStr::width(self.text.as_str())
    }

    fn shorter_width(&self) -> usize {
        self.shorter.as_deref().map_or_else(|| self.width(), UnicodeWidthStr::width)
    }

    fn within(&self, room: usize) -> String {
        match &self.shorter {
            Some(shorter) if self.width() > room => cut(shorter, room),
            _ => cut(&self.text, room),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

/// Rows under a head.
#[derive(Debug, Clone, Default)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table with that head.
    #[must_use]
    pub fn new(head: Vec<String>) -> Self {
        Self { head, rows: Vec::new() }
    }

    /// Adds a row; it has as many cells as the head.
    pub fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.head.len());
        self.rows.push(row);
    }

    /// The table as lines. With a `width`, cells are cut so that lines fit: first in the last
    /// column, then in whatever is widest. Nothing is cut from what goes to a file or a pipe.
    #[must_use]
    pub fn render(&self, width: Option<usize>, colors: bool) -> String {
        let mut widths = self.widths(Cell::width);
        if let Some(width) = width.filter(|width| too_many(&widths, *width) > 0) {
            widths = self.widths(Cell::shorter_width);
            fit(&mut widths, width);
        }
        let mut out = String::new();
        let head: Vec<Cell> =
            self.head.iter().map(|head| Cell::new(head).styled(Style::Head)).collect();
        for row in std::iter::once(&head).chain(&self.rows) {
            let mut line = Line::default();
            for (column, cell) in row.iter().enumerate() {
                let text = cell.within(widths[column]);
                line.put(&text, cell.style, colors);
                line.pad(widths[column].saturating_sub(text.width()) + GAP);
            }
            out.push_str(&line.text);
            out.push('\n');
        }
        out
    }

    fn widths(&self, of: fn(&Cell) -> usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self.head.iter().map(|head| head.width()).collect();
        for row in &self.rows {
            for (column, cell) in row.iter().enumerate() {
                widths[column] = widths[column].max(of(cell));
            }
        }
        widths
    }
}

const GAP: usize = 2;

/// By how much a line of such columns is too long.
fn too_many(widths: &[usize], width: usize) -> usize {
    let gaps = widths.len().saturating_sub(1) * GAP;
    (widths.iter().sum::<usize>() + gaps).saturating_sub(width)
}

/// Narrows columns until a line has no more than `width`; where even that is too much, lets the
/// terminal wrap.
fn fit(widths: &mut [usize], width: usize) {
    // Less than that is no room to say anything.
    const LEAST: usize = 8;
    const LEAST_OF_LAST: usize = 16;
    let whole = widths.to_vec();
    if let Some(last) = widths.last_mut() {
        let least = LEAST_OF_LAST.min(*last);
        *last = last.saturating_sub(too_many(&whole, width)).max(least);
    }
    while too_many(widths, width) > 0 {
        // Of two that are as wide, the later one: what a thing is called by stands in front.
        match widths.iter_mut().max_by_key(|width| **width) {
            Some(widest) if *widest > LEAST => *widest -= 1,
            _ => {
                widths.copy_from_slice(&whole);
                return;
            }
        }
    }
}

/// A line whose blanks are written only when something follows them.
#[derive(Default)]
struct Line {
    text: String,
    blanks: usize,
}

impl Line {
    fn put(&mut self, text: &str, style: Style, colors: bool) {
        if text.is_empty() {
            return;
        }
        self.text.extend(std::iter::repeat_n(' ', self.blanks));
        self.blanks = 0;
        self.text.push_str(&style.paint(text, colors));
    }

    fn pad(&mut self, n_blanks: usize) {
        self.blanks += n_blanks;
    }
}

/// The text cut to so many columns, its last one showing that it was cut.
#[must_use]
pub fn cut(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for c in text.chars() {
        let width = c.width().unwrap_or(0);
        if used + width + 1 > room {
            break;
        }
        used += width;
        kept.push(c);
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["ID", "NAME", "REASON"].map(str::to_owned).to_vec());
        table.push(vec!["1".into(), "训练".into(), "needs 4 free together, 2 are".into()]);
        table.push(vec!["1842".into(), "a\u{1b}[2J\n".into(), Cell::default()]);
        table
    }

    #[test]
    fn columns_line_up_by_what_a_terminal_shows() {
        insta::assert_snapshot!(table().render(None, false), @r"
        ID    NAME        REASON
        1     训练        needs 4 free together, 2 are
        1842  a\x1b[2J\n
        ");
    }

    #[test]
    fn only_the_last_column_is_cut_and_only_for_a_terminal() {
        insta::assert_snapshot!(table().render(Some(40), false), @r"
        ID    NAME        REASON
        1     训练        needs 4 free together…
        1842  a\x1b[2J\n
        ");
        assert!(table().render(Some(10), false).contains("2 are"));
    }

    #[test]
    fn then_the_widest_is_cut_so_that_no_line_is_wrapped() {
        let mut table = Table::new(["ID", "NAME", "REASON"].map(str::to_owned).to_vec());
        table.push(vec!["1".into(), "a name of many words".into(), "needs four together".into()]);
        insta::assert_snapshot!(table.render(Some(34), false), @r"
        ID  NAME            REASON
        1   a name of man…  needs four to…
        ");
    }

    #[test]
    fn colors_change_no_widths() {
        let plain = table().render(None, false);
        let colored = table().render(None, true);
        assert_ne!(plain, colored);
        let stripped = colored.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        assert_eq!(plain, stripped);
    }
}
