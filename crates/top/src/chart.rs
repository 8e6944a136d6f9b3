//! Charts of recent values: one column for each value, the newest at the right.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;

use crate::kinds::percent;
use crate::picture::draw_text;

/// Filled parts of a character, in eighths.
const BLOCKS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// The same in ASCII.
const PLAIN: [&str; 9] = [" ", ".", ".", ":", ":", "|", "|", "#", "#"];

/// Draws values between 0 and 1. A value above 0 is always visible.
pub(crate) fn draw(
    buffer: &mut Buffer,
    area: Rect,
    values: &[Option<f64>],
    ascii: bool,
    ink: Style,
) {
    let blocks = if ascii { PLAIN } else { BLOCKS };
    let shown = values.iter().rev().take(usize::from(area.width));
    for (x, value) in (area.x..area.right()).rev().zip(shown) {
        let Some(value) = value else { continue };
        let eighths = usize::try_from(percent(*value).min(100)).unwrap_or(0);
        let whole = usize::from(area.height) * 8;
        let eighths = (eighths * whole).div_ceil(100);
        for (row, y) in (area.y..area.bottom()).rev().enumerate() {
            let part = eighths.saturating_sub(row * 8).min(8);
            draw_text(buffer, area, (x, y), blocks[part], ink);
        }
    }
}
