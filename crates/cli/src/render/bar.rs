//! Bars of block characters.

const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// A fraction as a bar of this width. A bar of a zero whole is empty.
#[must_use]
pub fn bar(part: u64, whole: u64, columns: usize) -> String {
    let in_eighths = u64::try_from(columns * 8).unwrap_or(u64::MAX);
    let part = part.min(whole);
    let eighths = u128::from(part) * u128::from(in_eighths) / u128::from(whole.max(1));
    let eighths = usize::try_from(eighths).unwrap_or(0);
    // A part above zero is always visible.
    let eighths = if part > 0 { eighths.max(1) } else { 0 };
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS[eighths % 8]);
    }
    let blanks = columns - text.chars().count();
    text.extend(std::iter::repeat_n(' ', blanks));
    text
}
