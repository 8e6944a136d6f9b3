//! Tables as plain columns: no borders, two spaces between columns, widths as a terminal counts
//! them.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::safe::safe;
use super::style::Style;
use super::words::NOTHING;

/// One cell: its text without control characters, and its style.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cell {
    text: String,
    /// The text without a bar and padding, if it has them.
    plain: Option<String>,
    /// A shorter text for a narrow column.
    shorter: Option<String>,
    style: Style,
    is_whole: bool,
    is_common: bool,
}

impl Cell {
    /// A cell; control characters in the text are made visible.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: safe(text).into_owned(), ..Self::default() }
    }

    /// A figure beside its bar; a narrow column has no bar.
    #[must_use]
    pub fn barred(bar: &str, figure: &str) -> Self {
        let plain = Some(safe(figure.trim()).into_owned());
        Self { plain, ..Self::new(&format!("{bar} {figure}")).or_shorter(figure) }
    }

    /// Makes the cell uncuttable: in the last column it is wrapped instead.
    #[must_use]
    pub fn whole(self) -> Self {
        Self { is_whole: true, ..self }
    }

    /// Lets a narrow terminal leave out the column if all its cells are equal.
    #[must_use]
    pub fn common(self) -> Self {
        Self { is_common: true, ..self }
    }

    /// Sets a shorter text, used if the cell would be cut.
    #[must_use]
    pub fn or_shorter(self, text: &str) -> Self {
        Self { shorter: Some(safe(text).into_owned()), ..self }
    }

    /// Marks the cell as changed.
    #[must_use]
    pub fn marked(mut self) -> Self {
        self.text.push('*');
        self.styled(Style::Head)
    }

    #[must_use]
    pub fn styled(self, style: Style) -> Self {
        Self { style, ..self }
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text without a bar and padding, for other programs.
    #[must_use]
    pub fn plain(&self) -> &str {
        self.plain.as_deref().unwrap_or(&self.text).trim()
    }

    #[must_use]
    pub fn style(&self) -> Style {
        self.style
    }

    /// The text for a column of this width, cut if necessary.
    #[must_use]
    pub fn within(&self, room: usize) -> String {
        cut(self.fitting(room), room)
    }

    #[must_use]
    pub fn width(&self) -> usize {
        UnicodeWidthStr::width(self.text.as_str())
    }

    /// The width of the shorter text, or else of the text.
    #[must_use]
    pub fn shorter_width(&self) -> usize {
        self.shorter.as_deref().map_or_else(|| self.width(), UnicodeWidthStr::width)
    }

    /// The text, or the shorter one if the text does not fit.
    fn fitting(&self, room: usize) -> &str {
        match &self.shorter {
            Some(shorter) if self.width() > room => shorter,
            _ => &self.text,
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

#[derive(Debug, Clone, Default)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table with this head.
    #[must_use]
    pub fn new(head: Vec<String>) -> Self {
        Self { head, rows: Vec::new() }
    }

    /// Adds a row with one cell for each column.
    pub fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.head.len());
        self.rows.push(row);
    }

    /// The table as lines. With a `width`, uninformative columns are left out and cells are cut to
    /// make lines fit: first in the last column, then in the widest. A last column that must not be
    /// cut is wrapped. Files and pipes get the full text.
    #[must_use]
    pub fn render(&self, width: Option<usize>, colors: bool) -> String {
        let Some(width) = width.filter(|width| too_many(&self.widths(Cell::width), *width) > 0)
        else {
            return self.lines(&self.widths(Cell::width), colors);
        };
        let table = self.without_idle_columns(width);
        let mut widths = table.widths(Cell::width);
        if too_many(&widths, width) > 0 {
            widths = table.widths(Cell::shorter_width);
            let is_whole: Vec<bool> =
                (0..widths.len()).map(|at| table.cells(at).any(|cell| cell.is_whole)).collect();
            match is_whole.last() {
                Some(true) => fit_around_last(&mut widths, &is_whole, width),
                _ => fit(&mut widths, width),
            }
        }
        table.lines(&widths, colors)
    }

    fn cells(&self, column: usize) -> impl Iterator<Item = &Cell> {
        self.rows.iter().map(move |row| &row[column])
    }

    /// Leaves out uninformative columns while lines are too long: first columns that are empty in
    /// all rows, then columns that are equal in all rows.
    fn without_idle_columns(&self, width: usize) -> Self {
        let is_empty = |at: &usize| {
            *at > 0 && self.cells(*at).all(|cell| matches!(cell.text.as_str(), "" | NOTHING))
        };
        let is_alike = |at: &usize| {
            let first = self.cells(*at).next();
            self.cells(*at)
                .all(|cell| cell.is_common && Some(&cell.text) == first.map(|it| &it.text))
        };
        let columns = || (0..self.head.len()).rev();
        let idle = columns().filter(is_empty).chain(columns().filter(is_alike));
        let mut left_out = Vec::new();
        for at in idle {
            if too_many(&self.without(&left_out).widths(Cell::width), width) == 0 {
                break;
            }
            left_out.push(at);
        }
        self.without(&left_out)
    }

    fn without(&self, columns: &[usize]) -> Self {
        let kept: Vec<usize> = (0..self.head.len()).filter(|at| !columns.contains(at)).collect();
        let cells = |row: &Vec<Cell>| kept.iter().map(|at| row[*at].clone()).collect();
        Self {
            head: kept.iter().map(|at| self.head[*at].clone()).collect(),
            rows: self.rows.iter().map(cells).collect(),
        }
    }

    fn lines(&self, widths: &[usize], colors: bool) -> String {
        let mut out = String::new();
        let head: Vec<Cell> =
            self.head.iter().map(|head| Cell::new(head).styled(Style::Head)).collect();
        let last = widths.len().saturating_sub(1);
        for row in std::iter::once(&head).chain(&self.rows) {
            let mut line = Line::default();
            let mut below = Vec::new();
            for (column, cell) in row.iter().enumerate() {
                let mut text = cell.within(widths[column]);
                if column == last && cell.is_whole {
                    below = wrapped(cell.fitting(widths[column]), widths[column]);
                    text = if below.is_empty() { String::new() } else { below.remove(0) };
                }
                line.push_text(&text, cell.style, colors);
                line.pad(widths[column].saturating_sub(text.width()) + GAP);
            }
            out.push_str(&line.text);
            out.push('\n');
            let indent = widths[..last].iter().map(|width| width + GAP).sum::<usize>();
            for text in below {
                out.push_str(&format!("{:indent$}{text}\n", ""));
            }
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

/// Number of columns that a line is too long.
fn too_many(widths: &[usize], width: usize) -> usize {
    let gaps = widths.len().saturating_sub(1) * GAP;
    (widths.iter().sum::<usize>() + gaps).saturating_sub(width)
}

/// Narrows columns until a line fits `width`; if that is impossible, lets the terminal wrap.
fn fit(widths: &mut [usize], width: usize) {
    // A narrower column is useless.
    const LEAST: usize = 8;
    const LEAST_OF_LAST: usize = 16;
    let whole = widths.to_vec();
    if let Some(last) = widths.last_mut() {
        let least = LEAST_OF_LAST.min(*last);
        *last = last.saturating_sub(too_many(&whole, width)).max(least);
    }
    while too_many(widths, width) > 0 {
        // Of two equally wide columns the later one shrinks, since names are in front.
        match widths.iter_mut().max_by_key(|width| **width) {
            Some(widest) if *widest > LEAST => *widest -= 1,
            _ => {
                widths.copy_from_slice(&whole);
                return;
            }
        }
    }
}

/// Narrows cuttable columns until the whole last column fits `width`; if that is impossible, the
/// last column gets the rest of the line.
fn fit_around_last(widths: &mut [usize], is_whole: &[bool], width: usize) {
    const LEAST: usize = 8;
    const LEAST_OF_LAST: usize = 20;
    while too_many(widths, width) > 0 {
        let open = widths.iter_mut().zip(is_whole).filter(|(_, is_whole)| !**is_whole);
        match open.map(|(width, _)| width).max_by_key(|width| **width) {
            Some(widest) if *widest > LEAST => *widest -= 1,
            _ => break,
        }
    }
    let excess = too_many(widths, width);
    if let Some(last) = widths.last_mut() {
        *last = last.saturating_sub(excess).max(LEAST_OF_LAST.min(*last));
    }
}

/// Wraps a text at this width, between words where possible.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A line that writes blanks only before further text.
#[derive(Default)]
struct Line {
    text: String,
    blanks: usize,
}

impl Line {
    fn push_text(&mut self, text: &str, style: Style, colors: bool) {
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

/// The text cut to this width; its last character shows the cut.
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
