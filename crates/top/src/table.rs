//! A list as columns: the columns that fit, and one line for each row.

use gpool_cli::render::style;
use gpool_cli::render::table::Cell;
use gpool_cli::render::words::NOTHING;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Modifier;
use unicode_width::UnicodeWidthStr as _;

use crate::list::VisibleRows;
use crate::picture::{draw_text, style};

/// Columns between two columns of the list.
const GAP: usize = 2;
/// Largest width of a column, except the last.
const WIDEST: usize = 28;
/// Smallest useful width of the last column.
const LAST: usize = 16;
/// Columns of this rank are left out before others are shortened.
const MINOR: u8 = 5;
/// Width of the marks before a row.
const MARK: u16 = 1;

/// Draws the head and the rows into an area. `is_focused` tells whether keys move in this list.
pub(crate) fn draw(
    buffer: &mut Buffer,
    area: Rect,
    page: &VisibleRows,
    colors: bool,
    is_focused: bool,
) {
    let room = usize::from(area.width.saturating_sub(MARK));
    let columns = widths(page, room);
    let mut x = area.x + MARK;
    for (at, width) in &columns {
        let head = page.columns[*at].0;
        draw_text(buffer, area, (x, area.y), head, style(style::Style::Head, colors));
        x = x.saturating_add(u16::try_from(width + GAP).unwrap_or(u16::MAX));
    }
    for (n, line) in page.lines.iter().enumerate() {
        let y = area.y.saturating_add(u16::try_from(n + 1).unwrap_or(u16::MAX));
        if y >= area.bottom() {
            break;
        }
        let mark = match (line.is_selected, line.is_tagged) {
            (_, true) => "+",
            (true, false) => ">",
            (false, false) => " ",
        };
        draw_text(buffer, area, (area.x, y), mark, style(style::Style::Plain, colors));
        let mut x = area.x + MARK;
        for (at, width) in &columns {
            let cell = &line.cells[*at];
            draw_text(buffer, area, (x, y), &cell.within(*width), style(cell.style(), colors));
            x = x.saturating_add(u16::try_from(width + GAP).unwrap_or(u16::MAX));
        }
        if line.is_selected && is_focused {
            let whole = Rect { y, height: 1, ..area };
            buffer.set_style(
                whole,
                ratatui_core::style::Style::new().add_modifier(Modifier::REVERSED),
            );
        }
    }
}

/// The columns that fit, with their widths. Empty columns are left out, then those of the highest
/// rank.
fn widths(page: &VisibleRows, room: usize) -> Vec<(usize, usize)> {
    let last = page.columns.len().saturating_sub(1);
    let width = |at: usize, of: fn(&Cell) -> usize| {
        let cells = page.lines.iter().map(|line| of(&line.cells[at]));
        let width = cells.max().unwrap_or(0).max(page.columns[at].0.width());
        if at == last { width } else { width.min(WIDEST) }
    };
    let is_vacant = |at: &usize| {
        page.columns[*at].1 > 0
            && !page.lines.is_empty()
            && page.lines.iter().all(|line| matches!(line.cells[*at].text(), "" | NOTHING))
    };
    let mut kept: Vec<usize> = (0..page.columns.len()).filter(|at| !is_vacant(at)).collect();
    loop {
        let all: Vec<(usize, usize)> =
            kept.iter().map(|at| (*at, width(*at, Cell::width))).collect();
        if total(&all) <= room {
            return all;
        }
        let least = kept.iter().copied().max_by_key(|at| page.columns[*at].1);
        match least.filter(|at| page.columns[*at].1 >= MINOR) {
            Some(least) => kept.retain(|at| *at != least),
            None => break,
        }
    }
    loop {
        let mut all: Vec<(usize, usize)> =
            kept.iter().map(|at| (*at, width(*at, Cell::shorter_width))).collect();
        let Some((_, of_last)) = all.last_mut() else { return all };
        let whole = *of_last;
        *of_last = whole.min(LAST);
        let taken = total(&all);
        let least = kept.iter().copied().max_by_key(|at| page.columns[*at].1);
        match least.filter(|at| page.columns[*at].1 > 0) {
            Some(least) if taken > room => kept.retain(|at| *at != least),
            _ => {
                if let Some((_, of_last)) = all.last_mut() {
                    *of_last = (*of_last + room.saturating_sub(taken)).min(whole);
                }
                return all;
            }
        }
    }
}

fn total(widths: &[(usize, usize)]) -> usize {
    widths.iter().map(|(_, width)| width).sum::<usize>() + widths.len().saturating_sub(1) * GAP
}
