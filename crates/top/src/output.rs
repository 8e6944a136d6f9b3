//! Output of jobs and explanations as lines of a pane.

use gpool_cli::render::safe::safe;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The lines that a terminal would show of a job's output, as far as a line at a time can tell:
/// without colors and movements, and of a line that was written repeatedly, such as a progress bar,
/// only the last text.
#[must_use]
pub fn lines(output: &str) -> Vec<String> {
    let shown = |line: &str| {
        let plain = without_sequences(line);
        let last = plain.split('\r').rfind(|text| !text.trim().is_empty()).unwrap_or_default();
        safe(&last.replace('\t', "    ")).into_owned()
    };
    output.lines().map(shown).collect()
}

/// The text without escape sequences (ECMA-48, 5.4 and 5.6).
fn without_sequences(text: &str) -> String {
    const ESCAPE: char = '\x1b';
    const BELL: char = '\x07';
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != ESCAPE {
            plain.push(letter);
            continue;
        }
        match letters.next() {
            // Parameters, then a final byte.
            Some('[') => while letters.next().is_some_and(|it| !('\x40'..='\x7e').contains(&it)) {},
            // A string up to a bell or ESC \.
            Some(']' | 'P' | 'X' | '^' | '_') => {
                while let Some(it) = letters.next() {
                    if it == BELL || (it == ESCAPE && letters.next_if_eq(&'\\').is_some()) {
                        break;
                    }
                }
            }
            Some(_) | None => {}
        }
    }
    plain
}

/// The lines of a text, with long ones wrapped at blanks and indented as their beginning.
#[must_use]
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let indent = if indent < width / 2 { " ".repeat(indent) } else { String::new() };
        let mut rest = line.to_owned();
        while rest.width() > width {
            let end = end_of(&rest, width);
            let (room, more) = rest.split_at(end);
            let at = if more.starts_with(' ') { Some(end) } else { room.rfind(' ') };
            let at = at.filter(|at| !room[..*at].trim().is_empty());
            let tail = rest.split_off(at.unwrap_or(end));
            rest.truncate(rest.trim_end().len());
            lines.push(std::mem::replace(&mut rest, format!("{indent}{}", tail.trim_start())));
        }
        if !rest.is_empty() || line.is_empty() {
            lines.push(rest);
        }
    }
    lines
}

/// The byte position after the letters that fit, at least one.
fn end_of(text: &str, width: usize) -> usize {
    let mut used = 0;
    for (at, letter) in text.char_indices() {
        used += letter.width().unwrap_or(0);
        if used > width && at > 0 {
            return at;
        }
    }
    text.len()
}
