//! Pieces of the picture: styled text, and the picture as lines for a terminal.

use std::fmt::Write as _;

use gpool_cli::render::style;
use gpool_cli::screen::to_ascii;
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr as _;

/// The style of a text. Colors only repeat the meaning of words.
pub(crate) fn style(of: style::Style, colors: bool) -> Style {
    let color = |color| if colors { Style::new().fg(color) } else { Style::new() };
    match of {
        style::Style::Plain => Style::new(),
        style::Style::Head => Style::new().add_modifier(Modifier::BOLD),
        style::Style::Good => color(Color::Green),
        style::Style::Warn => color(Color::Yellow),
        style::Style::Bad => color(Color::Red),
        style::Style::Dim => Style::new().add_modifier(Modifier::DIM),
    }
}

/// Writes a text into a line of the picture, cut at its end. Returns the column after it.
pub(crate) fn draw_text(
    buffer: &mut Buffer,
    area: Rect,
    (x, y): (u16, u16),
    text: &str,
    style: Style,
) -> u16 {
    if y >= area.bottom() || x >= area.right() {
        return x;
    }
    let room = usize::from(area.right() - x);
    buffer.set_stringn(x, y, text, room, style).0
}

/// Replaces all characters that are not ASCII.
pub(crate) fn reduce(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if !cell.symbol().is_ascii() {
            // Of several characters in place of one, the first.
            let letter = match cell.symbol() {
                "…" => '~',
                symbol => to_ascii(symbol).chars().next().unwrap_or(' '),
            };
            cell.set_char(letter);
        }
    }
}

/// The picture as lines in terminal format, without blanks at the ends. A line that ends before
/// the width is to be cleared to its end.
#[must_use]
pub fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width).max(1);
    buffer.content.chunks(width).map(line).collect()
}

fn line(cells: &[Cell]) -> String {
    let is_blank = |cell: &Cell| cell.symbol() == " " && cell.modifier.is_empty();
    let n = cells.iter().rposition(|cell| !is_blank(cell)).map_or(0, |last| last + 1);
    let mut text = String::new();
    let mut last = (Color::Reset, Modifier::empty());
    let mut covered = 0;
    for cell in &cells[..n] {
        // The cell after a wide character belongs to it.
        if covered > 0 {
            covered -= 1;
            continue;
        }
        covered = cell.symbol().width().saturating_sub(1);
        let now = (cell.fg, cell.modifier);
        if now != last {
            text.push_str(&codes(now));
            last = now;
        }
        text.push_str(cell.symbol());
    }
    if last != (Color::Reset, Modifier::empty()) {
        text.push_str("\x1b[0m");
    }
    text
}

/// The sequence that sets a style (ECMA-48, SGR).
fn codes((color, modifier): (Color, Modifier)) -> String {
    let mut codes = String::from("\x1b[0");
    let colors = [(Color::Red, 31), (Color::Green, 32), (Color::Yellow, 33), (Color::Cyan, 36)];
    let modifiers = [(Modifier::BOLD, 1), (Modifier::DIM, 2), (Modifier::REVERSED, 7)];
    let color = colors.iter().filter(|(it, _)| *it == color).map(|(_, code)| code);
    let modifier = modifiers.iter().filter(|(it, _)| modifier.contains(*it)).map(|(_, code)| code);
    for code in color.chain(modifier) {
        // Writing to a string can't fail.
        let _ = write!(codes, ";{code}");
    }
    codes.push('m');
    codes
}
